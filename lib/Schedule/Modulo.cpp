//===- Modulo.cpp - the search for a loop's schedule ----------------------===//
//
// With each step's stage fixed, dependences are differences of offsets within
// the interval, and so is the order of two steps of one unit. Longest paths
// between all steps say which orders are still possible; the search branches
// on one that is open. Where values take too many registers at one time, two
// of them must be apart in every schedule: it branches on which. The shortest
// interval is found by halving, since what fits one fits any longer one. Work
// is counted, not time, so that a loop has one schedule on any machine; where
// it is too much, the search is given up.
//
//===----------------------------------------------------------------------===//

#include "fa2/Schedule/Modulo.h"
#include "ModuloPaths.h"
#include "ModuloStages.h"

#include <algorithm>

using namespace fa2::modulo;

namespace {

/// Which step waits for which: one of the threads' resources is one unit.
int unitOf(Resource resource) {
  return resource == Resource::Nothing  ? 0
         : resource == Resource::Tensor ? 1
                                        : 2;
}

/// A schedule of one interval with one choice of stages.
class Attempt {
public:
  Attempt(const Graph &graph, const std::vector<int64_t> &stages,
          int64_t interval, Work &work)
      : graph(graph), stages(stages), interval(interval), work(work) {}

  std::optional<Times> run() {
    Paths paths(int(graph.steps.size()));
    if (!addAll(paths) || !solve(paths))
      return std::nullopt;
    return times;
  }

  bool wantsRegisters = false; // an order was found that does not fit

private:
  const Step &step(int i) const { return graph.steps[i]; }

  /// Iterations between the two in the pipeline.
  int64_t apart(int from, int to, int64_t distance) const {
    return stages[to] + distance - stages[from];
  }

  /// A look at all pairs of steps, about what another order to try takes.
  bool takePairs() {
    return work.take(int64_t(graph.steps.size() * graph.steps.size()));
  }

  bool addAll(Paths &paths) {
    for (int i = 0; i < int(graph.steps.size()); ++i)
      if (!paths.add(paths.origin(), i, 0) ||
          !paths.add(i, paths.origin(), step(i).clocks - interval))
        return false;
    return std::all_of(
        graph.edges.begin(), graph.edges.end(), [&](const Edge &e) {
          return paths.add(e.from, e.to,
                           step(e.from).clocks + e.latency -
                               apart(e.from, e.to, e.distance) * interval);
        });
  }

  bool mayPrecede(const Paths &paths, int a, int b) const {
    return paths(b, a) == Paths::kNone || step(a).clocks + paths(b, a) <= 0;
  }

  /// Orders the steps of each unit, most pressing pairs first.
  bool solve(Paths paths) {
    if (!takePairs())
      return false;
    int a = -1, b = -1;
    int64_t least = INT64_MAX;
    for (int i = 0; i < int(graph.steps.size()); ++i)
      for (int j = 0; j < i; ++j) {
        if (!step(i).clocks || !step(j).clocks || !unitOf(step(i).resource) ||
            unitOf(step(i).resource) != unitOf(step(j).resource) ||
            paths(i, j) >= step(i).clocks || paths(j, i) >= step(j).clocks)
          continue;
        bool ij = mayPrecede(paths, i, j), ji = mayPrecede(paths, j, i);
        if (!ij && !ji)
          return false;
        if (ij != ji) {
          if (!(ij ? paths.add(i, j, step(i).clocks)
                   : paths.add(j, i, step(j).clocks)))
            return false;
          return solve(std::move(paths));
        }
        int64_t slack = -std::max(paths(i, j), paths(j, i));
        if (slack < least) {
          least = slack;
          a = i;
          b = j;
        }
      }
    if (a < 0)
      return fit(paths);
    if (paths(paths.origin(), b) < paths(paths.origin(), a))
      std::swap(a, b);
    for (auto [first, second] : {std::pair{a, b}, {b, a}}) {
      Paths next = paths;
      if (next.add(first, second, step(first).clocks) && solve(std::move(next)))
        return true;
    }
    return false;
  }

  //===--------------------------------------------------------------------===//
  // Registers
  //===--------------------------------------------------------------------===//

  /// A value as an iteration writes it, so many intervals ago.
  struct Copy {
    const Value *value;
    int64_t age;
  };

  int64_t offset(const Paths &paths, int i) const {
    return paths(paths.origin(), i);
  }

