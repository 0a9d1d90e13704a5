//===- TileOps.cpp - views, tiles and what is computed of them -----------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fa2;

/// A matrix that a source has in dimensions of its own: the columns are the
/// last, the rows are another, and so are batch entry and head, if it has any.
static LogicalResult verifyMatrix(ViewOp op, MemRefType source) {
  ViewType view = op.getView().getType();
  std::optional<ArrayRef<int64_t>> dims = op.getDims();
  if (!dims || !view.hasAnyColumns() ||
      view.getElementType() != source.getElementType() || op.getFirstColumn() ||
      op.getColumn())
    return op.emitOpError()
           << "expected dims beside a view of ? columns of "
           << source.getElementType() << ", from the first on, got " << view;
  SmallVector<int64_t> all;
  for (int64_t dim : *dims)
    if (dim != -1)
      all.push_back(dim);
  bool rows = dims->size() == 4 && (*dims)[1] >= 0 &&
              ((*dims)[0] < 0 || (*dims)[2] >= 0) &&
              (*dims)[3] == source.getRank() - 1;
  llvm::sort(all);
  if (!rows || !llvm::equal(all, llvm::seq<int64_t>(0, source.getRank())))
    return op.emitOpError()
           << "expected dims to be the numbers of the source's batch, row, "
              "head and column dimensions, the last, or -1 for batch, or head "
              "too, which it has not; got ["
           << *dims << "] of " << source;
  return success();
}

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  ViewType view = getView().getType();
  if (getDims() || view.hasAnyColumns())
    return verifyMatrix(*this, source);
  if (getUnaligned())
    return emitOpError() << "expected dims of an unaligned view, which has ? "
                            "columns, got "
                         << view;
  int64_t cols = source.getRank() == 4 ? source.getDimSize(3) : 0;
  if (source.getRank() != 4 && source.getRank() != 3)
    return emitOpError() << "expected a source of rank 4 or 3, got rank "
                         << source.getRank();
  if (getColumn() && (cols == 0 || view.getHeads() > 1))
    return emitOpError() << "expected no column because the source has none, "
                            "or the view packs heads";
  int64_t firstColumn = getFirstColumn();
  if (firstColumn < 0 || (cols > 0 && firstColumn >= cols) ||
      (cols == 0 && firstColumn != 0))
    return emitOpError() << "expected first_column to be one of " << cols
                         << " columns, got " << firstColumn;
  if ((firstColumn || (cols && view.getCols())
           ? view.getCols() > cols - firstColumn
           : view.getCols() != cols) ||
      view.getElementType() != source.getElementType())
    return emitOpError() << "expected a view of " << cols << " columns of "
                         << source.getElementType() << " because its source is "
                         << source << ", got " << view;
  return success();
}

static LogicalResult verifyTileOfView(Operation *op, Type tileType,
                                      ViewType view) {
  auto tile = cast<RankedTensorType>(tileType);
  if (!tile.hasStaticShape() || tile.getElementType() != view.getElementType())
    return op->emitOpError() << "expected a static tile of "
                             << view.getElementType() << ", got " << tile;
  int64_t cols = tile.getRank() == 2 ? tile.getDimSize(1) : 0;
  // A sum has the padding of the accumulator whose order it is in.
  if (tile.getRank() != 2 && view.hasAnyColumns())
    return op->emitOpError() << "expected a tile of rank 2, got " << tile;
  if (view.hasAnyColumns())
    return success();
  if (tile.getRank() > 2 ||
      (view.getOrder() ? cols > view.getCols() : cols != view.getCols()))
    return op->emitOpError() << "expected a tile of the view's "
                             << view.getCols() << " columns, got " << tile;
  return success();
}

LogicalResult fa2::verifyColumn(Operation *op, ViewType view, Value column) {
  if (view.hasAnyColumns() == bool(column))
    return success();
  return op->emitOpError() << "expected "
                           << (column ? "no column" : "a column to begin with")
                           << " because the view is " << view;
}

LogicalResult LoadOp::verify() {
  if (failed(verifyColumn(*this, getView().getType(), getColumn())))
    return failure();
  return verifyTileOfView(*this, getTile().getType(), getView().getType());
}

