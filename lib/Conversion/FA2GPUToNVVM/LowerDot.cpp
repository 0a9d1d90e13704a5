//===- LowerDot.cpp - matmuls and operand loads ---------------------------===//
//
// Fragments come from shared memory by ldmatrix. Which 8 x 8 blocks one
// ldmatrix brings, whether it transposes, and each lane's address all follow
// from the family's fragment and the tile's layout in shared memory.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Reads 16 x 16 blocks of a shared tile with ldmatrix.x4. `block0` and
/// `block1` say where the 8 x 8 matrices 1 and 2 lie relative to matrix 0 (3 at
/// their sum), in the tile's own coordinates.
class BlockReader {
public:
  /// `firstRow` and `columns` begin the part of the tile that this warp reads.
  BlockReader(Emit &e, Value base, SharedLayout layout, Coord block0,
              Coord block1, Value firstRow, bool transpose,
              std::optional<Columns> columns = {})
      : e(e), base(base), layout(std::move(layout)), transpose(transpose) {
    if (columns) {
      ColumnStart start(e, this->layout, *columns);
      this->base = e.add(base, start.panel);
      startByte = start.byte;
    }
    if (!startByte)
      startByte = e.i32(0);
    // Lane 8 m + r addresses row r of matrix m.
    Value lane = e.lane();
    Value bit0 = e.bitAnd(e.shr(lane, 3), 1), bit1 = e.shr(lane, 4);
    auto combine = [&](int64_t c0, int64_t c1) {
      return e.add(e.mul(bit0, c0), e.mul(bit1, c1));
    };
    rowInBlock = e.add(e.bitAnd(lane, 7), combine(block0.row, block1.row));
    chunk = combine(block0.col / 8, block1.col / 8);
    row = e.add(rowInBlock, firstRow);
  }

  /// The four registers of the block whose matrix 0 starts at (row0, col0).
  SmallVector<Value, 4> load(int64_t row0, int64_t col0) {
    const SharedLayout::Panel &panel = layout.panelOf(col0);
    int64_t chunk0 = (col0 - panel.col) * 2 / SharedLayout::kChunkBytes;
    Value pointer =
        e.gep(address(panel.bytes, chunk0), panel.offset + row0 * panel.bytes);
    Type i32 = e.b.getI32Type();
    auto quad = LLVM::LLVMStructType::getLiteral(e.b.getContext(),
                                                 {i32, i32, i32, i32});
    auto shape = NVVM::LdStMatrixShapeAttr::get(e.b.getContext(), 8, 8);
    Value loaded = NVVM::LdMatrixOp::create(
        e.b, e.loc, quad, pointer, 4,
        transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row, shape,
        NVVM::LdStMatrixEltType::B16);
    SmallVector<Value, 4> regs;
    for (int64_t i = 0; i < 4; ++i)
      regs.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, loaded, i));
    return regs;
  }

private:
  /// base + row * bytes + 16 ((chunk0 + chunk) ^ xor(row)); chunk0 is even and
  /// chunk 0 or 1, so the whole swizzle is one xor of constant and lane parts.
  Value address(int64_t bytes, int64_t chunk0) {
    Value &known = addresses[{bytes, chunk0}];
    if (known)
      return known;
    Value &origin = origins[bytes];
    if (!origin) {
      Value x = xorOf(e, rowInBlock, bytes);
      Value inRow = e.shl(e.bitXor(chunk, x), 4);
      inRow = e.bitXor(inRow, startByte);
      origin = e.add(base, e.add(e.mul(row, bytes), inRow));
    }
    return known = e.sharedPointer(
               e.bitXor(origin, chunk0 * SharedLayout::kChunkBytes));
  }

  Emit &e;
  Value base;
  SharedLayout layout;
  bool transpose;
  Value startByte;
  Value rowInBlock, row, chunk;
  llvm::DenseMap<int64_t, Value> origins;
  llvm::DenseMap<std::pair<int64_t, int64_t>, Value> addresses;
};

RankedTensorType tensorType(Value v) {
  return cast<RankedTensorType>(v.getType());
}

