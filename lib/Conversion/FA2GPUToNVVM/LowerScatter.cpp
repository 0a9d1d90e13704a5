//===- LowerScatter.cpp - gradients of what score programs read -----------===//

#include "Lowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct AddRowsLowering : public OpConversionPattern<AddRowsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(AddRowsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getTile().getType());
    TileLayout layout = cast<DistributedLayoutAttr>(type.getEncoding())
                            .tileLayout(type.getShape());
    SmallVector<Value> sums(adaptor.getSums());
    for (auto [r, x] : llvm::enumerate(adaptor.getTile())) {
      Value &sum = sums[layout.rowSlot(int64_t(r))];
      sum = e.fadd(sum, x);
    }
    rewriter.replaceOpWithMultiple(op, {sums});
    return success();
  }
};

/// What a thread has for each place of its own, and the lanes that have a part
/// of the same.
struct Partials {
  SmallVector<Value> values;
  SmallVector<int64_t> lanes;
};

/// Sums `values` by the slot that each is of.
template <typename SlotOf>
SmallVector<Value> sumBySlot(Emit &e, ValueRange values, SlotOf slotOf) {
  SmallVector<Value> sums;
  for (auto [r, x] : llvm::enumerate(values)) {
    size_t slot = size_t(slotOf(int64_t(r)));
    sums.resize(std::max(sums.size(), slot + 1));
    sums[slot] = sums[slot] ? e.fadd(sums[slot], x) : x;
  }
  return sums;
}

/// The partial sums for indices of so many dimensions (0: a single place).
std::optional<Partials> partialsOf(Emit &e, ScatterOp op, ValueRange values,
                                   int64_t indexRank) {
  auto type = cast<RankedTensorType>(op.getValues().getType());
  auto row = dyn_cast_or_null<RowAttr>(type.getEncoding());
  auto tile = dyn_cast_or_null<AccAttr>(type.getEncoding());
  if ((!row || row.getPartial() != Partial::Lanes) && !tile)
    return std::nullopt;
  if (indexRank == 0)
    return Partials{sumBySlot(e, values, [](int64_t) { return 0; }),
                    {1, 2, 4, 8, 16}};
  if (row)
    return Partials{SmallVector<Value>(values),
                    llvm::to_vector(rowLayout(row, type).rowReductionLanes())};
  if (indexRank == 2)
    return Partials{SmallVector<Value>(values), {}};
  TileLayout layout = tile.tileLayout(type.getShape());
  if (op.getColumns())
    return Partials{
        sumBySlot(e, values, [&](int64_t r) { return layout.colSlot(r); }),
        llvm::to_vector(layout.columnReductionLanes())};
  return Partials{
      sumBySlot(e, values, [&](int64_t r) { return layout.rowSlot(r); }),
      llvm::to_vector(layout.rowReductionLanes())};
}

/// One reduction a place and warp. No branch, since matmuls may be in flight.
void reduceInto(Emit &e, Elements::Place place, Value first, Value x) {
  Value adds = e.both(place.inside, first);
  if (adds)
    e.ptx("@$2 red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f,b,~{memory}",
          {place.address, x, adds});
  else
    e.ptx("red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f,~{memory}",
          {place.address, x});
}

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

struct ScatterLowering : public OpConversionPattern<ScatterOp> {
  using OpConversionPattern::OpConversionPattern;
  static RankedTensorType tileType(ScatterOp op) {
    return cast<RankedTensorType>(op.getValues().getType());
  }
  LogicalResult
  matchAndRewrite(ScatterOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    int64_t indexRank = 0;
    for (Value index : op.getIndices())
      if (auto t = dyn_cast<RankedTensorType>(index.getType()))
        indexRank = t.getRank();
    std::optional<Partials> partials =
        partialsOf(e, op, adaptor.getValues(), indexRank);
    if (!partials)
      return rewriter.notifyMatchFailure(op, "expected a tile, or sums of "
                                             "rows that are still to be added");
    Elements elements(e, op.getSum(), adaptor.getSum(), op.getIndices(),
                      adaptor.getIndices());
    if (op.getDiagonals() && isa<AccAttr>(tileType(op).getEncoding())) {
      DiagonalSums sums(e, elements);
      TileLayout layout = cast<AccAttr>(tileType(op).getEncoding())
                              .tileLayout(tileType(op).getShape());
      if (sums.take(layout, adaptor.getValues())) {
        sums.add();
        rewriter.eraseOp(op);
        return success();
      }
    }
    int64_t sharing = 0;
    for (int64_t mask : partials->lanes)
      sharing |= mask;
    Value first;
    if (sharing)
      first =
          arith::CmpIOp::create(rewriter, op.getLoc(), arith::CmpIPredicate::eq,
                                e.bitAnd(e.lane(), sharing), e.i32(0));
    // A thread's values for one place are one sum.
    SmallVector<Value> sums(partials->values.size());
    for (auto [i, x] : llvm::enumerate(partials->values)) {
      Value &sum = sums[elements.firstLike(i)];
      sum = sum ? e.fadd(sum, x) : x;
    }
    for (auto [i, x] : llvm::enumerate(sums)) {
      if (!x)
        continue;
      for (int64_t mask : partials->lanes)
        x = e.fadd(x, e.shuffleXor(x, mask));
      reduceInto(e, elements.at(i), first, x);
    }
    rewriter.eraseOp(op);
    return success();
  }
};

