//===- Ranking.cpp - the model's order of candidates ----------------------===//

#include "Ranking.h"
#include "Forest.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace fa2;
using namespace fa2tune;

/// How many of those that the estimate puts first the trees order: more would
/// take seconds.
static constexpr size_t kMostByTrees = 4096;

static std::vector<double> lossesOf(const RankedProblem &of,
                                    const std::vector<Schedule> &schedules) {
  std::vector<double> losses(schedules.size(), 0);
  for (const Shape &shape : of.shapes) {
    std::vector<double> times;
    for (const Schedule &s : schedules)
      times.push_back(
          estimate(of.target, of.rates, of.problem, s, shape).milliseconds);
    double best =
        times.empty() ? 1 : *std::min_element(times.begin(), times.end());
    for (size_t i = 0; i < times.size(); ++i)
      losses[i] += std::log(times[i] / best);
  }
  return losses;
}

static double treesLossOf(const RankedProblem &of, const Schedule &schedule) {
  double loss = 0;
  for (const Shape &shape : of.shapes) {
    Estimate e = estimate(of.target, of.rates, of.problem, schedule, shape);
    loss += Forest::shipped().loss({of.target, of.problem, schedule, shape, e});
  }
  return loss;
}

/// Whether the trees have seen such problems on such a device.
static bool haveTrees(const RankedProblem &of) {
  return of.problem.needs().empty() &&
         of.problem.headDim == of.problem.headDimV &&
         of.rates.device == Forest::shipped().device();
}

std::vector<size_t>
fa2tune::rankSchedules(const RankedProblem &of,
                       const std::vector<Schedule> &schedules) {
  std::vector<double> losses = lossesOf(of, schedules);
  std::vector<size_t> order(schedules.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto sort = [&](size_t count) {
    std::stable_sort(order.begin(), order.begin() + count,
                     [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  };
  sort(order.size());
  if (haveTrees(of)) {
    size_t count = std::min(kMostByTrees, order.size());
    for (size_t i : llvm::ArrayRef(order).take_front(count))
      losses[i] = treesLossOf(of, schedules[i]);
    sort(count);
  }
  return order;
}
