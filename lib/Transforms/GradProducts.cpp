//===- GradProducts.cpp - the five products of a pair of tiles ------------===//
//
// Once with a tile of keys that stays, which gives dK, dV and parts of dQ, and
// once with a tile of queries that stays, for dQ alone.
//
//===----------------------------------------------------------------------===//

#include "ContributionSums.h"
#include "GradTiler.h"
#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fa2;

static constexpr float kInf = std::numeric_limits<float>::infinity();

namespace {
/// The largest absolute value that an element of a tile may have; infinite
/// where nothing is known.
class Bounds {
public:
  double of(Value tile) {
    auto known = bounds.find(tile);
    if (known != bounds.end())
      return known->second;
    double bound = ofStep(tile.getDefiningOp());
    bounds[tile] = bound;
    return bound;
  }

private:
  double ofStep(Operation *step) {
    auto operand = [&](unsigned i) { return of(step->getOperand(i)); };
    if (isa_and_nonnull<tensor::SplatOp, arith::NegFOp>(step))
      return operand(0);
    if (auto constant = dyn_cast_or_null<arith::ConstantOp>(step)) {
      if (auto all = dyn_cast<SplatElementsAttr>(constant.getValue()))
        return std::abs(all.getSplatValue<APFloat>().convertToDouble());
      auto value = dyn_cast<FloatAttr>(constant.getValue());
      return value ? std::abs(value.getValueAsDouble()) : kInf;
    }
    if (isa_and_nonnull<DistanceOp>(step))
      return double(std::numeric_limits<int32_t>::max());
    if (isa_and_nonnull<math::TanhOp>(step))
      return 1;
    if (isa_and_nonnull<arith::AddFOp, arith::SubFOp>(step))
      return operand(0) + operand(1);
    if (isa_and_nonnull<arith::MulFOp>(step))
      return operand(0) * operand(1);
    if (isa_and_nonnull<math::FmaOp>(step))
      return operand(0) * operand(1) + operand(2);
    return kInf;
  }

  llvm::DenseMap<Value, double> bounds; // each step is looked at once
};
} // namespace

/// Of derivatives that need not be kept: the same for all, or the distance.
static bool isCheap(Value slope) {
  while (auto negative = slope.getDefiningOp<arith::NegFOp>())
    slope = negative.getOperand();
  auto always = slope.getDefiningOp<tensor::SplatOp>();
  return slope.getDefiningOp<DistanceOp>() ||
         (always && always.getInput().getDefiningOp<arith::ConstantOp>());
}

/// Whether its product with a probability of 0 is 0.
static bool isFinite(Value slope) {
  return Bounds().of(slope) < double(std::numeric_limits<float>::max());
}

/// The same, computed once more, so that it need not be kept till here.
Value GradTiler::again(Value slope) {
  if (auto negative = slope.getDefiningOp<arith::NegFOp>())
    return arith::NegFOp::create(b, loc, again(negative.getOperand()));
  auto distance = slope.getDefiningOp<DistanceOp>();
  if (!distance)
    return slope;
  Operation *copy = b.clone(*distance);
  copy->setAttr(gpu::kAgainName, b.getUnitAttr());
  if (schedule.getPersistent())
    copy->setAttr(gpu::kThreadAnewName, b.getUnitAttr());
  return copy->getResult(0);
}

/// P by a derivative of the program. Where P is 0, so is it: the derivative may
/// be infinite there.
Value GradTiler::weighed(Value p, Value slope) {
  if (!slope)
    return p;
  Value product = arith::MulFOp::create(b, loc, p, slope);
  if (isFinite(slope))
    return product;
  Value zeros = splat(cast<RankedTensorType>(p.getType()).getShape(), 0.0f);
  Value hidden =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, p, zeros);
  return arith::SelectOp::create(b, loc, hidden, zeros, product);
}

/// What products of scores begin with: -lse / scale, and what the program adds.
Value GradTiler::startOf(ProgramTiler *program, Value lse) {
  Value start = program ? normal->start() : Value();
  if (!start)
    return lse;
  start = program->atStart(start);
  auto product = start.getDefiningOp<arith::MulFOp>();
  if (!product || !product->use_empty())
    return arith::AddFOp::create(b, loc, start, lse);
  Value sum =
      math::FmaOp::create(b, loc, product.getLhs(), product.getRhs(), lse);
  product.erase();
  return sum;
}

