//===- Modulo.cpp - the search for a loop's schedule ----------------------===//
//
// With each step's stage fixed, dependences are differences of offsets within
// the interval, and so is the order of two steps of one unit. Longest paths
// between all steps say which orders are still possible; the search branches
// on one that is open. Where values take too many registers at one time, two
// of them must be apart in every schedule: it branches on which. The shortest
// interval is found by halving, since what fits one fits any longer one.
//
//===----------------------------------------------------------------------===//

#include "fa2/Schedule/Modulo.h"
#include "ModuloPaths.h"

#include <algorithm>
#include <numeric>

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
          int64_t interval)
      : graph(graph), stages(stages), interval(interval) {}

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
    if (++leaves > kMostLeaves)
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
  int leaves = 0;
  Times times;
};

/// Which steps go through the pipeline together.
std::vector<int> groupsOf(const Graph &graph, int &count) {
  std::vector<int> group(graph.steps.size());
  std::iota(group.begin(), group.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edge &e : graph.edges)
      if (e.oneStage && group[e.from] != group[e.to]) {
        group[e.from] = group[e.to] = std::min(group[e.from], group[e.to]);
        changed = true;
      }
  }
  std::vector<int> number(graph.steps.size(), -1);
  count = 0;
  for (int &g : group) {
    if (number[g] < 0)
      number[g] = count++;
    g = number[g];
  }
  return group;
}

/// Stages that dependences allow, those with the fewest late steps first.
std::vector<std::vector<int64_t>> choicesOf(const Graph &graph) {
  int count = 0;
  std::vector<int> group = groupsOf(graph, count);
  std::vector<std::vector<int64_t>> choices;
  std::vector<int64_t> of(count, 0);
  while (true) {
    std::vector<int64_t> stages;
    for (int g : group)
      stages.push_back(of[g]);
    if ((graph.steps.empty() ||
         *std::min_element(stages.begin(), stages.end()) == 0) &&
        std::equal(stages.begin(), stages.end(), graph.steps.begin(),
                   [](int64_t stage, const Step &step) {
                     return step.stage < 0 || step.stage == stage;
                   }) &&
        std::all_of(graph.edges.begin(), graph.edges.end(), [&](const Edge &e) {
          return stages[e.to] + e.distance >= stages[e.from];
        }))
      choices.push_back(std::move(stages));
    int g = 0;
    while (g < count && ++of[g] == graph.stages)
      of[g++] = 0;
    if (g == count)
      break;
  }
  auto late = [](const std::vector<int64_t> &stages) {
    return std::accumulate(stages.begin(), stages.end(), int64_t(0));
  };
  std::stable_sort(choices.begin(), choices.end(),
                   [&](auto &a, auto &b) { return late(a) < late(b); });
  return choices;
}

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
  for (const std::vector<int64_t> &stages : choicesOf(graph)) {
    auto attempt = [&](int64_t interval) {
      Attempt one(graph, stages, interval);
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
  if (!best)
    error = wantsRegisters
                ? "no order of the loop's steps holds its values in " +
                      std::to_string(graph.registers) + " registers"
                : "the loop's steps wait for each other";
  return best;
}
