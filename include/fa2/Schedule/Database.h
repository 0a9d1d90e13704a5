//===- Database.h - schedules that were measured ----------------*- C++ -*-===//
//
// A JSON document whose rows fa2-tune writes: what for, which schedule, how
// fast, out of how many, when, and what it was checked with. One is shipped,
// lib/Schedule/schedules.json, as a part of this library.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_DATABASE_H
#define FA2_SCHEDULE_DATABASE_H

#include "fa2/Target/Problem.h"

#include <optional>
#include <vector>

namespace fa2 {

class Target;

/// The newest version of the format that this compiler reads; it reads older
/// ones, too. With 2 rows may have needs (Problem::needs).
constexpr int64_t kDatabaseVersion = 2;

struct ScheduleRow {
  std::string arch, dtype, device, date;
  Problem problem{0, 0};
  Schedule schedule;
  /// Of launches where a guard holds; without them in the row the table's are.
  std::optional<std::vector<Variant>> variants;
  int64_t candidates = 0;
};

class ScheduleDatabase {
public:
  /// Reads a document, which messages call `name`. On failure `error` names
  /// what is wrong, and of which row.
  static mlir::FailureOr<ScheduleDatabase>
  parse(llvm::StringRef text, llvm::StringRef name, std::string &error);
  /// The shipped one, "none" or a file's: of the shipped one those rows that
  /// `problem` may have. Fails as parse() does.
  static mlir::FailureOr<ScheduleDatabase>
  open(llvm::StringRef where, const Problem &problem, std::string &error);
  /// All of the shipped one.
  static mlir::FailureOr<ScheduleDatabase> shipped(std::string &error);

  /// The row of a problem, or null. One of another type of 16 bits serves, and
  /// one of an older target of a family; the schedule is then what find() says
  /// for them.
  const ScheduleRow *find(const Target &target, const Problem &problem) const;
  llvm::ArrayRef<ScheduleRow> rows() const { return all; }

private:
  std::vector<ScheduleRow> all;
};

/// A row's schedule for a target and a problem that it serves: slack as the
/// type allows, reductions as the target has them.
Schedule scheduleOf(const ScheduleRow &row, const Target &target,
                    const Problem &problem);
/// Its variants, likewise.
std::optional<std::vector<Variant>> variantsOf(const ScheduleRow &row,
                                               const Problem &problem);

} // namespace fa2

#endif
