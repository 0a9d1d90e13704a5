//===- LowerSoftmax.cpp - masks and the online softmax --------------------===//
//
// exp(x) = 2^(x log2 e): with k = scale * log2 e, one fma and one ex2 an
// element,
//   p = 2^(k s - k m).
// Row values are held by every lane that holds elements of the row; sums stay
// partial over those lanes until the end.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>
#include <limits>
#include <map>
#include <numbers>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

RowAttr rowOf(Value rowVector) {
  return cast<RowAttr>(
      cast<RankedTensorType>(rowVector.getType()).getEncoding());
}

/// Registers of a tile by row slot.
SmallVector<SmallVector<int64_t>> registersByRow(const TileLayout &layout) {
  SmallVector<SmallVector<int64_t>> rows(layout.numRowSlots());
  for (int64_t r = 0; r < layout.numRegs(); ++r)
    rows[layout.rowSlot(r)].push_back(r);
  return rows;
}

/// Folds `values` with two chains, so that half as many steps depend on each
/// other.
template <typename Fn> Value reduceInTwoChains(ArrayRef<Value> values, Fn fn) {
  Value chains[2] = {};
  for (auto [i, v] : llvm::enumerate(values)) {
    Value &chain = chains[i % 2];
    chain = chain ? fn(chain, v) : v;
  }
  return chains[1] ? fn(chains[0], chains[1]) : chains[0];
}

template <typename Fn>
Value reduceOverLanes(Emit &e, const TileLayout &layout, Value v, Fn fn) {
  for (int64_t mask : layout.rowReductionLanes())
    v = fn(v, e.shuffleXor(v, mask));
  return v;
}

struct ApplyMaskLowering : public OpConversionPattern<ApplyMaskOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ApplyMaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    if (op->hasAttr(kThreadAnewName))
      e.readThreadAnew();
    auto type = cast<RankedTensorType>(op.getScores().getType());
    TileLayout layout = layoutOf(op.getScores());
    Value sq = op.getSeqlenQ(), sk = op.getSeqlenK();
    auto mask = op.getMaskAttr();
    int64_t heads = op.getHeads();
    Value first = e.mul(op.getQBlock(), type.getDimSize(0) / heads);
    if (op.getLead())
      first = e.sub(first, op.getLead());
    Value lane = laneRow(e, layout), row0 = e.add(first, e.toIndex(lane));
    Value col0 = e.add(e.mul(op.getKvBlock(), type.getDimSize(1)),
                       e.toIndex(laneCol(e, layout)));
    SmallVector<Value> out(adaptor.getScores());
    Value ninf = e.f32(-kInf);
    if (op.getTransposed())
      return lowerTransposed(op, e, layout, std::move(out), rewriter);
    Value allKeys = e.sub(sk, col0);
    for (ArrayRef<int64_t> regs : registersByRow(layout)) {
      // lower <= col0 + c < upper, with c the register's own column
      int64_t r0 = layout.at(0, 0, regs.front()).row;
      Value row =
          heads == 1
              ? e.add(row0, r0)
              : e.add(first, e.toIndex(packedRow(e, e.add(lane, r0), heads)));
      Value upper =
          mask ? mask.upper(rewriter, op.getLoc(), row, sq, sk) : Value();
      Value lower =
          mask ? mask.lower(rewriter, op.getLoc(), row, sq, sk) : Value();
      Value end = allKeys;
      if (upper)
        end = rewriter.createOrFold<arith::MinSIOp>(op.getLoc(), end,
                                                    e.sub(upper, col0));
      for (int64_t r : regs) {
        Value c = e.index(layout.at(0, 0, r).col);
        Value seen = e.less(c, end);
        if (lower)
          seen = e.both(seen, rewriter.createOrFold<arith::CmpIOp>(
                                  op.getLoc(), arith::CmpIPredicate::sle,
                                  e.sub(lower, col0), c));
        out[r] = e.select(seen, out[r], ninf);
      }
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(out)});
    return success();
  }

  /// Rows are keys, columns queries: the bounds are those of the columns.
  static LogicalResult lowerTransposed(ApplyMaskOp op, Emit &e,
                                       const TileLayout &layout,
                                       SmallVector<Value> out,
                                       ConversionPatternRewriter &rewriter) {
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getScores().getType());
    Value sq = op.getSeqlenQ(), sk = op.getSeqlenK();
    auto mask = op.getMaskAttr();
    Value key0 = e.add(e.mul(op.getKvBlock(), type.getDimSize(0)),
                       e.toIndex(laneRow(e, layout)));
    Value query0 = e.add(e.mul(op.getQBlock(), type.getDimSize(1)),
                         e.toIndex(laneCol(e, layout)));
    if (op.getLead())
      query0 = e.sub(query0, op.getLead());
    Value ninf = e.f32(-kInf), allKeys = e.sub(sk, key0);
    // lower <= key0 + k < upper, with k the register's own row
    llvm::MapVector<int64_t, SmallVector<int64_t>> byColumn;
    for (int64_t r = 0; r < layout.numRegs(); ++r)
      byColumn[layout.at(0, 0, r).col].push_back(r);
    for (auto &[col, regs] : byColumn) {
      Value query = e.add(query0, col);
      Value upper = mask ? mask.upper(rewriter, loc, query, sq, sk) : Value();
      Value lower = mask ? mask.lower(rewriter, loc, query, sq, sk) : Value();
      Value end = allKeys;
      if (upper)
        end =
            rewriter.createOrFold<arith::MinSIOp>(loc, end, e.sub(upper, key0));
      for (int64_t r : regs) {
        Value k = e.index(layout.at(0, 0, r).row);
        Value seen = e.less(k, end);
        if (lower)
          seen = e.both(
              seen, rewriter.createOrFold<arith::CmpIOp>(
                        loc, arith::CmpIPredicate::sle, e.sub(lower, key0), k));
        out[r] = e.select(seen, out[r], ninf);
      }
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(out)});
    return success();
  }
};

