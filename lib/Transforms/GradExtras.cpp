//===- GradExtras.cpp - gradients of what a program reads -----------------===//
//
// The kernels that begin and end them; the kernel of keys adds to them or
// stores them tile by tile.
//
//===----------------------------------------------------------------------===//

#include "GradTiler.h"
#include "fa2/Dialect/FA2/ExactSum.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace fa2;

/// Blocks that zero gradients: enough for any device's memory.
static constexpr int64_t kZeroBlocks = 512;

/// Before any kernel adds to them, whatever the lengths are: a launch without
/// queries has gradients too.
void GradTiler::createZeros() {
  auto tiles = createKernel("_zero", plainSchedule(), Nothing, kZeroBlocks,
                            TileOrder::Ascending);
  Value part = tiles.getBody().front().getArgument(0);
  for (unsigned i : gradientsThatAre(GradientForm::Sum))
    ZeroOp::create(b, loc, exactWords[i] ? exactWords[i] : dextras[i], part,
                   constant(kZeroBlocks));
}

/// After all that adds to them.
void GradTiler::createRounded() {
  auto tiles = createKernel("_sums", plainSchedule(), Nothing, kZeroBlocks,
                            TileOrder::Ascending);
  Value part = tiles.getBody().front().getArgument(0);
  for (unsigned i : exactSums())
    RoundSumsOp::create(b, loc, exactWords[i], dextras[i], part,
                        constant(kZeroBlocks));
}

SmallVector<unsigned> GradTiler::exactSums() {
  if (!sumsInOrder(op.getSchedule()->getDq()))
    return {};
  return gradientsThatAre(GradientForm::Sum);
}

std::string GradTiler::rowsOfWords(unsigned i) {
  ScoreProgram program = programOf(op);
  size_t extra = extraOf(i);
  ArrayAttr names = program.describeExtra(extra).getDims();
  std::string words = std::to_string(2 * kExactWords); // of 32 bits
  auto type = cast<RankedTensorType>(op.getDextras()[i].getType());
  for (auto [dim, extent] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(extent))
      words += llvm::formatv(" * if(d{0}.stride[{1}] == 0, 1, {2})",
                             program.extraName(extra), dim,
                             cast<StringAttr>(names[dim]).getValue())
                   .str();
    else
      words += " * " + std::to_string(extent);
  return llvm::formatv("ceildiv({0}, {1})", words, kRowOfWords);
}

SmallVector<unsigned> GradTiler::gradientsThatAre(GradientForm form) {
  SmallVector<unsigned> found;
  for (auto [i, gradient] : llvm::enumerate(op.getDextras()))
    if (formOfGradient(gradient.getType()) == form)
      found.push_back(i);
  return found;
}

Value GradTiler::tilesOf(unsigned i, Value batch, Value head) {
  if (isSummedOver(i, ScoreProgram::Batch))
    batch = constant(0);
  if (isSummedOver(i, ScoreProgram::Head))
    head = constant(0);
  // With all of a tile's columns in each warp, as the schedule's check says.
  SmallVector<unsigned> tiled = gradientsThatAre(GradientForm::Tiles);
  return wholeView(tileSums[llvm::find(tiled, i) - tiled.begin()], batch, head,
                   SumOrderAttr::get(b.getContext(), keyWarps(), sumWidth));
}

Value GradTiler::rowOfTiles(Value kvBlock, Value qBlock) {
  Value queries = memref::DimOp::create(b, loc, q, 1);
  Value tiles = arith::CeilDivUIOp::create(b, loc, queries,
                                           constant(schedule.getBlockQ()));
  Value tile = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, kvBlock, tiles), qBlock);
  return times(tile, schedule.getBlockKv());
}

