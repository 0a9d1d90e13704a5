//===- ScoreProgram.cpp - the score region on tiles -----------------------===//

#include "ScoreProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fa2;

static bool is16Bit(Type t) {
  return t.isIntOrFloat() && t.getIntOrFloatBitWidth() == 16;
}

/// Operations that are elementwise and that the targets have no code for.
static bool hasNoCode(Operation &op) {
  if (isa_and_nonnull<math::MathDialect>(op.getDialect()))
    return !isa<math::ExpOp, math::Exp2Op, math::TanhOp, math::AbsFOp>(op);
  return isa<arith::RemFOp, arith::MaxNumFOp, arith::MinNumFOp>(op);
}

/// Whether the program's result is computed from its score.
static bool readsScore(Block &program) {
  SmallVector<Value> work(program.getTerminator()->getOperands());
  llvm::SmallPtrSet<Value, 16> seen;
  while (!work.empty()) {
    Value v = work.pop_back_val();
    if (v == program.getArgument(0))
      return true;
    if (Operation *op = v.getDefiningOp(); op && seen.insert(v).second)
      llvm::append_range(work, op->getOperands());
  }
  return false;
}

LogicalResult fa2::checkScoreProgram(AttentionOp op) {
  if (!op.getExtras().empty())
    return op.emitOpError() << "expected no extras because tiling of what a "
                               "score program reads besides its score and "
                               "coordinates is not supported";
  Block &program = op.getScore().front();
  for (Operation &inner : program.without_terminator()) {
    if (!inner.hasTrait<OpTrait::ConstantLike>() &&
        (!inner.hasTrait<OpTrait::Elementwise>() ||
         inner.getNumResults() != 1 || inner.getNumRegions() != 0))
      return inner.emitOpError()
             << "is not supported in a score program: expected elementwise "
                "operations with one result";
    if (hasNoCode(inner))
      return inner.emitOpError()
             << "is not supported in a score program: expected operations of "
                "arith but for remf, maxnumf and minnumf, or math.exp, exp2, "
                "tanh and absf";
    for (Type type : inner.getResultTypes())
      if (!type.isIntOrIndexOrFloat() || is16Bit(type) ||
          (isa<FloatType>(type) && !type.isF32()))
        return inner.emitOpError()
               << "is not supported in a score program: expected values of "
                  "f32, index or integers that are not 16 bits wide, got "
               << type;
  }
  for (Operation &inner : program)
    for (Value v : inner.getOperands())
      if (v.getParentBlock() != &program)
        return inner.emitOpError() << "is not supported in a score program: "
                                      "expected values of the region only";
  if (!readsScore(program))
    return op.emitOpError() << "expected a score program whose result depends "
                               "on its score";
  return success();
}

Value fa2::tileScoreProgram(OpBuilder &b, AttentionOp op, Value scores,
                            ScorePlace place) {
  Location loc = op.getLoc();
  auto shape = cast<RankedTensorType>(scores.getType()).getShape();
  auto tileOf = [&](Type t) { return RankedTensorType::get(shape, t); };
  Block &program = op.getScore().front();
  auto used = [&](unsigned i) { return !program.getArgument(i).use_empty(); };

  IRMapping tiles;
  tiles.map(program.getArgument(0), scores);
  for (auto [i, uniform] : {std::pair(1u, place.batch), {2u, place.head}})
    if (used(i))
      tiles.map(program.getArgument(i),
                tensor::SplatOp::create(b, loc, tileOf(b.getIndexType()),
                                        uniform, ValueRange{}));
  if (used(3) || used(4)) {
    Type type = tileOf(b.getIndexType());
    auto at = CoordinatesOp::create(b, loc, TypeRange{type, type}, place.qBlock,
                                    place.kvBlock);
    tiles.map(program.getArgument(3), at.getRows());
    tiles.map(program.getArgument(4), at.getCols());
  }
  for (Operation &inner : program.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      tiles.map(constant.getResult(),
                arith::ConstantOp::create(
                    b, loc,
                    DenseElementsAttr::get(tileOf(constant.getType()),
                                           constant.getValue())));
      continue;
    }
    SmallVector<Value> operands;
    for (Value v : inner.getOperands())
      operands.push_back(tiles.lookup(v));
    OperationState state(inner.getLoc(), inner.getName(), operands,
                         {tileOf(inner.getResult(0).getType())},
                         inner.getAttrs());
    tiles.map(inner.getResult(0), b.create(state)->getResult(0));
  }
  return tiles.lookup(program.getTerminator()->getOperand(0));
}
