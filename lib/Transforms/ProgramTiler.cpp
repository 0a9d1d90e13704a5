//===- ProgramTiler.cpp - a score program on tiles ------------------------===//

#include "ProgramTiler.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fa2;

ProgramTiler::ProgramTiler(OpBuilder &b, Location loc, ScoreProgram program,
                           ValueRange extras, ScorePlace place)
    : b(b), loc(loc), program(program), extras(extras), place(place) {
  Block &block = program.block();
  written[block.getArgument(ScoreProgram::Batch)] = place.batch;
  written[block.getArgument(ScoreProgram::Head)] = place.head;
  for (auto [argument, extra] : llvm::zip(
           block.getArguments().drop_front(ScoreProgram::FirstExtra), extras))
    written[argument] = extra;
  findAxes();
  Value rows = block.getArgument(place.transposed ? ScoreProgram::Column
                                                  : ScoreProgram::Row);
  if (!rows.use_empty())
    written[rows] = PositionsOp::create(
        b, loc, typeWith(Rows, b.getIndexType()), place.rowBlock);
  write(None);
  write(Rows);
  if (!splits.empty())
    origin = arith::MulIOp::create(
        b, loc, place.rowBlock,
        arith::ConstantIndexOp::create(b, loc, place.rows));
  for (Operation &step : block.without_terminator())
    for (Value result : step.getResults())
      if (splits.contains(result))
        apart[result] = writeApart(result);
}

Operation *ProgramTiler::distanceOf(Operation &step) const {
  if (!isa<arith::SIToFPOp>(step))
    return nullptr;
  Value x = step.getOperand(0);
  while (auto cast = x.getDefiningOp()) {
    Type type = x.getType();
    bool wide = type.isIndex() || type.getIntOrFloatBitWidth() >= 32;
    if (auto difference = dyn_cast<arith::SubIOp>(cast))
      return wide ? cast : nullptr;
    if (!wide || !isa<arith::IndexCastOp, arith::ExtSIOp>(cast))
      return nullptr;
    x = cast->getOperand(0);
  }
  return nullptr;
}

bool ProgramTiler::isDistance(Operation &step) const {
  Operation *difference = distanceOf(step);
  if (!difference)
    return false;
  auto is = [&](unsigned operand, unsigned argument) {
    return difference->getOperand(operand) ==
           program.block().getArgument(argument);
  };
  return (is(0, ScoreProgram::Row) && is(1, ScoreProgram::Column)) ||
         (is(0, ScoreProgram::Column) && is(1, ScoreProgram::Row));
}

/// The other factor of a product is a number.
bool ProgramTiler::keepsSplit(Operation &step) const {
  if (isa<arith::AddFOp, arith::SubFOp, arith::NegFOp>(step))
    return true;
  return isa<arith::MulFOp>(step) &&
         llvm::any_of(step.getOperands(),
                      [&](Value v) { return axesOf(v) == None; });
}

/// The columns' positions from the rows' first, or the rows', with the sign
/// that each has in the difference.
Value ProgramTiler::writeDistance(Operation &step, bool columns) {
  unsigned argument =
      columns != place.transposed ? ScoreProgram::Column : ScoreProgram::Row;
  Value x = PositionsOp::create(
      b, loc, typeWith(columns ? Columns : Rows, b.getF32Type()),
      columns ? columnBlock : place.rowBlock, origin);
  if (distanceOf(step)->getOperand(1) == program.block().getArgument(argument))
    x = arith::NegFOp::create(b, loc, x);
  return x;
}

Value ProgramTiler::writeApart(Value v) {
  Operation &step = *v.getDefiningOp();
  if (isDistance(step))
    return writeDistance(step, /*columns=*/false);
  SmallVector<Value> parts;
  for (Value operand : step.getOperands())
    parts.push_back(splits.contains(operand) ? writeApart(operand) : Value());
  if (isa<arith::MulFOp>(step))
    for (auto [i, part] : llvm::enumerate(parts))
      if (!part)
        part = spread(step.getOperand(i), Rows);
  Type type = typeWith(Rows, b.getF32Type());
  if (parts.size() == 2 && !parts[1])
    return parts[0];
  if (parts.size() == 2 && !parts[0])
    return isa<arith::AddFOp>(step)
               ? parts[1]
               : Value(arith::NegFOp::create(b, loc, parts[1]));
  OperationState state(step.getLoc(), step.getName(), parts, {type},
                       step.getAttrs());
  return b.create(state)->getResult(0);
}

Value ProgramTiler::rowsApart() {
  Value result = program.result();
  return splits.contains(result) ? writeApart(result) : Value();
}

void ProgramTiler::findAxes() {
  Block &block = program.block();
  axes[block.getArgument(ScoreProgram::Score)] = Tile;
  axes[block.getArgument(ScoreProgram::Row)] =
      place.transposed ? Columns : Rows;
  axes[block.getArgument(ScoreProgram::Column)] =
      place.transposed ? Rows : Columns;
  for (Operation &step : block.without_terminator())
    for (Value result : step.getResults()) {
      bool split = llvm::any_of(step.getOperands(),
                                [&](Value v) { return splits.contains(v); });
      axes[result] = axesOfAll(step.getOperands());
      if (isDistance(step))
        axes[result] = Columns;
      else if (split && !keepsSplit(step))
        axes[result] = Axes(axes[result] | Rows);
      if (isDistance(step) || (split && keepsSplit(step)))
        splits.insert(result);
    }
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
  }
  llvm_unreachable("no other axes");
}

