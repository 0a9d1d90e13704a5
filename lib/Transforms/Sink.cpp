//===- Sink.cpp - a score of each row that has no value -------------------===//

#include "Sink.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fa2;

Value fa2::readByHead(OpBuilder &b, Location loc, Value source,
                      const ScorePlace &place) {
  Value heads = headsOfRows(b, loc, place);
  Type f32 = b.getF32Type(), vector = RankedTensorType::get({place.rows}, f32);
  bool own = isa<RankedTensorType>(heads.getType());
  Value x = ReadOp::create(b, loc, own ? vector : f32, source, heads);
  return own ? x : tensor::SplatOp::create(b, loc, vector, x, ValueRange{});
}

std::pair<Value, Value> fa2::addSink(OpBuilder &b, Location loc, Value sink,
                                     Value out, Value lse) {
  auto type = cast<RankedTensorType>(lse.getType());
  auto all = [&](float v) -> Value {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, v));
  };
  auto compare = [&](arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  };
  auto choose = [&](Value c, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, c, x, y);
  };
  Value one = all(1);
  Value empty = compare(arith::CmpFPredicate::OEQ, lse,
                        all(-std::numeric_limits<float>::infinity()));
  Value above = compare(arith::CmpFPredicate::OGE, lse, sink);
  // Of two terms the larger is 1 and the other is at most that: nothing
  // overflows, and with a sink of -inf nothing changes, not one bit.
  Value apart =
      math::AbsFOp::create(b, loc, arith::SubFOp::create(b, loc, lse, sink));
  Value smaller =
      math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, apart));
  Value sum = arith::AddFOp::create(b, loc, one, smaller);
  Value share = arith::DivFOp::create(b, loc, choose(above, one, smaller), sum);
  Value joined = arith::AddFOp::create(b, loc, choose(above, lse, sink),
                                       math::LogOp::create(b, loc, sum));
  return {ScaleRowsOp::create(b, loc, out.getType(), out,
                              choose(empty, one, share), /*skip_unit=*/false),
          choose(empty, sink, joined)};
}
