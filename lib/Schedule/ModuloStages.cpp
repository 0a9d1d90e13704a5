//===- ModuloStages.cpp - in which stage of the pipeline a step is --------===//

#include "ModuloStages.h"

#include <algorithm>
#include <numeric>

using namespace fa2::modulo;

/// Which steps go through the pipeline together.
static std::vector<int> groupsOf(const Graph &graph, int &count) {
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

std::vector<std::vector<int64_t>> fa2::modulo::stagesOf(const Graph &graph,
                                                        Work &work) {
  int count = 0;
  std::vector<int> group = groupsOf(graph, count);
  std::vector<std::vector<int64_t>> choices;
  std::vector<int64_t> of(count, 0);
  while (work.take(int64_t(graph.steps.size() + graph.edges.size()))) {
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
