//===- LowerCopy.cpp - copies between global and shared memory ------------===//
//
// Threads take the 16-byte chunks of a panel in order, row by row, so that the
// lanes of a warp read whole row segments. A copy whose source size is 0 reads
// nothing and fills its chunk with zeros.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// One chunk of a tile in one thread's hands.
struct Chunk {
  Value shared; // i32 address
  Value global; // pointer
  Value row;    // index: of the chunk's row in the tile, this thread's part
  int64_t step; // and the constant part: the row is row + step
  Value inTile; // i1 or null: this thread has such a chunk
  Value inCols; // i1 or null: the chunk is not padding
  Value chunk;  // its number in the panel, whose first column is col
  int64_t col;
};

/// Calls `body` for each chunk of the tile that falls to this thread.
template <typename Fn>
void forEachChunk(Emit &e, RankedTensorType tile, Value slot, ViewParts view,
                  Value firstRow, int64_t threads, Fn body) {
  SharedLayout layout = sharedLayout(tile);
  int64_t cols = tile.getDimSize(1), rows = tile.getDimSize(0);
  int64_t elementBytes = layout.elementBytes();
  Value thread = e.thread();
  for (const SharedLayout::Panel &panel : layout.panels()) {
    int64_t chunks = panel.bytes / SharedLayout::kChunkBytes;
    int64_t perStep = std::max<int64_t>(threads / chunks, 1);
    Value chunk = e.bitAnd(thread, chunks - 1);
    Value row = e.shr(thread, llvm::Log2_64(chunks));
    // The last chunk of a padded row is beyond the columns.
    int64_t panelCols = panel.bytes / elementBytes;
    Value inCols;
    if (panel.col + panelCols > cols)
      inCols = e.less(chunk, e.i32((cols - panel.col) * elementBytes /
                                   SharedLayout::kChunkBytes));
    auto sharedOffset = [&](Value r) {
      Value x = xorOf(e, r, panel.bytes);
      return e.add(e.mul(r, panel.bytes), e.shl(e.bitXor(chunk, x), 4));
    };
    Value shared0 = e.add(slot, e.add(sharedOffset(row), panel.offset));
    Value row0 = e.add(firstRow, e.toIndex(row));
    Value rowBytes = e.mul(view.rowStride, elementBytes);
    Value bytes = e.add(e.mul(e.toI64(row0), rowBytes),
                        e.mul(e.toI64(e.toIndex(chunk)), 16));
    Value global = e.gep(e.gep(view.base, bytes), panel.col * elementBytes);
    Value step = e.mul(rowBytes, perStep);
    for (int64_t r = 0; r < rows; r += perStep) {
      Chunk c;
      // Swizzles repeat every eight rows.
      c.shared =
          perStep % 8 == 0
              ? e.add(shared0, r * panel.bytes)
              : e.add(slot, e.add(sharedOffset(e.add(row, r)), panel.offset));
      c.global = global;
      c.row = e.toIndex(row);
      c.step = r;
      c.inCols = inCols;
      c.chunk = chunk;
      c.col = panel.col;
      if (r + perStep > rows)
        c.inTile = e.less(e.add(row, r), e.i32(rows));
      body(c);
      if (r + perStep < rows)
        global = e.gep(global, step);
    }
  }
}

/// A vector of the workspace, whose tiles are whole: thread t copies chunk t.
void copyVector(Emit &e, CopyOp op, Value slot, ViewParts view, Value first,
                Value predicate) {
  auto tile = cast<RankedTensorType>(op.getSlot().getType());
  int64_t chunks = tile.getDimSize(0) * 4 / SharedLayout::kChunkBytes;
  Value thread = e.thread(), offset = e.mul(thread, SharedLayout::kChunkBytes);
  when(e, e.less(thread, e.i32(chunks)), [&] {
    Value global = e.gep(view.base, e.mul(e.toI64(first), 4));
    global = e.gep(global, e.toI64(e.toIndex(offset)));
    Value bytes =
        predicate ? e.select(predicate, e.i32(16), e.i32(0)) : Value();
    NVVM::CpAsyncOp::create(e.b, e.loc, e.sharedPointer(e.add(slot, offset)),
                            global, 16, NVVM::LoadCacheModifierKind::CG, bytes);
  });
}

