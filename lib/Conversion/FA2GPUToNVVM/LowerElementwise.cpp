//===- LowerElementwise.cpp - arith on tiles, layout conversions ----------===//

#include "Lowering.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

bool inRegisters(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding() &&
         !isa<SharedAttr>(tensor.getEncoding());
}

/// Any elementwise op on unpacked tiles: the same op on each register.
struct ElementwiseLowering : public ConversionPattern {
  ElementwiseLowering(TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/1,
                          context) {}
  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1 ||
        !inRegisters(op->getResult(0).getType()))
      return rewriter.notifyMatchFailure(op, "not elementwise on a tile");
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (isPacked(type))
      return rewriter.notifyMatchFailure(op, "a packed result");
    SmallVector<Value> out;
    for (size_t r = 0; r < operands.front().size(); ++r) {
      SmallVector<Value> scalars;
      for (ValueRange v : operands)
        scalars.push_back(v[r]);
      OperationState state(op->getLoc(), op->getName(), scalars,
                           {type.getElementType()}, op->getAttrs());
      out.push_back(rewriter.create(state)->getResult(0));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

struct ConstantLowering : public OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto dense = dyn_cast<SplatElementsAttr>(op.getValue());
    if (!dense || !inRegisters(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a splat of a tile");
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getType(), types)))
      return rewriter.notifyMatchFailure(op, "no layout");
    Value scalar = arith::ConstantOp::create(rewriter, op.getLoc(),
                                             dense.getSplatValue<TypedAttr>());
    SmallVector<Value> out(types.size(), scalar);
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// f32 to a 16-bit type, two by two.
struct TruncFLowering : public OpConversionPattern<arith::TruncFOp> {
  TruncFLowering(TypeConverter &converter, MLIRContext *context)
      : OpConversionPattern(converter, context, /*benefit=*/2) {}
  LogicalResult
  matchAndRewrite(arith::TruncFOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!inRegisters(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a tile");
    auto type = cast<RankedTensorType>(op.getType());
    Emit e(rewriter, op.getLoc());
    SmallVector<Value> out;
    ValueRange in = adaptor.getIn();
    for (size_t r = 0; r + 1 < in.size(); r += 2)
      out.push_back(e.pack(in[r], in[r + 1], type.getElementType()));
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// Registers are renamed: register r of the result, one element or a packed
/// pair, is that of the source which holds the same.
struct ConvertLayoutLowering : public OpConversionPattern<ConvertLayoutOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ConvertLayoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto from = cast<RankedTensorType>(op.getSource().getType());
    auto to = cast<RankedTensorType>(op.getResult().getType());
    int64_t together = isPacked(to) ? 2 : 1;
    TileLayout src = distributedLayout(from).tileLayout(from.getShape());
    TileLayout dst = distributedLayout(to).tileLayout(to.getShape());
    SmallVector<Value> out;
    for (int64_t r = 0; r < dst.numRegs(); r += together) {
      auto reg = src.find(0, 0, dst.at(0, 0, r));
      if (!reg || *reg % together != 0)
        return rewriter.notifyMatchFailure(op, "pairs do not stay together");
      out.push_back(adaptor.getSource()[*reg / together]);
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

} // namespace

void fa2::gpu::populateElementwisePatterns(TypeConverter &converter,
                                           RewritePatternSet &patterns) {
  patterns.add<ElementwiseLowering, ConstantLowering, TruncFLowering,
               ConvertLayoutLowering>(converter, patterns.getContext());
}
