//===- ProblemOf.cpp - what an operation's schedule is chosen for ---------===//

#include "fa2/Transforms/ProblemOf.h"
#include "NormalProgram.h"

using namespace mlir;
using namespace fa2;

namespace {
int64_t columnsOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(3);
}

/// What both passes have.
template <typename Op> Problem common(Op op) {
  Problem problem;
  problem.headDim = columnsOf(op.getQ());
  problem.headDimV = columnsOf(op.getV());
  problem.masked = bool(op.getMaskAttr());
  problem.maxSlack =
      maxSlack(cast<RankedTensorType>(op.getQ().getType()).getElementType());
  problem.program = !op.getScore().empty();
  problem.dropout = bool(op.getDropout());
  return problem;
}
} // namespace

FailureOr<Problem> fa2::problemOf(AttentionOp op) {
  Problem problem = common(op);
  if (!problem.program)
    return problem;
  if (failed(programOf(op).check()) || failed(programOf(op).checkReadsScore()))
    return failure();
  NormalProgram normal(op);
  ScoreProgram program = normal.program();
  SmallVector<Value> columns = normal.columns();
  problem.columnVectors = int64_t(columns.size());
  problem.headColumns = llvm::any_of(columns, [&](Value v) {
    return normal.dependsOn(v, ScoreProgram::Head);
  });
  NormalProgram::Terms terms = normal.terms();
  problem.termsOfKeys = terms == NormalProgram::Terms::OfKeys;
  problem.termsOfDistances = terms == NormalProgram::Terms::OfDistances;
  problem.termsOfEntries = terms == NormalProgram::Terms::OfEntries;
  problem.tileReads = int64_t(program.tileReads().size());
  problem.wideReads = int64_t(program.wideReads().size());
  problem.elementReads = program.readsElements();
  problem.distanceReads = program.readsByDistance();
  problem.distance = program.usesDistance();
  problem.slope = !programOf(op).addsToScore();
  problem.transcendental = program.isTranscendental();
  return problem;
}

FailureOr<Problem> fa2::problemOf(AttentionGradOp op) {
  Problem problem = common(op);
  problem.backward = true;
  if (!problem.program)
    return problem;
  if (failed(programOf(op).check()))
    return failure();
  ScoreProgram program = programOf(op);
  problem.tileReads = int64_t(program.tileReads().size());
  problem.elementReads = program.readsElements();
  problem.distanceReads = program.readsByDistance();
  problem.distance = program.usesDistance();
  problem.slope = !(program.onlyAdds() && program.addsToScore());
  for (auto [i, type] : llvm::enumerate(op.getDextras().getTypes())) {
    GradientForm form = formOfGradient(type);
    (form == GradientForm::Whole ? problem.storesScores : problem.sums) = true;
    problem.batchSums |=
        form == GradientForm::Tiles && isSummedOverBatchAlone(op, i);
  }
  if (problem.sums)
    op->walk([&](ContributeOp part) {
      for (Value index : part.getIndices()) {
        problem.rowSums |= program.dependsOn(index, ScoreProgram::Row);
        problem.keySums |= program.dependsOn(index, ScoreProgram::Column);
      }
    });
  return problem;
}
