//===- LowerWgmma.cpp - asynchronous matmuls of a warpgroup ---------------===//
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". Descriptors of
// 128-byte swizzled tiles:
//
//   bits 0-13   address / 16          bits 32-45  stride between 8 rows / 16
//   bits 16-29  stride between 64     bits 62-63  1: 128-byte swizzle
//               columns / 16, where columns are not the reduced dimension
//
// One inline assembly a matmul: LLVM then keeps fence, products and commit
// together, and the accumulators in their registers.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

constexpr int64_t kRows = 64, kStepK = 16, kRowBytes = 128, kPanelCols = 64;

RankedTensorType tensorType(Value v) {
  return cast<RankedTensorType>(v.getType());
}

/// A descriptor's start, and how far (in 16 bytes) each step of k is from it.
struct Operand {
  Value descriptor;
  SmallVector<int64_t> steps;
};

/// In a cluster the block's rank stands above the address.
Value descriptor(Emit &e, Value address, int64_t columnStride) {
  if (inCluster(e.b.getInsertionBlock()->getParentOp()))
    address = e.bitAnd(address, (1 << 18) - 1);
  int64_t fixed = (columnStride >> 4) << 16 |
                  int64_t(8 * kRowBytes >> 4) << 32 | int64_t(1) << 62;
  Value start =
      arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), e.shr(address, 4));
  return arith::OrIOp::create(e.b, e.loc, start, e.i64(fixed));
}

/// A tile whose rows are rows of the product (or columns of B) and whose
/// columns are reduced over: a panel has four steps of k side by side.
Operand alongColumns(Emit &e, RankedTensorType tile, Value address, int64_t k) {
  Operand o{descriptor(e, address, kStepK), {}};
  for (int64_t step = 0; step < (k + kStepK - 1) / kStepK; ++step)
    o.steps.push_back(
        (step / 4 * tile.getDimSize(0) * kRowBytes + step % 4 * kStepK * 2) >>
        4);
  return o;
}

/// A tile whose rows are reduced over: B as it lies, A transposed; columns in
/// panels.
Operand alongRows(Emit &e, RankedTensorType tile, Value address) {
  Operand o{descriptor(e, address, tile.getDimSize(0) * kRowBytes), {}};
  for (int64_t row = 0; row < tile.getDimSize(0); row += kStepK)
    o.steps.push_back(row * kRowBytes >> 4);
  return o;
}

/// This warpgroup's place in the grid over which `acc` is cut.
struct GroupPlace {
  GroupPlace(Emit &e, AccAttr acc) {
    int64_t down = acc.getGroups()[0], across = acc.getGroups()[1];
    Value place = down * across == 1 ? e.i32(0) : e.shr(e.uniformWarp(), 2);
    row = down == 1     ? e.i32(0)
          : across == 1 ? place
                        : e.divU(place, e.i32(across));
    if (across > 1)
      col = down == 1 ? place : e.remU(place, e.i32(across));
  }
  Value row, col; // no col where there is one
};

/// What a warpgroup reads of A in shared memory: 64 rows, or with `transposed`
/// 64 columns, which are a panel; from row `first` of the product on.
Operand ownRows(Emit &e, RankedTensorType tile, Value address, Value place,
                int64_t first, bool transposed) {
  int64_t bytes = (transposed ? tile.getDimSize(0) : kRows) * kRowBytes;
  Value own = e.add(address, e.add(e.mul(place, bytes), first / kRows * bytes));
  return transposed ? alongRows(e, tile, own)
                    : alongColumns(e, tile, own, tile.getDimSize(1));
}

/// Where a warpgroup's `count` columns of the product begin in B.
Value ownColumns(Emit &e, RankedTensorType tile, Value address, Value place,
                 int64_t count, bool transposed) {
  if (!place)
    return address;
  if (transposed)
    return e.add(address, e.mul(place, count * kRowBytes));
  ColumnStart start(e, sharedLayout(tile), {e.mul(place, count), count});
  return e.add(e.add(address, start.panel), start.byte);
}

