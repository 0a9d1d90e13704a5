//===- ProgramTiler.cpp - a score program on tiles ------------------------===//

#include "ProgramTiler.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

using namespace mlir;
using namespace fa2;

ProgramTiler::ProgramTiler(OpBuilder &b, Location loc, ScoreProgram program,
                           ValueRange extras, ScorePlace place)
    : b(b), loc(loc), program(program), place(place) {
  for (auto [argument, extra] : llvm::zip(
           program.block().getArguments().drop_front(ScoreProgram::FirstExtra),
           extras))
    written[argument] = extra;
  findAxes();
  if (place.packedHeads == 1 && !place.row)
    findDiagonals();
  placeArguments();
  write(None);
  write(Rows);
  if (place.loads != ScorePlace::Loads::None)
    writeViews();
}

std::pair<Value, Value> fa2::packedRows(OpBuilder &b, Location loc,
                                        const ScorePlace &place) {
  auto type = RankedTensorType::get({place.rows}, b.getIndexType());
  int64_t run = kGroupRows / place.packedHeads;
  Value at = PositionsOp::create(b, loc, type, place.rowBlock, Value());
  auto all = [&](Value x) -> Value {
    return tensor::SplatOp::create(b, loc, type, x, ValueRange{});
  };
  auto number = [&](int64_t n) {
    return all(arith::ConstantIndexOp::create(b, loc, n));
  };
  Value runs = arith::DivUIOp::create(b, loc, at, number(run));
  Value own = arith::RemUIOp::create(b, loc, runs, number(place.packedHeads));
  Value head = arith::AddIOp::create(b, loc, all(place.head), own);
  Value groups = arith::DivUIOp::create(b, loc, at, number(kGroupRows));
  Value query = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, groups, number(run)),
      arith::RemUIOp::create(b, loc, at, number(run)));
  return {head, query};
}

/// Batch entry, head and rows.
void ProgramTiler::placeArguments() {
  Block &block = program.block();
  Value rows = block.getArgument(place.transposed ? ScoreProgram::Column
                                                  : ScoreProgram::Row);
  Value head = block.getArgument(ScoreProgram::Head);
  written[block.getArgument(ScoreProgram::Batch)] = place.batch;
  written[head] = place.head;
  if (place.row)
    written[block.getArgument(ScoreProgram::Row)] = place.row;
  if (place.packedHeads > 1)
    std::tie(written[head], written[rows]) = packedRows(b, loc, place);
  else if (!rows.use_empty())
    written[rows] = PositionsOp::create(
        b, loc, typeWith(Rows, b.getIndexType()), place.rowBlock, place.lead);
}

void ProgramTiler::findAxes() {
  Block &block = program.block();
  axes[block.getArgument(ScoreProgram::Score)] = Tile;
  axes[block.getArgument(ScoreProgram::Head)] =
      place.packedHeads > 1 ? Rows : None;
  axes[block.getArgument(ScoreProgram::Row)] = place.row          ? None
                                               : place.transposed ? Columns
                                                                  : Rows;
  axes[block.getArgument(ScoreProgram::Column)] =
      place.transposed ? Rows : Columns;
  for (Operation &step : block.without_terminator())
    for (Value result : step.getResults())
      axes[result] = axesOfAll(step.getOperands());
}

ProgramTiler::Axes ProgramTiler::axesOfAll(ValueRange values) const {
  unsigned all = None;
  for (Value v : values)
    all |= axesOf(v);
  return Axes(all);
}

Type ProgramTiler::typeWith(Axes which, Type element) const {
  switch (which) {
  case None:
    return element;
  case Rows:
    return RankedTensorType::get({place.rows}, element);
  case Columns:
    return RankedTensorType::get({place.cols}, element);
  case Tile:
    return RankedTensorType::get({place.rows, place.cols}, element);
  case Diagonals:
    return RankedTensorType::get({place.rows + place.cols - 1}, element);
  }
  llvm_unreachable("no other axes");
}

bool ProgramTiler::isBrought(Value v) const {
  return onTile.contains(v) && isa<FloatType>(v.getType()) &&
         costly.contains(v);
}

