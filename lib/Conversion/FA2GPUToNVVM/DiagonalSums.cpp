//===- DiagonalSums.cpp - sums of a warp's diagonals ----------------------===//

#include "Lowering.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Sums of a warp's diagonals, which it adds.
///
/// Lane (q, t), q = lane / 4, t = lane % 4, has rows q + 8 i and columns
/// 2 t + 8 k and one more: of the diagonals, columns behind rows, those at
/// 8 m + 2 t - q and one more. Eight diagonals from 8 m on are a *bin*. What
/// lies below one because 2 t < q belongs to the bin before. Then all four
/// lanes with one 2 t - q (mod 8) have parts of the same diagonal of each bin,
/// and each adds every fourth bin's.
class DiagonalSums {
public:
  DiagonalSums(Emit &e, Elements &elements) : e(e), elements(elements) {
    Value lane = e.lane();
    q = e.shr(lane, 2);
    t = e.bitAnd(lane, 3);
    Value column = e.shl(t, 1);
    before[0] = e.less(column, q);
    before[1] = e.less(e.add(column, 1), q);
    nextRow = e.bitAnd(e.add(lane, 4), 31);
    auto around = [&](int64_t steps) {
      return e.add(e.bitAnd(e.add(lane, 8 * steps), 28),
                   e.bitAnd(e.add(t, steps), 3));
    };
    next = around(1);
    afterNext = around(2);
  }

  /// Whether the layout is as above, with some bins; takes what threads have.
  bool take(const TileLayout &layout, ValueRange values) {
    for (int64_t r = 0; r < layout.numRegs(); ++r) {
      Coord first = layout.at(0, 0, r);
      for (int64_t lane = 0; lane < kWarpLanes; ++lane) {
        Coord at = layout.at(0, lane, r);
        if (at.row != first.row + lane / 4 ||
            at.col != first.col + 2 * (lane % 4))
          return false;
      }
      int64_t diagonal = first.col - first.row, odd = diagonal & 1;
      if ((diagonal - odd) % 8 != 0)
        return false;
      Part &part = parts[(diagonal - odd) / 8][size_t(odd)];
      part.element = elements.firstLike(size_t(r));
      part.sum =
          part.sum ? e.fadd(part.sum, values[size_t(r)]) : values[size_t(r)];
    }
    if (parts.size() < 3)
      return false;
    for (auto &[m, pair] : parts)
      if (!pair[0].sum || !pair[1].sum)
        return false;
    lowest = parts.begin()->first;
    bins = int64_t(parts.size()) + 1;
    return parts.rbegin()->first - lowest + 2 == bins;
  }

  void add() {
    SmallVector<Value> sums;
    for (int64_t bin = 0; bin < bins; ++bin)
      sums.push_back(sumOf(bin));
    int64_t rounds = (bins + 3) / 4, missing = 4 * rounds - bins;
    SmallVector<Addend> addends;
    for (int64_t round = 0; round < rounds; ++round) {
      bool last = round + 1 == rounds;
      Addend addend;
      for (int64_t i = last ? missing : 0; i < 4; ++i)
        choose(addend, i, last ? bins - 4 + i : 4 * round + i, sums);
      if (last && missing > 0)
        addend.adds = e.less(e.i32(missing - 1), t);
      addends.push_back(addend);
    }
    // Nobody has a place for the first bin's first diagonal, which is empty.
    Value first = e.select(isPart(0), before[0], e.less(e.i32(-1), e.lane()));
    addends[0].adds = e.both(addends[0].adds, first);
    addTogether(addends);
  }

private:
  struct Part {
    Value sum;
    size_t element = 0;
  };
  struct Addend {
    Value sum, adds; // null: always
    SmallVector<Value> indices;
  };