/// Of such a gradient, for each tile of queries of those that it is not summed
/// over.
ForEachTileOp GradTiler::createKernelOfTiles(unsigned i, StringRef suffix) {
  size_t extra = extraOf(i);
  auto tiles = createKernel(
      ("_d" + programOf(op).extraName(extra) + suffix).str(), plainSchedule(),
      Queries, schedule.getBlockQ(), TileOrder::Ascending);
  b.setInsertionPoint(tiles);
  if (isSummedOver(i, ScoreProgram::Head))
    tiles.getHeadsMutable().assign(constant(1));
  if (isSummedOver(i, ScoreProgram::Batch))
    tiles.getBatchesMutable().assign(constant(1));
  b.setInsertionPointToStart(&tiles.getBody().front());
  return tiles;
}

/// `body` gets the number of each tile of keys.
template <typename Body> void GradTiler::forEachKeyTile(Body body) {
  Value keys =
      arith::CeilDivUIOp::create(b, loc, memref::DimOp::create(b, loc, k, 1),
                                 constant(schedule.getBlockKv()));
  auto loop = scf::ForOp::create(b, loc, constant(0), keys, constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void GradTiler::createZeroTiles(unsigned i) {
  Block &body = createKernelOfTiles(i, "_zero").getBody().front();
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  Value to = tilesOf(i, body.getArgument(2), body.getArgument(1));
  forEachKeyTile([&](Value j) {
    StoreOp::create(b, loc, splat({bkv, bq}, 0.0f), to,
                    rowOfTiles(j, body.getArgument(0)));
  });
}

/// Of the head and batch entry that the program is placed at, as they add to
/// it.
Value GradTiler::viewOfGradient(ProgramTiler &program, unsigned i) {
  for (ContributeOp part : program.contributions())
    if (cast<BlockArgument>(part.getExtra()).getArgNumber() ==
        ScoreProgram::FirstExtra + extraOf(i))
      return program.viewOf(part, dextras[i]);
  return Value();
}

/// The sums of the tiles, rounded, as memory has them: queries by keys.
void GradTiler::createSummed(unsigned i) {
  Block &body = createKernelOfTiles(i, "").getBody().front();
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  Value qBlock = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  ProgramTiler program(b, loc, programOf(op), extras,
                       ScorePlace{batch, head, qBlock, bq, bkv});
  Value to = viewOfGradient(program, i);
  Type element = cast<MemRefType>(dextras[i].getType()).getElementType();
  Value from = tilesOf(i, batch, head);
  forEachKeyTile([&](Value j) {
    Value sum =
        LoadOp::create(b, loc, tile(bkv, bq, f32), from, rowOfTiles(j, qBlock));
    Value rounded =
        arith::TruncFOp::create(b, loc, tile(bkv, bq, element), sum);
    Value turned = TransposeOp::create(b, loc, tile(bq, bkv, element), rounded);
    StoreOp::create(b, loc, turned, to, times(qBlock, bq), times(j, bkv));
  });
}

GradTiler::ColumnRanges GradTiler::hiddenColumns(Value qBlock, Value sq,
                                                 Value sk) {
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  // Tiles of keys count rows past the end as those that see them.
  auto range =
      KVRangeOp::create(b, loc, qBlock, /*falling=*/false, sq, sk, Value(), bq,
                        bkv, op.getMaskAttr(), /*nonempty=*/false,
                        /*past_end=*/false, /*whole_rows=*/true);
  auto columnOf = [&](Value tile) -> Value {
    return arith::MinSIOp::create(b, loc, times(tile, bkv), sk);
  };
  Value first = TileAtOp::create(b, loc, range, constant(0));
  Value end =
      arith::AddIOp::create(b, loc, first, TileCountOp::create(b, loc, range));
  ColumnRanges columns{{columnOf(end), sk}};
  // Before the first that they see there are some where a mask has a lower
  // bound.
  if (op.getMaskAttr() &&
      op.getMaskAttr().lower(b, loc, times(qBlock, bq), sq, sk))
    columns.push_back({constant(0), columnOf(first)});
  return columns;
}

void GradTiler::zeroColumns(unsigned i, Value batch, Value head, Value qBlock,
                            Value sq, const ColumnRanges &columns) {
  int64_t bq = schedule.getBlockQ();
  auto next = [&](Value x, int64_t by) -> Value {
    return arith::AddIOp::create(b, loc, x, constant(by));
  };
  ScoreProgram program = programOf(op);
  size_t extra = extraOf(i);
  Value row = times(qBlock, bq),
        lastRow = arith::MinSIOp::create(b, loc, next(row, bq), sq);
  for (auto [from, to] : columns) {
    std::map<ScoreProgram::Argument, std::pair<Value, Value>> bounds{
        {ScoreProgram::Batch, {batch, next(batch, 1)}},
        {ScoreProgram::Head, {head, next(head, 1)}},
        {ScoreProgram::Row, {row, lastRow}},
        {ScoreProgram::Column, {from, to}}};
    SmallVector<Value> begins, ends;
    for (unsigned dim = 0; dim < bounds.size(); ++dim) {
      auto [begin, end] = bounds[program.coordinateOf(extra, dim)];
      begins.push_back(begin);
      ends.push_back(end);
    }
    ZeroBoxOp::create(b, loc, dextras[i], begins, ends,
                      program.rowDimension(extra));
  }
}

/// One block a tile of queries: the tiles of keys that a mask hides from it,
/// where the kernel of keys stores none of them. Rows lie in one piece so.
void GradTiler::createHidden() {
  auto tiles = createKernel("_hidden", plainSchedule(), Queries,
                            schedule.getBlockQ(), TileOrder::Ascending);
  Block &body = tiles.getBody().front();
  Value qBlock = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value sq = SequenceOp::create(b, loc, q, batch).getLength(),
        sk = SequenceOp::create(b, loc, k, batch).getLength();
  ColumnRanges columns = hiddenColumns(qBlock, sq, sk);
  for (unsigned i : gradientsThatAre(GradientForm::Whole))
    zeroColumns(i, batch, head, qBlock, sq, columns);
}

/// What a sum that blocks add to in turns wants before: counters of zeros, and
/// zeros of the gradient where nobody adds, which without entries is anywhere.
void GradTiler::createTurns(unsigned i) {
  Block &body = createKernelOfTiles(i, "_turns").getBody().front();
  Value qBlock = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value counters = turnsOfTiles(i, batch, head);
  auto none = DenseElementsAttr::get(
      RankedTensorType::get({schedule.getWarps()}, b.getI32Type()), int32_t(0));
  forEachKeyTile([&](Value j) {
    StoreOp::create(b, loc, arith::ConstantOp::create(b, loc, none), counters,
                    rowOfTiles(j, qBlock));
  });
  Value sq = SequenceOp::create(b, loc, q, batch).getLength(),
        sk = SequenceOp::create(b, loc, k, batch).getLength();
  ColumnRanges columns = hiddenColumns(qBlock, sq, sk);
  Value &from = columns.front().first;
  Value isEmpty =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                            memref::DimOp::create(b, loc, q, 0), constant(0));
  from = arith::SelectOp::create(b, loc, isEmpty, constant(0), from);
  zeroColumns(i, batch, head, qBlock, sq, columns);
}

Value GradTiler::turnsOfTiles(unsigned i, Value batch, Value head) {
  SmallVector<unsigned> tiled = gradientsThatAre(GradientForm::Tiles);
  return wholeView(tileTurns[llvm::find(tiled, i) - tiled.begin()],
                   isSummedOver(i, ScoreProgram::Batch) ? constant(0) : batch,
                   isSummedOver(i, ScoreProgram::Head) ? constant(0) : head);
}

/// What holds for all tiles of a block.
ContributionSums::SumTurn GradTiler::turnOfSum(unsigned i,
                                               ProgramTiler &program,
                                               Value batch, Value head) {
  if (!llvm::is_contained(gradientsThatAre(GradientForm::Tiles), i) ||
      !addsInTurns(i))
    return {};
  ContributionSums::SumTurn turn;
  turn.counters = turnsOfTiles(i, batch, head);
  turn.into = viewOfGradient(program, i);
  turn.into.getDefiningOp<ViewOp>().getBatchMutable().assign(constant(0));
  Value last = arith::SubIOp::create(
      b, loc, memref::DimOp::create(b, loc, q, 0), constant(1));
  auto isEntry = [&](Value entry) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, batch,
                                 entry);
  };
  turn.opens = isEntry(constant(0));
  turn.closes = isEntry(last);
  turn.number = batch;
  turn.anyOrder = !sumsInOrder(schedule.getDq());
  if (turn.anyOrder)
    turn.number = arith::SelectOp::create(
        b, loc, turn.closes, last,
        arith::MinUIOp::create(b, loc, batch, constant(1)));
  return turn;
}