LogicalResult StoreOp::verify() {
  if (failed(verifyColumn(*this, getView().getType(), getColumn())))
    return failure();
  return verifyTileOfView(*this, getTile().getType(), getView().getType());
}

/// A tile to which is added, and where.
static LogicalResult verifySum(Operation *op, RankedTensorType tile,
                               ViewType view) {
  if (tile.getRank() != 2 || !tile.getElementType().isF32())
    return op->emitOpError() << "expected a tile of f32, got " << tile;
  if (!view.getOrder())
    return op->emitOpError() << "expected a view with an order, in which it "
                                "adds, got "
                             << view;
  return success();
}

static LogicalResult verifyTurns(Operation *op, ViewType turns) {
  if (turns.getElementType().isInteger(32) && !turns.getCols())
    return success();
  return op->emitOpError()
         << "expected turns of i32, a vector of them (1), got " << turns;
}

LogicalResult AccumulateOp::verify() {
  auto tile = cast<RankedTensorType>(getTile().getType());
  if (failed(verifySum(*this, tile, getView().getType())))
    return failure();
  if (bool(getTurn()) != bool(getTurns()) ||
      (!getTurn() &&
       (getBegins() || getEnds() || getSharedRow() || getChange())))
    return emitOpError() << "expected a turn where it begins, ends or changes "
                            "(1)";
  if ((getSeen() && !getBegins()) || (getLater() && !getEnds()))
    return emitOpError() << "expected what is seen where it begins, and later "
                            "where it ends (1)";
  if (bool(getGiven()) != bool(getTold()) ||
      (getGiven() && (!getTurn() || getSharedRow() || getSeen() || getLater())))
    return emitOpError()
           << "expected a turn of one tile that is given, neither "
              "seen before nor passed on later (1)";
  if (bool(getSharedRow()) != bool(getFirst()) ||
      bool(getSharedRow()) != bool(getLast()))
    return emitOpError() << "expected the first and the last tile of a turn "
                            "that several share";
  if (bool(getOpens()) != bool(getCloses()) ||
      bool(getOpens()) != bool(getInto()) || (getOpens() && !getTurn()))
    return emitOpError() << "expected a turn where a sum is opened and closed, "
                            "and what it goes into (1)";
  if (getResumed() && !getCloses())
    return emitOpError() << "expected a sum that closes where it was resumed "
                            "(1)";
  if (bool(getIntoRow()) != bool(getIntoColumn()) ||
      (getIntoRow() && !getInto()))
    return emitOpError() << "expected a row and a column of what it goes into, "
                            "turned (1)";
  if (getInto()) {
    ViewType into = getInto().getType();
    SmallVector<int64_t> shape(tile.getShape());
    if (getIntoRow())
      std::swap(shape[0], shape[1]);
    if (failed(verifyColumn(*this, into, getIntoColumn())) ||
        failed(verifyTileOfView(
            *this, RankedTensorType::get(shape, into.getElementType()), into)))
      return failure();
  }
  if (getTurns() && failed(verifyTurns(*this, getTurns().getType())))
    return failure();
  return verifyTileOfView(*this, tile, getView().getType());
}

LogicalResult ResumeOp::verify() {
  auto tile = cast<RankedTensorType>(getTile().getType());
  if (failed(verifySum(*this, tile, getView().getType())) ||
      failed(verifyTurns(*this, getTurns().getType())))
    return failure();
  if (bool(getSharedRow()) != bool(getFirst()))
    return emitOpError() << "expected the first tile of a turn that several "
                            "share";
  return verifyTileOfView(*this, tile, getView().getType());
}

/// A vector of one value a row, or a column, of a tile.
static LogicalResult verifyVector(Operation *op, Type vector, Type tile,
                                  bool columns) {
  auto v = cast<RankedTensorType>(vector), t = cast<RankedTensorType>(tile);
  if (t.getRank() != 2)
    return op->emitOpError() << "expected a tile of rank 2, got " << t;
  int64_t n = t.getDimSize(columns ? 1 : 0);
  if (v.getRank() != 1 || v.getDimSize(0) != n ||
      v.getElementType() != t.getElementType())
    return op->emitOpError() << "expected a value for each of the " << n << " "
                             << (columns ? "columns" : "rows") << ", got " << v;
  return success();
}

