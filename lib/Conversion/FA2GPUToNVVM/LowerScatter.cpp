//===- LowerScatter.cpp - gradients of what score programs read -----------===//

#include "Lowering.h"
#include "fa2/Dialect/FA2/ExactSum.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

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

struct ScatterLowering : public OpConversionPattern<ScatterOp> {
  /// What a lane has for a place.
  struct Addend {
    Value sum;
    SmallVector<Value> indices;
  };

  /// Adds what lanes that differ by `masks` have for the same places. Of an
  /// even number of places each lane of a pair keeps half, and gives the other
  /// half away; which lanes have the others' sums is what is returned (null:
  /// all, each its own).
  static Value addLanes(Emit &e, SmallVectorImpl<Addend> &addends,
                        ArrayRef<int64_t> masks) {
    auto hasBits = [&](int64_t mask, arith::CmpIPredicate is) -> Value {
      return arith::CmpIOp::create(e.b, e.loc, is, e.bitAnd(e.lane(), mask),
                                   e.i32(0));
    };
    int64_t sharing = 0;
    for (int64_t mask : masks) {
      size_t half = addends.size() / 2;
      if (addends.size() % 2 != 0) {
        for (Addend &each : addends)
          each.sum = e.fadd(each.sum, e.shuffleXor(each.sum, mask));
        sharing |= mask;
        continue;
      }
      Value upper = hasBits(mask, arith::CmpIPredicate::ne);
      for (size_t i = 0; i < half; ++i) {
        Addend &low = addends[i], &high = addends[half + i];
        Value given = e.select(upper, low.sum, high.sum);
        low.sum = e.fadd(e.select(upper, high.sum, low.sum),
                         e.shuffleXor(given, mask));
        for (auto [index, other] : llvm::zip_equal(low.indices, high.indices))
          index = e.select(upper, other, index);
      }
      addends.resize(half);
    }
    return sharing ? hasBits(sharing, arith::CmpIPredicate::eq) : Value();
  }

  using OpConversionPattern::OpConversionPattern;
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
                      adaptor.getIndices(), /*clamped=*/{},
                      op.getWords() ? adaptor.getWords()[0] : Value());
    auto type = cast<RankedTensorType>(op.getValues().getType());
    auto acc = dyn_cast_or_null<AccAttr>(type.getEncoding());
    if (op.getDiagonals() && acc &&
        addDiagonals(e, elements, acc.tileLayout(type.getShape()),
                     adaptor.getValues())) {
      rewriter.eraseOp(op);
      return success();
    }
    // A thread's values for one place are one sum.
    SmallVector<Addend> addends;
    std::map<size_t, size_t> addendOf;
    for (auto [i, x] : llvm::enumerate(partials->values)) {
      auto [known, isNew] =
          addendOf.try_emplace(elements.firstLike(i), addends.size());
      if (isNew) {
        addends.push_back({x, elements.ownOf(i)});
        continue;
      }
      Value &sum = addends[known->second].sum;
      sum = e.fadd(sum, x);
    }
    Value first = addLanes(e, addends, partials->lanes);
    for (Addend &each : addends)
      reduceInto(e, elements.placeOf(each.indices), first, each.sum);
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

/// `body` gets the indices of each element that is a thread's, by a loop a
/// dimension.
template <typename ShareOf, typename Body>
void forShares(Emit &e, int64_t rank, ShareOf shareOf, Body body) {
  OpBuilder::InsertionGuard guard(e.b);
  SmallVector<Value> indices;
  for (int64_t d = 0; d < rank; ++d) {
    Share share = shareOf(d);
    auto loop =
        scf::ForOp::create(e.b, e.loc, share.from, share.end, share.step);
    e.b.setInsertionPointToStart(loop.getBody());
    indices.push_back(loop.getInductionVar());
  }
  body(indices);
}

/// The elements, counted by strides, before the one at `indices`.
Value offsetOf(Emit &e, ValueRange indices, ValueRange strides) {
  Value offset = e.i64(0);
  for (auto [index, stride] : llvm::zip_equal(indices, strides))
    offset = e.add(offset, e.mul(index, stride));
  return offset;
}

/// Zeroes what is a thread's of an argument, `together` elements at a time.
template <typename ShareOf>
void storeZeros(Emit &e, MemRefType type, const MemRefParts &parts,
                ShareOf shareOf, int64_t together = 1) {
  forShares(e, type.getRank(), shareOf, [&](ValueRange indices) {
    Type stored = type.getElementType();
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    if (together > 1)
      stored = VectorType::get(together * bytes / 4, e.b.getI32Type());
    Value zero = arith::ConstantOp::create(e.b, e.loc, e.b.getZeroAttr(stored));
    Value offset = offsetOf(e, indices, parts.strides);
    LLVM::StoreOp::create(e.b, e.loc, zero,
                          e.gep(parts.base, e.mul(offset, bytes)),
                          unsigned(together * bytes));
  });
}