/// Left operands: (fragment row, k step) -> registers.
class OperandA {
public:
  OperandA(Emit &e, RankedTensorType type, ValueRange parts, AccAttr acc,
           bool transposed = false) {
    Fragment fragment = acc.getFamily().operandA();
    if (transposed) {
      // The tile holds [k][m]; a warp's rows are a run of its columns.
      TileLayout layout(fragment, type.getDimSize(1), type.getDimSize(0),
                        acc.warpRows(), 1);
      steps = layout.fragCols();
      reader.emplace(
          e, parts[0], sharedLayout(type), flip(fragment.regBits[1]),
          flip(fragment.regBits[2]), e.i32(0), /*transpose=*/true,
          layout.warpGridRows() == 1
              ? std::optional<Columns>()
              : Columns{e.mul(warpInRows(e, acc), layout.rowsPerWarp()),
                        layout.rowsPerWarp()});
      columnMajor = true;
      return;
    }
    // Every warp reads all columns of a shared tile.
    bool shared = isa<SharedAttr>(type.getEncoding());
    TileLayout layout(fragment, type.getDimSize(0), type.getDimSize(1),
                      acc.warpRows(), shared ? 1 : acc.warpCols());
    steps = layout.fragCols();
    if (shared)
      reader.emplace(e, parts[0], sharedLayout(type), fragment.regBits[1],
                     fragment.regBits[2],
                     e.mul(warpInRows(e, acc), layout.rowsPerWarp()),
                     /*transpose=*/false);
    else
      registers.assign(parts.begin(), parts.end());
  }

  int64_t kSteps() const { return steps; }
  SmallVector<Value, 4> load(int64_t fragRow, int64_t step) {
    if (reader)
      return columnMajor ? reader->load(step * 16, fragRow * 16)
                         : reader->load(fragRow * 16, step * 16);
    ArrayRef<Value> all(registers);
    return SmallVector<Value, 4>(all.slice((fragRow * steps + step) * 4, 4));
  }

private:
  static Coord flip(Coord c) { return {c.col, c.row}; }
  /// This warp's place down the grid of `acc`.
  static Value warpInRows(Emit &e, AccAttr acc) {
    if (acc.warpRows() == 1)
      return e.i32(0);
    Value warp = e.warp();
    int64_t together = acc.getFamily().warpsPerInstruction();
    if (acc.warpCols() > 1 && together > 1) // one row of groups
      return e.bitAnd(warp, together - 1);
    return acc.warpCols() == 1 ? warp : e.divU(warp, e.i32(acc.warpCols()));
  }

  int64_t steps;
  bool columnMajor = false;
  std::optional<BlockReader> reader;
  SmallVector<Value> registers;
};

/// Right operands in shared memory: (k step, pair of fragments) -> registers of
/// two fragments. The tile holds [n][k] when the product transposes it, else
/// [k][n]; ldmatrix transposes in the second case.
class OperandB {
public:
  OperandB(Emit &e, RankedTensorType type, Value base, bool transposed,
           Fragment fragment, Value firstRow,
           std::optional<Columns> columns = {})
      : transposed(transposed),
        reader(e, base, sharedLayout(type), at(fragment.regBits[1]),
               at({0, fragment.cols}), firstRow, /*transpose=*/!transposed,
               columns) {}

  SmallVector<Value, 4> load(int64_t step, int64_t pair) {
    Coord c = at({step * 16, pair * 16});
    return reader.load(c.row, c.col);
  }

private:
  Coord at(Coord kn) const { return transposed ? Coord{kn.col, kn.row} : kn; }
  bool transposed;
  BlockReader reader;
};