/// -inf for queries past the end, which are columns here: who knows what the
/// program makes of them.
Value GradTiler::hideColumns(Value scores, Value block, Value length) {
  auto type = cast<RankedTensorType>(scores.getType());
  auto vector = [&](Type element) {
    return RankedTensorType::get({type.getDimSize(1)}, element);
  };
  Type index = vector(b.getIndexType());
  Value columns = PositionsOp::create(b, loc, index, block, Value());
  Value end = tensor::SplatOp::create(b, loc, index, length, ValueRange{});
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, columns, end);
  inside = BroadcastOp::create(
      b, loc, RankedTensorType::get(type.getShape(), b.getI1Type()), inside,
      /*columns=*/true);
  return arith::SelectOp::create(b, loc, inside, scores,
                                 splat(type.getShape(), -kInf));
}

Value GradTiler::startsWithFirst(Value head) {
  if (schedule.getOrder() != TileOrder::ShortestThenLongest)
    return {};
  Value heads = memref::DimOp::create(b, loc, k, 2);
  Value others = headsFromStart(b, loc, heads);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, head,
                               arith::SubIOp::create(b, loc, heads, others));
}

GradTiler::Turn GradTiler::turnOf(Value qBlock, Value kvBlock, QRangeOp range) {
  Value fallWhere = range.getFalling(); // queries fall, so keys rise
  int64_t tiles = schedule.getTurnTiles(), rows = tiles * range.getBlockQ();
  Value shared = qBlock, count = constant(tiles);
  if (tiles > 1)
    shared = arith::DivUIOp::create(b, loc, qBlock, count);
  auto minus = [&](Value x, Value y) -> Value {
    return arith::SubIOp::create(b, loc, x, y);
  };
  auto choose = [&](Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, fallWhere, x, y);
  };
  // Of the tiles that share the turn and are there, the first one's keys begin
  // first, and the last one's end last.
  Value firstTile = qBlock, lastTile = qBlock;
  if (tiles > 1) {
    Value all = arith::CeilDivUIOp::create(b, loc, range.getSeqlenQ(),
                                           constant(range.getBlockQ()));
    firstTile = times(shared, tiles);
    lastTile =
        minus(arith::MinSIOp::create(
                  b, loc, arith::AddIOp::create(b, loc, firstTile, count), all),
              constant(1));
  }
  auto before = [&]() -> Value {
    auto keys = addersTo(firstTile, /*falling=*/false, range.getSeqlenQ(),
                         range.getSeqlenK());
    return minus(kvBlock, TileAtOp::create(b, loc, keys, constant(0)));
  };
  auto behind = [&]() -> Value {
    auto keys = addersTo(lastTile, /*falling=*/true, range.getSeqlenQ(),
                         range.getSeqlenK());
    return minus(TileAtOp::create(b, loc, keys, constant(0)), kvBlock);
  };
  Turn turn;
  // Named, as the order in which arguments are evaluated is the compiler's.
  Value rising = keysFall() ? Value() : before();
  Value falling = keysFall() || fallWhere ? behind() : Value();
  turn.number = fallWhere    ? choose(rising, falling)
                : keysFall() ? falling
                             : rising;
  if (tiles == 1)
    return turn;
  // The first tile that shares it may lie before the block's range, and the
  // last one behind it.
  turn.row = times(shared, rows);
  Value place = arith::RemUIOp::create(b, loc, qBlock, count);
  std::tie(turn.first, turn.last) = endsOfTurn(place, tiles, qBlock, range);
  return turn;
}

