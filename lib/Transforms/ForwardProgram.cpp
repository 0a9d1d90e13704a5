//===- ForwardProgram.cpp - a score program in forward kernels ------------===//

#include "ForwardProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace fa2;

ForwardProgram::ForwardProgram(AttentionOp op,
                               ArrayRef<ScheduleAttr> schedules) {
  if (op.getScore().empty())
    return;
  normal.emplace(op);
  NormalProgram::Terms terms = schedules.front().getPreloadTerms()
                                   ? normal->terms()
                                   : NormalProgram::Terms::Other;
  if (terms != NormalProgram::Terms::Other) {
    bool fromVector = llvm::any_of(schedules, [](ScheduleAttr schedule) {
      return schedule.getPackedHeads() == 1;
    });
    byRole = schedules.front().getTermsRole() &&
             terms != NormalProgram::Terms::OfEntries;
    distances = fromVector && terms == NormalProgram::Terms::OfDistances;
    normal->preloadTerms(/*often=*/byRole);
    if (fromVector && terms == NormalProgram::Terms::OfEntries) {
      entries.emplace(op);
      entries->preloadTerms();
      entries->takeEntriesForKeys();
    }
  }
  values = normal->columns();
  for (ScheduleAttr schedule : schedules) {
    rows = std::lcm(rows, schedule.getBlockKv());
    queries = std::lcm(queries, schedule.getBlockQ());
  }
}

bool ForwardProgram::columnsDependOn(ScoreProgram::Argument argument) {
  return llvm::any_of(values,
                      [&](Value v) { return normal->dependsOn(v, argument); });
}

/// Behind the keys are those tiles of which ranges have one where a row sees
/// none (fa2.kv_range, nonempty).
SmallVector<std::string> ForwardProgram::columnExtents() {
  return {columnsDependOn(ScoreProgram::Batch) ? "batch" : "1",
          columnsDependOn(ScoreProgram::Head) ? "heads" : "1",
          llvm::formatv("(ceildiv(seqlen_k, {0}) + 2) * {0}", rows)};
}

/// From the last row's distance to the first key, to that of a row before the
/// first to a tile behind the keys.
SmallVector<std::string> ForwardProgram::distanceExtents() {
  return {startDependsOn(ScoreProgram::Batch) ? "batch" : "1",
          startDependsOn(ScoreProgram::Head) ? "heads" : "1",
          llvm::formatv("(ceildiv(seqlen_q, {0}) + 1) * {0} + "
                        "(ceildiv(seqlen_k, {1}) + 2) * {1}",
                        queries, rows)};
}

SmallVector<std::string> ForwardProgram::entryExtents() {
  return {entriesDependOn(ScoreProgram::Batch) ? "batch" : "1",
          entriesDependOn(ScoreProgram::Head) ? "heads" : "1",
          std::to_string(kTableEntries)};
}

std::string ForwardProgram::entriesFit() {
  size_t table = ScoreProgram::extraOf(normal->entry());
  return llvm::formatv("{0}_{1} <= {2}", normal->program().extraName(table),
                       normal->entryDimension(), kTableEntries);
}

std::pair<Value, Value> fa2::addRowTerm(OpBuilder &b, Location loc, Value row,
                                        Value out, Value lse) {
  auto type = cast<RankedTensorType>(row.getType());
  auto all = [&](float v) -> Value {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, v));
  };
  Value none = all(-std::numeric_limits<float>::infinity());
  auto isNone = [&](Value x) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, none);
  };
  auto choose = [&](Value c, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, c, x, y);
  };
  Value empty = isNone(lse), hidden = isNone(row), one = all(1);
  // 1, or no number
  Value known = arith::SubFOp::create(b, loc, row, row);
  known = arith::AddFOp::create(b, loc, one, known);
  Value factors = choose(hidden, all(0), choose(empty, one, known));
  Value more = arith::AddFOp::create(b, loc, lse, row);
  return {ScaleRowsOp::create(b, loc, out.getType(), out, factors,
                              /*skip_unit=*/true),
          choose(empty, none, more)};
}