LogicalResult SoftmaxRecomputeOp::verify() {
  if (!getN())
    return success();
  return verifyVector(*this, getN().getType(), getS().getType(), getColumns());
}

LogicalResult DistanceOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  std::optional<ArrayRef<int64_t>> of = getOf();
  if (type.getRank() != (of ? 1 : 2))
    return emitOpError() << "expected a tile, or a vector of the diagonals of "
                            "one (of), got "
                         << type;
  if (of && (of->size() != 2 ||
             of->front() + of->back() - 1 != type.getNumElements()))
    return emitOpError() << "expected of to have rows and columns whose sum "
                            "less 1 is the vector's size, got ["
                         << *of << "] for " << type;
  return success();
}

/// A vector that a part of a tile's columns takes values from may have more.
LogicalResult BroadcastOp::verify() {
  auto v = cast<RankedTensorType>(getVector().getType()),
       t = cast<RankedTensorType>(getResult().getType());
  int64_t first = getFirst();
  if (first < 0 || (first > 0 && !getColumns() && !getDiagonals()))
    return emitOpError() << "expected first to be 0 or, with columns or "
                            "diagonals, more, got "
                         << first;
  if (getDiagonals()) {
    int64_t n =
        t.getRank() == 2 ? t.getDimSize(0) + t.getDimSize(1) - 1 + first : 0;
    if (getColumns() || n == 0 || v.getRank() != 1 || v.getDimSize(0) < n ||
        !v.getElementType().isF32() || !t.getElementType().isF32())
      return emitOpError() << "expected a value of f32 for each of the " << n
                           << " diagonals, or more, got " << v << " for " << t;
    return success();
  }
  if (getColumns() && t.getRank() == 2 && v.getRank() == 1 &&
      v.getElementType() == t.getElementType() &&
      v.getDimSize(0) >= first + t.getDimSize(1))
    return success();
  return verifyVector(*this, v, t, getColumns());
}

LogicalResult GatherOp::verify() {
  auto v = cast<RankedTensorType>(getVector().getType()),
       at = cast<RankedTensorType>(getPlaces().getType()),
       t = cast<RankedTensorType>(getResult().getType());
  if (v.getRank() == 1 && v.getElementType().isF32() && t.getRank() == 2 &&
      t.getElementType().isF32() && at.getElementType().isIndex() &&
      at.getShape() == t.getShape())
    return success();
  return emitOpError() << "expected a tile of f32 from a vector of f32, with a "
                          "place of type index for each element, got "
                       << t << " from " << v << " at " << at;
}

LogicalResult ReadOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  if (int64_t(getIndices().size()) != source.getRank())
    return emitOpError() << "expected " << source.getRank()
                         << " indices, one a dimension, got "
                         << getIndices().size();
  for (int64_t dim : getClamped())
    if (dim < 0 || dim >= source.getRank())
      return emitOpError() << "expected clamped to have dimensions from 0 to "
                           << source.getRank() - 1 << ", got " << dim;
  Type element = source.getElementType();
  if (element.isF16() || element.isBF16())
    element = Float32Type::get(getContext());
  if (getElementTypeOrSelf(getResult()) != element)
    return emitOpError() << "expected a result of " << element << ", got "
                         << getResult().getType();
  auto shaped = dyn_cast<RankedTensorType>(getResult().getType());
  for (Value index : getIndices()) {
    auto t = dyn_cast<RankedTensorType>(index.getType());
    if (!getElementTypeOrSelf(index).isIndex() ||
        (t && (!shaped || t.getShape() != shaped.getShape())))
      return emitOpError() << "expected each index to be an index or a tensor "
                              "of them with the result's shape, got "
                           << index.getType();
  }
  return success();
}

/// Words of exact sums are pairs of i32, and rows of them lie side by side.
static LogicalResult checkWords(Operation *op, Value words, Type sums) {
  auto type = cast<MemRefType>(words.getType());
  if (type.getElementType().isInteger(32) &&
      cast<MemRefType>(sums).getElementType().isF32())
    return success();
  return op->emitOpError() << "expected words of i32 for sums of f32, got "
                           << type << " and " << sums;
}