std::pair<Value, Value> GradTiler::endsOfTurn(Value place, int64_t tiles,
                                              Value qBlock, QRangeOp range) {
  auto isEither = [&](Value x, Value y, Value z, Value w) -> Value {
    auto equal = arith::CmpIPredicate::eq;
    return arith::OrIOp::create(b, loc,
                                arith::CmpIOp::create(b, loc, equal, x, y),
                                arith::CmpIOp::create(b, loc, equal, z, w));
  };
  Value begin = TileAtOp::create(b, loc, range, constant(0));
  Value all = TileCountOp::create(b, loc, range);
  if (Value fallWhere = range.getFalling()) {
    Value end = TileAtOp::create(
        b, loc, range, arith::SubIOp::create(b, loc, all, constant(1)));
    // In the order in which the loop comes to them.
    place = arith::XOrIOp::create(b, loc, place,
                                  arith::SelectOp::create(b, loc, fallWhere,
                                                          constant(tiles - 1),
                                                          constant(0)));
    Value first = isEither(place, constant(0), qBlock, begin);
    return {first, isEither(place, constant(tiles - 1), qBlock, end)};
  }
  Value end = arith::AddIOp::create(b, loc, begin, all);
  Value next = arith::AddIOp::create(b, loc, qBlock, constant(1));
  Value first = isEither(place, constant(0), qBlock, begin);
  return {first, isEither(place, constant(tiles - 1), next, end)};
}

KVRangeOp GradTiler::addersTo(Value qBlock, bool falling, Value seqlenQ,
                              Value seqlenK) {
  return KVRangeOp::create(b, loc, qBlock, falling, seqlenQ, seqlenK, Value(),
                           schedule.getBlockQ(),
                           schedule.getCluster() * schedule.getBlockKv(),
                           op.getMaskAttr(), /*nonempty=*/false,
                           /*past_end=*/false, /*whole_rows=*/true);
}

Value GradTiler::afterOpened(Value opens, Value closes, Value qBlock,
                             QRangeOp range) {
  auto adders = addersTo(qBlock, /*falling=*/false, range.getSeqlenQ(),
                         range.getSeqlenK());
  Value others = arith::SubIOp::create(
      b, loc, TileCountOp::create(b, loc, adders), constant(1));
  Value between =
      arith::SelectOp::create(b, loc, opens, constant(0), constant(1));
  return arith::SelectOp::create(b, loc, closes, others, between);
}

std::pair<Value, Value> GradTiler::endsOf(Value qBlock, Value kvBlock,
                                          QRangeOp range) {
  auto adders =
      addersTo(qBlock, keysFall(), range.getSeqlenQ(), range.getSeqlenK());
  Value last = arith::SubIOp::create(
      b, loc, TileCountOp::create(b, loc, adders), constant(1));
  auto isAt = [&](Value place) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, kvBlock,
                                 TileAtOp::create(b, loc, adders, place));
  };
  Value opens = isAt(constant(0)), closes = isAt(last);
  Value fallWhere = range.getFalling(); // queries fall, so keys rise
  if (!fallWhere)
    return {opens, closes};
  auto choose = [&](Value x, Value y) -> Value {
    return arith::SelectOp::create(b, loc, fallWhere, x, y);
  };
  return {choose(opens, closes), choose(closes, opens)};
}