struct SumRowsLowering : public OpConversionPattern<SumRowsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SumRowsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    TileLayout layout = layoutOf(op.getTile());
    if (layout.warpGridCols() > 1)
      return rewriter.notifyMatchFailure(op, "rows are shared by warps");
    auto sum = [&](Value x, Value y) { return e.fadd(x, y); };
    SmallVector<Value> sums;
    for (ArrayRef<int64_t> regs : registersByRow(layout)) {
      SmallVector<Value> row;
      for (int64_t r : regs)
        row.push_back(adaptor.getTile()[r]);
      sums.push_back(
          reduceOverLanes(e, layout, reduceInTwoChains(row, sum), sum));
    }
    rewriter.replaceOpWithMultiple(op, {sums});
    return success();
  }
};

/// 2^x of element r, of odd columns by a polynomial where there is one: a
/// column has one way to its exponential in any tile, warp and arm.
Value exp2Of(Emit &e, const TileLayout &layout, int64_t r, bool polynomial,
             Value x) {
  bool odd = layout.at(/*warp=*/0, /*lane=*/0, r).col % 2;
  return polynomial && odd ? e.ex2ByPolynomial(x) : e.ex2(x);
}

struct SoftmaxStepLowering : public OpConversionPattern<SoftmaxStepOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SoftmaxStepOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    TileLayout layout = layoutOf(op.getS());
    Value k = e.fmul(op.getScale(), e.f32(kLog2E));
    float slack = op.getSlack().convertToFloat();
    // start / k; so small a scale that it has no such value makes all scores
    // equal, from any reference.
    Value headroom;
    if (op.getStart())
      headroom = e.fmin(e.fmul(e.f32(op.getStart()), e.rcp(k)),
                        e.f32(std::ldexp(1.0f, 100)));
    auto max = [&](Value x, Value y) { return e.fmax(x, y); };
    auto sum = [&](Value x, Value y) { return e.fadd(x, y); };

    SmallVector<Value> p(adaptor.getS()), newM, newL, alpha;
    for (auto [slot, regs] : llvm::enumerate(registersByRow(layout))) {
      Value m = adaptor.getM()[slot], l = adaptor.getL()[slot];
      SmallVector<Value> s;
      for (int64_t r : regs)
        s.push_back(p[r]);
      Value rowMax = reduceOverLanes(e, layout, reduceInTwoChains(s, max), max);
      Value top = op.getStart() ? e.fadd(rowMax, headroom) : rowMax, m1;
      if (slack > 0.0f) {
        // k (rowmax - m) > slack
        Value growth = e.fmul(e.fsub(rowMax, m), k);
        Value grows = arith::CmpFOp::create(rewriter, op.getLoc(),
                                            arith::CmpFPredicate::OGT, growth,
                                            e.f32(slack));
        m1 = e.select(grows, top, m);
      } else {
        m1 = e.fmax(m, top);
      }
      Value shift = e.fneg(e.fmul(m1, k));
      for (int64_t r : regs)
        p[r] = exp2Of(e, layout, r, op.getPolynomial(), e.fma(p[r], k, shift));
      SmallVector<Value> row;
      for (int64_t r : regs)
        row.push_back(p[r]);
      Value a = e.ex2(e.fmul(e.fsub(m, m1), k));
      newM.push_back(m1);
      newL.push_back(e.fma(l, a, reduceInTwoChains(row, sum)));
      alpha.push_back(a);
    }
    rewriter.replaceOpWithMultiple(op, {p, newM, newL, alpha});
    return success();
  }
};

