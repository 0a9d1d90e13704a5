//===- Dropout.cpp - probabilities that are dropped -----------------------===//

#include "Dropout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fa2;

Dropout::Dropout(OpBuilder &b, Location loc, Value p, Value rng)
    : b(b), loc(loc) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto real = [&](float v) -> Value {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(v));
  };
  auto whole = [&](int32_t v) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(v));
  };
  for (int64_t i = 0; i < 4; ++i) {
    Value at = arith::ConstantIndexOp::create(b, loc, i);
    words.push_back(ReadOp::create(b, loc, i32, rng, at));
  }
  // To the nearest, within what leaves something.
  Value parts = arith::AddFOp::create(
      b, loc, arith::MulFOp::create(b, loc, p, real(256)), real(0.5f));
  threshold = arith::FPToSIOp::create(b, loc, i32, parts);
  threshold = arith::MinSIOp::create(b, loc, threshold, whole(255));
  threshold = arith::MaxSIOp::create(b, loc, threshold, whole(0));
  Value left = arith::SubIOp::create(b, loc, whole(256), threshold);
  kept = arith::MulFOp::create(
      b, loc, arith::SIToFPOp::create(b, loc, f32, left), real(1.0f / 256));
}

Value Dropout::factor() {
  Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
  return arith::DivFOp::create(b, loc, one, kept);
}

Value Dropout::keep(const ScorePlace &place, Value head, Value columnBlock,
                    Type element) {
  auto type = RankedTensorType::get({place.rows, place.cols}, element);
  Value queries = place.transposed ? columnBlock : place.rowBlock,
        keys = place.transposed ? place.rowBlock : columnBlock;
  return KeepOp::create(b, loc, type, queries, keys, head, words, threshold,
                        place.transposed, place.packedHeads);
}

Value Dropout::leftOf(Value tile, const ScorePlace &place, Value head,
                      Value columnBlock) {
  Type i16 = b.getIntegerType(16);
  Value kept = keep(place, head, columnBlock, i16);
  Value bits = arith::BitcastOp::create(b, loc, kept.getType(), tile);
  bits = arith::AndIOp::create(b, loc, bits, kept);
  return arith::BitcastOp::create(b, loc, tile.getType(), bits);
}