void GradTiler::addGradQ(Value ds, Value kTile, QRangeOp range, Value kvBlock,
                         Value i, const SumOfGradQ &sum,
                         ArrayRef<Value> wholes) {
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  Value row = times(i, bq);
  // As memory has it, queries by keys, where it is stored too.
  if (!wholes.empty())
    ds = TransposeOp::create(b, loc, tile(bq, bkv, dtype), ds);
  for (Value whole : wholes)
    StoreOp::create(b, loc, ds, whole, row, times(kvBlock, bkv));
  Turn turn = turns ? turnOf(i, taken, range) : Turn();
  Value opens, closes;
  if (!sum.into.empty())
    std::tie(opens, closes) = endsOf(i, taken, range);
  bool inAnyOrder = turns && schedule.getDq() != GradQ::Ordered;
  if (inAnyOrder)
    turn.number = afterOpened(opens, closes, i, range);
  // Of a cluster each block has some columns, for the keys of both.
  Value others = rank ? ExchangeOp::create(b, loc, ds) : Value();
  int64_t rows = gradQRows();
  for (int64_t first = 0; first < bq; first += rows)
    for (auto [part, piece, sumView] : llvm::enumerate(sum.pieces, sum.views)) {
      auto type = tile(rows, piece.count, f32);
      auto times = [&, piece = piece](StringRef name, Value x, Value keys,
                                      Value acc, int64_t from,
                                      Value column) -> Value {
        return DotOp::create(b, loc, type, x, keys, acc, /*transpose_b=*/false,
                             /*transpose_a=*/wholes.empty(), gradQWarps(),
                             b.getStringAttr(name), from, first, column,
                             /*held=*/0, roleOf(piece));
      };
      Value at =
          first ? arith::AddIOp::create(b, loc, row, constant(first)) : row;
      Value begin;
      if (schedule.getTurnsResume())
        begin = ResumeOp::create(b, loc, type, sumView, at, turn.number,
                                 sum.turns, turn.row, turn.first, opens, closes,
                                 /*begins=*/part == 0);
      Value column = columnOf(piece);
      Value product = times("dq", ds, kTile, begin, piece.first, column);
      if (others)
        product = times("dq_other", others, othersKeys[part], product,
                        piece.first - piece.panel,
                        piece.sharesPanel() ? column : Value());
      Value into = opens ? sum.into[part] : Value();
      AccumulateOp::create(
          b, loc, product, sumView, at, turn.number, sum.turns, turn.row,
          turn.first, turn.last, /*seen=*/Value(), opens, closes, into,
          /*into_row=*/Value(), /*into_column=*/Value(),
          into ? gradFactors(/*scaled=*/true) : SmallVector<Value>(),
          /*given=*/Value(), /*told=*/Value(), turns && part == 0,
          turns && part + 1 == sum.pieces.size(),
          /*later=*/false, /*resumed=*/bool(begin), inAnyOrder,
          TurnChangeAttr());
    }
}

