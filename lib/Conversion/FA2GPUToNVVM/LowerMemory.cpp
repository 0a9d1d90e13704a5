//===- LowerMemory.cpp - views, slots, stores, barriers -------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct DimLowering : public OpConversionPattern<memref::DimOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(memref::DimOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto dim = op.getConstantIndex();
    auto type = dyn_cast<MemRefType>(op.getSource().getType());
    if (!dim || !type || !type.isDynamicDim(*dim))
      return rewriter.notifyMatchFailure(op, "not a known dynamic dimension");
    rewriter.replaceOp(op,
                       MemRefParts(type, adaptor.getSource()).extents[*dim]);
    return success();
  }
};

struct SequenceLowering : public OpConversionPattern<SequenceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(SequenceOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    MemRefParts source(cast<MemRefType>(op.getSource().getType()),
                       adaptor.getSource());
    rewriter.replaceOp(op, {e.index(0), source.extents[1]});
    return success();
  }
};

struct ViewLowering : public OpConversionPattern<ViewOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ViewOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<MemRefType>(op.getSource().getType());
    MemRefParts source(type, adaptor.getSource());
    if (std::optional<ArrayRef<int64_t>> dims = op.getDims()) {
      rewriter.replaceOpWithMultiple(
          op, {ValueRange(matrixOf(e, op, source, *dims))});
      return success();
    }
    // [batch, row, head, column], or [batch, head, row]
    bool matrix = type.getRank() == 4;
    Value headStride = source.strides[matrix ? 2 : 1];
    Value rowStride = matrix ? source.strides[1] : e.i64(1);
    Value elements = e.mul(e.toI64(op.getBatch()), source.strides[0]);
    elements = e.add(elements, e.mul(e.toI64(op.getHead()), headStride));
    elements = e.add(elements, e.mul(e.toI64(op.getOffset()), rowStride));
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value base = e.gep(source.base, e.mul(elements, bytes));
    if (int64_t first = op.getFirstColumn(); first && !op.getType().getOrder())
      base = e.gep(base, first * bytes);
    SmallVector<Value> parts{base, rowStride, op.getLength()};
    if (op.getType().getHeads() > 1)
      parts.push_back(headStride);
    rewriter.replaceOpWithMultiple(op, {ValueRange(parts)});
    return success();
  }

  /// Of dimensions in any order: batch, row, head and column.
  static SmallVector<Value> matrixOf(Emit &e, ViewOp op,
                                     const MemRefParts &source,
                                     ArrayRef<int64_t> dims) {
    int64_t bytes =
        cast<MemRefType>(op.getSource().getType()).getElementTypeBitWidth() / 8;
    Value elements = e.i64(0);
    std::pair<int64_t, Value> places[] = {{dims[0], op.getBatch()},
                                          {dims[1], op.getOffset()},
                                          {dims[2], op.getHead()}};
    for (auto [dim, index] : places)
      if (dim >= 0)
        elements = e.add(elements, e.mul(e.toI64(index), source.strides[dim]));
    return {e.gep(source.base, e.mul(elements, bytes)), source.strides[dims[1]],
            op.getLength(), source.extents[dims[3]]};
  }
};

struct RingCreateLowering : public OpConversionPattern<RingCreateOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingCreateOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getOffset())
      return rewriter.notifyMatchFailure(op, "expected fa2gpu-allocate to have "
                                             "set an offset");
    Emit e(rewriter, op.getLoc());
    auto module = op->getParentOfType<mlir::gpu::GPUModuleOp>();
    auto memory = *module.getOps<LLVM::GlobalOp>().begin();
    Value base = LLVM::PtrToIntOp::create(
        rewriter, op.getLoc(), rewriter.getI32Type(),
        LLVM::AddressOfOp::create(rewriter, op.getLoc(), memory));
    SmallVector<Value> parts{
        e.add(base, int64_t(*op.getOffset())),
        e.add(base, int64_t(op.getBarriers().value_or(0)))};
    rewriter.replaceOpWithMultiple(op, {ValueRange(parts)});
    return success();
  }
};

struct RingSlotLowering : public OpConversionPattern<RingSlotOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingSlotOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingType ring = op.getRing().getType();
    Value address = adaptor.getRing()[0];
    if (ring.getSlots() > 1) {
      Value use = e.toI32(adaptor.getUse()[0]);
      Value slot = llvm::isPowerOf2_64(ring.getSlots())
                       ? e.bitAnd(use, ring.getSlots() - 1)
                       : e.remU(use, e.i32(ring.getSlots()));
      address =
          e.add(address, e.mul(slot, sharedLayout(ring.getTile()).pitch()));
    }
    rewriter.replaceOp(op, address);
    return success();
  }
};