void ProgramTiler::findDiagonals() {
  Block &block = program.block();
  for (Operation &step : block.without_terminator()) {
    auto ofDistance = [&](Value x) {
      return axesOf(x) == None || diagonal.contains(x);
    };
    if (step.getNumResults() != 1 || axesOf(step.getResult(0)) != Tile ||
        !(program.distance(&step) ||
          llvm::all_of(step.getOperands(), ofDistance)))
      continue;
    diagonal[step.getResult(0)] = Value();
    // A read, a function, and what is made of one.
    if (isa<tensor::ExtractOp, math::ExpOp, math::Exp2Op, math::TanhOp,
            arith::DivFOp>(step) ||
        llvm::any_of(step.getOperands(),
                     [&](Value x) { return costly.contains(x); }))
      costly.insert(step.getResult(0));
  }
  // From what the tile needs, back to what that is made of.
  llvm::SmallPtrSet<Operation *, 16> needed;
  for (Operation &step : llvm::reverse(block)) {
    Value result = step.getNumResults() == 1 ? step.getResult(0) : Value();
    bool brought = result && isBrought(result);
    if (brought)
      needed.insert(&step);
    for (Value x : step.getOperands()) {
      if (needed.contains(&step) && diagonal.contains(x))
        needed.insert(x.getDefiningOp());
      if (!brought && (!result || onTile.contains(result)))
        onTile.insert(x);
    }
  }
  for (Operation &step : block.without_terminator())
    if (!needed.contains(&step) && step.getNumResults() == 1)
      diagonal.erase(step.getResult(0));
}

Value ProgramTiler::spread(Value v, Axes to) {
  if (to == Diagonals && diagonal.contains(v))
    return diagonal.lookup(v);
  Value &x = written[v];
  Axes from = axesOf(v);
  if (from == to)
    return x;
  Type type = typeWith(to, v.getType());
  if (Value vector = loaded.lookup(v)) {
    Type f32 = typeWith(to, b.getF32Type());
    x = BroadcastOp::create(b, loc, f32, vector, /*columns=*/true);
    return type == f32 ? x : arith::BitcastOp::create(b, loc, type, x);
  }
  if (from == None)
    return tensor::SplatOp::create(b, loc, type, x, ValueRange{});
  return BroadcastOp::create(b, loc, type, x, /*columns=*/from == Columns);
}

/// A dimension whose index is a coordinate has its extent. Other indices are
/// brought into the extent.
Value ProgramTiler::writeIndex(Value argument, unsigned dim, Value index,
                               Value source, Axes to) {
  size_t extra =
      cast<BlockArgument>(argument).getArgNumber() - ScoreProgram::FirstExtra;
  Axes own = axesOf(index);
  if (own == Tile && to == Diagonals)
    own = Diagonals;
  // Those of the launch's grid are within their extents.
  if (program.coordinateOf(extra, dim) != ScoreProgram::Score)
    return own == None ? written.lookup(index) : spread(index, to);
  Value extent = memref::DimOp::create(b, loc, source, dim);
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value last = arith::SubIOp::create(b, loc, extent, one);
  // Numbers of 32 bits are compared as such: half the instructions.
  auto narrow = index.getDefiningOp<arith::IndexCastOp>();
  Type type = b.getIndexType();
  if (own != None && narrow && narrow.getIn().getType().isInteger(32) &&
      axesOf(narrow.getIn()) == axesOf(index)) {
    type = narrow.getIn().getType();
    index = narrow.getIn();
    Value most = arith::ConstantIndexOp::create(
        b, loc, std::numeric_limits<int32_t>::max());
    last = arith::MinSIOp::create(b, loc, last, most);
    last = arith::IndexCastOp::create(b, loc, type, last);
  }
  auto across = [&](Value x) -> Value {
    if (own == None)
      return x;
    return tensor::SplatOp::create(b, loc, typeWith(own, type), x,
                                   ValueRange{});
  };
  Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0));
  Value x = own == Diagonals ? diagonal.lookup(index) : written.lookup(index);
  x = arith::MinSIOp::create(b, loc, x, across(last));
  x = arith::MaxSIOp::create(b, loc, x, across(zero));
  if (!type.isIndex())
    x = arith::IndexCastUIOp::create(b, loc, typeWith(own, b.getIndexType()),
                                     x);
  if (own != None && own != to)
    x = BroadcastOp::create(b, loc, typeWith(to, b.getIndexType()), x,
                            /*columns=*/own == Columns);
  return x;
}

