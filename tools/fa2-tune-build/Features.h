//===- Features.h - what trees see of a candidate ---------------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_FEATURES_H
#define FA2_TOOLS_TUNEBUILD_FEATURES_H

#include "fa2/Schedule/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fa2tune {

/// A schedule of a problem on one shape, and what the model says of it.
struct RankedCandidate {
  const fa2::Target &target;
  const fa2::Problem &problem;
  const fa2::Schedule &schedule;
  const fa2::Shape &shape;
  const fa2::Estimate &estimate;
};

/// A name and a number for each feature, in one order: the problem, the shape,
/// the estimate's terms in clocks, the footprint, every field of the schedule,
/// and what follows from them of a tile, a warp and a multiprocessor. None says
/// anything of other candidates.
void forEachFeature(
    const RankedCandidate &candidate,
    llvm::function_ref<void(llvm::StringRef name, double value)> visit);

} // namespace fa2tune

#endif
