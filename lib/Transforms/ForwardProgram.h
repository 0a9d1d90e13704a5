//===- ForwardProgram.h - a score program in forward kernels ----*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_FORWARDPROGRAM_H
#define FA2_LIB_TRANSFORMS_FORWARDPROGRAM_H

#include "NormalProgram.h"
#include "fa2/Target/Problem.h"

namespace fa2 {

/// The score program of an operation's kernels, if it has one, and the values
/// of keys that a kernel of its own computes before them.
class ForwardProgram {
public:
  /// For kernels with these schedules.
  ForwardProgram(AttentionOp op, llvm::ArrayRef<ScheduleAttr> schedules);

  explicit operator bool() const { return normal.has_value(); }
  NormalProgram *operator->() { return &*normal; }

  llvm::ArrayRef<mlir::Value> columns() const { return values; }
  /// Whether they are those of one batch entry or head.
  bool columnsDependOn(ScoreProgram::Argument argument);
  /// Whether a role of each kernel computes them, and what products begin with,
  /// tile by tile, or else a kernel before all of them.
  bool byRoles() const { return byRole; }
  bool hasColumns() const { return !values.empty() && !byRole; }
  /// Keys of one block that computes them: whole tiles of all kernels' loops.
  int64_t columnRows() const { return rows; }
  /// How many vectors there are, and their extent, for a launcher.
  llvm::SmallVector<std::string> columnExtents();

  /// What products of scores begin with, where they begin with something.
  mlir::Value start() { return normal ? normal->start() : mlir::Value(); }
  bool startDependsOn(ScoreProgram::Argument argument) {
    return normal->dependsOn(start(), argument);
  }
  /// Whether a kernel before computes that for each distance. The distance d,
  /// column less row, has place d - 1 + ceil(seqlen_q / n) n, with as many rows
  /// n as whole tiles of all kernels have.
  bool hasDistances() const { return distances && !byRole; }
  /// Whether such values come from a vector, whoever computes it.
  bool takesDistances() const { return distances; }
  int64_t distanceRows() const { return queries; }
  llvm::SmallVector<std::string> distanceExtents();
  /// Whether one does so for each entry of a table, if those are at most
  /// kTableEntries (`entriesFit`, a guard).
  bool hasEntries() const { return entries.has_value(); }
  NormalProgram &entryProgram() { return *entries; }
  bool entriesDependOn(ScoreProgram::Argument argument) {
    return entries->dependsOn(entries->start(), argument);
  }
  llvm::SmallVector<std::string> entryExtents();
  std::string entriesFit();

private:
  std::optional<NormalProgram> normal, entries;
  llvm::SmallVector<mlir::Value> values;
  int64_t rows = kGroupRows, queries = kGroupRows;
  bool distances = false, byRole = false;
};

/// The output and lse of rows all of whose scores have a term of their own. It
/// leaves the output as it is, unless it hides the row (-inf) or is no number;
/// a row that sees no key stays empty.
std::pair<mlir::Value, mlir::Value> addRowTerm(mlir::OpBuilder &b,
                                               mlir::Location loc,
                                               mlir::Value row, mlir::Value out,
                                               mlir::Value lse);

} // namespace fa2

#endif