/// Of a block's share: the last dimension's elements go to threads, the rows of
/// the one before it to blocks. An extent of 1 that stands for all has stride
/// 0, and is one element.
class BlockShare {
public:
  BlockShare(Emit &e, Operation *op, MemRefType type, const MemRefParts &memory,
             Value part, Value parts)
      : e(e), type(type), memory(memory), part(e.toI64(part)),
        parts(e.toI64(parts)), thread(e.toI64(e.toIndex(e.thread()))),
        threads(threadsOf(op)) {}

  Share operator()(int64_t d) const {
    int64_t last = type.getRank() - 1;
    Value extent = memory.extents[d] ? e.toI64(memory.extents[d])
                                     : e.i64(type.getDimSize(d));
    Share share{e.i64(0), Value(), e.i64(1)};
    if (d + 1 == last)
      std::tie(share.from, share.step) = std::tie(part, parts);
    else if (d == last && last > 0)
      std::tie(share.from, share.step) = std::pair(thread, e.i64(threads));
    else if (d == last)
      std::tie(share.from, share.step) =
          std::pair(e.add(e.mul(part, threads), thread), e.mul(parts, threads));
    Value single = e.b.createOrFold<arith::CmpIOp>(
        e.loc, arith::CmpIPredicate::eq, memory.strides[d], e.i64(0));
    share.end = e.select(single, e.i64(1), extent);
    return share;
  }

private:
  Emit &e;
  MemRefType type;
  const MemRefParts &memory;
  Value part, parts, thread;
  int64_t threads;
};

struct ZeroLowering : public OpConversionPattern<ZeroOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ZeroOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<MemRefType>(op.getSum().getType());
    MemRefParts sum(type, adaptor.getSum());
    if (numStrides(type) < type.getRank())
      sum.strides.push_back(e.i64(1));
    BlockShare share(e, op, type, sum, adaptor.getPart()[0],
                     adaptor.getParts()[0]);
    storeZeros(e, type, sum, share);
    rewriter.eraseOp(op);
    return success();
  }
};

