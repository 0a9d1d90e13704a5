//===- Modulo.h - when the steps of a loop run ------------------*- C++ -*-===//
//
// Software pipelining of one loop as modulo scheduling: every iteration starts
// an interval after the one before, each step at its own time. The search is
// exact: no schedule of the graph has a shorter interval. Plain C++, no IR.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_MODULO_H
#define FA2_SCHEDULE_MODULO_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::modulo {

/// What a step keeps busy. The last three are all the threads' own: a warp does
/// one after the other. Nothing takes no time.
enum class Resource { Nothing, Tensor, Exponential, Arithmetic, Shared };
inline constexpr int kResources = 5;

struct Step {
  std::string name;
  Resource resource = Resource::Nothing;
  int64_t clocks = 0;
  int64_t stage = -1; // the one that it must be in, if any
};

/// `to` starts when `from`, of so many iterations before, has ended and
/// `latency` clocks have passed. A schedule may take two steps apart into
/// different stages of the pipeline unless they are of one.
struct Edge {
  int from = 0, to = 0;
  int64_t latency = 0, distance = 0;
  bool oneStage = false;
  bool waits = false; // threads stand at `to` until then
};

/// Who reads a value: so many iterations later, at its start (then its result
/// may take the registers) or until its end.
struct Use {
  int step = 0;
  int64_t distance = 0;
  bool untilEnd = false;
};

/// Registers of a thread that hold what a step writes from its start on.
struct Value {
  std::string name;
  int from = 0;
  int64_t registers = 0;
  std::vector<Use> uses;
};

struct Graph {
  std::vector<Step> steps;
  std::vector<Edge> edges;
  std::vector<Value> values;
  int64_t registers = 0; // that values may take at any time
  int64_t stages = 2;    // that the pipeline may have
};

/// Step i of iteration n starts at n * interval + starts[i].
struct Times {
  int64_t interval = 0;
  std::vector<int64_t> starts;

  int64_t stage(int step) const { return starts[step] / interval; }
  int64_t offset(int step) const { return starts[step] % interval; }
};

/// A schedule of the shortest interval, of those one with the fewest steps in
/// later stages; none fits the registers otherwise, as `error` says.
std::optional<Times> search(const Graph &graph, std::string &error);

/// What is wrong with a schedule, by the step's name; empty where nothing is.
/// Shares no code with the search.
std::string check(const Graph &graph, const Times &times);

/// The most registers that values take at once.
int64_t registersOf(const Graph &graph, const Times &times);

/// One interval as text: a row a resource, a column so many clocks, steps of an
/// iteration before with a quote.
std::string draw(const Graph &graph, const Times &times);

} // namespace fa2::modulo

#endif
