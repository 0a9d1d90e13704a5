//===- LowerElementwise.cpp - arith on tiles, layout conversions ----------===//

#include "Lowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

#include <map>
#include <numbers>
#include <vector>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

bool inRegisters(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding() &&
         !isa<SharedAttr>(tensor.getEncoding());
}

/// Any elementwise op on unpacked tiles: the same op on each register, once
/// where several registers are of the same values.
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
    std::map<std::vector<void *>, Value> known;
    for (size_t r = 0; r < operands.front().size(); ++r) {
      SmallVector<Value> scalars;
      std::vector<void *> key;
      for (ValueRange v : operands) {
        scalars.push_back(v[r]);
        key.push_back(v[r].getAsOpaquePointer());
      }
      Value &result = known[key];
      if (!result) {
        OperationState state(op->getLoc(), op->getName(), scalars,
                             {type.getElementType()}, op->getAttrs());
        result = rewriter.create(state)->getResult(0);
      }
      out.push_back(result);
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// Bits of packed pairs are those of their registers, whatever they mean.
template <typename Op>
struct PackedBitsLowering : public OpConversionPattern<Op> {
  PackedBitsLowering(TypeConverter &converter, MLIRContext *context)
      : OpConversionPattern<Op>(converter, context, /*benefit=*/2) {}
  LogicalResult
  matchAndRewrite(Op op,
                  typename OpConversionPattern<Op>::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto packed = [](Value v) {
      return inRegisters(v.getType()) &&
             isPacked(cast<RankedTensorType>(v.getType()));
    };
    if (!packed(op->getResult(0)) || !packed(op->getOperand(0)))
      return rewriter.notifyMatchFailure(op, "not of packed pairs");
    SmallVector<Value> out;
    if constexpr (std::is_same_v<Op, arith::BitcastOp>)
      llvm::append_range(out, adaptor.getIn());
    else
      for (auto [x, y] : llvm::zip_equal(adaptor.getLhs(), adaptor.getRhs()))
        out.push_back(Op::create(rewriter, op.getLoc(), x, y));
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
    auto element = dense.getSplatValue<TypedAttr>();
    if (isPacked(cast<RankedTensorType>(op.getType()))) { // two of 16 bits
      APInt bits = cast<FloatAttr>(element).getValue().bitcastToAPInt();
      element =
          rewriter.getI32IntegerAttr(int32_t(bits.getZExtValue() * 0x10001u));
    }
    Value scalar = arith::ConstantOp::create(rewriter, op.getLoc(), element);
    SmallVector<Value> out(types.size(), scalar);
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// One value for every register.
struct SplatLowering : public OpConversionPattern<tensor::SplatOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(tensor::SplatOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getType(), types)) ||
        isPacked(op.getType()))
      return rewriter.notifyMatchFailure(op, "not an unpacked tile");
    SmallVector<Value> out(types.size(), adaptor.getInput()[0]);
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

// Functions of f32 that upstream would take from a library which PTX has not,
// by ex2.approx as in the softmax.
constexpr float kLog2E = std::numbers::log2e_v<float>;

Value lowerExp2(Emit &e, Value x) { return e.ex2(x); }
/// 2^(x log2 e)
Value lowerExp(Emit &e, Value x) { return e.ex2(e.fmul(x, e.f32(kLog2E))); }
/// ln 2 log2 x
Value lowerLog(Emit &e, Value x) {
  return e.fmul(e.lg2(x), e.f32(std::numbers::ln2_v<float>));
}
/// 1 - 2 / (2^(2 x log2 e) + 1)
Value lowerTanh(Emit &e, Value x) {
  Value power = e.ex2(e.fmul(x, e.f32(2 * kLog2E)));
  Value inverse = e.rcp(e.fadd(power, e.f32(1.0f)));
  return e.fma(inverse, e.f32(-2.0f), e.f32(1.0f));
}
/// Within 2^-11 of its value, where a program allows that (afn).
Value lowerTanhApproximately(Emit &e, Value x) {
  return e.instruction(x.getType(), "tanh.approx.f32 $0, $1;", "=f,f", x);
}
Value lowerAbs(Emit &e, Value x) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, x.getType(),
                                       e.b.getStringAttr("llvm.fabs"), x)
      .getResult(0);
}