/// Lanes that differ by 4, 8 and 16 have different rows of a fragment's 8.
struct StoreSumsLowering : public OpConversionPattern<StoreSumsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreSumsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getRows().getType());
    auto row = dyn_cast_or_null<RowAttr>(type.getEncoding());
    auto sumsType = cast<MemRefType>(op.getSums().getType());
    if (!row || row.getPartial() != Partial::None ||
        numStrides(sumsType) != sumsType.getRank() - 1)
      return rewriter.notifyMatchFailure(
          op, "expected a value a row, and sums side by side");
    TileLayout layout = rowLayout(row, type);
    MemRefParts parts(sumsType, adaptor.getSums());
    Value offset = e.toI64(adaptor.getFirst()[0]);
    for (auto [index, stride] : llvm::zip(adaptor.getIndices(), parts.strides))
      offset = e.add(offset, e.mul(e.toI64(index[0]), stride));
    Value group = e.shr(warpRow(e, layout), 4);
    offset = e.add(offset, e.toI64(e.toIndex(group)));
    Value base = e.gep(parts.base, e.mul(offset, 4));
    Value first = arith::CmpIOp::create(
        rewriter, op.getLoc(), arith::CmpIPredicate::eq, e.lane(), e.i32(0));
    SmallVector<Value> sums = sumBySlot(e, adaptor.getRows(), [&](int64_t r) {
      return rowOfSlot(layout, r) / 16;
    });
    for (auto [i, x] : llvm::enumerate(sums)) {
      for (int64_t lanes : {4, 8, 16})
        x = e.fadd(x, e.shuffleXor(x, lanes));
      Value inside = e.less(e.add(group, i), e.i32(type.getDimSize(0) / 16));
      e.ptx("@$2 st.global.f32 [$0], $1;", "l,f,b,~{memory}",
            {e.gep(base, int64_t(i) * 4), x, e.both(first, inside)});
    }
    rewriter.eraseOp(op);
    return success();
  }
};

/// The first warp's lanes have every 32nd part, of which several are on their
/// way at a time.
struct AddUpLowering : public OpConversionPattern<AddUpOp> {
  using OpConversionPattern::OpConversionPattern;
  static constexpr int64_t kAtOnce = 8;

  LogicalResult
  matchAndRewrite(AddUpOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emit e(rewriter, loc);
    auto type = cast<MemRefType>(op.getParts().getType());
    MemRefParts parts(type, adaptor.getParts());
    MemRefParts sums(cast<MemRefType>(op.getSums().getType()),
                     adaptor.getSums());
    Value index = e.toI64(adaptor.getIndex()[0]), count = e.i64(1);
    for (int64_t d = 1; d < type.getRank(); ++d)
      count = e.mul(count, parts.extents[d] ? e.toI64(parts.extents[d])
                                            : e.i64(type.getDimSize(d)));
    Value base = e.gep(parts.base, e.mul(e.mul(index, count), 4));
    auto warp =
        scf::IfOp::create(rewriter, loc, e.less(e.thread(), e.i32(kWarpLanes)));
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(warp.thenBlock());
    Value lane = e.toI64(e.toIndex(e.lane())), last = e.add(count, -1);
    auto loop =
        scf::ForOp::create(rewriter, loc, e.i64(0), count,
                           e.i64(kAtOnce * kWarpLanes), ValueRange{e.f32(0)});
    {
      OpBuilder::InsertionGuard inLoop(rewriter);
      rewriter.setInsertionPointToStart(loop.getBody());
      Value sum = loop.getRegionIterArgs()[0];
      Value from = e.add(loop.getInductionVar(), lane);
      for (int64_t i = 0; i < kAtOnce; ++i) {
        Value at = e.add(from, i * kWarpLanes), inside = e.less(at, count);
        Value x = LLVM::LoadOp::create(
            rewriter, loc, rewriter.getF32Type(),
            e.gep(base, e.mul(e.select(inside, at, last), 4)));
        sum = e.fadd(sum, e.select(inside, x, e.f32(0)));
      }
      scf::YieldOp::create(rewriter, loc, sum);
    }
    Value sum = loop.getResult(0);
    for (int64_t lanes : {1, 2, 4, 8, 16})
      sum = e.fadd(sum, e.shuffleXor(sum, lanes));
    Value first = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                        e.lane(), e.i32(0));
    Value to = sums.strides.empty() ? index : e.mul(index, sums.strides[0]);
    e.ptx("@$2 st.global.f32 [$0], $1;", "l,f,b,~{memory}",
          {e.gep(sums.base, e.mul(to, 4)), sum, first});
    rewriter.eraseOp(op);
    return success();
  }
};

