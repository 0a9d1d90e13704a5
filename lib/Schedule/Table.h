//===- Table.h - schedules of problems that were not measured ---*- C++ -*-===//
//
// tables.json, which this library has inside: lines for ranges of head dims and
// for what programs need, where the database has no row. It is the place to
// change when tuning by hand.
//
//   lines     a schedule each, the first for which a problem's condition holds
//             first; the others are for where it does not fit
//   fields    set in every line of a family and a pass, one after the other
//   variants  beside the schedule that was chosen, the first that holds first
//   weights   of tiles of so many rows beside the schedule's own (FewTiles.h)
//
// Each has a `family`, whose oldest target's name it is, a `pass` (forward,
// backward, dq: the kernel of dQ alone, or deterministic: what backward is
// asked for where the same bits in each run are, and no more), a condition
// `when` over the problem (Problem::number) and the schedule's fields so far,
// in the grammar of guards, and a `schedule`, fields of it. `also` lists
// further fields with conditions, `why` says what a person should know before
// changing it. A variant has `launch`, a guard; or `rows`, where it is for
// launches that tiles of so many rows are the fastest for; or `parts`, where it
// takes what whole rounds of the schedule's own tiles leave, if that gains one
// part in so many.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_LIB_SCHEDULE_TABLE_H
#define FA2_LIB_SCHEDULE_TABLE_H

#include "fa2/Target/Problem.h"

#include <vector>

namespace fa2 {

class Target;

/// Whether a condition that has a name holds of a problem.
bool holds(llvm::StringRef condition, const Problem &problem);

/// The table's schedules for a problem, the best first.
std::vector<Schedule> tableSchedules(const Target &target,
                                     const Problem &problem);

/// The schedule of a kernel of dQ alone, one block a tile of queries.
Schedule tableGradQSchedule(const Target &target, const Problem &problem);

/// The fields that give gradients the same bits in each run, the fastest: dq,
/// and others that go with it.
ScheduleOverrides tableDeterministic(const Target &target,
                                     const Problem &problem);

/// The variants beside a schedule, the first that holds first: of the problem's
/// pass, or those that go with tableDeterministic.
std::vector<Variant> tableVariants(const Target &target, const Problem &problem,
                                   const Schedule &base,
                                   bool deterministic = false);

/// What is wrong with a table's text, or an empty string: of the shipped one
/// nothing is, which a test says.
std::string tableError(llvm::StringRef text);

} // namespace fa2

#endif
