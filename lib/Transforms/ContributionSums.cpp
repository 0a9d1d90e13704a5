//===- ContributionSums.cpp - gradients of what a program reads -----------===//

#include "ContributionSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

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
        .push_back({op, sum, words[number], program.placeOf(op), number});
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
                                         Value row, ArrayRef<SumTurn> turns) {
  SmallVector<Value> after;
  // A turn is of all that a tile adds to a view.
  llvm::MapVector<size_t, Value> tiles;
  for (auto [part, value] : llvm::zip_equal(parts, values)) {
    if (part.isView()) {
      Value &tile = tiles[part.gradient];
      tile = tile ? Value(arith::AddFOp::create(b, loc, tile, value)) : value;
      continue;
    }
    if (!part.stays()) {
      scatter(part, value);
      continue;
    }
    Value sums = before[after.size()];
    after.push_back(AddRowsOp::create(b, loc, sums.getType(), value, sums));
  }
  for (auto [gradient, tile] : tiles) {
    Value view = llvm::find_if(parts, [&, of = gradient](const Part &part) {
                   return part.gradient == of;
                 })->sum;
    const SumTurn &turn = turns[gradient];
    bool any = bool(turn.counters);
    AccumulateOp::create(
        b, loc, tile, view, row, turn.number, turn.counters, turn.row,
        turn.first, turn.last, /*seen=*/Value(), turn.opens, turn.closes,
        turn.into, turn.intoRow, turn.intoColumn, /*factors=*/ValueRange(),
        /*given=*/Value(), /*told=*/Value(), /*begins=*/any,
        /*ends=*/any, /*later=*/false, /*resumed=*/false, turn.anyOrder,
        any ? TurnChangeAttr::get(b.getContext(), TurnChange::Late)
            : TurnChangeAttr());
  }
  return after;
}

void ContributionSums::finish(ValueRange totals) {
  size_t next = 0;
  for (const Part &part : parts)
    if (part.stays())
      scatter(part, totals[next++]);
}