SmallVector<Value> ProgramTiler::writeIndices(ValueRange given, Value argument,
                                              Value source, Axes to) {
  SmallVector<Value> indices;
  for (auto [dim, index] : llvm::enumerate(given))
    indices.push_back(writeIndex(argument, dim, index, source, to));
  return indices;
}

SmallVector<Value> ProgramTiler::indicesOf(ContributeOp part, Value sum) {
  if (part.getIndices().empty()) // of a scalar: [1]
    return {arith::ConstantIndexOp::create(b, loc, 0)};
  return writeIndices(part.getIndices(), part.getExtra(), sum, placeOf(part));
}

bool ProgramTiler::byDistance(ContributeOp part) const {
  return place.packedHeads == 1 && program.byDistance(part.getIndices());
}

void ProgramTiler::writeViews() {
  for (tensor::ExtractOp read : program.tileReads())
    views[read] = writeView(read.getTensor(), read.getIndices(),
                            written.lookup(read.getTensor()));
}

/// Of dimensions other than rows and columns, two at most, the last is in the
/// place of heads and the other in that of batch entries.
Value ProgramTiler::writeView(Value extra, ValueRange given, Value source) {
  int64_t rows =
              program.rowDimension(cast<BlockArgument>(extra).getArgNumber() -
                                   ScoreProgram::FirstExtra),
          last = given.size() - 1;
  Value zero = arith::ConstantIndexOp::create(b, loc, 0);
  SmallVector<int64_t> dims{-1, rows, -1, last};
  SmallVector<Value> at(4, zero);
  int64_t to = 2;
  for (int64_t dim = last - 1; dim >= 0; --dim) {
    if (dim == rows)
      continue;
    dims[to] = dim;
    at[to] = writeIndex(extra, dim, given[dim], source, None);
    to = 0;
  }
  Value length = memref::DimOp::create(b, loc, source, rows);
  return ViewOp::create(
      b, loc,
      ViewType::get(b.getContext(), ShapedType::kDynamic,
                    cast<MemRefType>(source.getType()).getElementType(),
                    /*heads=*/1, SumOrderAttr()),
      source, at[0], at[2], zero, length, /*first_column=*/0,
      b.getDenseI64ArrayAttr(dims), CacheHintAttr(), /*column=*/Value(),
      place.loads == ScorePlace::Loads::Unaligned);
}

Value ProgramTiler::writeRead(tensor::ExtractOp read, Axes to) {
  if (Value view = views.lookup(read)) {
    auto first = [&](Value block, int64_t size) -> Value {
      return arith::MulIOp::create(
          b, loc, block, arith::ConstantIndexOp::create(b, loc, size));
    };
    Value row = first(place.rowBlock, place.rows),
          column = first(columnBlock, place.cols);
    if (place.lead)
      row = arith::SubIOp::create(b, loc, row, place.lead);
    Type type = typeWith(to, read.getType());
    if (!place.transposed)
      return LoadOp::create(b, loc, type, view, row, column);
    auto inMemory =
        RankedTensorType::get({place.cols, place.rows}, read.getType());
    Value tile = LoadOp::create(b, loc, inMemory, view, column, row);
    return TransposeOp::create(b, loc, type, tile);
  }
  Value source = written.lookup(read.getTensor());
  SmallVector<Value> indices =
      writeIndices(read.getIndices(), read.getTensor(), source, to);
  Type element = read.getType();
  if (isa<FloatType>(element))
    element = b.getF32Type();
  SmallVector<int64_t> clamped;
  for (int64_t dim = 0, end = indices.size(); dim < end; ++dim)
    if (program.coordinateOf(ScoreProgram::extraOf(read), dim) ==
        ScoreProgram::Score)
      clamped.push_back(dim);
  return ReadOp::create(b, loc, typeWith(to, element), source, indices,
                        clamped);
}

