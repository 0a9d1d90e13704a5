//===- LowerRows.cpp - rows of memory and registers -----------------------===//
//
// Loads and stores that need no shared memory: a value a row, and tiles in an
// accumulator's registers, row by row.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Where this thread's values of a row vector lie in memory.
struct RowAddresses {
  RowAddresses(Emit &e, const TileLayout &layout, ViewParts view, Value first,
               int64_t heads, int64_t elementBytes = 4)
      : e(e), view(view), heads(heads), elementBytes(elementBytes),
        first(first), lane(laneRow(e, layout)) {
    if (heads > 1)
      return;
    row0 = e.add(first, e.toIndex(lane));
    bytes = e.mul(view.rowStride, elementBytes);
    start = e.gep(view.base, e.mul(e.toI64(row0), bytes));
  }
  /// Whether the row is the sequence's.
  Value inside(int64_t row) {
    Value at = heads > 1 ? packed(row) : e.add(row0, row);
    return mayPrecede(first) ? e.below(at, view.length)
                             : e.less(at, view.length);
  }
  Value pointer(int64_t row) {
    if (heads == 1)
      return e.gep(start, e.mul(bytes, row));
    Value head = packedHead(e, e.add(lane, row), heads);
    Value elements = e.add(e.mul(e.toI64(packed(row)), view.rowStride),
                           e.mul(e.toI64(e.toIndex(head)), view.headStride));
    return e.gep(view.base, e.mul(elements, elementBytes));
  }

private:
  Value packed(int64_t row) {
    return e.add(first, e.toIndex(packedRow(e, e.add(lane, row), heads)));
  }

  Emit &e;
  ViewParts view;
  int64_t heads, elementBytes;
  Value first, lane, row0, bytes, start;
};