struct SoftmaxSpeculateLowering
    : public OpConversionPattern<SoftmaxSpeculateOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SoftmaxSpeculateOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    TileLayout layout = layoutOf(op.getS());
    Value k = e.fmul(op.getScale(), e.f32(kLog2E));
    auto sum = [&](Value x, Value y) { return e.fadd(x, y); };
    SmallVector<Value> p(adaptor.getS()), sums;
    for (auto [slot, regs] : llvm::enumerate(registersByRow(layout))) {
      Value shift;
      if (op.getM())
        shift = e.fneg(e.fmul(adaptor.getM()[slot], k));
      SmallVector<Value> row;
      for (int64_t r : regs) {
        p[r] = exp2Of(e, layout, r, op.getPolynomial(),
                      shift ? e.fma(p[r], k, shift) : e.fmul(p[r], k));
        row.push_back(p[r]);
      }
      if (op.getSum())
        sums.push_back(reduceInTwoChains(row, sum));
    }
    SmallVector<SmallVector<Value>> results{p};
    if (op.getSum())
      results.push_back(sums);
    rewriter.replaceOpWithMultiple(op, std::move(results));
    return success();
  }
};

struct LaneSumsLowering : public OpConversionPattern<LaneSumsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LaneSumsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto sum = [&](Value x, Value y) { return e.fadd(x, y); };
    SmallVector<Value> sums;
    for (ArrayRef<int64_t> regs : registersByRow(layoutOf(op.getTile()))) {
      SmallVector<Value> row;
      for (int64_t r : regs)
        row.push_back(adaptor.getTile()[r]);
      sums.push_back(reduceInTwoChains(row, sum));
    }
    rewriter.replaceOpWithMultiple(op, {sums});
    return success();
  }
};

Value isAbove(Emit &e, arith::CmpFPredicate predicate, Value x, int64_t power) {
  return arith::CmpFOp::create(e.b, e.loc, predicate, x,
                               e.f32(std::ldexp(1.0f, power)));
}

struct ExceedsLowering : public OpConversionPattern<ExceedsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ExceedsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    Value any;
    for (Value sum : adaptor.getSum()) {
      Value above = isAbove(e, arith::CmpFPredicate::UGT, sum, op.getAbove());
      any = any ? arith::OrIOp::create(rewriter, op.getLoc(), any, above)
                      .getResult()
                : above;
    }
    rewriter.replaceOp(op, e.voteAny(any));
    return success();
  }
};

