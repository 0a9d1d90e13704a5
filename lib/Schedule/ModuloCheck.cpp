//===- ModuloCheck.cpp - whether a loop's schedule is right ---------------===//
//
// By running it: iterations are laid one interval apart on one time line until
// the pipeline is full, and looked at one clock's events after the other. So
// nothing here knows of offsets or stages.
//
//===----------------------------------------------------------------------===//

#include "fa2/Schedule/Modulo.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fa2::modulo;
using llvm::formatv;

namespace {

/// Iterations until all that begin in one interval do.
int64_t filled(const Graph &graph, const Times &times) {
  int64_t last = 0, distance = 0;
  for (int64_t start : times.starts)
    last = std::max(last, start);
  for (const Edge &e : graph.edges)
    distance = std::max(distance, e.distance);
  for (const Value &v : graph.values)
    for (const Use &u : v.uses)
      distance = std::max(distance, u.distance);
  return last / times.interval + distance + 2;
}

std::string checkForm(const Graph &graph, const Times &times) {
  if (times.interval < 1 || times.starts.size() != graph.steps.size())
    return formatv("expected an interval and a time for each of {0} steps, got "
                   "{1} clocks and {2} times",
                   graph.steps.size(), times.interval, times.starts.size());
  for (auto [step, start] : llvm::zip(graph.steps, times.starts)) {
    int64_t most = times.interval * graph.stages;
    if (start < 0 || start + step.clocks > most)
      return formatv("expected '{0}' to end within {1} stages of {2} clocks, "
                     "got clocks {3} to {4}",
                     step.name, graph.stages, times.interval, start,
                     start + step.clocks);
    if (start % times.interval + step.clocks > times.interval)
      return formatv("expected '{0}' to end within the interval of {1} clocks "
                     "that it begins in, got clocks {2} to {3}",
                     step.name, times.interval, start, start + step.clocks);
  }
  return "";
}

std::string checkEdges(const Graph &graph, const Times &times) {
  for (const Edge &e : graph.edges) {
    const Step &from = graph.steps[e.from], &to = graph.steps[e.to];
    int64_t ready = times.starts[e.from] + from.clocks + e.latency;
    int64_t start = times.starts[e.to] + e.distance * times.interval;
    if (start < ready)
      return formatv("expected '{0}' to start when '{1}'{2} is done at clock "
                     "{3}, got clock {4}",
                     to.name, from.name,
                     e.distance ? " of an iteration before" : "", ready, start);
    if (e.oneStage && times.stage(e.from) != times.stage(e.to))
      return formatv("expected '{0}' in stage {1}, that of '{2}', got stage "
                     "{3}",
                     to.name, times.stage(e.from), from.name,
                     times.stage(e.to));
  }
  return "";
}

std::string checkUnits(const Graph &graph, const Times &times) {
  struct Busy {
    int64_t start;
    const Step *step;
  };
  for (bool tensor : {true, false}) {
    std::vector<Busy> busy;
    for (auto [step, start] : llvm::zip(graph.steps, times.starts))
      if (step.clocks && step.resource != Resource::Nothing &&
          (step.resource == Resource::Tensor) == tensor)
        for (int64_t i = 0, n = filled(graph, times); i < n; ++i)
          busy.push_back({start + i * times.interval, &step});
    llvm::sort(busy, [](auto &a, auto &b) { return a.start < b.start; });
    for (size_t i = 1; i < busy.size(); ++i)
      if (int64_t end = busy[i - 1].start + busy[i - 1].step->clocks;
          busy[i].start < end)
        return formatv("expected '{0}' to start when {1} have done '{2}' at "
                       "clock {3}, got clock {4}",
                       busy[i].step->name,
                       tensor ? "the tensor cores" : "the threads",
                       busy[i - 1].step->name, end, busy[i].start);
  }
  return "";
}

/// A value's life in one iteration.
struct Life {
  int64_t begin, end;
  const Value *value;
};

std::vector<Life> livesOf(const Graph &graph, const Times &times) {
  std::vector<Life> lives;
  for (int64_t i = 0, n = filled(graph, times); i < n; ++i)
    for (const Value &v : graph.values) {
      int64_t begin = times.starts[v.from], end = begin;
      for (const Use &u : v.uses)
        end = std::max(end, times.starts[u.step] + u.distance * times.interval +
                                (u.untilEnd ? graph.steps[u.step].clocks : 0));
      lives.push_back(
          {begin + i * times.interval, end + i * times.interval, &v});
    }
  return lives;
}

/// The fullest time: where something is written. `where` becomes what.
int64_t fullest(const Graph &graph, const Times &times, const Value *&where) {
  std::vector<Life> lives = livesOf(graph, times);
  int64_t most = 0;
  for (const Life &at : lives) {
    int64_t sum = 0;
    for (const Life &l : lives)
      if (l.begin <= at.begin && at.begin < l.end)
        sum += l.value->registers;
    if (sum > most) {
      most = sum;
      where = at.value;
    }
  }
  return most;
}

} // namespace

int64_t fa2::modulo::registersOf(const Graph &graph, const Times &times) {
  const Value *where = nullptr;
  return fullest(graph, times, where);
}

std::string fa2::modulo::check(const Graph &graph, const Times &times) {
  for (auto part : {checkForm, checkEdges, checkUnits})
    if (std::string wrong = part(graph, times); !wrong.empty())
      return wrong;
  const Value *where = nullptr;
  if (int64_t most = fullest(graph, times, where); most > graph.registers)
    return formatv("expected the values of all steps to take at most {0} "
                   "registers, got {1} when '{2}' writes",
                   graph.registers, most, graph.steps[where->from].name);
  return "";
}
