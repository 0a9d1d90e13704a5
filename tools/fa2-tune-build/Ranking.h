//===- Ranking.h - the model's order of candidates --------------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_RANKING_H
#define FA2_TOOLS_TUNEBUILD_RANKING_H

#include "fa2/Schedule/Model.h"

namespace fa2tune {

/// What schedules are ranked for.
struct RankedProblem {
  const fa2::Target &target;
  fa2::Rates rates; // of the device
  const fa2::Problem &problem;
  const std::vector<fa2::Shape> &shapes;
};

/// The schedules by the model, the fastest first: by how much slower than the
/// shape's fastest they are over all shapes together. The estimate orders them
/// all; those that it puts first are ordered by trees, where trees were fitted:
/// to problems without a program or dropout, on an H100 or H200.
std::vector<size_t> rankSchedules(const RankedProblem &of,
                                  const std::vector<fa2::Schedule> &schedules);

} // namespace fa2tune

#endif
