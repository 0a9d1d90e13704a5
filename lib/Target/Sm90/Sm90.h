//===- Sm90.h - wgmma and tensor maps ---------------------------*- C++ -*-===//
#ifndef FA2_LIB_TARGET_SM90_SM90_H
#define FA2_LIB_TARGET_SM90_SM90_H

#include "fa2/Target/Target.h"

namespace fa2::sm90 {

/// sm_90a, which no other architecture runs.
const Target *target();

/// The tuned schedule, if the table has one for this problem.
std::vector<Schedule> tunedSchedules(const Problem &problem);

/// The schedule of dQ's own kernel, where the main one adds nothing to dQ.
Schedule gradQSchedule(const Problem &problem);

/// The variants tuned beside it.
std::vector<Variant> tunedVariants(const Problem &problem,
                                   const Schedule &base);

} // namespace fa2::sm90

#endif
