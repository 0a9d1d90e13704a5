//===- Check.h - what of the check the choice needs too ---------*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_CHECK_H
#define FA2_LIB_SCHEDULE_CHECK_H

#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

namespace fa2 {

/// Whether a warpgroup in its turn would wait for keys whose slot one that
/// skips tiles frees in a later turn (fa2gpu-verify finds it in any kernel).
bool turnsBlock(const Schedule &schedule);

/// Whether warpgroups of backward go through queries by themselves, upwards
/// from the first that see their keys: what group_limits asks for.
bool groupsGoAlone(const Schedule &schedule);

/// Registers a multiplying thread may have.
int64_t budgetOf(const Target &target, const Footprint &footprint,
                 const Schedule &schedule);

/// Why the columns of dQ cannot be summed so by backward of a target with
/// roles, or an empty string: by the tiles, dq, dq_columns and cluster alone,
/// and persistent.
std::string gradientSumsError(const Target &target, const Problem &problem,
                              const Schedule &schedule);
/// Why the schedule is none for the target, or an empty string.
std::string fitError(const Target &target, const Problem &problem,
                     const Schedule &schedule, const Footprint &footprint);

} // namespace fa2

#endif