struct SoftmaxRebaseLowering : public OpConversionPattern<SoftmaxRebaseOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SoftmaxRebaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RowAttr row = rowOf(op.getSum());
    auto type = cast<RankedTensorType>(op.getSum().getType());
    TileLayout layout = row.getAcc().tileLayout({type.getDimSize(0), 8});
    Value k = e.fmul(op.getScale(), e.f32(kLog2E));
    auto max = [&](Value x, Value y) { return e.fmax(x, y); };
    SmallVector<Value> maxima = rowMaxima(e, op.getS(), adaptor.getS());
    SmallVector<Value> newM, alpha;
    for (auto [slot, m, sum] :
         llvm::enumerate(adaptor.getM(), adaptor.getSum())) {
      Value big = row.getPartial() == Partial::Lanes
                      ? reduceOverLanes(e, layout, sum, max)
                      : sum;
      Value grew = isAbove(e, arith::CmpFPredicate::OGT, big, op.getAbove());
      if (op.getS()) {
        newM.push_back(e.select(grew, maxima[slot], m));
        alpha.push_back(e.ex2(e.fmul(e.fsub(m, newM.back()), k)));
        continue;
      }
      Value powers = e.select(grew, exponent(e, big, op.getStart()), e.i32(0));
      newM.push_back(e.select(grew, raised(e, m, powers, k), m));
      alpha.push_back(powerOfTwo(e, e.sub(e.i32(0), powers)));
    }
    rewriter.replaceOpWithMultiple(op, {newM, alpha});
    return success();
  }

  static constexpr int64_t kFractionBits = 23, kExponentBias = 127;

  /// floor(lg2 x) + more of a positive number.
  static Value exponent(Emit &e, Value x, int64_t more) {
    Value bits = LLVM::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), x);
    return e.add(e.shr(bits, kFractionBits), e.i32(more - kExponentBias));
  }
  static Value powerOfTwo(Emit &e, Value n) {
    Value bits = e.shl(e.add(n, e.i32(kExponentBias)), kFractionBits);
    return LLVM::BitcastOp::create(e.b, e.loc, e.b.getF32Type(), bits);
  }

  /// m + powers / k, as 1 / (k / powers): 1 / k, which no other step needs,
  /// would be kept in a register for this one.
  static Value raised(Emit &e, Value m, Value powers, Value k) {
    Value p = arith::SIToFPOp::create(e.b, e.loc, e.b.getF32Type(), powers);
    return e.fadd(m, e.rcp(e.fmul(k, e.rcp(p))));
  }

  static SmallVector<Value> rowMaxima(Emit &e, Value tile, ValueRange s) {
    SmallVector<Value> maxima;
    if (!tile)
      return maxima;
    TileLayout layout = layoutOf(tile);
    auto max = [&](Value x, Value y) { return e.fmax(x, y); };
    for (ArrayRef<int64_t> regs : registersByRow(layout)) {
      SmallVector<Value> row;
      for (int64_t r : regs)
        row.push_back(s[r]);
      maxima.push_back(
          reduceOverLanes(e, layout, reduceInTwoChains(row, max), max));
    }
    return maxima;
  }
};

/// Whether, in this warp, any factor is not 1, or any sum has no value.
Value anyIsNotOne(Emit &e, ValueRange factors, ValueRange sums = {}) {
  Value any;
  auto orElse = [&](arith::CmpFPredicate predicate, Value x, Value y) {
    Value is = arith::CmpFOp::create(e.b, e.loc, predicate, x, y);
    any = any ? arith::OrIOp::create(e.b, e.loc, any, is).getResult() : is;
  };
  for (Value f : factors)
    orElse(arith::CmpFPredicate::UNE, f, e.f32(1.0f));
  for (Value s : sums)
    orElse(arith::CmpFPredicate::UNO, s, s);
  return e.voteAny(any);
}

struct NeedsRescaleLowering : public OpConversionPattern<NeedsRescaleOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(NeedsRescaleOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    rewriter.replaceOp(op,
                       anyIsNotOne(e, adaptor.getFactors(), adaptor.getSums()));
    return success();
  }
};