/// A value a row: every lane that shares the row reads it; 0 past the end.
struct LoadRowsLowering : public OpConversionPattern<fa2::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(fa2::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    auto encoding = dyn_cast_or_null<RowAttr>(type.getEncoding());
    if (!encoding)
      return rewriter.notifyMatchFailure(op, "not a row vector");
    Emit e(rewriter, op.getLoc());
    TileLayout layout = encoding.getAcc().tileLayout({type.getDimSize(0), 8});
    RowAddresses rows(e, layout, ViewParts::from(adaptor.getView()),
                      adaptor.getRow()[0], op.getView().getType().getHeads());
    SmallVector<Value> out;
    for (int64_t slot = 0; slot < layout.numRowSlots(); ++slot) {
      int64_t row = rowOfSlot(layout, slot);
      auto branch = scf::IfOp::create(rewriter, op.getLoc(), e.b.getF32Type(),
                                      rows.inside(row), /*withElse=*/true);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(branch.thenBlock());
      Value v = LLVM::LoadOp::create(rewriter, op.getLoc(), e.b.getF32Type(),
                                     rows.pointer(row));
      scf::YieldOp::create(rewriter, op.getLoc(), v);
      rewriter.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(rewriter, op.getLoc(), e.f32(0.0f));
      out.push_back(branch.getResult(0));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// A tile in an accumulator's registers and row by row in memory.
struct RowTile {
  RowTile(Emit &e, RankedTensorType type, AccAttr acc, ViewParts view,
          Value first, int64_t heads)
      : e(e), layout(acc.tileLayout(type.getShape())),
        elementBytes(type.getElementTypeBitWidth() / 8),
        rows(e, layout, view, first, heads, elementBytes),
        col(laneCol(e, layout)),
        padded(layout.colsPerWarp() * layout.warpGridCols() != layout.cols()) {}

  /// The registers that begin pairs of columns in the rows of `slot`.
  SmallVector<int64_t> pairs(int64_t slot) const {
    SmallVector<int64_t> registers;
    for (int64_t r = 0; r < layout.numRegs(); r += 2)
      if (layout.rowSlot(r) == slot)
        registers.push_back(r);
    return registers;
  }
  int64_t slots() const { return layout.numRowSlots(); }
  Value inside(int64_t slot) { return rows.inside(rowOfSlot(layout, slot)); }
  /// Whether a pair has columns of the tile; no value where all have.
  Value exists(int64_t r) {
    return padded ? e.less(e.toIndex(e.add(col, layout.at(0, 0, r).col)),
                           e.index(layout.cols()))
                  : Value();
  }
  Value row(int64_t slot) { return rows.pointer(rowOfSlot(layout, slot)); }
  Value at(Value row, Value column) {
    return e.gep(row, e.toI64(e.toIndex(e.mul(column, elementBytes))));
  }
  Value pointer(int64_t slot, int64_t r) {
    Value column = e.add(col, layout.at(0, 0, r).col);
    return at(row(slot), column);
  }

  Emit &e;
  TileLayout layout;
  int64_t elementBytes;
  RowAddresses rows;
  Value col;
  bool padded;
};

VectorType pairOfF32(MLIRContext *ctx) {
  return VectorType::get({2}, Float32Type::get(ctx));
}

/// Rows past the end are zero.
struct LoadTileLowering : public OpConversionPattern<fa2::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(fa2::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    auto acc = dyn_cast_or_null<AccAttr>(type.getEncoding());
    ViewType view = op.getView().getType();
    if (!acc || !type.getElementType().isF32() || view.getOrder())
      return rewriter.notifyMatchFailure(op, "not f32 row by row");
    Emit e(rewriter, op.getLoc());
    RowTile tile(e, type, acc, ViewParts::from(adaptor.getView()),
                 adaptor.getRow()[0], view.getHeads());
    SmallVector<Value> out(tile.layout.numRegs());
    for (int64_t slot = 0; slot < tile.slots(); ++slot)
      for (int64_t r : tile.pairs(slot)) {
        Value there = e.both(tile.inside(slot), tile.exists(r));
        auto branch = scf::IfOp::create(rewriter, op.getLoc(),
                                        pairOfF32(getContext()), there,
                                        /*withElse=*/true);
        OpBuilder::InsertionGuard guard(rewriter);
        rewriter.setInsertionPointToStart(branch.thenBlock());
        Value pair =
            LLVM::LoadOp::create(rewriter, op.getLoc(), pairOfF32(getContext()),
                                 tile.pointer(slot, r));
        scf::YieldOp::create(rewriter, op.getLoc(), pair);
        rewriter.setInsertionPointToStart(branch.elseBlock());
        Value zeros = LLVM::ZeroOp::create(rewriter, op.getLoc(),
                                           pairOfF32(getContext()));
        scf::YieldOp::create(rewriter, op.getLoc(), zeros);
        rewriter.setInsertionPointAfter(branch);
        for (int64_t i : {0, 1})
          out[r + i] = LLVM::ExtractElementOp::create(
              rewriter, op.getLoc(), branch.getResult(0), e.i32(i));
      }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

struct StoreTileLowering : public OpConversionPattern<StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    auto acc = dyn_cast_or_null<AccAttr>(type.getEncoding());
    ViewType view = op.getView().getType();
    if (!acc || !type.getElementType().isF32() || view.getOrder())
      return rewriter.notifyMatchFailure(op, "not f32 row by row");
    Emit e(rewriter, op.getLoc());
    e.readThreadAnew();
    inStoringWarps(e, acc, [&] {
      RowTile tile(e, type, acc, ViewParts::from(adaptor.getView()),
                   adaptor.getRow()[0], view.getHeads());
      for (int64_t slot = 0; slot < tile.slots(); ++slot)
        for (int64_t r : tile.pairs(slot)) {
          Value there = e.both(tile.inside(slot), tile.exists(r));
          auto branch = scf::IfOp::create(rewriter, op.getLoc(), there);
          OpBuilder::InsertionGuard guard(rewriter);
          rewriter.setInsertionPointToStart(branch.thenBlock());
          Value pair = together(e, adaptor.getTile().slice(size_t(r), 2));
          LLVM::StoreOp::create(rewriter, op.getLoc(), pair,
                                tile.pointer(slot, r));
        }
    });
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreElementsLowering : public OpConversionPattern<StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    if (!isa_and_nonnull<AccAttr>(type.getEncoding()) || !isPacked(type) ||
        op.getView().getType().getOrder())
      return rewriter.notifyMatchFailure(op, "not 16 bits row by row");
    Emit e(rewriter, op.getLoc());
    storeElements(e, type, adaptor.getTile(), op.getView().getType(),
                  ViewParts::from(adaptor.getView()), adaptor.getRow()[0]);
    rewriter.eraseOp(op);
    return success();
  }
};

/// Whether a lane is the first of those that share its rows.
Value leadsRow(Emit &e, const TileLayout &layout) {
  int64_t others = 0;
  for (int64_t mask : layout.rowReductionLanes())
    others |= mask;
  return e.b.createOrFold<arith::CmpIOp>(e.loc, arith::CmpIPredicate::eq,
                                         e.bitAnd(e.lane(), others), e.i32(0));
}

/// A value a row (lse): the first of the lanes that share the row stores it.
struct StoreRowsLowering : public OpConversionPattern<StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    auto encoding = dyn_cast<RowAttr>(type.getEncoding());
    if (!encoding)
      return rewriter.notifyMatchFailure(op, "not a row vector");
    Emit e(rewriter, op.getLoc());
    e.readThreadAnew();
    AccAttr acc = encoding.getAcc();
    TileLayout layout = acc.tileLayout({type.getDimSize(0), 8});
    ViewParts view = ViewParts::from(adaptor.getView());
    inStoringWarps(e, acc, [&] {
      Value leads = leadsRow(e, layout);
      RowAddresses rows(e, layout, view, adaptor.getRow()[0],
                        op.getView().getType().getHeads());
      for (auto [slot, value] : llvm::enumerate(adaptor.getTile())) {
        int64_t row = rowOfSlot(layout, slot);
        Value inside = rows.inside(row);
        if (acc.getFamily().warpsPerInstruction() > 1) {
          // No branch while matmuls are in flight.
          Value operands[] = {rows.pointer(row), value, e.both(leads, inside)};
          bool real = type.getElementType().isF32();
          e.ptx(real ? "@$2 st.global.f32 [$0], $1;"
                     : "@$2 st.global.u32 [$0], $1;",
                real ? "l,f,b" : "l,r,b", operands);
          continue;
        }
        auto branch =
            scf::IfOp::create(rewriter, op.getLoc(), e.both(leads, inside));
        OpBuilder::InsertionGuard guard(rewriter);
        rewriter.setInsertionPointToStart(branch.thenBlock());
        LLVM::StoreOp::create(rewriter, op.getLoc(), value, rows.pointer(row));
      }
    });
    rewriter.eraseOp(op);
    return success();
  }
};