SmallVector<Value> GradTiler::addHead(Value kTile, Value vTile, QRangeOp range,
                                      Value kvBlock, Value batch, Value head,
                                      ValueRange sums) {
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  auto sequence = SequenceOp::create(b, loc, q, batch);
  auto keys = SequenceOp::create(b, loc, k, batch);
  CacheHint hint = schedule.getCacheQueries();
  Value qView = hinted(view(q, batch, head, sequence), hint),
        doView = hinted(view(dout, batch, head, sequence), hint);
  Value nView = wholeView(negLse, batch, head),
        dView = wholeView(negDelta, batch, head);
  SumOfGradQ sum;
  if (dqSum)
    sum.pieces = gradQPieces();
  for (const GradQPiece &piece : sum.pieces) {
    Value column = columnOf(piece);
    sum.views.push_back(from(
        hinted(partOfSum(batch, head, piece.first, piece.count, sumOrder()),
               schedule.getCacheDq()),
        column));
  }
  if (turns) // of a cluster each block has a counter of its own
    sum.turns =
        rank ? view(turns, batch, head, rank,
                    arith::SubIOp::create(
                        b, loc, memref::DimOp::create(b, loc, turns, 2), rank))
             : wholeView(turns, batch, head);
  if (schedule.getTurnsFinish())
    for (const GradQPiece &piece : sum.pieces) {
      Value column = columnOf(piece);
      sum.into.push_back(from(columnsView(dq, {piece.first, piece.count, {}},
                                          batch, head, sequence),
                              column));
    }
  ScorePlace place{batch,
                   head,
                   kvBlock,
                   bkv,
                   bq,
                   /*transposed=*/true,
                   /*packedHeads=*/1,
                   schedule.getSlotsReads() ? ScorePlace::Loads::Aligned
                                            : ScorePlace::Loads::None};
  auto program = programAt(place);

  std::optional<ContributionSums> contributions;
  SmallVector<Value> begin(sums), wholes;
  SmallVector<ContributionSums::SumTurn> sumTurns; // of each gradient
  if (program) {
    SmallVector<Value> places(dextras);
    for (unsigned i : gradientsThatAre(GradientForm::Tiles))
      places[i] = tilesOf(i, batch, head);
    contributions.emplace(b, loc, *program,
                          op.getGrads().value_or(ArrayRef<int64_t>()), places,
                          exactWords);
    llvm::append_range(begin, contributions->zeros());
    wholes = contributions->wholes();
    for (unsigned i = 0; i < places.size(); ++i)
      sumTurns.push_back(turnOfSum(i, *program, batch, head));
  }
  auto loop = ForTilesOp::create(b, loc, range, begin);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&loop.getBody().front());
  Value i = loop.getTile();
  Value row = times(i, bq);
  if (program)
    program->atColumns(i);
  // S^T = K Q_i^T, P^T = 2^exponentOfP exp(c S^T - lse)
  Value qTile = load(qView, row, bq);
  auto everyKey = [&](Value ofQueries) -> Value {
    return BroadcastOp::create(b, loc, tile(bkv, bq, f32), ofQueries,
                               /*columns=*/true);
  };
  Value begins, slope;
  if (scoresBeginWithLse())
    begins =
        startOf(program ? &*program : nullptr, everyKey(load(nView, row, bq)));
  Value s = dot("s", bkv, bq, kTile, qTile, begins, false, true, keyWarps(),
                schedule.getKeysInRegisters(), scoresRole());
  if (program) {
    std::tie(s, slope) = applyProgram(*program, s);
    if (!programOf(op).allowsRowsPastEnd())
      s = hideColumns(s, i, sequence.getLength());
  }
  auto masked = ApplyMaskOp::create(
      b, loc, s.getType(), s, i, kvBlock, sequence.getLength(),
      keys.getLength(), Value(), op.getMaskAttr(), /*transposed=*/true);
  // A program takes registers through all tiles, so that the mask keeps none.
  if (program && schedule.getPersistent())
    masked->setAttr(gpu::kThreadAnewName, b.getUnitAttr());
  s = masked;
  Value p = SoftmaxRecomputeOp::create(b, loc, s.getType(), s,
                                       begins ? Value() : load(nView, row, bq),
                                       softmaxScale, /*columns=*/true);
  // By the program's derivatives at once: less is kept until dP is there.
  Value weight = weighed(p, slope);
  SmallVector<Value> slopes, weights, terms;
  if (contributions)
    slopes = contributions->slopes();
  for (Value by : slopes)
    weights.push_back(isCheap(by) ? Value() : weighed(p, by));
  Value doTile = load(doView, row, bq);
  Value kept = keptAt(place, i);
  // dV += P^T dO_i. Where P goes through shared memory, dS goes with it.
  ValueRange before = loop.getRegionIterArgs().take_front(sums.size());
  size_t parts = columnsOf(headDim, "dk").size();
  SmallVector<Value> dk1, dv1;
  auto addDv = [&] {
    addTo(dv1, "dv", headDimV, round(keptOf(kept, p)), doTile,
          before.drop_front(parts));
  };
  bool together = schedule.warpsAlongKeys() < schedule.getWarps();
  if (!together)
    addDv();
  // dP^T - delta = V dO_i^T - delta,  dS^T = P^T o (dP^T - delta)
  Value delta = everyKey(load(dView, row, bq));
  bool later = schedule.getPreload() == Preload::None;
  Value dp =
      dot("dp", bkv, bq, vTile, doTile, later ? Value() : delta, false, true,
          keyWarps(), schedule.getValuesInRegisters(), gradientsRole());
  if (later)
    dp = arith::AddFOp::create(b, loc, dp, delta);
  if (kept)
    dp = arith::SelectOp::create(b, loc, kept, dp, delta);
  dp = withoutExponentOfP(dp);
  if (schedule.getRoundedP())
    weight = arith::ExtFOp::create(b, loc, p.getType(), relayed(round(weight)));
  Value ds = round(arith::MulFOp::create(b, loc, weight, dp));
  SmallVector<Value> next;
  if (contributions) {
    for (auto [slope, weight] : llvm::zip_equal(slopes, weights)) {
      Value all = arith::MulFOp::create(b, loc, weight ? weight : p, dp);
      if (!weight)
        all = arith::MulFOp::create(b, loc, all, again(slope));
      terms.push_back(dropout ? scaledBy(all, dropout->factor()) : all);
    }
    Value at = tileSums.empty() ? Value() : rowOfTiles(kvBlock, i);
    for (ContributionSums::SumTurn &turn : sumTurns)
      placeTurn(turn, kvBlock, i, range);
    next = contributions->add(loop.getRegionIterArgs().drop_front(sums.size()),
                              terms, at, sumTurns);
  }
  if (together)
    addDv();
  // dK += dS^T Q_i,  dQ_i += dS K
  addTo(dk1, "dk", headDim, ds, qTile, before.take_front(parts));
  addGradQ(ds, kTile, range, kvBlock, i, sum, wholes);
  next.insert(next.begin(), dv1.begin(), dv1.end());
  next.insert(next.begin(), dk1.begin(), dk1.end());
  YieldOp::create(b, loc, next);
  b.setInsertionPointAfter(loop);
  if (contributions)
    contributions->finish(loop.getResults().drop_front(sums.size()));
  return SmallVector<Value>(loop.getResults().take_front(sums.size()));
}