/// A tile of which each row begins somewhere in a chunk: of each row all chunks
/// that it touches, as far as the view has columns.
class UnalignedCopy {
public:
  UnalignedCopy(Emit &e, RankedTensorType tile, Value slot, ViewParts view,
                Value firstRow, Value column)
      : e(e), slot(slot), view(view), firstRow(firstRow), column(column),
        elementBytes(tile.getElementTypeBitWidth() / 8),
        rows(tile.getDimSize(0)),
        chunks(tile.getDimSize(1) * elementBytes / kChunkBytes),
        pitch(sharedLayout(tile).panels().front().bytes) {}

  /// By one warp.
  void run() {
    Value lane = e.lane();
    // So many lanes take chunks of one row side by side, of eight rows at once.
    int64_t side = std::min<int64_t>(chunks & -chunks, kWarpLanes / kRows);
    copy(e.bitAnd(lane, side - 1), e.shr(lane, llvm::Log2_64(side)), side,
         kWarpLanes / side);
    // The last chunk of a row, where it does not begin at one.
    for (int64_t row = 0; row < rows; row += kWarpLanes)
      when(e,
           row + kWarpLanes > rows ? e.less(lane, e.i32(rows - row)) : Value(),
           [&] { copyLast(e.add(lane, row)); });
  }

private:
  /// A row begins at the same element of a chunk as so many rows before.
  static constexpr int64_t kChunkBytes = SharedLayout::kChunkBytes, kRows = 8;

  /// Chunk `chunk` of row `row`, every `side` further one, and those of every
  /// `step` further row, a multiple of eight: they all begin alike.
  void copy(Value chunk, Value row, int64_t side, int64_t step) {
    assert(step % kRows == 0 && rows % step == 0 && "whole rows of a warp");
    Value before = elementsBeforeRow(row), from = chunksOf(row, before);
    Value ownBytes = e.mul(chunk, kChunkBytes);
    from = e.gep(from, e.toI64(e.toIndex(ownBytes)));
    Value to = e.add(slot, e.add(e.mul(row, pitch), ownBytes));
    Value there = e.sub(bytesFrom(before), ownBytes);
    SmallVector<Value> sizes;
    for (int64_t first = 0; first < chunks; first += side)
      sizes.push_back(upToChunk(e.add(there, -first * kChunkBytes)));
    Value further = e.mul(e.mul(view.rowStride, elementBytes), step);
    for (int64_t r = 0; r < rows; r += step) {
      Value inside = isRow(e.add(row, r));
      for (auto [i, size] : llvm::enumerate(sizes)) {
        int64_t bytes = i * side * kChunkBytes;
        issue(e.add(to, r * pitch + bytes), e.gep(from, bytes),
              e.select(inside, size, e.i32(0)));
      }
      if (r + step < rows)
        from = e.gep(from, further);
    }
  }

  void copyLast(Value row) {
    Value before = elementsBeforeRow(row);
    Value size = upToChunk(e.add(bytesFrom(before), -chunks * kChunkBytes));
    Value needed = e.both(e.less(e.i32(0), before), isRow(row));
    issue(e.add(slot, e.add(e.mul(row, pitch), chunks * kChunkBytes)),
          e.gep(chunksOf(row, before), chunks * kChunkBytes),
          e.select(needed, size, e.i32(0)));
  }

  Value elementsBeforeRow(Value row) {
    return elementsBefore(e, view, e.add(firstRow, e.toIndex(row)), column,
                          elementBytes);
  }
  /// The chunk in which a row of the tile begins.
  Value chunksOf(Value row, Value before) {
    Value elements =
        e.mul(e.toI64(e.add(firstRow, e.toIndex(row))), view.rowStride);
    elements = e.add(elements, e.toI64(column));
    elements = e.sub(elements, e.toI64(e.toIndex(before)));
    return e.gep(view.base, e.mul(elements, elementBytes));
  }
  /// Whether this row of the tile is the view's.
  Value isRow(Value row) {
    return e.below(e.add(firstRow, e.toIndex(row)), view.length);
  }
  /// Bytes from the row's first chunk to the last column of the view.
  Value bytesFrom(Value before) {
    return e.mul(e.add(e.toI32(e.sub(view.columns, column)), before),
                 elementBytes);
  }
  Value upToChunk(Value bytes) {
    Value positive = arith::MaxSIOp::create(e.b, e.loc, bytes, e.i32(0));
    return arith::MinSIOp::create(e.b, e.loc, positive, e.i32(kChunkBytes));
  }

  void issue(Value to, Value from, Value bytes) {
    NVVM::CpAsyncOp::create(e.b, e.loc, e.sharedPointer(to), from, kChunkBytes,
                            NVVM::LoadCacheModifierKind::CG, bytes);
  }

