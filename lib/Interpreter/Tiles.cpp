//===- Tiles.cpp - tiles and global memory --------------------------------===//

#include "Evaluate.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

static void give(Frame &f, Value result, std::shared_ptr<Tile> tile) {
  f.set(result, Datum(TileRef(std::move(tile))));
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static void fill(Tile &tile, Element value) {
  std::fill(tile.real.begin(), tile.real.end(), value.real);
  std::fill(tile.whole.begin(), tile.whole.end(), value.whole);
}

/// The elements of a constant, one for all where it is a splat.
static std::vector<Element> elementsOf(Attribute value) {
  std::vector<Element> elements;
  if (auto real = dyn_cast<FloatAttr>(value))
    elements.push_back({float(real.getValueAsDouble()), 0});
  else if (auto whole = dyn_cast<IntegerAttr>(value))
    elements.push_back(
        {0, wrapTo(whole.getType(), whole.getValue().getSExtValue())});
  else if (auto splat = dyn_cast<SplatElementsAttr>(value))
    return elementsOf(splat.getSplatValue<Attribute>());
  else if (auto dense = dyn_cast<DenseElementsAttr>(value))
    for (Attribute each : dense.getValues<Attribute>())
      elements.push_back(elementsOf(each).front());
  return elements;
}

void interpreter::run(Frame &f, arith::ConstantOp op) {
  auto tile = makeTile(op.getType());
  std::vector<Element> elements = elementsOf(op.getValue());
  if (elements.size() == 1)
    fill(*tile, elements.front());
  else
    for (auto [i, each] : llvm::enumerate(elements))
      (tile->real.empty() ? (void)(tile->whole[i] = each.whole)
                          : (void)(tile->real[i] = each.real));
  give(f, op.getResult(), tile);
}

void interpreter::run(Frame &f, tensor::SplatOp op) {
  auto tile = makeTile(op.getType());
  TileRef value = f.tile(op.getInput());
  fill(*tile, {value->real.empty() ? 0 : value->real.front(),
               value->whole.empty() ? 0 : value->whole.front()});
  give(f, op.getResult(), tile);
}

void interpreter::run(Frame &f, memref::DimOp op) {
  const Memory *memory = f.as<const Memory *>(op.getSource());
  int64_t d = f.whole(op.getIndex());
  if (f.halted())
    return;
  if (d < 0 || d >= int64_t(memory->shape.size()))
    f.fail() << "asks for dimension " << d << " of '" << memory->name << "'";
  else
    f.set(op.getResult(), memory->shape[d]);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

void interpreter::run(Frame &f, SequenceOp op) {
  const Memory *memory = f.as<const Memory *>(op.getSource());
  f.set(op.getOffset(), int64_t(0));
  f.set(op.getLength(), memory ? memory->shape[1] : 0);
}

void interpreter::run(Frame &f, ViewOp op) {
  View view{f.as<const Memory *>(op.getSource()),
            f.whole(op.getBatch()),
            f.whole(op.getHead()),
            f.whole(op.getOffset()),
            f.whole(op.getLength()),
            op.getView().getType().getHeads(),
            int64_t(op.getFirstColumn()) +
                (op.getColumn() ? f.whole(op.getColumn()) : 0),
            op.getDims().value_or(ArrayRef<int64_t>())};
  f.set(op.getView(), Datum(view));
}

/// The row of the sequence, and the head, that a tile's row shows.
static std::pair<int64_t, int64_t> placeOf(const View &view, int64_t first,
                                           int64_t row) {
  int64_t each = kGroupRows / view.heads, inGroup = row % kGroupRows;
  return {first + row / kGroupRows * each + inGroup % each,
          view.head + inGroup / each};
}

/// An element's address; null where memory has none, such as in padding.
static char *addressOf(const View &view, int64_t row, int64_t head,
                       int64_t col) {
  int64_t at = view.offset + row;
  if (!view.dims.empty()) {
    SmallVector<int64_t> indices(view.memory->shape.size());
    int64_t place[] = {view.batch, at, head, view.firstColumn + col};
    for (auto [dim, index] : llvm::zip(view.dims, place))
      if (dim >= 0)
        indices[dim] = index;
    return view.memory->at(indices);
  }
  if (view.memory->shape.size() == 3)
    return view.memory->at({view.batch, head, at});
  return view.memory->at({view.batch, at, head, view.firstColumn + col});
}

/// Calls visit(index, address) for the elements of a tile that memory has;
/// fails where a row within the length is none of the tensor's.
template <typename Visit>
static void forEach(Frame &f, const View &view, int64_t first, const Tile &tile,
                    Part part, Visit visit) {
  // A vector is a column of a view's rows.
  bool vector = tile.shape.size() == 1;
  int64_t rows = vector ? tile.cols() : tile.rows();
  int64_t cols = vector ? 1 : tile.cols();
  for (int64_t r = 0; r < rows && !f.halted(); ++r) {
    auto [row, head] = placeOf(view, first, r);
    if (row < 0 || row >= view.length)
      continue;
    // Of some columns all may lie behind the last.
    if (view.dims.empty() && !addressOf(view, row, head, 0)) {
      f.fail() << "row " << row << " of batch entry " << view.batch << ", head "
               << head << " is no row of '" << view.memory->name << "'";
      return;
    }
    for (int64_t c = 0; c < cols; ++c)
      if (vector ? part.holds(0, r) : part.holds(r, c))
        if (char *at = addressOf(view, row, head, c))
          visit(r * cols + c, at);
  }
}

std::shared_ptr<Tile> interpreter::loadTile(Frame &f, const View &view,
                                            int64_t row, Type type) {
  auto tile = makeTile(type);
  if (!view.memory)
    return tile;
  Type element = view.memory->element;
  forEach(f, view, row, *tile, Part(), [&](int64_t i, const char *at) {
    Element read = loadElement(element, at);
    if (tile->real.empty())
      tile->whole[i] = read.whole;
    else
      tile->real[i] = read.real;
  });
  return tile;
}

void interpreter::storeTile(Frame &f, const View &view, int64_t row,
                            const Tile &tile, Part part, bool adds) {
  if (!view.memory || f.halted())
    return;
  if (!view.memory->writable) {
    f.fail() << "writes to '" << view.memory->name << "', an input";
    return;
  }
  Type element = view.memory->element;
  forEach(f, view, row, tile, part, [&](int64_t i, char *at) {
    if (tile.real.empty())
      return storeElement(element, at, {0, tile.whole[i]});
    float before = adds ? loadElement(element, at).real : 0;
    storeElement(element, at, {before + tile.real[i], 0});
  });
}

std::shared_ptr<Tile> interpreter::transposed(const Tile &from) {
  auto tile = std::make_shared<Tile>(from);
  std::swap(tile->shape[0], tile->shape[1]);
  for (int64_t r = 0; r < from.rows(); ++r)
    for (int64_t c = 0; c < from.cols(); ++c)
      tile->real[c * from.rows() + r] = from.real[r * from.cols() + c];
  return tile;
}

/// What a load or a store is of: from the column on that it says.
template <typename Op> static View viewOf(Frame &f, Op op) {
  View view = f.as<View>(op.getView());
  if (op.getColumn())
    view.firstColumn = f.whole(op.getColumn());
  return view;
}

template <typename Op> static void load(Frame &f, Op op) {
  give(
      f, op.getTile(),
      loadTile(f, viewOf(f, op), f.whole(op.getRow()), op.getTile().getType()));
}

void interpreter::run(Frame &f, fa2::LoadOp op) { load(f, op); }
void interpreter::run(Frame &f, fa2::gpu::LoadOp op) { load(f, op); }

void interpreter::run(Frame &f, StoreOp op) {
  storeTile(f, viewOf(f, op), f.whole(op.getRow()), *f.tile(op.getTile()),
            f.part(op.getTile().getType()));
}

/// Where the counters of `row` are. That of this program's first warp stands
/// for those of all its warps.
static char *counterAt(Frame &f, const View &turns, int64_t row) {
  return addressOf(turns, row + f.strand.group * f.strand.warps(), turns.head,
                   0);
}

/// Where the counter of `row` is if the turn has come, or null. Blocks run one
/// after the other, so it has or never will.
template <typename Op>
static char *takeTurn(Frame &f, Op op, bool atLeast = false) {
  if (!op.getTurns() || f.halted())
    return nullptr;
  View view = f.as<View>(op.getTurns());
  char *at = counterAt(
      f, view, f.whole(op.getSharedRow() ? op.getSharedRow() : op.getRow()));
  if (!at)
    return nullptr;
  int64_t turn = f.whole(op.getTurn()),
          now = loadElement(view.memory->element, at).whole;
  if (now == turn || (atLeast && now > turn))
    return at;
  f.fail() << "adds in turn " << turn << ", but it is turn " << now;
  return nullptr;
}

/// Another role of the block may still pass on the turn before, of a tile of
/// keys that the block has taken before.
void interpreter::run(Frame &f, fa2::gpu::AwaitTurnOp op) {
  f.set(op.getNext(), int64_t(0)); // nobody looks ahead
  if (f.halted())
    return;
  View view = f.as<View>(op.getTurns());
  int64_t row = f.whole(op.getRow()), turn = f.whole(op.getTurn());
  char *at = counterAt(f, view, row);
  if (!at)
    return;
  f.wait("turn " + std::to_string(turn) + " at row " + std::to_string(row),
         [&] {
           int64_t now = loadElement(view.memory->element, at).whole;
           return now == turn || (op.getAtLeast() && now > turn);
         });
}

static void passTurn(Frame &f, AccumulateOp op, char *at) {
  if (!at || !op.getEnds() || op.getLater() || op.getGiven() ||
      (op.getLast() && !f.whole(op.getLast())))
    return;
  Type type = f.as<View>(op.getTurns()).memory->element;
  storeElement(type, at, {0, loadElement(type, at).whole + 1});
}

void interpreter::run(Frame &f, fa2::gpu::ChangeTurnOp op) {
  View view = f.as<View>(op.getTurns());
  Type type = view.memory->element;
  auto at = [&](int64_t row) {
    return f.halted() ? nullptr : counterAt(f, view, row);
  };
  if (op.getSeen()) {
    char *next = at(f.whole(op.getNext()));
    f.set(op.getSeen(), next ? loadElement(type, next).whole : int64_t(0));
  }
  int64_t row = f.whole(op.getPast());
  if (char *past = row < 0 ? nullptr : at(row))
    storeElement(type, past, {0, loadElement(type, past).whole + 1});
}

void interpreter::run(Frame &f, AccumulateOp op) {
  passTurn(f, op, takeTurn(f, op, op.getAtLeast()));
  View view = f.as<View>(op.getView());
  int64_t row = f.whole(op.getRow());
  TileRef tile = f.tile(op.getTile());
  RankedTensorType type = op.getTile().getType();
  bool opens = op.getOpens() && f.whole(op.getOpens());
  if (!op.getCloses() || !f.whole(op.getCloses()))
    return storeTile(f, view, row, *tile, f.part(type), /*adds=*/!opens);
  bool added = opens || op.getResumed();
  auto sum = added ? makeTile(type) : loadTile(f, view, row, type);
  for (auto [x, y] : llvm::zip(sum->real, tile->real))
    x += y;
  for (Value factor : op.getFactors())
    for (float &x : sum->real)
      x *= f.real(factor);
  View into = f.as<View>(op.getInto());
  if (!op.getIntoRow())
    return storeTile(f, into, row, *sum, f.part(type));
  into.firstColumn = f.whole(op.getIntoColumn());
  storeTile(f, into, f.whole(op.getIntoRow()), *transposed(*sum),
            f.part(type).transposed());
}

void interpreter::run(Frame &f, ResumeOp op) {
  RankedTensorType type = op.getTile().getType();
  bool resumes = f.whole(op.getCloses()) && !f.whole(op.getOpens());
  if (resumes)
    takeTurn(f, op);
  give(f, op.getTile(),
       resumes
           ? loadTile(f, f.as<View>(op.getView()), f.whole(op.getRow()), type)
           : makeTile(type));
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

void interpreter::run(Frame &f, fa2::gpu::JoinOp op) {
  auto d = makeTile(cast<RankedTensorType>(op.getResult().getType()));
  int64_t first = 0;
  for (Value part : {op.getLeft(), op.getRight()}) {
    TileRef t = f.tile(part);
    for (int64_t i = 0; i < t->rows(); ++i)
      std::copy_n(&t->real[i * t->cols()], t->cols(),
                  &d->real[i * d->cols() + first]);
    first += t->cols();
  }
  f.set(op.getResult(), Datum(TileRef(d)));
}

void interpreter::run(Frame &f, BroadcastOp op) {
  TileRef vector = f.tile(op.getVector());
  auto tile = makeTile(op.getType());
  for (int64_t r = 0, i = 0; r < tile->rows(); ++r)
    for (int64_t c = 0; c < tile->cols(); ++c, ++i) {
      int64_t column = c + op.getFirst();
      int64_t from = op.getDiagonals() ? column - r + tile->rows() - 1
                     : op.getColumns() ? column
                                       : r;
      if (tile->real.empty())
        tile->whole[i] = vector->whole[from];
      else
        tile->real[i] = vector->real[from];
    }
  give(f, op.getResult(), tile);
}

void interpreter::run(Frame &f, GatherOp op) {
  TileRef vector = f.tile(op.getVector()), places = f.tile(op.getPlaces());
  auto tile = makeTile(op.getResult().getType());
  for (int64_t i = 0; i < tile->size() && !f.halted(); ++i) {
    int64_t from = places->whole[i];
    if (from < 0 || from >= vector->size())
      f.fail() << "reads element " << from << " of a vector of "
               << vector->size();
    else
      tile->real[i] = vector->real[from];
  }
  give(f, op.getResult(), tile);
}

static float sumOfRow(const Tile &tile, int64_t row) {
  double sum = 0;
  for (int64_t c = 0; c < tile.cols(); ++c)
    sum += tile.real[row * tile.cols() + c];
  return float(sum);
}

void interpreter::run(Frame &f, SumRowsOp op) {
  TileRef tile = f.tile(op.getTile());
  auto sums = makeTile(op.getSums().getType());
  for (int64_t r = 0; r < tile->rows(); ++r)
    sums->real[r] = sumOfRow(*tile, r);
  give(f, op.getSums(), sums);
}

void interpreter::run(Frame &f, fa2::gpu::LaneSumsOp op) {
  TileRef tile = f.tile(op.getTile());
  auto sums = makeTile(op.getSums().getType());
  for (int64_t r = 0; r < tile->rows(); ++r)
    sums->real[r] = sumOfRow(*tile, r);
  give(f, op.getSums(), sums);
}

void interpreter::run(Frame &f, AddRowsOp op) {
  TileRef tile = f.tile(op.getTile());
  auto sums = std::make_shared<Tile>(*f.tile(op.getSums()));
  for (int64_t r = 0; r < tile->rows(); ++r)
    sums->real[r] += sumOfRow(*tile, r);
  give(f, op.getResult(), sums);
}

void interpreter::run(Frame &f, ScaleRowsOp op) {
  auto tile = std::make_shared<Tile>(*f.tile(op.getTile()));
  TileRef factors = f.tile(op.getFactors());
  // Of a vector, each element is a row.
  int64_t columns = tile->size() / factors->size();
  for (int64_t i = 0; i < tile->size(); ++i)
    tile->real[i] *= factors->real[i / columns];
  give(f, op.getResult(), tile);
}