void GradTiler::createKeys(StringRef suffix, StringRef when) {
  int64_t bkv = schedule.getBlockKv();
  // The first keys are those that most queries see.
  TileOrder order = schedule.getOrder();
  if (order == TileOrder::LongestFirst)
    order = TileOrder::Interleaved;
  else if (order == TileOrder::LongestBatchesAbreast)
    order = TileOrder::InterleavedBatchesAbreast;
  else if (keysFall())
    order = TileOrder::LongestFirst;
  int64_t cluster = schedule.getCluster();
  auto tiles =
      createKernel(suffix, schedule, Keys, cluster * bkv, order, cluster);
  if (!when.empty())
    tiles->getParentOfType<KernelOp>().setWhenAttr(
        GuardAttr::get(b.getContext(), when));
  Block &body = tiles.getBody().front();
  taken = body.getArgument(0);
  Value headKV = body.getArgument(1), batch = body.getArgument(2);
  // The keys of this block, of those whose dS is summed together.
  Value kvBlock = taken;
  rank = Value();
  othersKeys.clear();
  if (cluster > 1) {
    rank = ClusterRankOp::create(b, loc);
    kvBlock = arith::AddIOp::create(b, loc, times(taken, cluster), rank);
  }
  // Query heads h of one group read the key head h / (heads / heads_kv).
  Value group = headsOfGroup();
  Value first = arith::MulIOp::create(b, loc, headKV, group);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  auto keys = SequenceOp::create(b, loc, k, batch);
  Value row = times(kvBlock, bkv);
  CacheHint hint = schedule.getCacheKeys();
  Value kTile = load(hinted(view(k, batch, headKV, keys), hint), row, bkv);
  Value vTile = load(hinted(view(v, batch, headKV, keys), hint), row, bkv);
  if (rank) {
    Value other = arith::SubIOp::create(b, loc, constant(1), rank);
    other = arith::AddIOp::create(b, loc, times(taken, cluster), other);
    for (const GradQPiece &piece : gradQPieces()) {
      if (!piece.begins()) {
        othersKeys.push_back(othersKeys.back());
        continue;
      }
      // The copy engine takes a column where a tensor map has none.
      Value column = constant(piece.panel);
      if (!piece.sharesPanel())
        column = arith::AddIOp::create(b, loc, column, columnOf(piece));
      Value view = columnsView(k, {0, piece.loaded, {}}, batch, headKV, keys);
      othersKeys.push_back(
          load(from(hinted(view, hint), column), times(other, bkv), bkv));
    }
  }
  // Both take the same queries, as their sums are one.
  auto range = QRangeOp::create(
      b, loc, taken, startsWithFirst(headKV), sequence.getLength(),
      keys.getLength(), schedule.getBlockQ(), cluster * bkv, op.getMaskAttr(),
      /*nonempty=*/true, schedule.getRotateQueries());
  storeHidden(kvBlock, batch, first, group, sequence.getLength(),
              keys.getLength());
  // No head has anything to do where no query sees the keys.
  Value some =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt,
                            TileCountOp::create(b, loc, range), constant(0));
  Value visited = arith::SelectOp::create(b, loc, some, group, constant(0));
  SmallVector<Value> zeros;
  SmallVector<Columns> ofKeys = columnsOf(headDim, "dk"),
                       ofValues = columnsOf(headDimV, "dv");
  for (const SmallVector<Columns> &all : {ofKeys, ofValues})
    for (const Columns &columns : all)
      zeros.push_back(splat({bkv, columns.count}, 0.0f));
  auto heads =
      scf::ForOp::create(b, loc, constant(0), visited, constant(1), zeros);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(heads.getBody());
    Value head = arith::AddIOp::create(b, loc, first, heads.getInductionVar());
    scf::YieldOp::create(b, loc,
                         addHead(kTile, vTile, range, kvBlock, batch, head,
                                 heads.getRegionIterArgs()));
  }
  auto sums = heads.getResults().begin();
  for (const Columns &columns : ofKeys)
    storeScaled(*sums++, true, columnsView(dk, columns, batch, headKV, keys),
                row);
  for (const Columns &columns : ofValues)
    storeScaled(*sums++, false, columnsView(dv, columns, batch, headKV, keys),
                row);
}

