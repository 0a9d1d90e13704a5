//===- Asked.h - a schedule with fields that were asked for -----*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_ASKED_H
#define FA2_LIB_SCHEDULE_ASKED_H

#include "fa2/Target/Target.h"

namespace fa2 {

/// Where a warp takes 16 rows, no more (forward on targets with roles), block_q
/// and warps follow from each other: sets the one that is not asked for.
void completeRows(ScheduleOverrides &asked, const Target &target,
                  const Problem &problem);

/// The order in which forward's tiles start under a mask, the longest first:
/// up to head dim 64 the loop of balanced blocks is slower, above it is not.
TileOrder longestFirst(const Problem &problem, bool persistent);

/// "guard: name=value,...; ..." Guards are not looked at yet.
mlir::FailureOr<std::vector<Variant>> parseVariants(llvm::StringRef text,
                                                    std::string &error);

} // namespace fa2

#endif