/// mma.sync.m16n8k16 on one fragment.
SmallVector<Value, 4> multiply(Emit &e, ArrayRef<Value> a, ArrayRef<Value> b,
                               ArrayRef<Value> c, Type dtype) {
  Type f32 = e.b.getF32Type();
  auto result =
      LLVM::LLVMStructType::getLiteral(e.b.getContext(), {f32, f32, f32, f32});
  auto operand = [&](ArrayRef<Value> regs) {
    SmallVector<Value> out(regs);
    if (dtype.isF16())
      for (Value &v : out)
        v = LLVM::BitcastOp::create(e.b, e.loc,
                                    VectorType::get({2}, e.b.getF16Type()), v);
    return out;
  };
  auto ptx = dtype.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  Value d = NVVM::MmaOp::create(
      e.b, e.loc, result, operand(a), operand(b), SmallVector<Value>(c),
      ArrayRef<int64_t>{16, 8, 16}, std::nullopt, std::nullopt,
      std::array<NVVM::MMATypes, 2>{ptx, ptx},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  SmallVector<Value, 4> regs;
  for (int64_t i = 0; i < 4; ++i)
    regs.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, d, i));
  return regs;
}

struct DotStartLowering : public OpConversionPattern<DotStartOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DotStartOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    // Multiplied again, no register holds where operands lie until then.
    if (op->hasAttr(kAgainName))
      e.readThreadAnew();
    RankedTensorType aType = tensorType(op.getA()),
                     bType = tensorType(op.getB());
    RankedTensorType dType = op.getD().getType().getTile();
    auto acc = cast<AccAttr>(dType.getEncoding());
    if (!isa<MmaSyncAttr>(acc.getFamily()))
      return rewriter.notifyMatchFailure(op, "not of the mma.sync family");
    TileLayout layout = acc.tileLayout(dType.getShape());

    // The left side in registers brings its own share of k (split_k).
    AccAttr aAcc = acc;
    if (auto operand = dyn_cast<OperandAttr>(aType.getEncoding()))
      aAcc = operand.getAcc();
    OperandA a(e, aType, adaptor.getA(), aAcc, op.getTransposeA());
    // The first row of b that this warp reads: its keys, in either product.
    Value firstRow = e.i32(0);
    if (op.getTransposeB())
      firstRow = warpCol(e, layout);
    else if (auto operand = dyn_cast<OperandAttr>(aType.getEncoding()))
      firstRow = warpCol(e, operand.tileLayout(aType.getShape()));
    // Where warps share a row of the result, the columns of b that are its own.
    std::optional<Columns> columns;
    if (!op.getTransposeB() && layout.warpGridCols() > 1) {
      if (!sharedLayout(bType).canSplitColumns(layout.warpGridCols()))
        return rewriter.notifyMatchFailure(
            op, "the columns of b do not fall into equal parts of its panels");
      columns = Columns{warpCol(e, layout), layout.colsPerWarp()};
    }
    OperandB b(e, bType, adaptor.getB()[0], op.getTransposeB(),
               acc.getFamily().operandB(), firstRow, columns);

    SmallVector<Value> d(adaptor.getAcc());
    if (!op.getAcc())
      d.assign(layout.numRegs(), e.f32(0.0f));
    int64_t rows = layout.fragRows(), cols = layout.fragCols();
    for (int64_t step = 0; step < a.kSteps(); ++step) {
      SmallVector<SmallVector<Value, 4>> as;
      for (int64_t i = 0; i < rows; ++i)
        as.push_back(a.load(i, step));
      for (int64_t pair = 0; pair < (cols + 1) / 2; ++pair) {
        SmallVector<Value, 4> bs = b.load(step, pair);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = pair * 2; j < std::min(pair * 2 + 2, cols); ++j) {
            MutableArrayRef<Value> c =
                MutableArrayRef<Value>(d).slice(layout.reg(i, j, 0), 4);
            llvm::copy(multiply(e, as[i],
                                ArrayRef<Value>(bs).slice(j % 2 * 2, 2), c,
                                aType.getElementType()),
                       c.begin());
          }
      }
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(d)});
    return success();
  }
};

/// mma.sync is complete when its results are used.
struct DotWaitLowering : public OpConversionPattern<DotWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DotWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getPending())
      return rewriter.notifyMatchFailure(op, "not of the mma.sync family");
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource()});
    return success();
  }
};

/// The accumulator whose rows a load gives each warp whole, of a tile that lies
/// in panels; null of others.
AccAttr loadedRows(LocalLoadOp op) {
  auto acc = dyn_cast<AccAttr>(tensorType(op.getResult()).getEncoding());
  bool whole = acc && acc.warpCols() == 1 && acc.getSplitK() == 1;
  return whole && !op.getView() ? acc : AccAttr();
}

