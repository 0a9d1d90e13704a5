//===- TileRanges.cpp - ranges of tiles as arithmetic ---------------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

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
  Value add(Value x, Value y) {
    return b.createOrFold<arith::AddIOp>(loc, x, y);
  }
  Value sub(Value x, Value y) {
    return b.createOrFold<arith::SubIOp>(loc, x, y);
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

/// One in so many of the heads, rounded, starts with its longest tile, and so
/// many at most.
static constexpr int64_t kOneInHeads = 8, kMostHeads = 4;

bool fa2::hasSections(TileOrder order) {
  switch (order) {
  case TileOrder::Ascending:
  case TileOrder::Descending:
  case TileOrder::BatchesAbreast:
    return false;
  default:
    return true;
  }
}

int64_t fa2::headsFromStart(int64_t heads) {
  return std::min((heads + kOneInHeads / 2) / kOneInHeads, kMostHeads);
}
Value fa2::headsFromStart(OpBuilder &b, Location loc, Value heads) {
  TileMath m{b, loc};
  return m.min(m.floorTiles(m.add(heads, kOneInHeads / 2), kOneInHeads),
               m.constant(kMostHeads));
}
std::string fa2::headsFromStart(const std::string &heads) {
  return llvm::formatv("min(({0} + {1}) / {2}, {3})", heads, kOneInHeads / 2,
                       kOneInHeads, kMostHeads);
}

static TilePlaces inOrder(TileMath m, Value begin, Value end, Value fullBegin,
                          Value fullEnd, bool falling) {
  Value count = m.sub(end, begin);
  Value first = falling ? m.sub(end, m.constant(1)) : begin;
  return {first, end, count, fullBegin, fullEnd, falling};
}

using RangeLookup = llvm::function_ref<TilePlaces(Value)>;

bool TileRangeOp::falls() { return getFalling(); }
bool TileRangeOp::makeNonempty() { return getNonempty(); }

TilePlaces TileRangeOp::places(OpBuilder &b, RangeLookup) {
  return inOrder(TileMath{b, getLoc()}, getBegin(), getEnd(), getFullBegin(),
                 getFullEnd(), getFalling());
}

bool KVRangeOp::falls() { return getFalling(); }
bool KVRangeOp::makeNonempty() {
  setNonempty(true);
  return true;
}

TilePlaces KVRangeOp::places(OpBuilder &b, RangeLookup) {
  Location loc = getLoc();
  Value sq = getSeqlenQ(), sk = getSeqlenK();
  auto mask = getMaskAttr();
  int64_t blockQ = getBlockQ(), blockKV = getBlockKv();

  TileMath m{b, loc};
  Value zero = m.constant(0);
  Value first =
      b.createOrFold<arith::MulIOp>(loc, getQBlock(), m.constant(blockQ));
  if (getLead())
    first = m.sub(first, getLead());
  Value after = m.add(first, blockQ);
  Value last = m.add(getWholeRows() ? after : m.min(after, sq), -1);
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
  if (getNonempty()) {
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
  if (getPastEnd()) {
    Value any =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, first, sq);
    end = arith::SelectOp::create(b, loc, any, end, zero);
  }
  TilePlaces p = inOrder(m, begin, end, fullBegin, fullEnd, getFalling());
  // Without a mask it is the one in which the keys end.
  p.onlyFirstRagged = getFalling() && !mask;
  return p;
}

bool QRangeOp::falls() { return false; }
bool QRangeOp::makeNonempty() { return getNonempty(); }

TilePlaces QRangeOp::places(OpBuilder &b, RangeLookup) {
  Location loc = getLoc();
  TileMath m{b, loc};
  Value sq = getSeqlenQ(), sk = getSeqlenK(), zero = m.constant(0);
  auto mask = getMaskAttr();
  int64_t blockQ = getBlockQ(), blockKV = getBlockKv();
  Value first =
      b.createOrFold<arith::MulIOp>(loc, getKvBlock(), m.constant(blockKV));
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
  TilePlaces p{begin, end, Value(), fullBegin, fullEnd};
  if (Value falling = getFalling()) {
    p.count = m.sub(end, begin);
    p.first = arith::SelectOp::create(b, loc, falling, m.add(end, -1), begin);
    p.fallsWhere = falling;
  }
  if (getRotation() != 0) {
    p.count = end;
    p.rotation = b.createOrFold<arith::RemUIOp>(
        loc,
        b.createOrFold<arith::MulIOp>(loc, getKvBlock(),
                                      m.constant(getRotation())),
        m.max(end, m.constant(1)));
  }
  return p;
}

//===----------------------------------------------------------------------===//
// Parts of ranges
//===----------------------------------------------------------------------===//

static RangeOfTiles rangeOf(Value range) {
  return range.getDefiningOp<RangeOfTiles>();
}

bool TakeTilesOp::falls() { return rangeOf(getSource()).falls(); }
/// One place of the source is among them wherever it has one.
bool TakeTilesOp::makeNonempty() {
  return getCount().getDefiningOp<TilesThroughOp>() &&
         rangeOf(getSource()).makeNonempty();
}

TilePlaces TakeTilesOp::places(OpBuilder &, RangeLookup of) {
  TilePlaces p = of(getSource());
  p.count = getCount();
  return p;
}

bool DropTilesOp::falls() { return rangeOf(getSource()).falls(); }
/// One place of the source is left wherever it has one (fa2.tiles_until).
bool DropTilesOp::makeNonempty() {
  return getCount().getDefiningOp<TilesUntilOp>() &&
         rangeOf(getSource()).makeNonempty();
}

TilePlaces DropTilesOp::places(OpBuilder &b, RangeLookup of) {
  TileMath m{b, getLoc()};
  TilePlaces p = of(getSource()), rows = of(getRows());
  Value count = p.count ? p.count : m.sub(p.end, p.first);
  if (p.fallsWhere)
    p.first = arith::SelectOp::create(b, getLoc(), p.fallsWhere,
                                      m.sub(p.first, getCount()),
                                      m.add(p.first, getCount()));
  else
    p.first = p.falls ? m.sub(p.first, getCount()) : m.add(p.first, getCount());
  p.count = m.sub(count, getCount());
  p.fullBegin = rows.fullBegin;
  // Tiles that are full to the end of the rows' range are so to this one's.
  p.fullEnd = rows.fullEnd == rows.end && !p.falls ? p.end : rows.fullEnd;
  // Tiles that were dropped are not full for these rows.
  if (p.falls)
    p.fullEnd = m.min(p.fullEnd, m.add(p.first, 1));
  p.onlyFirstRagged = rows.onlyFirstRagged;
  return p;
}
