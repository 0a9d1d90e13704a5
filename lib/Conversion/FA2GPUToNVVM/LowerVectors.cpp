//===- LowerVectors.cpp - one value a row, a column or a diagonal ---------===//
//
// What a tile takes from a vector: in registers, of rows held by every lane
// that holds elements of the row; in shared memory; or held diagonal by
// diagonal, for lanes to fetch from each other.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <map>
#include <numbers>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// A vector of one value a row or a column of a tile, by the tile's registers.
class VectorReader {
public:
  /// Values that are read again are not taken for those that were read.
  /// The tile's columns begin at `first` of the vector's, which is then in
  /// shared memory.
  VectorReader(Emit &e, const TileLayout &layout, Value vector,
               ValueRange parts, bool again = false, int64_t first = 0)
      : e(e), layout(layout), parts(parts), again(again) {
    Attribute encoding = cast<RankedTensorType>(vector.getType()).getEncoding();
    columns = !isa<RowAttr>(encoding);
    inRegisters = !isa<SharedAttr>(encoding);
    if (!inRegisters)
      start = e.add(parts[0], e.mul(e.add(laneCol(e, layout), first), 4));
  }

  Value at(int64_t reg) {
    if (inRegisters)
      return parts[columns ? layout.colSlot(reg) : layout.rowSlot(reg)];
    // Neighbouring columns come together from shared memory.
    int64_t col = layout.at(0, 0, reg).col, pair = col / 2;
    if (pair != known) {
      auto two = VectorType::get({2}, e.b.getF32Type());
      Value both = LLVM::LoadOp::create(
          e.b, e.loc, two, e.gep(e.sharedPointer(start), pair * 8), 8,
          /*isVolatile=*/again);
      for (int64_t i = 0; i < 2; ++i)
        values[i] = LLVM::ExtractElementOp::create(e.b, e.loc, both, e.i32(i));
      known = pair;
    }
    return values[col % 2];
  }

  /// Registers in an order that reads each pair of columns once.
  SmallVector<int64_t> order() const {
    auto regs = llvm::to_vector(llvm::seq<int64_t>(0, layout.numRegs()));
    if (!inRegisters)
      llvm::stable_sort(regs, [&](int64_t a, int64_t b) {
        return layout.at(0, 0, a).col / 2 < layout.at(0, 0, b).col / 2;
      });
    return regs;
  }

private:
  Emit &e;
  const TileLayout &layout;
  ValueRange parts;
  bool again, columns, inRegisters;
  Value start, values[2];
  int64_t known = -1;
};

/// p = 2^(k s + n), with k = scale * log2 e and n = -log2 e times what was
/// summed up.
struct SoftmaxRecomputeLowering
    : public OpConversionPattern<SoftmaxRecomputeOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SoftmaxRecomputeOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    TileLayout layout = layoutOf(op.getS());
    Value k = e.fmul(op.getScale(), e.f32(std::numbers::log2e_v<float>));
    SmallVector<Value> p(adaptor.getS());
    if (op.getN()) {
      VectorReader n(e, layout, op.getN(), adaptor.getN());
      for (int64_t r : n.order())
        p[r] = e.ex2(e.fma(p[r], k, n.at(r)));
    } else {
      for (Value &x : p)
        x = e.ex2(e.fmul(x, k));
    }
    rewriter.replaceOpWithMultiple(op, {p});
    return success();
  }
};

/// Each accumulator of wgmma needs a register of its own. LLVM would copy just
/// before the matmul, beside others in flight, for which ptxas waits (C7517).
class OwnRegisters {
public:
  explicit OwnRegisters(Operation *op)
      : accumulates(llvm::any_of(op->getUsers(), [&](Operation *user) {
          auto dot = dyn_cast<DotStartOp>(user);
          return dot && dot.isAsynchronous() &&
                 dot.getAcc() == op->getResult(0);
        })) {}
  /// The value, or a copy of it where it has been taken.
  Value of(Emit &e, Value v) {
    return accumulates && !taken.insert(v).second ? e.copyOf(v) : v;
  }

private:
  bool accumulates;
  llvm::SmallPtrSet<Value, 32> taken;
};