  Value isPart(int64_t i) {
    return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, t,
                                 e.i32(i));
  }
  Value notOf(Value x) {
    return arith::XOrIOp::create(
        e.b, e.loc, x,
        arith::ConstantOp::create(e.b, e.loc, e.b.getBoolAttr(true)));
  }
  Value partOf(int64_t m, size_t odd) {
    auto found = parts.find(m);
    return found == parts.end() ? e.f32(0) : found->second[odd].sum;
  }

  /// In all four lanes that have parts of it.
  Value sumOf(int64_t bin) {
    int64_t m = lowest - 1 + bin;
    Value even = e.select(before[0], partOf(m + 1, 0), partOf(m, 0)),
          odd = e.select(before[1], partOf(m + 1, 1), partOf(m, 1));
    Value sum = e.fadd(even, e.shuffleFrom(odd, nextRow));
    sum = e.fadd(sum, e.shuffleFrom(sum, next));
    return e.fadd(sum, e.shuffleFrom(sum, afterNext));
  }

  /// The place of a bin's diagonal, which the lane has an element of. Of the
  /// last one's, the lane of the next row may have the only one.
  SmallVector<Value> indicesOf(int64_t bin) {
    int64_t m = lowest - 1 + bin, highest = lowest + bins - 2;
    SmallVector<Value> here =
        elements.ownOf(parts.find(std::max(m, lowest))->second[0].element);
    SmallVector<Value> above =
        elements.ownOf(parts.find(std::min(m + 1, highest))->second[0].element);
    if (m == highest) {
      above = elements.ownOf(parts.find(m)->second[1].element);
      for (Value &index : above)
        index = e.toIndex(e.shuffleFrom(e.toI32(index), nextRow));
    }
    for (auto [index, other] : llvm::zip_equal(here, above))
      index = e.select(before[0], other, index);
    return here;
  }

  /// Lanes with t = i add this bin's, and so do those that nothing is chosen
  /// for, unless they do not add.
  void choose(Addend &addend, int64_t i, int64_t bin, ValueRange sums) {
    SmallVector<Value> indices = indicesOf(bin);
    if (!addend.sum) {
      addend.sum = sums[size_t(bin)];
      addend.indices = indices;
      return;
    }
    Value mine = isPart(i);
    addend.sum = e.select(mine, sums[size_t(bin)], addend.sum);
    for (auto [index, other] : llvm::zip_equal(addend.indices, indices))
      index = e.select(mine, other, index);
  }

  /// One reduction a warp where all of its places are one.
  void addTogether(MutableArrayRef<Addend> addends) {
    Value differs, total;
    for (Addend &addend : addends) {
      for (auto [index, of] :
           llvm::zip_equal(addend.indices, addends[0].indices)) {
        Value other =
            arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne,
                                  e.toI32(index), e.sameInWarp(e.toI32(of)));
        differs = differs
                      ? Value(arith::OrIOp::create(e.b, e.loc, differs, other))
                      : other;
      }
      Value own = addend.adds ? e.select(addend.adds, addend.sum, e.f32(0))
                              : addend.sum;
      total = total ? e.fadd(total, own) : own;
    }
    for (int64_t mask : {1, 2, 4, 8, 16})
      total = e.fadd(total, e.shuffleXor(total, mask));
    Value several = e.voteAny(differs), one = notOf(several);
    Value firstLane = arith::CmpIOp::create(
        e.b, e.loc, arith::CmpIPredicate::eq, e.lane(), e.i32(0));
    for (auto [round, addend] : llvm::enumerate(addends)) {
      Elements::Place place = elements.placeOf(addend.indices);
      Value adds = e.both(several, addend.adds);
      if (round == 0) {
        adds = arith::OrIOp::create(e.b, e.loc, adds, e.both(one, firstLane));
        addend.sum = e.select(one, total, addend.sum);
      }
      reduceInto(e, place, adds, addend.sum);
    }
  }

  Emit &e;
  Elements &elements;
  std::map<int64_t, std::array<Part, 2>> parts; // by m: even, odd
  int64_t lowest = 0, bins = 0;
  Value q, t, before[2], nextRow, next, afterNext;
};

} // namespace

bool fa2::gpu::addDiagonals(Emit &e, Elements &elements,
                            const TileLayout &layout, ValueRange values) {
  DiagonalSums sums(e, elements);
  if (!sums.take(layout, values))
    return false;
  sums.add();
  return true;
}