template <typename Op, Value (*lower)(Emit &, Value)>
struct FunctionLowering : public OpConversionPattern<Op> {
  FunctionLowering(TypeConverter &converter, MLIRContext *context,
                   PatternBenefit benefit = 2)
      : OpConversionPattern<Op>(converter, context, benefit) {}
  LogicalResult
  matchAndRewrite(Op op,
                  typename OpConversionPattern<Op>::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32() ||
        (isa<RankedTensorType>(op.getType()) && !inRegisters(op.getType())))
      return rewriter.notifyMatchFailure(op, "not f32 in registers");
    Emit e(rewriter, op.getLoc());
    SmallVector<Value> out;
    for (Value x : adaptor.getOperand())
      out.push_back(lower(e, x));
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

struct ApproximateTanhLowering
    : public FunctionLowering<math::TanhOp, lowerTanhApproximately> {
  ApproximateTanhLowering(TypeConverter &converter, MLIRContext *context)
      : FunctionLowering(converter, context, /*benefit=*/3) {}
  LogicalResult
  matchAndRewrite(math::TanhOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn))
      return rewriter.notifyMatchFailure(op, "no approximation is allowed");
    return FunctionLowering::matchAndRewrite(op, adaptor, rewriter);
  }
};

struct FmaLowering : public OpConversionPattern<math::FmaOp> {
  FmaLowering(TypeConverter &converter, MLIRContext *context)
      : OpConversionPattern(converter, context, /*benefit=*/2) {}
  LogicalResult
  matchAndRewrite(math::FmaOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!inRegisters(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a tile");
    Emit e(rewriter, op.getLoc());
    SmallVector<Value> out;
    for (auto [x, y, z] :
         llvm::zip(adaptor.getA(), adaptor.getB(), adaptor.getC()))
      out.push_back(e.fma(x, y, z));
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

/// Packed pairs of a 16-bit type to f32. The bits of a bf16 are the upper half
/// of an f32.
struct ExtFLowering : public OpConversionPattern<arith::ExtFOp> {
  ExtFLowering(TypeConverter &converter, MLIRContext *context)
      : OpConversionPattern(converter, context, /*benefit=*/2) {}
  LogicalResult
  matchAndRewrite(arith::ExtFOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!inRegisters(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a tile");
    Emit e(rewriter, op.getLoc());
    Type dtype = cast<RankedTensorType>(op.getIn().getType()).getElementType();
    Type f32 = e.b.getF32Type();
    SmallVector<Value> out;
    for (Value pair : adaptor.getIn()) {
      if (dtype.isBF16()) {
        for (Value bits : {e.shl(pair, 16), e.bitAnd(pair, -0x10000)})
          out.push_back(LLVM::BitcastOp::create(e.b, e.loc, f32, bits));
        continue;
      }
      Value halves = LLVM::BitcastOp::create(e.b, e.loc,
                                             VectorType::get({2}, dtype), pair);
      for (int64_t i = 0; i < 2; ++i) {
        Value half =
            LLVM::ExtractElementOp::create(e.b, e.loc, halves, e.i32(i));
        out.push_back(LLVM::FPExtOp::create(e.b, e.loc, f32, half));
      }
    }
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

/// Registers are renamed: each holds what it held in its part.
struct JoinLowering : public OpConversionPattern<JoinOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(JoinOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto to = cast<RankedTensorType>(op.getResult().getType());
    int64_t together = isPacked(to) ? 2 : 1, first = 0;
    TileLayout whole = distributedLayout(to).tileLayout(to.getShape());
    SmallVector<Value> out(whole.numRegs() / together);
    for (auto [part, values] : {std::pair{op.getLeft(), adaptor.getLeft()},
                                std::pair{op.getRight(), adaptor.getRight()}}) {
      auto from = cast<RankedTensorType>(part.getType());
      TileLayout layout = distributedLayout(from).tileLayout(from.getShape());
      for (int64_t r = 0; r < layout.numRegs(); r += together) {
        Coord at = layout.at(0, 0, r);
        auto reg = whole.find(0, 0, {at.row, at.col + first});
        if (!reg || *reg % together != 0)
          return rewriter.notifyMatchFailure(op, "lanes do not keep columns");
        out[*reg / together] = values[r / together];
      }
      first += from.getDimSize(1);
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

} // namespace

void fa2::gpu::populateElementwisePatterns(TypeConverter &converter,
                                           RewritePatternSet &patterns) {
  patterns
      .add<ElementwiseLowering, ConstantLowering, SplatLowering,
           FunctionLowering<math::Exp2Op, lowerExp2>,
           FunctionLowering<math::ExpOp, lowerExp>,
           FunctionLowering<math::LogOp, lowerLog>,
           FunctionLowering<math::TanhOp, lowerTanh>,
           FunctionLowering<math::AbsFOp, lowerAbs>, ApproximateTanhLowering,
           FmaLowering, TruncFLowering, ExtFLowering, ConvertLayoutLowering,
           JoinLowering, PackedBitsLowering<arith::AndIOp>,
           PackedBitsLowering<arith::OrIOp>, PackedBitsLowering<arith::XOrIOp>,
           PackedBitsLowering<arith::BitcastOp>>(converter,
                                                 patterns.getContext());
}
