//===- KVRange.cpp - interval arithmetic on masks -------------------------===//

#include "fa2/Dialect/FA2/KVRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fa2;

namespace {
/// Arithmetic on numbers of tiles.
struct TileMath {
  OpBuilder &b;
  Location loc;

  Value constant(int64_t v) {
    return arith::ConstantIndexOp::create(b, loc, v);
  }
  Value add(Value x, int64_t c) {
    return b.createOrFold<arith::AddIOp>(loc, x, constant(c));
  }
  Value min(Value x, Value y) {
    return b.createOrFold<arith::MinSIOp>(loc, x, y);
  }
  Value max(Value x, Value y) {
    return b.createOrFold<arith::MaxSIOp>(loc, x, y);
  }
  // Operands are not negative here, so an unsigned division rounds down.
  Value floorTiles(Value x, int64_t block) {
    return b.createOrFold<arith::DivUIOp>(loc, x, constant(block));
  }
  Value ceilTiles(Value x, int64_t block) {
    return floorTiles(add(x, block - 1), block);
  }
};
} // namespace

SmallVector<Value, 4> fa2::expandKVRange(OpBuilder &b, KVRangeOp op) {
  Location loc = op.getLoc();
  Value sq = op.getSeqlenQ(), sk = op.getSeqlenK();
  auto mask = op.getMaskAttr();
  int64_t blockQ = op.getBlockQ(), blockKV = op.getBlockKv();

  TileMath m{b, loc};
  Value zero = m.constant(0);
  Value first =
      b.createOrFold<arith::MulIOp>(loc, op.getQBlock(), m.constant(blockQ));
  Value last = m.add(m.min(m.add(first, blockQ), sq), -1);
  auto lower = [&](Value row) -> Value {
    Value v = mask ? mask.lower(b, loc, row, sq, sk) : Value();
    return v ? m.max(v, zero) : zero;
  };
  auto upper = [&](Value row) -> Value {
    Value v = mask ? mask.upper(b, loc, row, sq, sk) : Value();
    return v ? m.max(m.min(v, sk), zero) : sk;
  };

  Value begin = m.floorTiles(lower(first), blockKV);
  Value end = m.max(m.ceilTiles(upper(last), blockKV), begin);
  Value fullEnd = m.max(m.min(m.floorTiles(upper(first), blockKV), end), begin);
  // Without a lower bound both begin at tile 0, which is never above full_end.
  Value fullBegin = begin;
  if (!matchPattern(begin, m_Zero()))
    fullBegin = m.min(m.max(m.ceilTiles(lower(last), blockKV), begin), fullEnd);
  if (op.getNonempty()) {
    Value empty = b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq,
                                                begin, end);
    Value beyond = m.max(m.ceilTiles(sk, blockKV), m.constant(1));
    auto choose = [&](Value other, Value value) -> Value {
      return arith::SelectOp::create(b, loc, empty, other, value);
    };
    end = choose(m.add(beyond, 1), end);
    bool fromZero = matchPattern(fullBegin, m_Zero());
    begin = choose(beyond, begin);
    fullEnd = choose(beyond, fullEnd);
    // A full range of no tiles may begin anywhere at or below its end.
    if (!fromZero)
      fullBegin = choose(beyond, fullBegin);
  }
  return {begin, end, fullBegin, fullEnd};
}

SmallVector<Value, 4> fa2::expandQRange(OpBuilder &b, QRangeOp op) {
  Location loc = op.getLoc();
  TileMath m{b, loc};
  Value sq = op.getSeqlenQ(), sk = op.getSeqlenK(), zero = m.constant(0);
  auto mask = op.getMaskAttr();
  int64_t blockQ = op.getBlockQ(), blockKV = op.getBlockKv();
  Value first =
      b.createOrFold<arith::MulIOp>(loc, op.getKvBlock(), m.constant(blockKV));
  Value last = m.add(first, blockKV - 1);
  // Rows [firstRow(j), endRow(j)) see key j.
  auto firstRow = [&](Value key) -> Value {
    Value v = mask ? mask.firstRow(b, loc, key, sq, sk) : Value();
    return v ? m.max(v, zero) : zero;
  };
  auto endRow = [&](Value key) -> Value {
    Value v = mask ? mask.endRow(b, loc, key, sq, sk) : Value();
    return v ? m.max(m.min(v, sq), zero) : Value();
  };
  Value endOfLast = endRow(last), endOfFirst = endRow(first);
  Value end = m.ceilTiles(endOfLast ? endOfLast : sq, blockQ);
  Value begin = m.min(m.floorTiles(firstRow(first), blockQ), end);
  // Rows past the sequence's end do no harm: without a lower bound its last
  // tile is full. Keys past the end do, through a small lse.
  Value fullBegin =
      m.min(m.max(m.ceilTiles(firstRow(last), blockQ), begin), end);
  Value whole =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, last, sk);
  fullBegin = arith::SelectOp::create(b, loc, whole, fullBegin, end);
  Value fullEnd = end;
  if (endOfFirst)
    fullEnd = m.max(m.min(m.floorTiles(endOfFirst, blockQ), end), fullBegin);
  return {begin, end, fullBegin, fullEnd};
}