LogicalResult RoundSumsOp::verify() {
  return checkWords(*this, getWords(), getSums().getType());
}

LogicalResult ScatterOp::verify() {
  auto sum = cast<MemRefType>(getSum().getType());
  if (getWords() && failed(checkWords(*this, getWords(), sum)))
    return failure();
  auto values = cast<RankedTensorType>(getValues().getType());
  if (int64_t(getIndices().size()) != sum.getRank())
    return emitOpError() << "expected " << sum.getRank()
                         << " indices, one a dimension, got "
                         << getIndices().size();
  if (!sum.getElementType().isF32() || !values.getElementType().isF32())
    return emitOpError() << "expected values and a sum of f32, got " << values
                         << " and " << sum;
  ArrayRef<int64_t> shape;
  for (Value index : getIndices()) {
    auto t = dyn_cast<RankedTensorType>(index.getType());
    if (!getElementTypeOrSelf(index).isIndex() ||
        (t && !shape.empty() && t.getShape() != shape))
      return emitOpError() << "expected indices, or tensors of them with one "
                              "shape, got "
                           << index.getType();
    if (t)
      shape = t.getShape();
  }
  if (getDiagonals() && (shape.size() != 2 || getColumns()))
    return emitOpError() << "expected diagonals of a tile's indices, got "
                         << shape.size() << " dimensions";
  int64_t along = getColumns() ? values.getRank() - 1 : 0;
  if (shape.empty() || shape == values.getShape() ||
      (shape.size() == 1 && shape[0] == values.getDimSize(along)))
    return success();
  return emitOpError() << "expected indices of the values' shape, or of their "
                       << (getColumns() ? "columns" : "rows") << ", got "
                       << shape.size() << " dimensions, the first of "
                       << shape[0];
}

LogicalResult StoreSumsOp::verify() {
  auto rows = cast<RankedTensorType>(getRows().getType());
  auto sums = cast<MemRefType>(getSums().getType());
  if (rows.getRank() != 1 || !rows.getElementType().isF32() ||
      rows.getDimSize(0) % 16 != 0)
    return emitOpError() << "expected a vector of f32, 16 rows a sum, got "
                         << rows;
  if (!sums.getElementType().isF32() ||
      sums.getRank() != int64_t(getIndices().size()) + 1)
    return emitOpError() << "expected sums of f32 with one dimension more than "
                         << getIndices().size() << " indices, got " << sums;
  return success();
}

LogicalResult ZeroBoxOp::verify() {
  auto type = cast<MemRefType>(getSum().getType());
  int64_t rank = type.getRank();
  if (int64_t(getFrom().size()) != rank || int64_t(getTo().size()) != rank)
    return emitOpError() << "expected " << rank
                         << " indices in from and in to, one a dimension, got "
                         << getFrom().size() << " and " << getTo().size();
  if (int64_t(getRows()) < 0 || int64_t(getRows()) >= rank - 1)
    return emitOpError() << "expected rows to be a dimension before the last, "
                            "0 to "
                         << rank - 2 << ", got " << getRows();
  return success();
}

LogicalResult AddUpOp::verify() {
  auto parts = cast<MemRefType>(getParts().getType()),
       sums = cast<MemRefType>(getSums().getType());
  if (!parts.getElementType().isF32() || parts.getRank() < 2)
    return emitOpError() << "expected parts of f32 of rank 2 or more, got "
                         << parts;
  if (!sums.getElementType().isF32() || sums.getRank() != 1)
    return emitOpError() << "expected sums of f32 of rank 1, got " << sums;
  return success();
}

LogicalResult KeepOp::verify() {
  auto tile = cast<RankedTensorType>(getResult().getType());
  Type element = tile.getElementType();
  if (tile.getRank() != 2 || !(element.isInteger(1) || element.isInteger(16)))
    return emitOpError() << "expected a tile of i1 or i16, got " << tile;
  if (getWords().size() != 4)
    return emitOpError() << "expected 4 words, of seed and offset, got "
                         << getWords().size();
  return success();
}