  int64_t lengthOf(const Use &u) const {
    return u.untilEnd ? step(u.step).clocks : 0;
  }

  /// Clocks of this interval in which the last use ends.
  int64_t endOf(const Paths &paths, const Value &v) const {
    int64_t end = 0;
    for (const Use &u : v.uses)
      end = std::max(end, offset(paths, u.step) + lengthOf(u) +
                              apart(v.from, u.step, u.distance) * interval);
    return end;
  }

  std::vector<Copy> liveAt(const Paths &paths, int64_t clock) const {
    std::vector<Copy> live;
    for (const Value &v : graph.values)
      for (int64_t age = 0, end = endOf(paths, v); clock + age * interval < end;
           ++age)
        if (offset(paths, v.from) <= clock + age * interval)
          live.push_back({&v, age});
    return live;
  }

  /// Adds that the first has no use any more when the second is written.
  bool separate(Paths &paths, Copy first, Copy second) const {
    return std::all_of(
        first.value->uses.begin(), first.value->uses.end(), [&](const Use &u) {
          int64_t later = apart(first.value->from, u.step, u.distance);
          return paths.add(u.step, second.value->from,
                           lengthOf(u) +
                               (later - first.age + second.age) * interval);
        });
  }

  /// The earliest offsets, or those that keep values apart.
  bool fit(const Paths &paths) {
    if (++leaves > kMostLeaves || !takePairs())
      return false;
    for (const Value &written : graph.values) {
      std::vector<Copy> live = liveAt(paths, offset(paths, written.from));
      int64_t sum = 0;
      for (const Copy &c : live)
        sum += c.value->registers;
      if (sum <= graph.registers)
        continue;
      wantsRegisters = true;
      return part(paths, live);
    }
    times.interval = interval;
    times.starts.resize(graph.steps.size());
    for (int i = 0; i < int(graph.steps.size()); ++i)
      times.starts[i] = stages[i] * interval + offset(paths, i);
    return true;
  }

  /// Lives that all meet have a time in common: two of them must not meet.
  bool part(const Paths &paths, const std::vector<Copy> &live) {
    for (const Copy &first : live)
      for (const Copy &second : live) {
        if (&first == &second)
          continue;
        Paths next = paths;
        if (separate(next, first, second) && fit(next))
          return true;
      }
    return false;
  }

  static constexpr int kMostLeaves = 2000;
  const Graph &graph;
  const std::vector<int64_t> &stages;
  int64_t interval;
  Work &work;
  int leaves = 0;
  Times times;
};

/// What the units alone need.
int64_t leastInterval(const Graph &graph) {
  int64_t busy[3] = {1, 0, 0};
  for (const Step &s : graph.steps)
    busy[unitOf(s.resource)] += unitOf(s.resource) ? s.clocks : 0;
  return std::max({busy[0], busy[1], busy[2]});
}

} // namespace

std::optional<Times> fa2::modulo::search(const Graph &graph,
                                         std::string &error) {
  int64_t longest = 1;
  for (const Step &s : graph.steps)
    longest += s.clocks;
  for (const Edge &e : graph.edges)
    longest += e.latency;
  bool wantsRegisters = false;
  std::optional<Times> best;
  Work work;
  for (const std::vector<int64_t> &stages : stagesOf(graph, work)) {
    auto attempt = [&](int64_t interval) {
      Attempt one(graph, stages, interval, work);
      std::optional<Times> times = one.run();
      wantsRegisters |= one.wantsRegisters;
      return times;
    };
    // Only what is shorter than the best so far is of interest.
    int64_t high = best ? best->interval - 1 : longest;
    std::optional<Times> found = attempt(high);
    int64_t low = leastInterval(graph);
    while (found && low < found->interval) {
      int64_t middle = low + (found->interval - low) / 2;
      if (std::optional<Times> shorter = attempt(middle))
        found = shorter;
      else
        low = middle + 1;
    }
    if (found)
      best = found;
  }
  if (work.isTooMuch()) {
    error = "expected a loop of which all orders can be tried, got one of " +
            std::to_string(graph.steps.size()) + " steps";
    return std::nullopt;
  }
  if (!best)
    error = wantsRegisters
                ? "no order of the loop's steps holds its values in " +
                      std::to_string(graph.registers) + " registers"
                : "the loop's steps wait for each other";
  return best;
}