struct ScaleRowsLowering : public OpConversionPattern<ScaleRowsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ScaleRowsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    ValueRange tile = adaptor.getTile(), factors = adaptor.getFactors();
    auto scaled = [&] {
      SmallVector<Value> out;
      for (auto [r, value] : llvm::enumerate(tile))
        out.push_back(e.fmul(value, factors[rowSlot(op.getTile(), r)]));
      return out;
    };
    if (!op.getSkipUnit()) {
      rewriter.replaceOpWithMultiple(op, {scaled()});
      return success();
    }
    auto branch = scf::IfOp::create(rewriter, op.getLoc(), tile.getTypes(),
                                    anyIsNotOne(e, factors), /*withElse=*/true);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(rewriter, op.getLoc(), scaled());
    rewriter.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(rewriter, op.getLoc(), tile);
    rewriter.replaceOpWithMultiple(op, {branch.getResults()});
    return success();
  }

  /// The factor of a tile's register, or of a row vector's.
  static int64_t rowSlot(Value v, int64_t reg) {
    bool vector = cast<RankedTensorType>(v.getType()).getRank() == 1;
    return vector ? reg : layoutOf(v).rowSlot(reg);
  }
};

/// 1 / l and lse of each row, from sums that may still be partial.
void normalize(Emit &e, RowAttr row, const TileLayout &layout, ValueRange ms,
               ValueRange ls, Value scale, SmallVectorImpl<Value> &inverse,
               SmallVectorImpl<Value> &lse) {
  auto sum = [&](Value x, Value y) { return e.fadd(x, y); };
  for (auto [m, l] : llvm::zip(ms, ls)) {
    Value total = row.getPartial() == Partial::Lanes
                      ? reduceOverLanes(e, layout, l, sum)
                      : l;
    Value empty = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::OEQ,
                                        total, e.f32(0.0f));
    inverse.push_back(e.select(empty, e.f32(0.0f), e.rcp(total)));
    Value log = e.fma(m, scale, e.fmul(e.lg2(total), e.f32(kLn2)));
    lse.push_back(e.select(empty, e.f32(-kInf), log));
  }
}

struct SoftmaxFinishLowering : public OpConversionPattern<SoftmaxFinishOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SoftmaxFinishOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    TileLayout layout = layoutOf(op.getO());
    SmallVector<Value> inverse, lse, out;
    normalize(e, rowOf(op.getL()), layout, adaptor.getM(), adaptor.getL(),
              op.getScale(), inverse, lse);
    for (int64_t r = 0; r < layout.numRegs(); ++r)
      out.push_back(e.fmul(adaptor.getO()[r], inverse[layout.rowSlot(r)]));
    rewriter.replaceOpWithMultiple(op, {out, lse});
    return success();
  }
};

struct NormalizerLowering : public OpConversionPattern<NormalizerOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(NormalizerOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RowAttr row = rowOf(op.getL());
    auto type = cast<RankedTensorType>(op.getL().getType());
    TileLayout layout = row.getAcc().tileLayout({type.getDimSize(0), 8});
    SmallVector<Value> inverse, lse;
    normalize(e, row, layout, adaptor.getM(), adaptor.getL(), op.getScale(),
              inverse, lse);
    rewriter.replaceOpWithMultiple(op, {inverse, lse});
    return success();
  }
};

