//===- FA2GPUOps.cpp - verifiers of the fa2gpu ops ------------------------===//

#include "KnownConversions.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

#define GET_OP_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUOps.cpp.inc"

LogicalResult ConvertLayoutOp::verify() {
  auto from = cast<RankedTensorType>(getSource().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError() << "expected the same shape and element type, got "
                         << from << " and " << to;
  auto source = dyn_cast_or_null<DistributedLayoutAttr>(from.getEncoding());
  auto target = dyn_cast_or_null<DistributedLayoutAttr>(to.getEncoding());
  if (!source || !target)
    return emitOpError() << "expected two layouts in registers";
  auto *known =
      (*this)->getDialect()->getRegisteredInterface<KnownConversions>();
  if (known->contains(from, to))
    return success();
  // Every element must stay in its warp and lane. Fragments are linear in the
  // bits of the lane, so lane 0 and the basis lanes speak for all; so do two
  // warps and the first element of the others.
  TileLayout src = source.tileLayout(from.getShape());
  TileLayout dst = target.tileLayout(to.getShape());
  if (src.warps() != dst.warps())
    return emitOpError() << "expected layouts over the same warps";
  for (int64_t warp : {int64_t(0), src.warps() - 1})
    for (int64_t lane : {0, 1, 2, 4, 8, 16})
      for (int64_t reg = 0; reg < dst.numRegs(); ++reg) {
        Coord c = dst.at(warp, lane, reg);
        if (c.col < to.getDimSize(1) && !src.find(warp, lane, c))
          return emitOpError()
                 << "expected element (" << c.row << ", " << c.col
                 << ") to stay in warp " << warp << ", lane " << lane
                 << " because the conversion only renames registers";
      }
  for (int64_t warp = 0; warp < src.warps(); ++warp)
    if (src.at(warp, 0, 0) != dst.at(warp, 0, 0))
      return emitOpError() << "expected warp " << warp
                           << " to have the same part of the tile in both";
  known->add(from, to);
  return success();
}

/// A copy's rows are those of its map's boxes.
static LogicalResult verifyHeads(Operation *op, Value map, int64_t heads) {
  auto source = map.getDefiningOp<TensorMapOp>();
  if (!source || int64_t(source.getHeads()) == heads)
    return success();
  return op->emitOpError() << "expected heads = " << source.getHeads()
                           << ", as its map has, got " << heads;
}

LogicalResult TileLoopOp::verify() {
  auto yield = dyn_cast<TileYieldOp>(getBody().front().getTerminator());
  size_t carried = getInits().size();
  if (!yield || yield.getCursors().size() != carried ||
      getBody().getNumArguments() != carried + 4)
    return emitOpError() << "expected a body of tile, head, batch, visit and "
                         << carried
                         << " carried cursors, all of which it yields";
  return success();
}

LogicalResult fa2::gpu::LoadOp::verify() {
  return verifyColumn(*this, getView().getType(), getColumn());
}

static bool isUnaligned(Value tile) {
  auto layout = dyn_cast_or_null<SharedAttr>(
      cast<RankedTensorType>(tile.getType()).getEncoding());
  return layout && layout.getUnaligned();
}

LogicalResult CopyOp::verify() {
  bool unaligned = isUnaligned(getSlot());
  if (unaligned == bool(getColumn()) && unaligned == bool(getTurn()))
    return success();
  return emitOpError() << "expected a column and a turn of an unaligned tile, "
                          "and of no other, got "
                       << getSlot().getType()
                       << (getColumn() ? " with a column" : "")
                       << (getTurn() ? " with a turn" : "");
}

static LogicalResult verifyTurns(Operation *op, ViewType turns) {
  if (!turns.getElementType().isInteger(32) || turns.getCols())
    return op->emitOpError()
           << "expected turns of i32, a vector of them, got " << turns;
  return success();
}

LogicalResult ChangeTurnOp::verify() {
  if (bool(getSeen()) != bool(getNext()))
    return emitOpError() << "expected a result where it looks for the next "
                            "turn, and there alone";
  return verifyTurns(*this, getTurns().getType());
}

LogicalResult AwaitTurnOp::verify() {
  return verifyTurns(*this, getTurns().getType());
}

LogicalResult LocalLoadOp::verify() {
  bool unaligned = isUnaligned(getSource());
  if (unaligned == bool(getView()) && (!unaligned || !getTransposed()))
    return success();
  return emitOpError()
         << "expected a view of an unaligned tile, as it lies, and "
            "of no other, got "
         << getSource().getType() << (getView() ? " of a view" : "")
         << (getTransposed() ? ", transposed" : "");
}

LogicalResult TensorCopyOp::verify() {
  // Rows of several heads are side by side in 64 rows, as a warpgroup's
  // products have them.
  RingType ring = getRing().getType();
  int64_t rows = ring.getTile().getDimSize(0) / ring.getParts();
  if (getHeads() > 1 && rows != kGroupRows)
    return emitOpError() << "expected a ring whose parts have " << kGroupRows
                         << " rows, of " << getHeads() << " heads, got "
                         << rows;
  return verifyHeads(*this, getMap(), getHeads());
}

LogicalResult BulkCopyOp::verify() {
  auto slot = cast<RankedTensorType>(getSlot().getType());
  if (slot.getRank() != 1 || getView().getType().getCols() ||
      slot.getElementType() != getView().getType().getElementType() ||
      slot.getNumElements() * slot.getElementTypeBitWidth() % 128 != 0)
    return emitOpError() << "expected a vector of whole 16 bytes and a view of "
                            "such, got "
                         << slot << " and " << getView().getType();
  return success();
}

LogicalResult PeerCopyOp::verify() {
  auto create = getRing().getDefiningOp<RingCreateOp>();
  if (!create || !create.getPeer())
    return emitOpError() << "expected a ring that the cluster's other block "
                            "fills, which has 'peer'";
  if (getTile().getType() != create.getRing().getType().getTile())
    return emitOpError() << "expected a tile of ring '" << create.getName()
                         << "', " << create.getRing().getType().getTile()
                         << ", got " << getTile().getType();
  return success();
}

LogicalResult TensorStoreOp::verify() {
  if (int64_t across = getAcross(); across < 1)
    return emitOpError() << "expected across to be at least 1, got " << across;
  return verifyHeads(*this, getMap(), getHeads());
}

/// stmatrix of a warpgroup's accumulators knows one width of panels.
LogicalResult LocalStoreOp::verify() {
  auto value = cast<RankedTensorType>(getValue().getType());
  auto slot = cast<RankedTensorType>(getSlot().getType());
  auto shared = dyn_cast_or_null<SharedAttr>(slot.getEncoding());
  int64_t rows = value.getDimSize(0);
  if (value.getRank() == 1) {
    if (shared && isa_and_nonnull<RowAttr>(value.getEncoding()) &&
        slot.getShape() == value.getShape() &&
        slot.getElementType() == value.getElementType() &&
        value.getElementType().isF32() && !getTransposed())
      return success();
    return emitOpError()
           << "expected a vector of rows in f32, and a slot in shared "
              "memory for it, got "
           << value << " and " << slot;
  }
  int64_t cols = value.getDimSize(1);
  if (getTransposed())
    std::swap(rows, cols);
  // A slot of another tensor may have other columns, and padding.
  if (!shared || slot.getElementType() != value.getElementType() ||
      slot.getDimSize(0) != rows || sharedLayout(slot).paddedCols() < cols)
    return emitOpError() << "expected a slot in shared memory for " << value
                         << (getTransposed() ? ", transposed" : "") << ", got "
                         << slot;
  constexpr int64_t panel = 128;
  auto acc = dyn_cast_or_null<AccAttr>(value.getEncoding());
  if (acc && isa<WgmmaAttr>(acc.getFamily()) && shared.getPanel() != panel)
    return emitOpError() << "expected a slot in panels of " << panel
                         << " bytes because " << acc.getFamily()
                         << " stores by stmatrix, got " << slot;
  return success();
}

LogicalResult JoinOp::verify() {
  auto left = cast<RankedTensorType>(getLeft().getType()),
       right = cast<RankedTensorType>(getRight().getType()),
       result = cast<RankedTensorType>(getResult().getType());
  auto acc = dyn_cast_or_null<AccAttr>(result.getEncoding());
  bool alike = acc && acc.warpCols() == 1;
  for (RankedTensorType part : {left, right})
    alike &= part.getElementType() == result.getElementType() &&
             part.getEncoding() == acc && part.getRank() == 2 &&
             part.getDimSize(0) == result.getDimSize(0) &&
             part.getDimSize(1) % 8 == 0;
  if (alike && left.getDimSize(1) + right.getDimSize(1) == result.getDimSize(1))
    return success();
  return emitOpError() << "expected accumulators of one layout, whose columns, "
                          "multiples of 8, add up; got "
                       << left << " and " << right << " for " << result;
}

/// Whether columns from `first` on lie in whole panels of 64, or in half a one.
static bool beginsInPanel(int64_t first, int64_t cols) {
  return first % 64 == 0 || (first % 32 == 0 && cols <= 32);
}

/// What is wrong with the columns of a that are in registers too.
static std::string heldError(DotStartOp op, AccAttr acc, int64_t rows,
                             int64_t columns) {
  if (!op.getHeld())
    return "";
  auto type = cast<RankedTensorType>(op.getHeld().getType());
  auto a = cast<RankedTensorType>(op.getA().getType());
  auto layout = dyn_cast_or_null<OperandAttr>(type.getEncoding());
  if (!op.isAsynchronous() || op.getTransposeA() || op.getJoins() ||
      !isa_and_nonnull<SharedAttr>(a.getEncoding()))
    return llvm::formatv("expected columns to be held of an a in shared memory "
                         "that is not transposed, by an asynchronous product "
                         "that joins no other; got {0}",
                         type);
  if (type.getRank() == 2 && type.getDimSize(0) == rows &&
      type.getDimSize(1) <= columns && type.getDimSize(1) % 16 == 0 &&
      type.getElementType() == a.getElementType() && layout &&
      layout.getAcc() == acc && layout.getWhole() == (acc.warpCols() > 1) &&
      (acc.warpCols() == 1 || acc.getGroups()[0] == 1))
    return "";
  return llvm::formatv("expected {0} rows and a multiple of 16, at most {1}, "
                       "of columns to be held as an operand of {2}, whole "
                       "where one row of warpgroups shares its columns; got "
                       "{3}",
                       rows, columns, acc, type);
}

LogicalResult DotStartOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType());
  auto b = cast<RankedTensorType>(getB().getType());
  RankedTensorType d = getD().getType().getTile();
  int64_t k = b.getDimSize(getTransposeB() ? 1 : 0);
  int64_t n = b.getDimSize(getTransposeB() ? 0 : 1);
  int64_t m = a.getDimSize(getTransposeA() ? 1 : 0);
  int64_t first = getFirstColumn(), cols = d.getDimSize(1);
  bool wrong =
      getTransposeB()
          ? first % 8 != 0 || first < 0 || first + cols > n || getColumn()
          : !beginsInPanel(first, cols) || first + cols > n;
  int64_t firstRow = getFirstRow(), rows = d.getDimSize(0);
  wrong |= getTransposeA()
               ? firstRow % 64 != 0 || firstRow < 0 || firstRow + rows > m
               : firstRow != 0 || rows != m;
  if (a.getDimSize(getTransposeA() ? 0 : 1) != k || wrong)
    return emitOpError() << "expected " << m << "x" << k << " by " << k << "x"
                         << n << ", got " << a << " by " << b << " into " << d;
  auto acc = dyn_cast_or_null<AccAttr>(d.getEncoding());
  if (acc && acc.getFamily().warpsPerInstruction() == 1 &&
      (first != 0 || rows != m || (getTransposeB() && cols != n) ||
       getClears() || getColumn()))
    return emitOpError()
           << "expected first_column = 0, no other column, all rows and "
              "no clears because "
           << acc.getFamily() << " multiplies, got " << first << " and " << rows
           << " of " << m << " rows and " << cols << " of " << n << " columns";
  if (!acc)
    return emitOpError() << "expected a result in an accumulator layout, got "
                         << d;
  if (getJoins() && !isa_and_nonnull<DotStartOp>(getOperation()->getPrevNode()))
    return emitOpError() << "expected the product that it joins right before "
                            "it";
  if (getJoins() && (getAcc() || !isa_and_nonnull<SharedAttr>(a.getEncoding())))
    return emitOpError() << "expected no registers that are read where a "
                            "product joins the one before";
  if (!isa_and_nonnull<SharedAttr>(b.getEncoding()))
    return emitOpError() << "expected b in shared memory, got " << b;
  if (getTransposeA() && !isa_and_nonnull<SharedAttr>(a.getEncoding()))
    return emitOpError() << "expected a in shared memory because it is "
                            "transposed, got "
                         << a;
  if (!isa_and_nonnull<SharedAttr, OperandAttr>(a.getEncoding()))
    return emitOpError() << "expected a in shared memory or operand registers, "
                         << "got " << a;
  if (auto operand = dyn_cast<OperandAttr>(a.getEncoding())) {
    // A warp has all of k for its rows, or its own share for a sum of its own.
    AccAttr from = operand.getAcc();
    if (from.warpRows() != acc.warpRows() || acc.warpCols() != 1 ||
        from.warpCols() != acc.getSplitK())
      return emitOpError() << "expected a in registers of the warps that have "
                              "its rows of the result, "
                           << acc << ", got " << operand;
  }
  if (std::string wrong = heldError(*this, acc, m, k); !wrong.empty())
    return emitOpError() << wrong;
  std::string refusal =
      acc.getFamily().checkProduct(a, b, d, getTransposeA(), getTransposeB());
  if (!refusal.empty())
    return emitOpError() << "expected " << refusal << " because "
                         << acc.getFamily() << " multiplies";
  // As much is read from a later column on as from the first.
  int64_t held = acc.warpCols() * acc.tileLayout(d.getShape()).colsPerWarp();
  int64_t there = getTransposeB() ? n : sharedLayout(b).paddedCols();
  if (first != 0 && acc.warpCols() > 1 && first + held > there)
    return emitOpError() << "expected " << held << " columns of b from column "
                         << first << " on, " << held / acc.warpCols()
                         << " for each of " << acc.warpCols()
                         << " warpgroups, got " << there << " in all";
  if (getAcc() && getAcc().getType() != d)
    return emitOpError() << "expected acc to have the result's type " << d;
  if (getClears() && !getAcc())
    return emitOpError() << "expected acc, whose registers it clears";
  return success();
}