struct WgmmaStartLowering : public OpConversionPattern<DotStartOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DotStartOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType aType = tensorType(op.getA()),
                     bType = tensorType(op.getB());
    RankedTensorType dType = op.getD().getType().getTile();
    auto acc = cast<AccAttr>(dType.getEncoding());
    if (!isa<WgmmaAttr>(acc.getFamily()))
      return rewriter.notifyMatchFailure(op, "not of the wgmma family");
    TileLayout layout = acc.tileLayout(dType.getShape());
    Emit e(rewriter, op.getLoc());
    int64_t n = layout.fragCols() * 8, results = layout.numRegs();
    bool fromShared = isa<SharedAttr>(aType.getEncoding());
    Value bStart = adaptor.getB()[0];
    int64_t first = op.getFirstColumn();
    if (first && !op.getTransposeB()) {
      const SharedLayout::Panel panel = sharedLayout(bType).panelOf(first);
      bStart = e.add(bStart, panel.offset + (first - panel.col) * 2);
    }
    if (op.getColumn()) { // panels further on, and further on in a panel
      Value column = e.toI32(adaptor.getColumn()[0]);
      Value inPanel = e.bitAnd(column, kRowBytes / 2 - 1);
      Value before = e.sub(column, inPanel);
      bStart = e.add(bStart, e.mul(before, bType.getDimSize(0) * 2));
      bStart = e.add(bStart, e.mul(inPanel, 2));
    }
    if (acc.getGroups()[1] > 1)
      bStart = ownColumns(e, bType, bStart, GroupPlace(e, acc).col,
                          layout.colsPerWarp(), op.getTransposeB());
    Operand b = op.getTransposeB()
                    ? alongColumns(e, bType, bStart, bType.getDimSize(1))
                    : alongRows(e, bType, bStart);
    // Rows of b further on, by the same descriptor, in its 16 bytes.
    for (int64_t &step : b.steps)
      step += op.getTransposeB() ? first * kRowBytes / 16 : 0;
    Operand a;
    SmallVector<Value> inputs{b.descriptor};
    std::string constraints = "l";
    ValueRange registers = fromShared ? adaptor.getHeld() : adaptor.getA();
    if (fromShared) {
      a = ownRows(e, aType, adaptor.getA()[0], GroupPlace(e, acc).row,
                  op.getFirstRow(), op.getTransposeA());
      inputs.push_back(a.descriptor);
      constraints += ",l";
    }
    int64_t firstRegister = inputs.size();
    llvm::append_range(inputs, registers);
    for (size_t i = 0; i < registers.size(); ++i)
      constraints += ",r";

    bool updates = op.getAcc() && !op.getClears();
    int64_t before = op.getAcc() ? 2 * results : results;
    auto number = [&](int64_t input) {
      return "$" + std::to_string(before + input);
    };
    std::string d = "{";
    for (int64_t i = 0; i < results; ++i)
      d += (i ? ", $" : "$") + std::to_string(i);
    d += "}";
    std::string type = aType.getElementType().isBF16() ? "bf16" : "f16";
    std::string text = "{\n.reg .pred none, all;\n.reg .b64 da, db;\n"
                       "setp.ne.b32 none, 0, 0;\nsetp.eq.b32 all, 0, 0;\n";
    if (!op.getJoins())
      text += "wgmma.fence.sync.aligned;\n";
    for (auto [step, offset] : llvm::enumerate(b.steps)) {
      text +=
          "add.s64 db, " + number(0) + ", " + std::to_string(offset) + ";\n";
      std::string left = "da";
      bool inRegisters = size_t(step) * 4 < registers.size();
      if (!inRegisters) {
        text += "add.s64 da, " + number(1) + ", " +
                std::to_string(a.steps[step]) + ";\n";
      } else {
        left = "{";
        for (int64_t i = 0; i < 4; ++i)
          left += (i ? ", " : "") + number(firstRegister + step * 4 + i);
        left += "}";
      }
      text +=
          "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) +
          llvm::formatv("k16.f32.{0}.{0} {1}, {2}, db, {3}, 1, 1{4}{5};\n",
                        type, d, left, step == 0 && !updates ? "none" : "all",
                        inRegisters          ? ""
                        : op.getTransposeA() ? ", 1"
                                             : ", 0",
                        op.getTransposeB() ? ", 0" : ", 1")
              .str();
    }
    text += "wgmma.commit_group.sync.aligned;\n}";
    SmallVector<Value> out =
        op.getAcc() ? e.ptxUpdating(text, adaptor.getAcc(), constraints, inputs)
                    : e.ptxDefining(text, results, constraints, inputs);
    rewriter.replaceOpWithMultiple(op, {ValueRange(out)});
    return success();
  }
};

/// The accumulators pass through the wait, so that nothing reads them earlier.
struct WgmmaWaitLowering : public OpConversionPattern<DotWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DotWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getPending())
      return rewriter.notifyMatchFailure(op, "not of the wgmma family");
    Emit e(rewriter, op.getLoc());
    SmallVector<Value> kept;
    std::string constraints;
    for (ValueRange tile : adaptor.getKeep())
      for (Value v : tile) {
        kept.push_back(v);
        constraints += constraints.empty() ? "r" : ",r";
      }
    SmallVector<Value> out =
        e.ptxUpdating("wgmma.wait_group.sync.aligned " +
                          std::to_string(*op.getPending()) + ";",
                      adaptor.getSource(), constraints, kept);
    rewriter.replaceOpWithMultiple(op, {ValueRange(out)});
    return success();
  }
};

struct WgmmaFenceLowering : public OpConversionPattern<DotFenceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DotFenceOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit(rewriter, op.getLoc())
        .ptx("wgmma.wait_group.sync.aligned " +
                 std::to_string(op.getPending()) + ";",
             "", {});
    rewriter.eraseOp(op);
    return success();
  }
};

