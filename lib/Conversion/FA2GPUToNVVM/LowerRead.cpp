//===- LowerRead.cpp - operands of score programs -------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The row or column of each value that a thread holds of a vector.
struct PositionsLowering : public OpConversionPattern<PositionsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(PositionsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getResult().getType());
    auto row = dyn_cast_or_null<RowAttr>(type.getEncoding());
    auto column = dyn_cast_or_null<ColumnAttr>(type.getEncoding());
    if (!row && !column)
      return rewriter.notifyMatchFailure(op, "not a row or column vector");
    TileLayout layout = row ? rowLayout(row, type) : columnLayout(column, type);
    Value lane = row ? laneRow(e, layout) : laneCol(e, layout);
    Value first = e.add(e.mul(adaptor.getBlock()[0], type.getDimSize(0)),
                        e.toIndex(lane));
    SmallVector<Value> out;
    int64_t slots = row ? layout.numRowSlots() : layout.numColSlots();
    for (int64_t slot = 0; slot < slots; ++slot)
      out.push_back(e.add(first, row ? rowOfSlot(layout, slot)
                                     : colOfSlot(layout, slot)));
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// An element where `inside`, else 0, as f32 or i32. No branch, since matmuls
/// may be in flight.
Value readElement(Emit &e, Value address, Value inside, Type element) {
  bool narrow = element.getIntOrFloatBitWidth() == 16;
  std::string suffix = narrow ? "b16" : "b32";
  auto text =
      "{ mov." + suffix + " $0, 0; @$2 ld.global.nc." + suffix + " $0, [$1]; }";
  Type loaded = e.b.getIntegerType(narrow ? 16 : 32);
  Value bits = LLVM::InlineAsmOp::create(
                   e.b, e.loc, loaded, ValueRange{address, inside}, text,
                   narrow ? "=&h,l,b" : "=&r,l,b", /*has_side_effects=*/true,
                   /*is_align_stack=*/false, LLVM::TailCallKind::None,
                   LLVM::AsmDialectAttr{}, ArrayAttr{})
                   .getResult(0);
  if (isa<IntegerType>(element))
    return bits;
  Type f32 = e.b.getF32Type();
  if (element.isF16())
    return LLVM::FPExtOp::create(
        e.b, e.loc, f32, LLVM::BitcastOp::create(e.b, e.loc, element, bits));
  if (narrow) // bf16 is the upper half of an f32
    bits = e.shl(LLVM::ZExtOp::create(e.b, e.loc, e.b.getI32Type(), bits), 16);
  return LLVM::BitcastOp::create(e.b, e.loc, f32, bits);
}

struct ReadLowering : public OpConversionPattern<ReadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<MemRefType>(op.getSource().getType());
    if (numStrides(type) != type.getRank())
      return rewriter.notifyMatchFailure(op, "expected a stride of each "
                                             "dimension");
    MemRefParts source(type, adaptor.getSource());
    // What all elements share is added once.
    Value shared = e.i64(0), allInside;
    size_t count = 1;
    for (auto [d, index] : llvm::enumerate(adaptor.getIndices())) {
      count = std::max(count, index.size());
      if (index.size() > 1 ||
          isa<RankedTensorType>(op.getIndices()[d].getType()))
        continue;
      shared = e.add(shared, e.mul(e.toI64(index[0]), source.strides[d]));
      allInside = e.both(allInside, e.less(index[0], source.extents[d]));
    }
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value base = e.gep(source.base, e.mul(shared, bytes));
    SmallVector<Value> out;
    for (size_t r = 0; r < count; ++r) {
      Value inside = allInside, own;
      for (auto [d, index] : llvm::enumerate(adaptor.getIndices())) {
        if (!isa<RankedTensorType>(op.getIndices()[d].getType()))
          continue;
        Value elements = e.mul(e.toI64(index[r]), source.strides[d]);
        own = own ? e.add(own, elements) : elements;
        inside = e.both(inside, e.less(index[r], source.extents[d]));
      }
      Value address = own ? e.gep(base, e.mul(own, bytes)) : base;
      out.push_back(readElement(e, address, inside, type.getElementType()));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

} // namespace

void fa2::gpu::populateReadPatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<PositionsLowering, ReadLowering>(converter,
                                                patterns.getContext());
}
