//===- ContributionSums.cpp - gradients of what a program reads -----------===//

#include "ContributionSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fa2;

ContributionSums::ContributionSums(OpBuilder &b, Location loc,
                                   ProgramTiler &program,
                                   ArrayRef<int64_t> grads, ValueRange sums,
                                   ArrayRef<Value> words)
    : b(b), loc(loc), program(program) {
  for (ContributeOp op : program.contributions()) {
    int64_t extra = cast<BlockArgument>(op.getExtra()).getArgNumber() -
                    ScoreProgram::FirstExtra;
    size_t number = llvm::find(grads, extra) - grads.begin();
    Value sum = sums[number];
    auto argument = dyn_cast<MemRefType>(sum.getType());
    bool isWhole = argument && !argument.getElementType().isF32();
    (isWhole ? whole : parts)
        .push_back({op, sum, words[number], program.placeOf(op)});
  }
}

SmallVector<Value> ContributionSums::wholes() {
  return llvm::map_to_vector(whole, [&](const Part &part) {
    return program.viewOf(part.op, part.sum);
  });
}

SmallVector<Value> ContributionSums::zeros() {
  auto type = RankedTensorType::get({program.numRows()}, b.getF32Type());
  SmallVector<Value> zeros;
  for (const Part &part : parts)
    if (part.stays())
      zeros.push_back(arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(type, 0.0f)));
  return zeros;
}

void ContributionSums::scatter(const Part &part, Value values) {
  ScatterOp::create(
      b, loc, values, part.sum, program.indicesOf(part.op, part.sum),
      part.words, part.place == ProgramTiler::Columns,
      part.place == ProgramTiler::Tile && program.byDistance(part.op));
}

SmallVector<Value> ContributionSums::slopes() {
  return llvm::map_to_vector(
      parts, [&](const Part &part) { return program.slopeOf(part.op); });
}

SmallVector<Value> ContributionSums::add(ValueRange before, ValueRange values,
                                         Value row) {
  SmallVector<Value> after;
  for (auto [part, value] : llvm::zip_equal(parts, values)) {
    if (part.isView()) {
      AccumulateOp::create(b, loc, value, part.sum, row, /*turn=*/Value(),
                           /*turns=*/Value(), /*shared_row=*/Value(),
                           /*first=*/Value(), /*last=*/Value(),
                           /*seen=*/Value(), /*opens=*/Value(),
                           /*closes=*/Value(), /*into=*/Value(),
                           /*factors=*/ValueRange(), /*given=*/Value(),
                           /*told=*/Value());
      continue;
    }
    if (!part.stays()) {
      scatter(part, value);
      continue;
    }
    Value sums = before[after.size()];
    after.push_back(AddRowsOp::create(b, loc, sums.getType(), value, sums));
  }
  return after;
}

void ContributionSums::finish(ValueRange totals) {
  size_t next = 0;
  for (const Part &part : parts)
    if (part.stays())
      scatter(part, totals[next++]);
}