struct BroadcastLowering : public OpConversionPattern<BroadcastOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(BroadcastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    // Read again for a product that begins with it: no register holds until
    // then where it lies.
    if (op->hasAttr(kAgainName) &&
        llvm::any_of(op->getUsers(), llvm::IsaPred<ConvertLayoutOp>))
      e.readThreadAnew();
    TileLayout layout = layoutOf(op.getResult());
    auto encoding =
        cast<RankedTensorType>(op.getVector().getType()).getEncoding();
    bool shared = isa_and_nonnull<SharedAttr>(encoding);
    if (op.getDiagonals() && !shared)
      return fromDiagonals(e, op, adaptor.getVector(), rewriter);
    SmallVector<Value> out = op.getDiagonals()
                                 ? loadDiagonals(e, op, adaptor.getVector())
                                 : fromVector(e, op, adaptor.getVector());
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }

  static SmallVector<Value> fromVector(Emit &e, BroadcastOp op,
                                       ValueRange vector) {
    TileLayout layout = layoutOf(op.getResult());
    VectorReader v(e, layout, op.getVector(), vector, op->hasAttr(kAgainName),
                   op.getFirst());
    SmallVector<Value> out(layout.numRegs());
    OwnRegisters own(op);
    for (int64_t r : v.order())
      out[r] = own.of(e, v.at(r));
    return out;
  }

  /// From shared memory, one load for each diagonal of the thread's registers.
  static SmallVector<Value> loadDiagonals(Emit &e, BroadcastOp op,
                                          ValueRange vector) {
    TileLayout layout = layoutOf(op.getResult());
    int64_t rows = cast<RankedTensorType>(op.getType()).getDimSize(0);
    auto diagonalOf = [&](int64_t reg) {
      Coord at = layout.at(0, 0, reg);
      return at.col - at.row;
    };
    auto regs = llvm::to_vector(llvm::seq<int64_t>(0, layout.numRegs()));
    int64_t least =
        diagonalOf(*llvm::min_element(regs, [&](int64_t a, int64_t b) {
          return diagonalOf(a) < diagonalOf(b);
        }));
    Value first = e.sub(laneCol(e, layout), laneRow(e, layout));
    first = e.mul(e.add(first, rows - 1 + least + op.getFirst()), 4);
    Value start = e.sharedPointer(e.add(vector[0], first));
    std::map<int64_t, Value> values;
    SmallVector<Value> out;
    for (int64_t r : regs) {
      int64_t d = diagonalOf(r) - least;
      Value &value = values[d];
      if (!value)
        value = LLVM::LoadOp::create(e.b, e.loc, e.b.getF32Type(),
                                     e.gep(start, d * 4), 4,
                                     /*isVolatile=*/op->hasAttr(kAgainName));
      out.push_back(value);
    }
    OwnRegisters own(op);
    for (Value &value : out)
      value = own.of(e, value);
    return out;
  }

  /// One shuffle for each diagonal of the thread's registers.
  static LogicalResult fromDiagonals(Emit &e, BroadcastOp op, ValueRange vector,
                                     ConversionPatternRewriter &rewriter) {
    auto type = cast<RankedTensorType>(op.getVector().getType());
    auto diagonal = dyn_cast_or_null<DiagonalAttr>(type.getEncoding());
    if (!diagonal)
      return rewriter.notifyMatchFailure(op, "not a vector of diagonals");
    DiagonalWindows windows(diagonal, type);
    Value lane = windows.laneDiagonal(e);
    std::map<int64_t, Value> lanes;
    std::map<std::pair<int64_t, int64_t>, Value> values;
    SmallVector<Value> out;
    for (int64_t r = 0; r < windows.layout.numRegs(); ++r) {
      auto [window, place] = windows.find(r);
      Value &from = lanes[place], &value = values[{window, place}];
      if (!from)
        from = e.add(lane, place);
      if (!value)
        value = e.shuffleFrom(vector[window], from);
      out.push_back(value);
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// A load from shared memory for each element.
struct GatherLowering : public OpConversionPattern<GatherOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(GatherOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getVector().getType());
    if (!isa_and_nonnull<SharedAttr>(type.getEncoding()))
      return rewriter.notifyMatchFailure(op, "not a vector in shared memory");
    Emit e(rewriter, op.getLoc());
    OwnRegisters own(op);
    SmallVector<Value> out;
    for (Value place : adaptor.getPlaces()) {
      Value at = e.add(adaptor.getVector()[0], e.mul(e.toI32(place), 4));
      Value x = LLVM::LoadOp::create(rewriter, op.getLoc(), e.b.getF32Type(),
                                     e.sharedPointer(at));
      out.push_back(own.of(e, x));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

} // namespace

void fa2::gpu::populateVectorPatterns(TypeConverter &converter,
                                      RewritePatternSet &patterns) {
  patterns.add<SoftmaxRecomputeLowering, BroadcastLowering, GatherLowering>(
      converter, patterns.getContext());
}
