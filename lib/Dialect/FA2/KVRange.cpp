//===- KVRange.cpp - interval arithmetic on masks -------------------------===//

#include "fa2/Dialect/FA2/KVRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fa2;

SmallVector<Value, 4> fa2::expandKVRange(OpBuilder &b, KVRangeOp op) {
  Location loc = op.getLoc();
  Value sq = op.getSeqlenQ(), sk = op.getSeqlenK();
  auto mask = op.getMaskAttr();
  int64_t blockQ = op.getBlockQ(), blockKV = op.getBlockKv();

  auto constant = [&](int64_t v) -> Value {
    return arith::ConstantIndexOp::create(b, loc, v);
  };
  Value zero = constant(0);
  auto add = [&](Value x, int64_t c) {
    return b.createOrFold<arith::AddIOp>(loc, x, constant(c));
  };
  auto minOf = [&](Value x, Value y) {
    return b.createOrFold<arith::MinSIOp>(loc, x, y);
  };
  auto maxOf = [&](Value x, Value y) {
    return b.createOrFold<arith::MaxSIOp>(loc, x, y);
  };
  // Operands are not negative here, so an unsigned division rounds down.
  auto floorTiles = [&](Value x) {
    return b.createOrFold<arith::DivUIOp>(loc, x, constant(blockKV));
  };
  auto ceilTiles = [&](Value x) { return floorTiles(add(x, blockKV - 1)); };

  Value first =
      b.createOrFold<arith::MulIOp>(loc, op.getQBlock(), constant(blockQ));
  Value last = add(minOf(add(first, blockQ), sq), -1);
  auto lower = [&](Value row) -> Value {
    Value v = mask ? mask.lower(b, loc, row, sq, sk) : Value();
    return v ? maxOf(v, zero) : zero;
  };
  auto upper = [&](Value row) -> Value {
    Value v = mask ? mask.upper(b, loc, row, sq, sk) : Value();
    return v ? maxOf(minOf(v, sk), zero) : sk;
  };

  Value begin = floorTiles(lower(first));
  Value end = maxOf(ceilTiles(upper(last)), begin);
  Value fullEnd = maxOf(minOf(floorTiles(upper(first)), end), begin);
  // Without a lower bound both begin at tile 0, which is never above full_end.
  Value fullBegin = begin;
  if (!matchPattern(begin, m_Zero()))
    fullBegin = minOf(maxOf(ceilTiles(lower(last)), begin), fullEnd);
  if (op.getNonempty()) {
    Value empty = b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq,
                                                begin, end);
    Value beyond = maxOf(ceilTiles(sk), constant(1));
    auto choose = [&](Value other, Value value) -> Value {
      return arith::SelectOp::create(b, loc, empty, other, value);
    };
    end = choose(add(beyond, 1), end);
    bool fromZero = matchPattern(fullBegin, m_Zero());
    begin = choose(beyond, begin);
    fullEnd = choose(beyond, fullEnd);
    // A full range of no tiles may begin anywhere at or below its end.
    if (!fromZero)
      fullBegin = choose(beyond, fullBegin);
  }
  return {begin, end, fullBegin, fullEnd};
}