LogicalResult TransposeOp::verify() {
  auto from = cast<RankedTensorType>(getTile().getType()),
       to = cast<RankedTensorType>(getResult().getType());
  if (from.getRank() != 2 || from.getElementTypeBitWidth() != 16)
    return emitOpError() << "expected a tile of 16 bits, got " << from;
  SmallVector<int64_t> shape{from.getDimSize(1), from.getDimSize(0)};
  if (to.getShape() != ArrayRef(shape) ||
      to.getElementType() != from.getElementType())
    return emitOpError() << "expected a result of "
                         << RankedTensorType::get(shape, from.getElementType())
                         << ", got " << to;
  return success();
}

LogicalResult AddRowsOp::verify() {
  return verifyVector(*this, getSums().getType(), getTile().getType(),
                      /*columns=*/false);
}

LogicalResult SumRowsOp::verify() {
  return verifyVector(*this, getSums().getType(), getTile().getType(),
                      /*columns=*/false);
}

LogicalResult DotOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType());
  auto b = cast<RankedTensorType>(getB().getType());
  auto d = cast<RankedTensorType>(getD().getType());
  if (a.getRank() != 2 || b.getRank() != 2 || d.getRank() != 2)
    return emitOpError() << "expected tiles of rank 2";
  int64_t k = b.getDimSize(getTransposeB() ? 1 : 0);
  int64_t n = b.getDimSize(getTransposeB() ? 0 : 1);
  int64_t m = a.getDimSize(getTransposeA() ? 1 : 0);
  if (a.getDimSize(getTransposeA() ? 0 : 1) != k)
    return emitOpError() << "expected a to have b's " << k << " inner "
                         << (getTransposeA() ? "rows" : "columns") << ", got "
                         << a.getDimSize(getTransposeA() ? 0 : 1);
  int64_t firstRow = getFirstRow();
  if (firstRow != 0 && (!getTransposeA() || firstRow < 0 ||
                        firstRow % 64 != 0 || firstRow + d.getDimSize(0) > m))
    return emitOpError() << "expected first_row to be a multiple of 64 that "
                            "leaves "
                         << d.getDimSize(0) << " of the " << m
                         << " columns of a, transposed, got " << firstRow;
  int64_t first = getFirstColumn();
  if (first != 0 && (getTransposeB() || first < 0 || first % 32 != 0 ||
                     first + d.getDimSize(1) > n))
    return emitOpError() << "expected first_column to be a multiple of 32 that "
                            "leaves "
                         << d.getDimSize(1) << " of the " << n
                         << " columns of b, not transposed, got " << first;
  if (getColumn() && getTransposeB())
    return emitOpError() << "expected no column of b, which is transposed";
  if (int64_t held = getHeld();
      held < 0 || held % 16 != 0 || (held > 0 && getTransposeA()) || held > k)
    return emitOpError() << "expected held to be a multiple of 16 of the " << k
                         << " columns of a, not transposed, got " << held;
  // Of rows and columns that begin later, or stop earlier, there are as many as
  // d has.
  if ((getTransposeA() ? d.getDimSize(0) > m : d.getDimSize(0) != m) ||
      (getTransposeB() ? d.getDimSize(1) != n : d.getDimSize(1) > n))
    return emitOpError() << "expected a result of " << m << "x" << n << ", got "
                         << d;
  if (getAcc() && getAcc().getType() != d)
    return emitOpError() << "expected acc to have the result's type " << d
                         << ", got " << getAcc().getType();
  return success();
}

/// Zeros stay zeros: factors are finite.
OpFoldResult ScaleRowsOp::fold(FoldAdaptor adaptor) {
  auto tile = dyn_cast_or_null<SplatElementsAttr>(adaptor.getTile());
  if (tile && tile.getSplatValue<APFloat>().isZero())
    return getTile();
  return {};
}

LogicalResult SoftmaxStepOp::verify() {
  auto s = cast<RankedTensorType>(getS().getType());
  for (Value v : {getM(), getL()}) {
    auto t = cast<RankedTensorType>(v.getType());
    if (t.getRank() != 1 || t.getDimSize(0) != s.getDimSize(0))
      return emitOpError() << "expected a value for each of the "
                           << s.getDimSize(0) << " rows, got " << t;
  }
  return success();
}