/// Packed pairs of an accumulator's tile: ldmatrix gives each lane two
/// neighbours of a row, as accumulators have them. Four matrices are two
/// fragments of 8 columns, each of 16 rows, side by side. Transposed, a warp's
/// rows are a run of the shared tile's columns.
struct LocalLoadAccLowering : public OpConversionPattern<LocalLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalLoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto to = tensorType(op.getResult());
    AccAttr acc = loadedRows(op);
    if (!acc || !isPacked(to))
      return rewriter.notifyMatchFailure(op, "not pairs of an accumulator's");
    Emit e(rewriter, op.getLoc());
    TileLayout layout = acc.tileLayout(to.getShape());
    SharedLayout shared = sharedLayout(tensorType(op.getSource()));
    const bool turned = op.getTransposed();
    auto place = [&](int64_t row, int64_t col) {
      return turned ? Coord{col, row} : Coord{row, col};
    };
    Value first = e.mul(e.warp(), layout.rowsPerWarp());
    std::optional<Columns> columns;
    if (turned && layout.warpGridRows() > 1)
      columns = Columns{first, layout.rowsPerWarp()};
    BlockReader reader(e, adaptor.getSource()[0], shared, place(8, 0),
                       place(0, 8), turned ? e.i32(0) : first, turned, columns);
    SmallVector<Value> regs(layout.numRegs() / 2);
    for (int64_t row = 0; row < layout.rowsPerWarp(); row += 16)
      for (int64_t col = 0; col < layout.colsPerWarp(); col += 16) {
        Coord from = place(row, col);
        SmallVector<Value, 4> quad = reader.load(from.row, from.col);
        for (int64_t i = 0; i < 4; ++i)
          if (auto reg = layout.find(0, 0, {row + i % 2 * 8, col + i / 2 * 8}))
            regs[*reg / 2] = quad[i];
      }
    rewriter.replaceOpWithMultiple(op, {ValueRange(regs)});
    return success();
  }
};

/// Elements of 32 bits, two neighbours of a row at once.
struct LocalLoadWideLowering : public OpConversionPattern<LocalLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalLoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto to = tensorType(op.getResult());
    AccAttr acc = loadedRows(op);
    if (!acc || op.getTransposed() || to.getElementTypeBitWidth() != 32)
      return rewriter.notifyMatchFailure(op, "not 32 bits of an accumulator");
    Emit e(rewriter, op.getLoc());
    constexpr int64_t bytes = 4, chunkBytes = SharedLayout::kChunkBytes;
    TileLayout layout = acc.tileLayout(to.getShape());
    SharedLayout shared = sharedLayout(tensorType(op.getSource()));
    Value row = laneRow(e, layout), byte = e.mul(laneCol(e, layout), bytes);
    // A lane's columns begin within two chunks, and its rows lie multiples of
    // eight apart: as for ldmatrix, what is constant of the swizzle is one xor.
    std::map<std::pair<int64_t, int64_t>, Value> addresses;
    auto address = [&](int64_t panel, int64_t chunk) -> Value {
      Value &known = addresses[{panel, chunk}];
      if (known)
        return known;
      Value &origin = addresses[{panel, -1}];
      if (!origin) {
        Value own = e.bitXor(e.shr(byte, llvm::Log2_64(chunkBytes)),
                             xorOf(e, row, panel));
        Value inRow =
            e.add(e.mul(own, chunkBytes), e.bitAnd(byte, chunkBytes - 1));
        origin = e.add(adaptor.getSource()[0], e.add(e.mul(row, panel), inRow));
      }
      return known = e.sharedPointer(e.bitXor(origin, chunk * chunkBytes));
    };
    Type element = to.getElementType();
    SmallVector<Value> values;
    for (int64_t r = 0; r < layout.numRegs(); r += 2) {
      Coord at = layout.at(0, 0, r);
      const SharedLayout::Panel &panel = shared.panelOf(at.col);
      Value from =
          e.gep(address(panel.bytes, (at.col - panel.col) * bytes / chunkBytes),
                panel.offset + at.row * panel.bytes);
      Value pair = LLVM::LoadOp::create(
          rewriter, op.getLoc(), VectorType::get({2}, element), from, 2 * bytes,
          /*isVolatile=*/op->hasAttr(kAgainName));
      for (int64_t i : {0, 1})
        values.push_back(LLVM::ExtractElementOp::create(rewriter, op.getLoc(),
                                                        pair, e.i32(i)));
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(values)});
    return success();
  }
};