/// A value a row to shared memory, for other roles.
struct LocalStoreRowsLowering : public OpConversionPattern<LocalStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalStoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getValue().getType());
    auto encoding = dyn_cast_or_null<RowAttr>(type.getEncoding());
    if (!encoding)
      return rewriter.notifyMatchFailure(op, "not a row vector");
    Emit e(rewriter, op.getLoc());
    TileLayout layout = rowLayout(encoding, type);
    inStoringWarps(e, encoding.getAcc(), [&] {
      Value leads = leadsRow(e, layout);
      Value lane = laneRow(e, layout);
      Value start = e.add(adaptor.getSlot()[0], e.mul(lane, 4));
      int64_t last = layout.fragment().rows - 1;
      for (auto [slot, value] : llvm::enumerate(adaptor.getValue())) {
        int64_t row = rowOfSlot(layout, slot);
        Value stores = leads;
        if (row + last >= layout.rows()) // rows that pad the fragment
          stores = e.both(stores, e.less(lane, e.i32(layout.rows() - row)));
        Value operands[] = {e.add(start, row * 4), value, stores};
        e.ptx("@$2 st.shared.f32 [$0], $1;", "r,f,b", operands);
      }
    });
    rewriter.eraseOp(op);
    return success();
  }
};

constexpr int64_t kLanesOfRow = 4, kColumns = 8;

/// Of four times four values, four in each lane, the transposed ones: lane i's
/// value j becomes lane j's value i.
SmallVector<Value> exchange(Emit &e, Value lane, ValueRange x) {
  SmallVector<Value> at(x);
  for (int64_t distance : {1, 2}) {
    Value upper = e.less(e.i32(0), e.bitAnd(lane, distance));
    for (int64_t i = 0; i < kLanesOfRow; ++i) {
      if (i & distance)
        continue;
      Value low = at[i], high = at[i + distance];
      Value come = e.shuffleXor(e.select(upper, low, high), distance);
      at[i] = e.select(upper, come, low);
      at[i + distance] = e.select(upper, high, come);
    }
  }
  return at;
}

} // namespace

