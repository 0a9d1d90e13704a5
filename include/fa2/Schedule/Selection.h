//===- Selection.h - the choice and the check of a schedule -----*- C++ -*-===//
//
// Explicit values win, then a schedule that was measured, then the target's
// table, then a rule from the target's limits.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_SELECTION_H
#define FA2_SCHEDULE_SELECTION_H

#include "fa2/Schedule/Database.h"
#include "fa2/Schedule/Decision.h"
#include "fa2/Schedule/Footprint.h"

#include <vector>

namespace fa2 {

struct Selection {
  ScheduleAttr schedule;
  Footprint footprint;
  /// Blocks a multiprocessor holds, by shared memory, threads and the estimate
  /// of registers.
  int64_t blocksPerMultiprocessor = 1;
  /// From the database or the target's table as it stands, nothing asked: the
  /// table's variants go with it.
  bool tuned = false;
  /// Of deterministic gradients, and nothing else asked: the table's variants
  /// for these go with it.
  bool deterministic = false;
  /// Those of the database's row, where it has its own.
  std::optional<std::vector<Variant>> measuredVariants;
  std::vector<Decision> reasons;
  /// What may make the kernel slow (not wrong).
  std::vector<std::string> warnings;
};

/// `schedule` with the fields that were asked for in place. Of fields that
/// exclude each other, what was not asked for gives way.
Schedule withAsked(const Schedule &schedule, const ScheduleOverrides &asked);

/// Chooses a schedule; `measured` is the problem's row of a database, or null.
/// On failure `error` names the field, its value and the limit.
mlir::FailureOr<Selection>
selectSchedule(mlir::MLIRContext *context, const Target &target,
               const Problem &problem, const ScheduleOverrides &asked,
               std::string &error, const ScheduleRow *measured = nullptr);

/// The variants beside the schedule of `selection`, which gets their reasons
/// and warnings. `asked` is "guard: name=value,...; ..." or "none"; empty takes
/// the table's where the schedule is the table's.
mlir::FailureOr<llvm::SmallVector<VariantAttr>>
selectVariants(mlir::MLIRContext *context, const Target &target,
               const Problem &problem, llvm::StringRef asked,
               Selection &selection, std::string &error);

/// Checks variants that stand already; their reasons and warnings as above.
mlir::LogicalResult checkVariants(const Target &target, const Problem &problem,
                                  llvm::ArrayRef<VariantAttr> variants,
                                  Selection &selection, std::string &error);

/// The schedule of dQ's own kernel in a backward program.
mlir::FailureOr<ScheduleAttr> gradQSchedule(mlir::MLIRContext *context,
                                            const Target &target,
                                            const Problem &problem,
                                            std::string &error);

/// Checks a schedule that stands already: shared memory, threads.
mlir::FailureOr<Selection> checkSchedule(const Target &target,
                                         const Problem &problem,
                                         ScheduleAttr schedule,
                                         std::string &error);

} // namespace fa2

#endif
