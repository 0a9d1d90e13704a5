//===- ExpandRanges.cpp - fa2gpu-expand-ranges ----------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace fa2 {
#define GEN_PASS_DEF_EXPANDRANGES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

/// Arithmetic on places, at one operation.
struct PlaceMath {
  OpBuilder b;
  Location loc;

  explicit PlaceMath(Operation *op) : b(op), loc(op->getLoc()) {}
  Value constant(int64_t v) {
    return arith::ConstantIndexOp::create(b, loc, v);
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
  Value exclusive(Value x, Value y) {
    return b.createOrFold<arith::XOrIOp>(loc, x, y);
  }
  Value choose(Value is, Value x, Value y) {
    return b.createOrFold<arith::SelectOp>(loc, is, x, y);
  }
};

struct ExpandRangesPass : public fa2::impl::ExpandRangesBase<ExpandRangesPass> {
  void runOnOperation() override {
    WalkResult counted = getOperation().walk([](ForTilesOp loop) {
      loop.emitOpError() << "expected a loop over places; run "
                            "fa2gpu-count-tiles";
      return WalkResult::interrupt();
    });
    if (counted.wasInterrupted())
      return signalPassFailure();
    known.clear(); // a pass goes through one kernel after the other
    SmallVector<Operation *> done;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto range = dyn_cast<RangeOfTiles>(op)) {
        OpBuilder b(op);
        known[op->getResult(0)] =
            range.places(b, [&](Value other) { return known.lookup(other); });
      } else if (isa<TileCountOp, TileAtOp, TilesUntilOp, TilesThroughOp,
                     FullPlacesOp>(op)) {
        op->replaceAllUsesWith(answer(op));
      } else {
        return;
      }
      done.push_back(op);
    });
    for (Operation *op : llvm::reverse(done))
      op->erase();
  }

  SmallVector<Value> answer(Operation *op) {
    PlaceMath m(op);
    if (auto count = dyn_cast<TileCountOp>(op))
      return {countOf(m, count.getRange())};
    if (auto at = dyn_cast<TileAtOp>(op)) {
      TilePlaces p = known[at.getRange()];
      if (p.rotation)
        return {rotated(m, p, at.getPlace())};
      if (p.fallsWhere) { // first - place is first + 1 + (place ^ -1)
        Value turned = m.choose(p.fallsWhere, m.constant(-1), m.constant(0));
        return {
            m.add(m.sub(p.first, turned), m.exclusive(at.getPlace(), turned))};
      }
      return {p.falls ? m.sub(p.first, at.getPlace())
                      : m.add(p.first, at.getPlace())};
    }
    if (auto until = dyn_cast<TilesUntilOp>(op))
      return {tilesUntil(m, until.getOwn(), until.getRange())};
    if (auto through = dyn_cast<TilesThroughOp>(op)) {
      Value own = m.max(countOf(m, through.getOwn()), m.constant(1));
      Value until = tilesUntil(m, through.getOwn(), through.getRange());
      return {m.min(m.add(until, own), countOf(m, through.getRange()))};
    }
    auto full = cast<FullPlacesOp>(op);
    TilePlaces p = known[full.getRange()];
    auto [begin, end] = p.rotation     ? allOrNone(m, full, p)
                        : p.fallsWhere ? either(m, full, p)
                        : p.falls      ? falling(m, full, p)
                                       : rising(m, full, p);
    return {begin, end};
  }

  Value countOf(PlaceMath &m, Value range) {
    TilePlaces &p = known[range];
    return p.count ? p.count : m.sub(p.end, p.first);
  }

  static Value rotated(PlaceMath &m, TilePlaces p, Value place) {
    Value on = m.add(place, p.rotation);
    Value wraps = arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::sge,
                                        on, p.count);
    return m.add(p.first, m.sub(on, m.choose(wraps, p.count, m.constant(0))));
  }

  static std::pair<Value, Value> allOrNone(PlaceMath &m, FullPlacesOp op,
                                           TilePlaces p) {
    Value none = arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::sge,
                                       p.fullBegin, p.fullEnd);
    return {m.choose(none, op.getUpper(), op.getLower()), op.getUpper()};
  }

  /// One of the range's tiles is always left.
  Value tilesUntil(PlaceMath &m, Value ofOwn, Value ofRange) {
    Value count = countOf(m, ofRange), one = m.constant(1);
    TilePlaces &range = known[ofRange], &own = known[ofOwn];
    auto falling = [&] { return m.sub(m.add(range.first, one), own.end); };
    auto rising = [&] { return m.sub(own.first, range.first); };
    Value n = range.fallsWhere ? m.choose(range.fallsWhere, falling(), rising())
              : range.falls    ? falling()
                               : rising();
    return m.max(m.min(n, m.sub(count, one)), m.constant(0));
  }

  static Value clamp(PlaceMath &m, FullPlacesOp op, Value place) {
    return m.min(m.max(place, op.getLower()), op.getUpper());
  }

  /// Tile first - (p + ahead) lies in [full_begin, full_end) for
  /// first - ahead + 1 - full_end <= p < first - ahead + 1 - full_begin.
  static std::pair<Value, Value> falling(PlaceMath &m, FullPlacesOp op,
                                         TilePlaces p) {
    int64_t ahead = op.getAhead();
    Value end = m.add(p.first, m.constant(1 - ahead));
    Value begin = p.onlyFirstRagged && ahead > 0
                      ? op.getLower()
                      : clamp(m, op, m.sub(end, p.fullEnd));
    // Tiles are not negative: from tile 0 on, all that follow are full.
    return {begin, matchPattern(p.fullBegin, m_Zero())
                       ? op.getUpper()
                       : clamp(m, op, m.sub(end, p.fullBegin))};
  }

  static std::pair<Value, Value> rising(PlaceMath &m, FullPlacesOp op,
                                        TilePlaces p) {
    Value first = m.add(p.first, m.constant(op.getAhead()));
    Value begin = clamp(m, op, m.sub(p.fullBegin, first));
    return {begin, p.end == p.fullEnd ? op.getUpper()
                                      : clamp(m, op, m.sub(p.fullEnd, first))};
  }

  /// Of places, so that one bound is never behind the other.
  static std::pair<Value, Value> either(PlaceMath &m, FullPlacesOp op,
                                        TilePlaces p) {
    Value last = m.add(p.first, m.constant(1));
    auto choose = [&](Value x, Value y) {
      return m.choose(p.fallsWhere, m.sub(last, x), m.sub(y, p.first));
    };
    Value begin = choose(p.fullEnd, p.fullBegin);
    Value end = m.max(choose(p.fullBegin, p.fullEnd), begin);
    Value ahead = m.constant(op.getAhead());
    return {clamp(m, op, m.sub(begin, ahead)), clamp(m, op, m.sub(end, ahead))};
  }

  llvm::DenseMap<Value, TilePlaces> known;
};

} // namespace