Value ProgramTiler::repeat(Value x, Axes from, Axes to, Type element) {
  if (from == to)
    return x;
  Type type = typeWith(to, element);
  if (from == None)
    return tensor::SplatOp::create(b, loc, type, x, ValueRange{});
  return BroadcastOp::create(b, loc, type, x, /*columns=*/from == Columns);
}

Value ProgramTiler::spread(Value v, Axes to, bool split) {
  Value x = repeat(written.lookup(v), axesOf(v), to, v.getType());
  if (split || !splits.contains(v))
    return x;
  return arith::AddFOp::create(b, loc, x,
                               repeat(apart.lookup(v), Rows, to, v.getType()));
}

/// A dimension whose index is a coordinate has its extent. Other indices are
/// brought into the extent.
SmallVector<Value> ProgramTiler::writeIndices(ValueRange given, Value argument,
                                              Value source, Axes to) {
  size_t extra =
      cast<BlockArgument>(argument).getArgNumber() - ScoreProgram::FirstExtra;
  SmallVector<Value> indices;
  for (auto [dim, index] : llvm::enumerate(given)) {
    if (program.coordinateOf(extra, dim) != ScoreProgram::Score) {
      // Those of the launch's grid are within their extents.
      indices.push_back(axesOf(index) == None ? written.lookup(index)
                                              : spread(index, to));
      continue;
    }
    Axes own = axesOf(index);
    auto across = [&](Value x) -> Value {
      if (own == None)
        return x;
      return tensor::SplatOp::create(b, loc, typeWith(own, b.getIndexType()), x,
                                     ValueRange{});
    };
    Value extent = memref::DimOp::create(b, loc, source, dim);
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value last = arith::SubIOp::create(b, loc, extent, one);
    Value x =
        arith::MinSIOp::create(b, loc, written.lookup(index), across(last));
    x = arith::MaxSIOp::create(b, loc, x, across(zero));
    if (own != None && own != to)
      x = BroadcastOp::create(b, loc, typeWith(to, b.getIndexType()), x,
                              /*columns=*/own == Columns);
    indices.push_back(x);
  }
  return indices;
}

SmallVector<Value> ProgramTiler::indicesOf(ContributeOp part, Value sum) {
  if (part.getIndices().empty()) // of a scalar: [1]
    return {arith::ConstantIndexOp::create(b, loc, 0)};
  return writeIndices(part.getIndices(), part.getExtra(), sum, placeOf(part));
}

Value ProgramTiler::writeRead(tensor::ExtractOp read) {
  Axes to = axesOf(read);
  Value source = written.lookup(read.getTensor());
  SmallVector<Value> indices =
      writeIndices(read.getIndices(), read.getTensor(), source, to);
  Type element = read.getType();
  if (isa<FloatType>(element))
    element = b.getF32Type();
  return ReadOp::create(b, loc, typeWith(to, element), source, indices);
}

Value ProgramTiler::writeStep(Operation &step) {
  if (auto read = dyn_cast<tensor::ExtractOp>(step))
    return writeRead(read);
  Value result = step.getResult(0);
  Axes to = axesOf(result);
  if (isa<arith::ExtFOp>(step)) // reads extend
    return written.lookup(step.getOperand(0));
  if (isDistance(step))
    return writeDistance(step, /*columns=*/true);
  SmallVector<Value> operands;
  for (Value v : step.getOperands())
    operands.push_back(spread(v, to, /*split=*/splits.contains(result)));
  if (Value sum = fused(step, operands))
    return sum;
  OperationState state(step.getLoc(), step.getName(), operands,
                       {typeWith(to, result.getType())}, step.getAttrs());
  return b.create(state)->getResult(0);
}

/// a b + c in one operation, where nothing else reads a b.
Value ProgramTiler::fused(Operation &step, ValueRange operands) {
  if (!isa<arith::AddFOp>(step) || axesOf(step.getResult(0)) == None)
    return {};
  for (unsigned i : {0, 1})
    if (auto product = operands[i].getDefiningOp<arith::MulFOp>();
        product && step.getOperand(i).hasOneUse())
      return math::FmaOp::create(b, loc, product.getLhs(), product.getRhs(),
                                 operands[1 - i]);
  return {};
}

void ProgramTiler::write(Axes which) {
  for (Operation &step : program.block().without_terminator())
    for (Value result : step.getResults())
      if (axesOf(result) == which && !result.use_empty())
        written[result] = writeStep(step);
}

void ProgramTiler::atColumns(Value block) {
  columnBlock = block;
  Value columns = program.block().getArgument(
      place.transposed ? ScoreProgram::Row : ScoreProgram::Column);
  if (!columns.use_empty())
    written[columns] = PositionsOp::create(
        b, loc, typeWith(Columns, b.getIndexType()), columnBlock);
  write(Columns);
}

SmallVector<Value> ProgramTiler::atScores(Value scores, bool whole) {
  written[program.block().getArgument(ScoreProgram::Score)] = scores;
  write(Tile);
  SmallVector<Value> results;
  for (Value result : program.block().getTerminator()->getOperands())
    results.push_back(spread(result, Tile, /*split=*/!whole));
  return results;
}