/// stmatrix: two fragments, 16 rows of 16 columns, at a time.
struct StoreMatrixLowering : public OpConversionPattern<LocalStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalStoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RankedTensorType type = tensorType(op.getValue());
    auto acc = dyn_cast<AccAttr>(type.getEncoding());
    if (!acc || !isa<WgmmaAttr>(acc.getFamily()) || !isPacked(type))
      return rewriter.notifyMatchFailure(op, "not a packed wgmma accumulator");
    Emit e(rewriter, op.getLoc());
    TileLayout tile = acc.tileLayout(type.getShape());
    SharedLayout shared = sharedLayout(tensorType(op.getSlot()));
    if (op.getTransposed()) {
      if (acc.getGroups()[1] > 1)
        return rewriter.notifyMatchFailure(op, "warpgroups share rows");
      storeTransposed(e, tile, shared, adaptor.getSlot()[0],
                      adaptor.getValue());
      rewriter.eraseOp(op);
      return success();
    }
    // Lane 8 m + r addresses row r of matrix m: rows 0 and 8, columns 0 and 8.
    Value lane = e.lane(), row = e.bitAnd(lane, 7);
    Value down = e.bitAnd(e.shr(lane, 3), 1), right = e.shr(lane, 4);
    Value warp = e.uniformWarp(), base = adaptor.getSlot()[0], first;
    if (acc.getGroups()[1] > 1) {
      GroupPlace place(e, acc);
      warp = e.add(e.mul(place.row, 4), e.bitAnd(warp, 3));
      ColumnStart own(
          e, shared,
          {e.mul(place.col, tile.colsPerWarp()), tile.colsPerWarp()});
      base = e.add(base, own.panel);
      first = own.byte;
    }
    Value rows =
        e.add(e.mul(warp, tile.rowsPerWarp()), e.add(row, e.mul(down, 8)));
    Value start = e.add(base, e.mul(rows, kRowBytes));
    Value swizzled = e.shl(e.bitXor(right, row), 4);
    if (first)
      swizzled = e.bitXor(swizzled, first);
    int64_t fragments = tile.fragCols();
    ValueRange pairs = adaptor.getValue();
    auto shape = NVVM::LdStMatrixShapeAttr::get(e.b.getContext(), 8, 8);
    for (int64_t f = 0; f < fragments; f += 2) {
      const SharedLayout::Panel &panel = shared.panelOf(f * 8);
      int64_t chunk = (f * 8 - panel.col) / 8;
      Value at =
          e.add(e.add(start, e.bitXor(swizzled, chunk * 16)), panel.offset);
      size_t count = std::min<int64_t>(2, fragments - f) * 2;
      NVVM::StMatrixOp::create(rewriter, op.getLoc(), e.sharedPointer(at),
                               SmallVector<Value>(pairs.slice(f * 2, count)),
                               NVVM::MMALayout::row, shape,
                               NVVM::LdStMatrixEltType::B16);
    }
    rewriter.eraseOp(op);
    return success();
  }

  /// Fragments are columns of the shared tile: a warp's 16 rows are two chunks
  /// of each of its rows.
  static void storeTransposed(Emit &e, const TileLayout &tile,
                              const SharedLayout &shared, Value base,
                              ValueRange pairs) {
    // Lane 8 m + r addresses row r of matrix m: chunks 0 and 1, rows 0 and 8.
    Value lane = e.lane(), row = e.bitAnd(lane, 7);
    Value right = e.bitAnd(e.shr(lane, 3), 1), down = e.shr(lane, 4);
    ColumnStart own(
        e, shared,
        {e.mul(e.uniformWarp(), tile.rowsPerWarp()), tile.rowsPerWarp()});
    Value swizzled = e.bitXor(e.shl(e.bitXor(right, row), 4), own.byte);
    Value start = e.add(e.add(base, own.panel),
                        e.mul(e.add(row, e.mul(down, 8)), kRowBytes));
    start = e.add(start, swizzled);
    auto shape = NVVM::LdStMatrixShapeAttr::get(e.b.getContext(), 8, 8);
    int64_t fragments = tile.fragCols();
    for (int64_t f = 0; f < fragments; f += 2) {
      size_t count = std::min<int64_t>(2, fragments - f) * 2;
      Value at = e.add(start, f * 8 * kRowBytes);
      NVVM::StMatrixOp::create(e.b, e.loc, e.sharedPointer(at),
                               SmallVector<Value>(pairs.slice(f * 2, count)),
                               NVVM::MMALayout::col, shape,
                               NVVM::LdStMatrixEltType::B16);
    }
  }
};

static_assert(kPanelCols * 2 == kRowBytes);

} // namespace

void fa2::gpu::populateWgmmaPatterns(TypeConverter &converter,
                                     RewritePatternSet &patterns) {
  patterns.add<WgmmaStartLowering, WgmmaWaitLowering, WgmmaFenceLowering,
               StoreMatrixLowering>(converter, patterns.getContext());
}
