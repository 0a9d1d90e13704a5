//===- Schedules.h - tuned schedules of the sm_80 family --------*- C++ -*-===//
#ifndef FA2_LIB_TARGET_SM80_SCHEDULES_H
#define FA2_LIB_TARGET_SM80_SCHEDULES_H

#include "fa2/Target/Problem.h"

namespace fa2::sm80 {

/// The entry for the larger of the two head dims, rounded up to the table's
/// next, then others for where it does not serve.
std::vector<Schedule> tunedSchedules(const Problem &problem);

/// One block a tile of queries, for a kernel of dQ alone.
Schedule gradQSchedule(const Problem &problem);

} // namespace fa2::sm80

#endif