struct RoundSumsLowering : public OpConversionPattern<RoundSumsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RoundSumsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emit e(rewriter, loc);
    auto type = cast<MemRefType>(op.getSums().getType());
    if (numStrides(type) != type.getRank())
      return rewriter.notifyMatchFailure(op, "expected a stride of each "
                                             "dimension");
    MemRefParts sums(type, adaptor.getSums());
    ExactPlaces places(e, type, sums);
    BlockShare share(e, op, type, sums, adaptor.getPart()[0],
                     adaptor.getParts()[0]);
    forShares(e, type.getRank(), share, [&](ValueRange indices) {
      Value first = e.gep(adaptor.getWords()[0],
                          e.mul(offsetOf(e, indices, places.strides), 8));
      Value step = e.mul(places.count, 8);
      auto word = [&](int64_t i) -> Value {
        return LLVM::LoadOp::create(rewriter, loc, rewriter.getI64Type(),
                                    e.gep(first, e.mul(step, i)));
      };
      auto f64 = [&](double x) -> Value {
        return arith::ConstantOp::create(rewriter, loc,
                                         rewriter.getF64FloatAttr(x));
      };
      Value sum;
      for (int64_t i = kExactLimbs - 1; i >= 0; --i) {
        Value limb = arith::SIToFPOp::create(rewriter, loc,
                                             rewriter.getF64Type(), word(i));
        if (sum)
          limb = arith::AddFOp::create(
              rewriter, loc,
              arith::MulFOp::create(rewriter, loc, sum,
                                    f64(std::ldexp(1.0, kExactLimbBits))),
              limb);
        sum = limb;
      }
      sum = arith::MulFOp::create(rewriter, loc, sum,
                                  f64(std::ldexp(1.0, kExactFirstExponent)));
      Value rounded =
          arith::TruncFOp::create(rewriter, loc, rewriter.getF32Type(), sum);
      Value marks = word(kExactLimbs);
      auto isMarked = [&](int64_t by, float x, Value other) {
        Value is = arith::CmpIOp::create(
            rewriter, loc, arith::CmpIPredicate::eq, marks, e.i64(by));
        return e.select(is, e.f32(x), other);
      };
      constexpr float inf = std::numeric_limits<float>::infinity();
      Value none = arith::CmpIOp::create(
          rewriter, loc, arith::CmpIPredicate::eq, marks, e.i64(0));
      rounded = e.select(none, rounded,
                         e.f32(std::numeric_limits<float>::quiet_NaN()));
      rounded =
          isMarked(kExactInf, inf, isMarked(kExactMinusInf, -inf, rounded));
      LLVM::StoreOp::create(
          rewriter, loc, rounded,
          e.gep(sums.base, e.mul(offsetOf(e, indices, sums.strides), 4)));
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
    Emit e(rewriter, op.getLoc());
    MemRefParts sum(type, adaptor.getSum());
    if (numStrides(type) != type.getRank())
      sum.strides.push_back(e.i64(1));
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
    storeZeros(e, type, sum, shareOf, together);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

/// The two limbs that the bits of an f32 belong to get their share of them, and
/// the last word a mark of what is no number (fa2/Dialect/FA2/ExactSum.h).
static void addToWords(Emit &e, Elements::Place place, Value adds, Value x) {
  OpBuilder &b = e.b;
  auto compare = [&](arith::CmpIPredicate predicate, Value v,
                     int64_t c) -> Value {
    Value to = v.getType().isInteger(64) ? e.i64(c) : e.i32(c);
    return arith::CmpIOp::create(b, e.loc, predicate, v, to);
  };
  auto wide = [&](Value v) -> Value {
    return arith::ExtUIOp::create(b, e.loc, b.getI64Type(), v);
  };
  Value bits = arith::BitcastOp::create(b, e.loc, b.getI32Type(), x);
  Value exponent = e.bitAnd(e.shr(bits, 23), 255);
  Value isNormal = compare(arith::CmpIPredicate::ne, exponent, 0);
  Value hidden = e.select(isNormal, e.i32(0x800000), e.i32(0));
  Value stored = e.bitAnd(bits, 0x7fffff);
  Value fraction = arith::OrIOp::create(b, e.loc, stored, hidden);
  Value at = e.select(isNormal, e.add(exponent, -1), e.i32(0));
  Value whole = arith::ShLIOp::create(b, e.loc, wide(fraction),
                                      wide(e.bitAnd(at, kExactLimbBits - 1)));
  Value negative = compare(arith::CmpIPredicate::slt, bits, 0);
  auto withSign = [&](Value v) {
    return e.select(negative, e.sub(e.i64(0), v), v);
  };
  Value low = e.bitAnd(whole, (int64_t(1) << kExactLimbBits) - 1);
  Value high = e.shr(whole, kExactLimbBits);
  Value limb = e.shr(at, llvm::Log2_64(kExactLimbBits));
  Value address = e.gep(place.address, e.mul(wide(limb), place.step));
  auto reduce = [&](const char *text, Value to, Value v, Value where) {
    e.ptx(text, "l,l,b,~{memory}", {to, v, e.both(adds, where)});
  };
  constexpr const char *add = "@$2 red.relaxed.gpu.global.add.u64 [$0], $1;";
  reduce(add, address, withSign(low),
         compare(arith::CmpIPredicate::ne, low, 0));
  reduce(add, e.gep(address, place.step), withSign(high),
         compare(arith::CmpIPredicate::ne, high, 0));
  Value mark =
      e.select(compare(arith::CmpIPredicate::ne, stored, 0), e.i64(kExactNaN),
               e.select(negative, e.i64(kExactMinusInf), e.i64(kExactInf)));
  reduce("@$2 red.relaxed.gpu.global.or.b64 [$0], $1;",
         e.gep(place.address, e.mul(place.step, kExactLimbs)), mark,
         compare(arith::CmpIPredicate::eq, exponent, 255));
}

void fa2::gpu::reduceInto(Emit &e, Elements::Place place, Value first,
                          Value x) {
  Value adds = e.both(place.inside, first);
  if (place.step)
    return addToWords(e, place, adds, x);
  if (adds)
    e.ptx("@$2 red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f,b,~{memory}",
          {place.address, x, adds});
  else
    e.ptx("red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f,~{memory}",
          {place.address, x});
}

void fa2::gpu::populateScatterPatterns(TypeConverter &converter,
                                       RewritePatternSet &patterns) {
  patterns.add<AddRowsLowering, ScatterLowering, StoreSumsLowering,
               AddUpLowering, ZeroLowering, RoundSumsLowering, ZeroBoxLowering>(
      converter, patterns.getContext());
}