/// Each warp puts its tile, maxima and sums side by side into the scratch, row
/// after row of d + 2 values; then every warp merges all of them.
struct CombineSplitsLowering : public OpConversionPattern<CombineSplitsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CombineSplitsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getO().getType());
    TileLayout layout = layoutOf(op.getO());
    int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
    int64_t splits = rowOf(op.getM()).getAcc().getSplitK(),
            pitch = (cols + 2) * 4;
    Value scratch = adaptor.getScratch()[0];
    Value k = e.fmul(op.getScale(), e.f32(kLog2E));
    auto sum = [&](Value x, Value y) { return e.fadd(x, y); };

    Value lane0 =
        e.add(e.mul(laneRow(e, layout), pitch), e.mul(laneCol(e, layout), 4));
    Value rowBase = e.mul(laneRow(e, layout), pitch);
    auto at = [&](Value base, int64_t row, int64_t col) {
      return e.gep(e.sharedPointer(base), row * pitch + col * 4);
    };
    Value mine = e.mul(e.warp(), rows * pitch);
    Value own = e.add(e.add(scratch, lane0), mine);
    Value ownRow = e.add(e.add(scratch, rowBase), mine);
    for (int64_t r = 0; r < layout.numRegs(); ++r) {
      Coord c = layout.at(0, 0, r);
      LLVM::StoreOp::create(rewriter, op.getLoc(), adaptor.getO()[r],
                            at(own, c.row, c.col));
    }
    auto byRow = registersByRow(layout);
    // The lanes of a row hold the same values: one of them stores.
    int64_t others = 0;
    for (int64_t mask : layout.rowReductionLanes())
      others |= mask;
    Value leader = rewriter.createOrFold<arith::CmpIOp>(
        op.getLoc(), arith::CmpIPredicate::eq, e.bitAnd(e.lane(), others),
        e.i32(0));
    SmallVector<Value> sums;
    for (Value l : adaptor.getL())
      sums.push_back(reduceOverLanes(e, layout, l, sum));
    {
      auto guarded = scf::IfOp::create(rewriter, op.getLoc(), leader);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(guarded.thenBlock());
      for (auto [slot, regs] : llvm::enumerate(byRow)) {
        int64_t row = layout.at(0, 0, regs.front()).row;
        LLVM::StoreOp::create(rewriter, op.getLoc(), adaptor.getM()[slot],
                              at(ownRow, row, cols));
        LLVM::StoreOp::create(rewriter, op.getLoc(), sums[slot],
                              at(ownRow, row, cols + 1));
      }
    }
    BarrierOp::create(rewriter, op.getLoc());

    SmallVector<Value> o(layout.numRegs()), m, l;
    for (auto [slot, regs] : llvm::enumerate(byRow)) {
      int64_t row = layout.at(0, 0, regs.front()).row;
      auto load = [&](Value base, int64_t split, int64_t col) -> Value {
        return LLVM::LoadOp::create(
            rewriter, op.getLoc(), e.b.getF32Type(),
            e.gep(at(base, row, col), split * rows * pitch));
      };
      Value base = e.add(scratch, lane0), baseRow = e.add(scratch, rowBase);
      SmallVector<Value> ms, factors;
      Value most;
      for (int64_t w = 0; w < splits; ++w) {
        ms.push_back(load(baseRow, w, cols));
        most = most ? e.fmax(most, ms.back()) : ms.back();
      }
      Value total;
      for (int64_t w = 0; w < splits; ++w) {
        factors.push_back(e.ex2(e.fmul(e.fsub(ms[w], most), k)));
        Value part = e.fmul(load(baseRow, w, cols + 1), factors.back());
        total = total ? e.fadd(total, part) : part;
      }
      for (int64_t r : regs) {
        Value value;
        for (int64_t w = 0; w < splits; ++w) {
          Value part =
              e.fmul(load(base, w, layout.at(0, 0, r).col), factors[w]);
          value = value ? e.fadd(value, part) : part;
        }
        o[r] = value;
      }
      m.push_back(most);
      l.push_back(total);
    }
    rewriter.replaceOpWithMultiple(op, {o, m, l});
    return success();
  }
};

} // namespace

void fa2::gpu::populateSoftmaxPatterns(TypeConverter &converter,
                                       RewritePatternSet &patterns) {
  patterns
      .add<ApplyMaskLowering, SumRowsLowering, SoftmaxStepLowering,
           NeedsRescaleLowering, ScaleRowsLowering, SoftmaxSpeculateLowering,
           LaneSumsLowering, ExceedsLowering, SoftmaxRebaseLowering,
           SoftmaxFinishLowering, NormalizerLowering, CombineSplitsLowering>(
          converter, patterns.getContext());
}