Value ProgramTiler::writeStep(Operation &step, Axes to) {
  if (auto read = dyn_cast<tensor::ExtractOp>(step))
    return writeRead(read, to);
  Value result = step.getResult(0);
  if (isa<arith::ExtFOp>(step) && !views.contains(step.getOperand(0)))
    return to == Diagonals ? diagonal.lookup(step.getOperand(0))
                           : written.lookup(step.getOperand(0)); // reads extend
  if (Value distance = writeDistance(step, to))
    return distance;
  SmallVector<Value> operands;
  for (Value v : step.getOperands())
    operands.push_back(spread(v, to));
  OperationState state(step.getLoc(), step.getName(), operands,
                       {typeWith(to, result.getType())}, step.getAttrs());
  return b.create(state)->getResult(0);
}

Value ProgramTiler::writeDistance(Operation &step, Axes to) {
  if (!isa<arith::SIToFPOp, arith::SubIOp>(step) || place.packedHeads > 1 ||
      place.row)
    return {};
  Type type = step.getResult(0).getType();
  Value x = isa<arith::SubIOp>(step)
                ? step.getResult(0)
                : ScoreProgram::withoutCasts(step.getOperand(0));
  std::optional<bool> forward = program.distance(x.getDefiningOp());
  if (!forward)
    return {};
  // From the tile's rows to its columns.
  bool negated = *forward == place.transposed;
  Value d = DistanceOp::create(
      b, loc, typeWith(to, type.isF32() ? type : b.getIndexType()), columnBlock,
      place.rowBlock, place.lead,
      to == Diagonals ? b.getDenseI64ArrayAttr({place.rows, place.cols})
                      : DenseI64ArrayAttr());
  if (type.isF32())
    return negated ? arith::NegFOp::create(b, loc, d).getResult() : d;
  if (negated) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(d.getType()));
    d = arith::SubIOp::create(b, loc, zero, d);
  }
  return type.isIndex()
             ? d
             : arith::IndexCastOp::create(b, loc, typeWith(to, type), d)
                   .getResult();
}

void ProgramTiler::write(Axes which) {
  for (Operation &step : program.block().without_terminator())
    if (!early.contains(&step))
      write(step, which);
}

void ProgramTiler::writeEarly(Value v) {
  llvm::SetVector<Operation *> needed = ScoreProgram::neededBy(v);
  for (Operation &step : program.block().without_terminator())
    if (needed.contains(&step) && early.insert(&step))
      write(step, Tile);
}

void ProgramTiler::write(Operation &step, Axes which) {
  for (Value result : step.getResults()) {
    if (axesOf(result) != which || result.use_empty())
      continue;
    bool hasDiagonals = diagonal.contains(result);
    if (hasDiagonals)
      diagonal[result] = writeStep(step, Diagonals);
    if (hasDiagonals && isBrought(result))
      written[result] = BroadcastOp::create(
          b, loc, typeWith(Tile, b.getF32Type()), diagonal.lookup(result),
          /*columns=*/false, /*diagonals=*/true);
    else if (!hasDiagonals || onTile.contains(result))
      written[result] = writeStep(step, which);
  }
}

void ProgramTiler::atColumns(Value block) {
  columnBlock = block;
  early.clear();
  Value columns = program.block().getArgument(
      place.transposed ? ScoreProgram::Row : ScoreProgram::Column);
  if (!columns.use_empty())
    written[columns] = PositionsOp::create(
        b, loc, typeWith(Columns, b.getIndexType()), columnBlock);
  write(Columns);
}

Value ProgramTiler::atStart(Value v, Value ofDistances) {
  if (ofDistances)
    return BroadcastOp::create(b, loc, typeWith(Tile, b.getF32Type()),
                               ofDistances, /*columns=*/false,
                               /*diagonals=*/true);
  writeEarly(v);
  return spread(v, Tile);
}

Value ProgramTiler::gather(tensor::ExtractOp read, unsigned dim, Value vector) {
  Value index = read.getIndices()[dim];
  writeEarly(index);
  Value places = writeIndex(read.getTensor(), dim, index,
                            written.lookup(read.getTensor()), Tile);
  return GatherOp::create(b, loc, typeWith(Tile, b.getF32Type()), vector,
                          places);
}

Value ProgramTiler::atScores(Value scores) {
  written[program.block().getArgument(ScoreProgram::Score)] = scores;
  write(Tile);
  return tileOf(program.result());
}