  Emit &e;
  Value slot;
  ViewParts view;
  Value firstRow, column;
  int64_t elementBytes, rows, chunks, pitch;
};

/// Whether it is this warp's, of all of the role but the first.
Value isTurn(Emit &e, CopyOp op, Value number) {
  auto roles = op->getParentOfType<RolesOp>();
  int64_t others = roles.getWarps()[roles.getRoleOf(op)] - 1;
  Value warp = e.add(e.remU(e.toI32(number), e.i32(others)), 1);
  return e.b.createOrFold<arith::CmpIOp>(e.loc, arith::CmpIPredicate::eq,
                                         e.warp(), warp);
}

struct CopyLowering : public OpConversionPattern<CopyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto tile = cast<RankedTensorType>(op.getSlot().getType());
    ViewParts view = ViewParts::from(adaptor.getView());
    if (tile.getRank() == 1) {
      copyVector(e, op, adaptor.getSlot()[0], view, adaptor.getRow()[0],
                 op.getPredicate() ? adaptor.getPredicate()[0] : Value());
      rewriter.eraseOp(op);
      return success();
    }
    if (op.getTurn()) {
      if (!op->getParentOfType<RolesOp>())
        return rewriter.notifyMatchFailure(op, "expected a role, whose warps "
                                               "take turns");
      when(e, isTurn(e, op, adaptor.getTurn()[0]), [&] {
        UnalignedCopy(e, tile, adaptor.getSlot()[0], view, adaptor.getRow()[0],
                      adaptor.getColumn()[0])
            .run();
      });
      rewriter.eraseOp(op);
      return success();
    }
    forEachChunk(
        e, tile, adaptor.getSlot()[0], view, adaptor.getRow()[0], threadsOf(op),
        [&](const Chunk &c) {
          Value read = c.inCols;
          // step < length - firstRow - row: one register and a constant
          if (!op.getInBounds())
            read = e.both(
                read,
                e.less(e.index(c.step),
                       e.sub(e.sub(view.length, adaptor.getRow()[0]), c.row)));
          if (op.getPredicate())
            read = e.both(read, adaptor.getPredicate()[0]);
          Value bytes = read ? e.select(read, e.i32(16), e.i32(0)) : Value();
          when(e, c.inTile, [&] {
            NVVM::CpAsyncOp::create(rewriter, op.getLoc(),
                                    e.sharedPointer(c.shared), c.global, 16,
                                    NVVM::LoadCacheModifierKind::CG, bytes);
          });
        });
    rewriter.eraseOp(op);
    return success();
  }
};

struct CopyOutLowering : public OpConversionPattern<CopyOutOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CopyOutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    e.readThreadAnew();
    auto tile = cast<RankedTensorType>(op.getSlot().getType());
    ViewParts view = ViewParts::from(adaptor.getView());
    Value left; // columns from the tile's first on
    int64_t bytes = tile.getElementTypeBitWidth() / 8;
    if (op.getColumn()) {
      Value column = adaptor.getColumn()[0];
      view.base = e.gep(view.base, e.mul(e.toI64(column), bytes));
      left = e.toI32(e.sub(view.columns, column));
    }
    auto quad = VectorType::get({4}, rewriter.getI32Type());
    forEachChunk(
        e, tile, adaptor.getSlot()[0], view, adaptor.getRow()[0], threadsOf(op),
        [&](const Chunk &c) {
          Value inside = c.inCols;
          if (left)
            inside = e.both(
                inside,
                e.less(e.add(e.shl(c.chunk, llvm::Log2_64(16 / bytes)), c.col),
                       left));
          Value write = e.both(e.both(c.inTile, inside),
                               e.less(e.add(c.row, c.step),
                                      e.sub(view.length, adaptor.getRow()[0])));
          when(e, write, [&] {
            Value v = LLVM::LoadOp::create(rewriter, op.getLoc(), quad,
                                           e.sharedPointer(c.shared), 16);
            LLVM::StoreOp::create(rewriter, op.getLoc(), v, c.global, 16);
          });
        });
    rewriter.eraseOp(op);
    return success();
  }
};

struct CopyCommitLowering : public OpConversionPattern<CopyCommitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CopyCommitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncCommitGroupOp>(op);
    return success();
  }
};

struct CopyWaitLowering : public OpConversionPattern<CopyWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CopyWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncWaitGroupOp>(op, op.getPending());
    return success();
  }
};

} // namespace

void fa2::gpu::populateCopyPatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns
      .add<CopyLowering, CopyOutLowering, CopyCommitLowering, CopyWaitLowering>(
          converter, patterns.getContext());
}