/// The same value by value, of an unaligned tile.
struct LocalLoadUnalignedLowering : public OpConversionPattern<LocalLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalLoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto to = tensorType(op.getResult());
    auto acc = dyn_cast<AccAttr>(to.getEncoding());
    if (!op.getView() || !acc)
      return rewriter.notifyMatchFailure(op, "not of a view, or not an "
                                             "accumulator's");
    Emit e(rewriter, op.getLoc());
    TileLayout layout = acc.tileLayout(to.getShape());
    int64_t pitch =
        sharedLayout(tensorType(op.getSource())).panels().front().bytes;
    ViewParts view = ViewParts::from(adaptor.getView());
    int64_t bytes = to.getElementTypeBitWidth() / 8;
    Value lane = laneRow(e, layout);
    Value column =
        e.add(adaptor.getSource()[0], e.mul(laneCol(e, layout), bytes));
    SmallVector<Value> begins;
    for (int64_t slot = 0; slot < layout.numRowSlots(); ++slot) {
      Value row = e.add(lane, rowOfSlot(layout, slot));
      Value before =
          elementsBefore(e, view, e.add(adaptor.getRow()[0], e.toIndex(row)),
                         adaptor.getColumn()[0], bytes);
      begins.push_back(e.sharedPointer(
          e.add(column, e.add(e.mul(row, pitch), e.mul(before, bytes)))));
    }
    auto element = [&](int64_t r, Type type) -> Value {
      return LLVM::LoadOp::create(
          rewriter, op.getLoc(), type,
          e.gep(begins[layout.rowSlot(r)], layout.at(0, 0, r).col * bytes));
    };
    Type i16 = rewriter.getI16Type(), i32 = rewriter.getI32Type();
    SmallVector<Value> values;
    if (!isPacked(to))
      for (int64_t r = 0; r < layout.numRegs(); ++r)
        values.push_back(element(r, to.getElementType()));
    else
      for (int64_t r = 0; r < layout.numRegs(); r += 2) {
        auto bits = [&](int64_t r) -> Value {
          return LLVM::ZExtOp::create(rewriter, op.getLoc(), i32,
                                      element(r, i16));
        };
        values.push_back(LLVM::OrOp::create(rewriter, op.getLoc(), bits(r),
                                            e.shl(bits(r + 1), 16)));
      }
    rewriter.replaceOpWithMultiple(op, {ValueRange(values)});
    return success();
  }
};

struct LocalLoadLowering : public OpConversionPattern<LocalLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(LocalLoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto to = tensorType(op.getResult());
    if (!isa<OperandAttr>(to.getEncoding()) || op.getTransposed())
      return rewriter.notifyMatchFailure(op, "not an operand as it lies");
    Emit e(rewriter, op.getLoc());
    auto layout = cast<OperandAttr>(to.getEncoding()).tileLayout(to.getShape());
    OperandA a(e, tensorType(op.getSource()), adaptor.getSource(),
               cast<OperandAttr>(to.getEncoding()).getAcc());
    SmallVector<Value> regs;
    for (int64_t i = 0; i < layout.fragRows(); ++i)
      for (int64_t step = 0; step < layout.fragCols(); ++step)
        llvm::append_range(regs, a.load(i, step));
    rewriter.replaceOpWithMultiple(op, {ValueRange(regs)});
    return success();
  }
};

} // namespace

void fa2::gpu::populateDotPatterns(TypeConverter &converter,
                                   RewritePatternSet &patterns) {
  patterns.add<DotStartLowering, DotWaitLowering, LocalLoadLowering,
               LocalLoadAccLowering, LocalLoadWideLowering,
               LocalLoadUnalignedLowering>(converter, patterns.getContext());
}