/// What depends on the tile: several of a block's share a turn, in whose order
/// it goes through them.
void GradTiler::placeTurn(ContributionSums::SumTurn &turn, Value kvBlock,
                          Value qBlock, QRangeOp range) {
  if (!turn.counters)
    return;
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  int64_t tiles = schedule.getFields().tilesOfSumTurn();
  Value place = arith::RemUIOp::create(b, loc, qBlock, constant(tiles));
  turn.row = rowOfTiles(kvBlock, arith::SubIOp::create(b, loc, qBlock, place));
  std::tie(turn.first, turn.last) = endsOfTurn(place, tiles, qBlock, range);
  turn.intoRow = times(qBlock, bq);
  turn.intoColumn = times(kvBlock, bkv);
}

/// Zeros for the tiles of queries that see nothing of a block's keys, which the
/// loop does not visit: one tile of them in shared memory, of which the copy
/// engine stores as many as there are while the block does other things.
void GradTiler::storeHidden(Value kvBlock, Value batch, Value firstHead,
                            Value group, Value queries, Value keys) {
  SmallVector<unsigned> whole = gradientsThatAre(GradientForm::Whole);
  if (!schedule.getStoresHidden())
    return;
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  auto seen = QRangeOp::create(b, loc, kvBlock, /*falling=*/Value(), queries,
                               keys, bq, bkv, op.getMaskAttr(),
                               /*nonempty=*/false, /*rotation=*/0);
  Value first = TileAtOp::create(b, loc, seen, constant(0));
  SmallVector<std::pair<Value, Value>> hidden{{constant(0), first}};
  Value row = times(kvBlock, bkv);
  // Behind the last that see them there are some where a mask has a lower
  // bound.
  if (op.getMaskAttr().lower(b, loc, row, queries, keys))
    hidden.push_back(
        {arith::AddIOp::create(b, loc, first,
                               TileCountOp::create(b, loc, seen)),
         arith::CeilDivUIOp::create(b, loc, queries, constant(bq))});
  // As dS comes to who stores it: by keys, to be turned.
  Type element =
      cast<MemRefType>(dextras[whole.front()].getType()).getElementType();
  RankedTensorType turned = tile(bkv, bq, element);
  Value zeros = TransposeOp::create(
      b, loc, tile(bq, bkv, element),
      arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(turned, b.getZeroAttr(element))));
  auto forEach = [&](Value from, Value to, auto body) {
    auto loop = scf::ForOp::create(b, loc, from, to, constant(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  };
  forEach(constant(0), group, [&](Value member) {
    Value head = arith::AddIOp::create(b, loc, firstHead, member);
    ProgramTiler program(b, loc, programOf(op), extras,
                         ScorePlace{batch, head, kvBlock, bq, bkv});
    SmallVector<Value> views = llvm::map_to_vector(
        whole, [&](unsigned i) { return viewOfGradient(program, i); });
    for (auto [from, to] : hidden)
      forEach(from, to, [&](Value i) {
        for (Value view : views)
          StoreOp::create(b, loc, zeros, view, times(i, bq), row);
      });
  });
}
