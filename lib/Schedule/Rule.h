//===- Rule.h - a schedule where no table serves ----------------*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_RULE_H
#define FA2_LIB_SCHEDULE_RULE_H

#include "fa2/Target/Target.h"

namespace fa2 {

/// What the rule may try. Splitting columns costs an exchange through shared
/// memory, so rows alone come first; past both, what spills least is better
/// than nothing.
enum class Rule { Rows, Columns, Spilling };

/// Whether warps share the tiles evenly: what fitError() says otherwise at more
/// expense.
bool isWhole(const Target &target, const Schedule &schedule);

/// The rule: of all schedules that fit shared memory and registers, the one
/// with the largest tile; then the one with the deepest rings; then, of those
/// that split columns, the squarest parts; then by the target's choice of
/// warps; then queries in registers.
std::optional<Schedule> ruleSchedule(const Target &target,
                                     const Problem &problem,
                                     const ScheduleOverrides &asked, Rule rule);

} // namespace fa2

#endif