/// The indices of a dimension that are a thread's: every step-th of from to
/// end.
struct Share {
  Value from, end, step;
};

/// Zeroes what is a thread's of an argument by a loop a dimension, `together`
/// elements at a time.
template <typename ShareOf>
void storeZeros(Emit &e, MemRefType type, const MemRefParts &parts,
                ShareOf shareOf, int64_t together = 1) {
  OpBuilder::InsertionGuard guard(e.b);
  Value offset = e.i64(0);
  for (int64_t d = 0; d < type.getRank(); ++d) {
    Share share = shareOf(d);
    auto loop =
        scf::ForOp::create(e.b, e.loc, share.from, share.end, share.step);
    e.b.setInsertionPointToStart(loop.getBody());
    offset = e.add(offset, e.mul(loop.getInductionVar(), parts.strides[d]));
  }
  Type stored = type.getElementType();
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  if (together > 1)
    stored = VectorType::get(together * bytes / 4, e.b.getI32Type());
  Value zero = arith::ConstantOp::create(e.b, e.loc, e.b.getZeroAttr(stored));
  LLVM::StoreOp::create(e.b, e.loc, zero,
                        e.gep(parts.base, e.mul(offset, bytes)),
                        unsigned(together * bytes));
}

/// The last dimension's elements go to threads, the rows of the one before it
/// to blocks. An extent of 1 that stands for all has stride 0, and is one
/// element.
struct ZeroLowering : public OpConversionPattern<ZeroOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ZeroOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<MemRefType>(op.getSum().getType());
    MemRefParts sum(type, adaptor.getSum());
    Value part = e.toI64(adaptor.getPart()[0]),
          parts = e.toI64(adaptor.getParts()[0]);
    Value thread = e.toI64(e.toIndex(e.thread()));
    int64_t threads = threadsOf(op), last = type.getRank() - 1;
    storeZeros(e, type, sum, [&](int64_t d) {
      Value extent =
          sum.extents[d] ? e.toI64(sum.extents[d]) : e.i64(type.getDimSize(d));
      Value single =
          arith::CmpIOp::create(rewriter, op.getLoc(), arith::CmpIPredicate::eq,
                                sum.strides[d], e.i64(0));
      Share share{e.i64(0), Value(), e.i64(1)};
      if (d + 1 == last)
        std::tie(share.from, share.step) = std::tie(part, parts);
      else if (d == last && last > 0)
        std::tie(share.from, share.step) = std::pair(thread, e.i64(threads));
      else if (d == last)
        std::tie(share.from, share.step) = std::pair(
            e.add(e.mul(part, threads), thread), e.mul(parts, threads));
      share.end = e.select(single, e.i64(1), extent);
      return share;
    });
    rewriter.eraseOp(op);
    return success();
  }
};

struct ZeroBoxLowering : public OpConversionPattern<ZeroBoxOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ZeroBoxOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<MemRefType>(op.getSum().getType());
    if (numStrides(type) != type.getRank())
      return rewriter.notifyMatchFailure(op, "expected a stride of each "
                                             "dimension");
    Emit e(rewriter, op.getLoc());
    int64_t rows = op.getRows(), last = type.getRank() - 1;
    int64_t together = 128 / type.getElementTypeBitWidth();
    auto shareOf = [&](int64_t d) {
      Share share{e.toI64(adaptor.getFrom()[d][0]),
                  e.toI64(adaptor.getTo()[d][0]), e.i64(1)};
      auto among = [&](Value own, int64_t count, int64_t each) {
        share.from =
            e.add(share.from, e.mul(e.toI64(e.toIndex(own)), e.i64(each)));
        share.step = e.i64(count * each);
      };
      if (d == rows)
        among(e.warp(), threadsOf(op) / kWarpLanes, 1);
      else if (d == last)
        among(e.lane(), kWarpLanes, together);
      return share;
    };
    storeZeros(e, type, MemRefParts(type, adaptor.getSum()), shareOf, together);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fa2::gpu::populateScatterPatterns(TypeConverter &converter,
                                       RewritePatternSet &patterns) {
  patterns.add<AddRowsLowering, ScatterLowering, StoreSumsLowering,
               AddUpLowering, ZeroLowering, ZeroBoxLowering>(
      converter, patterns.getContext());
}