/// One block a tile of queries, the key tiles from the last to the first.
void GradTiler::createQueries() {
  Schedule fields = op.getDqSchedule()->getFields();
  fields.chained = schedule.getChained();
  auto s = ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields);
  int64_t bq = s.getBlockQ(), bkv = s.getBlockKv();
  auto tiles = createKernel("_dq", s, Queries, bq, s.getOrder());
  Block &body = tiles.getBody().front();
  Value qBlock = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value group = headsOfGroup();
  Value headKV = arith::DivUIOp::create(b, loc, head, group);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  auto keys = SequenceOp::create(b, loc, k, batch);
  Value sq = sequence.getLength(), sk = keys.getLength();
  Value row = times(qBlock, bq);
  Value qTile = load(view(q, batch, head, sequence), row, bq);
  Value doTile = load(view(dout, batch, head, sequence), row, bq);
  Value n = load(wholeView(negLse, batch, head), row, bq);
  Value negD = load(wholeView(negDelta, batch, head), row, bq);
  Value kView = view(k, batch, headKV, keys),
        vView = view(v, batch, headKV, keys);
  Value range =
      KVRangeOp::create(b, loc, qBlock, /*falling=*/true, sq, sk, Value(), bq,
                        bkv, op.getMaskAttr(), /*nonempty=*/false,
                        /*past_end=*/false, /*whole_rows=*/false);
  ScorePlace place{batch, head, qBlock, bq, bkv};
  auto program = programAt(place);
  auto loop =
      ForTilesOp::create(b, loc, range, ValueRange{splat({bq, headDim}, 0.0f)});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&loop.getBody().front());
    WarpGridAttr rows = warps(s.getWarps(), 1);
    Value j = loop.getTile();
    Value kvRow = times(j, bkv);
    if (program)
      program->atColumns(j);
    // P = exp(c Q K_j^T - lse)
    Value kTile = load(kView, kvRow, bkv);
    Value begins, slope;
    if (scoresBeginWithLse())
      begins = startOf(program ? &*program : nullptr,
                       BroadcastOp::create(b, loc, tile(bq, bkv, f32), n,
                                           /*columns=*/false));
    Value scores = dot("s", bq, bkv, qTile, kTile, begins, false, true, rows);
    if (program)
      std::tie(scores, slope) = applyProgram(*program, scores);
    scores = ApplyMaskOp::create(b, loc, scores.getType(), scores, qBlock, j,
                                 sq, sk, Value(), op.getMaskAttr(),
                                 /*transposed=*/false);
    Value p = SoftmaxRecomputeOp::create(b, loc, scores.getType(), scores,
                                         begins ? Value() : n, softmaxScale,
                                         /*columns=*/false);
    // dS = P o (dO V_j^T - delta)
    Value vTile = load(vView, kvRow, bkv);
    Value delta = BroadcastOp::create(b, loc, scores.getType(), negD,
                                      /*columns=*/false);
    Value dp = dot("dp", bq, bkv, doTile, vTile, delta, false, true, rows);
    if (Value kept = keptAt(place, j))
      dp = arith::SelectOp::create(b, loc, kept, dp, delta);
    dp = withoutExponentOfP(dp);
    Value ds = round(arith::MulFOp::create(b, loc, weighed(p, slope), dp));
    // dQ += dS K_j
    Value dq1 = dot("dq", bq, headDim, ds, kTile, loop.getRegionIterArgs()[0],
                    false, false, rows);
    YieldOp::create(b, loc, dq1);
  }
  storeScaled(loop.getResult(0), true, view(dq, batch, head, sequence), row);
}