void fa2::gpu::storeElements(Emit &e, RankedTensorType type, ValueRange packed,
                             ViewType viewType, ViewParts view, Value row) {
  auto acc = cast<AccAttr>(type.getEncoding());
  e.readThreadAnew();
  inStoringWarps(e, acc, [&] {
    RowTile tile(e, type, acc, view, row, viewType.getHeads());
    const TileLayout &layout = tile.layout;
    Value lane = e.bitAnd(e.lane(), kLanesOfRow - 1);
    // tile.col is where the lane's pairs begin.
    Value own = e.add(tile.col, e.mul(lane, kColumns - 2));
    for (int64_t slot = 0; slot < tile.slots(); ++slot) {
      SmallVector<int64_t> pairs = tile.pairs(slot);
      Value inside = tile.inside(slot), row = tile.row(slot);
      for (size_t i = 0; i < pairs.size(); i += kLanesOfRow) {
        Value column = e.add(own, layout.at(0, 0, pairs[i]).col);
        SmallVector<Value> four;
        for (size_t k = i; k < i + kLanesOfRow; ++k)
          four.push_back(
              packed[size_t(pairs[std::min(k, pairs.size() - 1)] / 2)]);
        four = exchange(e, lane, four);
        Value there = inside;
        // What lies behind the warp's columns may be another warp's.
        if (int64_t left = int64_t(pairs.size() - i); left < kLanesOfRow)
          there = e.both(there, e.less(lane, e.i32(left)));
        if (tile.padded)
          there =
              e.both(there, e.less(e.toIndex(column), e.index(layout.cols())));
        Value operands[] = {
            tile.at(row, column), four[0], four[1], four[2], four[3], there};
        e.ptx("@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b",
              operands);
      }
    }
  });
}

void fa2::gpu::storeTurned(Emit &e, RankedTensorType type, ValueRange packed,
                           ViewParts view, Value row, Value column) {
  auto acc = cast<AccAttr>(type.getEncoding());
  e.readThreadAnew();
  inStoringWarps(e, acc, [&] {
    TileLayout layout = acc.tileLayout(type.getShape());
    size_t slots = size_t(layout.numRowSlots());
    std::vector<SmallVector<int64_t>> pairs{slots}; // of each slot
    for (int64_t r = 0; r < layout.numRegs(); r += 2)
      pairs[size_t(layout.rowSlot(r))].push_back(r);
    Value lane = e.bitAnd(e.lane(), kLanesOfRow - 1),
          rowOfLane = e.shr(e.lane(), llvm::Log2_64(kLanesOfRow));
    // A lane's chunk is of one of so many slots, whose rows are columns here,
    // and of one of so many times eight columns, which are rows.
    size_t together = std::min(slots, size_t(kLanesOfRow)),
           blocks = kLanesOfRow / together;
    size_t count = pairs.front().size();
    for (size_t slot = 0; slot < slots; slot += together) {
      auto rowOf = [&](size_t i) {
        return rowOfSlot(layout, int64_t(slot + i));
      };
      Value own = e.i32(rowOf(0));
      for (size_t bit = 1; bit < together; bit *= 2)
        own = e.add(own, e.mul(e.bitAnd(e.shr(lane, llvm::Log2_64(bit)), 1),
                               rowOf(bit) - rowOf(0)));
      Value at = e.add(column, e.toIndex(e.add(warpRow(e, layout), own)));
      Value isColumn = e.less(at, view.columns);
      Value start = e.gep(view.base, e.mul(e.toI64(at), 2));
      Value rowBytes = e.mul(view.rowStride, 2);
      Value block = e.shr(lane, llvm::Log2_64(together));
      Value first =
          e.add(row, e.toIndex(e.add(e.add(warpCol(e, layout), rowOfLane),
                                     e.mul(block, kColumns))));
      for (size_t i = 0; i < count; i += blocks) {
        SmallVector<Value> four;
        for (size_t k = i; k < i + blocks; ++k)
          for (size_t s = slot; s < slot + together; ++s)
            four.push_back(e.instruction(
                e.b.getI32Type(),
                "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r",
                packed[size_t(pairs[s][std::min(k, count - 1)] / 2)]));
        four = exchange(e, lane, four);
        Value to = e.add(first, layout.at(0, 0, pairs[slot][i]).col);
        Value there = e.both(isColumn, e.less(to, view.length));
        if (size_t left = count - i; left < blocks)
          there = e.both(there, e.less(block, e.i32(int64_t(left))));
        Value operands[] = {e.gep(start, e.mul(e.toI64(to), rowBytes)),
                            four[0],
                            four[1],
                            four[2],
                            four[3],
                            there};
        e.ptx("@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r,b",
              operands);
      }
    }
  });
}

void fa2::gpu::populateRowPatterns(TypeConverter &converter,
                                   RewritePatternSet &patterns) {
  patterns
      .add<LoadRowsLowering, LoadTileLowering, StoreTileLowering,
           StoreElementsLowering, StoreRowsLowering, LocalStoreRowsLowering>(
          converter, patterns.getContext());
}