/// Pairs of an accumulator tile to a swizzled tile: eight columns of a fragment
/// are one chunk.
struct LocalStoreLowering : public OpConversionPattern<LocalStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalStoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getValue().getType());
    auto acc = dyn_cast<AccAttr>(type.getEncoding());
    if (acc && acc.getFamily().warpsPerInstruction() > 1)
      return rewriter.notifyMatchFailure(op, "not of the mma.sync family");
    if (!acc || !isPacked(type) || op.getTransposed())
      return rewriter.notifyMatchFailure(op, "not a packed accumulator tile, "
                                             "stored as it lies");
    TileLayout tile = acc.tileLayout(type.getShape());
    SharedLayout shared =
        sharedLayout(cast<RankedTensorType>(op.getSlot().getType()));
    if (!shared.canSplitColumns(tile.warpGridCols()))
      return rewriter.notifyMatchFailure(
          op,
          "the columns of warps do not fall into equal parts of the panels");
    Emit e(rewriter, op.getLoc());
    e.readThreadAnew();
    inStoringWarps(e, acc, [&] {
      store(e, tile, shared, adaptor.getSlot()[0], adaptor.getValue());
    });
    rewriter.eraseOp(op);
    return success();
  }

  static void store(Emit &e, const TileLayout &tile, const SharedLayout &shared,
                    Value base, ValueRange pairs) {
    Value row = laneRow(e, tile), col = laneCol(e, tile);
    Value startByte = e.i32(0);
    if (tile.warpGridCols() > 1) {
      Value first = warpCol(e, tile);
      ColumnStart start(e, shared, {first, tile.colsPerWarp()});
      base = e.add(base, start.panel);
      startByte = start.byte;
      col = e.sub(col, first);
    }
    llvm::DenseMap<int64_t, Value> rowStart, swizzle; // by panel width
    for (int64_t r = 0; r < tile.numRegs(); r += 2) {
      Coord c = tile.at(0, 0, r);
      const SharedLayout::Panel &panel = shared.panelOf(c.col);
      Value &start = rowStart[panel.bytes];
      Value &x = swizzle[panel.bytes];
      if (!start) {
        // Rows of a fragment are 8 apart, so they swizzle alike.
        start = e.add(base, e.add(e.mul(row, panel.bytes), e.mul(col, 2)));
        x = e.bitXor(e.shl(xorOf(e, row, panel.bytes), 4), startByte);
      }
      int64_t chunk = (c.col - panel.col) * 2 / SharedLayout::kChunkBytes;
      Value inRow = e.bitXor(x, chunk * SharedLayout::kChunkBytes);
      Value pointer = e.gep(e.sharedPointer(e.add(start, inRow)),
                            panel.offset + c.row * panel.bytes);
      LLVM::StoreOp::create(e.b, e.loc, pairs[r / 2], pointer);
    }
  }
};

} // namespace

Value fa2::gpu::elementsBefore(Emit &e, const ViewParts &view, Value row,
                               Value column, int64_t elementBytes) {
  // Of the address the lowest bits alone.
  auto low = [&](Value x) -> Value {
    return LLVM::TruncOp::create(e.b, e.loc, e.b.getI32Type(), x);
  };
  Value base =
      LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI64Type(), view.base);
  Value first = e.shr(low(base), llvm::Log2_64(elementBytes));
  Value elements = e.add(
      first, e.add(e.mul(e.toI32(row), low(view.rowStride)), e.toI32(column)));
  return e.bitAnd(elements, SharedLayout::kChunkBytes / elementBytes - 1);
}

Value fa2::gpu::packedRow(Emit &e, Value row, int64_t heads) {
  int64_t rows = kGroupRows / heads;
  return e.add(e.mul(e.shr(row, llvm::Log2_64(kGroupRows)), rows),
               e.bitAnd(row, rows - 1));
}
Value fa2::gpu::packedHead(Emit &e, Value row, int64_t heads) {
  return e.bitAnd(e.shr(row, llvm::Log2_64(kGroupRows / heads)), heads - 1);
}

namespace {

struct BarrierLowering : public OpConversionPattern<BarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(BarrierOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::Barrier0Op>(op);
    return success();
  }
};

} // namespace

void fa2::gpu::populateMemoryPatterns(TypeConverter &converter,
                                      RewritePatternSet &patterns) {
  patterns.add<DimLowering, SequenceLowering, ViewLowering, RingCreateLowering,
               RingSlotLowering, LocalStoreLowering, BarrierLowering>(
      converter, patterns.getContext());
}
