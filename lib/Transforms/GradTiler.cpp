//===- GradTiler.cpp - backward's kernels around the products -------------===//

#include "GradTiler.h"
#include "Sink.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/FormatVariadic.h"

#include <numbers>

using namespace mlir;
using namespace fa2;

static constexpr float kInf = std::numeric_limits<float>::infinity();
/// docs/contract.md, rows without a value.
static constexpr float kLargestLse = 0x1p23f;
/// Of an f16 below 2^-14 bits are lost, which is 2^-26 of P then: less than dS,
/// which is dP times as large, loses itself. P may still be 2^3, of an lse that
/// a caller knows less well.
static constexpr int64_t kExponentOfP = 12;

/// A condition where one of some holds; "": always.
static std::string anyOf(StringRef one, StringRef other) {
  if (one.empty() || other.empty())
    return "";
  return llvm::formatv("({0}) || ({1})", one, other);
}

SmallVector<GradTiler::Alternative> GradTiler::alternativesOf() {
  SmallVector<VariantAttr> variants;
  if (ArrayAttr attrs = op.getVariantsAttr())
    llvm::append_range(variants, attrs.getAsRange<VariantAttr>());
  GuardedVariants guarded(variants);
  SmallVector<Alternative> alternatives{
      {0, guarded.otherwise, {{"", guarded.otherwise, schedule}}}};
  for (auto [i, variant] : llvm::enumerate(variants)) {
    OfKeys kernel{("_variant" + Twine(i + 1)).str(), guarded.when[i],
                  variant.getSchedule()};
    auto fits = [&](const Alternative &a) {
      return a.kernels.front().schedule.differsAround(kernel.schedule).empty();
    };
    if (auto known = llvm::find_if(alternatives, fits);
        known != alternatives.end()) {
      known->when = anyOf(known->when, kernel.when);
      known->kernels.push_back(kernel);
    } else {
      alternatives.push_back(
          {int64_t(alternatives.size()), kernel.when, {kernel}});
    }
  }
  // Of a single one some kernel is launched, whatever holds.
  if (alternatives.size() == 1)
    alternatives.front().when.clear();
  return alternatives;
}

void GradTiler::run() {
  for (const Alternative &each : alternativesOf())
    createAlternative(each);
  normal.reset(); // a copy of what is erased, with its operands
  func.erase();
}

void GradTiler::createAlternative(const Alternative &each) {
  alternative = &each;
  schedule = each.kernels.front().schedule;
  if (!op.getScore().empty())
    normal.emplace(op, /*preload=*/scoresBeginWithLse());
  bool atomic = schedule.getDq() != GradQ::Recompute;
  sumWidth = 1;
  bool roundsP = llvm::any_of(each.kernels, [](const OfKeys &keys) {
    return keys.schedule.getRoundedP();
  });
  auto queries = cast<RankedTensorType>(op.getQ().getType());
  exponentOfP = roundsP && queries.getElementType().isF16() ? kExponentOfP : 0;
  // Statistics by whole rows of 16 a warp; the sums' tiles are whole.
  int64_t rows = 16 * schedule.getWarps();
  std::string error;
  if (const Target *target = lookupTarget(schedule.getTarget(), error)) {
    panelColumns = target->sharedPanelBytes() / 2; // of 16 bits
    if (schedule.getDq() == GradQ::AtomicV4 ||
        (schedule.getDq() == GradQ::Ordered && target->hasVectorReductions()))
      sumWidth = 4;
    // They wait for memory: three blocks, with rows of the output and of its
    // gradient, are to fit a multiprocessor.
    auto values = cast<RankedTensorType>(op.getV().getType());
    int64_t bytes = 2 * rows * values.getDimSize(3) * 2;
    if (3 * bytes > target->limits().sharedBytesPerMultiprocessor)
      rows = std::min<int64_t>(rows, 64);
  }
  statRows = std::max(schedule.getBlockQ(), rows);
  if (!gradientsThatAre(GradientForm::Sum).empty())
    createZeros();
  for (unsigned i : gradientsThatAre(GradientForm::Tiles))
    addsInTurns(i) ? createTurns(i) : createZeroTiles(i);
  if (op.getMaskAttr() && !gradientsThatAre(GradientForm::Whole).empty() &&
      !schedule.getStoresHidden())
    createHidden();
  createStatistics();
  if (op.getDsink())
    createSinkGradient();
  for (const OfKeys &keys : each.kernels) {
    schedule = keys.schedule;
    createKeysOf(keys.suffix, keys.when);
  }
  schedule = each.kernels.front().schedule;
  if (!atomic)
    createQueries();
  else if (!schedule.getTurnsFinish())
    createScaledSum();
  for (unsigned i : gradientsThatAre(GradientForm::Tiles))
    if (!addsInTurns(i))
      createSummed(i);
  if (!exactSums().empty())
    createRounded();
}

void GradTiler::createKeysOf(StringRef suffix, StringRef when) {
  std::string copied =
      schedule.getSlotsReads() ? programOf(op).loadsTiles() : "";
  if (copied.empty())
    return createKeys(suffix, when);
  std::string both = when.empty() ? "" : llvm::formatv("({0}) && ", when).str();
  createKeys(suffix, both + copied);
  ScheduleAttr base = schedule;
  Schedule fields = base.getFields();
  fields.slotsReads = 0;
  schedule = ScheduleAttr::get(base.getContext(), base.getTarget(), fields);
  createKeys((suffix + "_elements").str(), both + "!(" + copied + ")");
  schedule = base;
}

ForEachTileOp GradTiler::createKernel(StringRef suffix, ScheduleAttr s,
                                      RowsOf rowsOf, int64_t block,
                                      TileOrder order, int64_t cluster) {
  b.setInsertionPoint(func);
  auto type = [](Value x) { return cast<RankedTensorType>(x.getType()); };
  headDim = type(op.getQ()).getDimSize(3);
  headDimV = type(op.getV()).getDimSize(3);
  dtype = type(op.getQ()).getElementType();

  SmallVector<Type> types;
  SmallVector<Attribute> args;
  auto add = [&](StringRef name, StringRef direction, RankedTensorType t,
                 ArrayRef<StringRef> dims) {
    types.push_back(globalType(t));
    args.push_back(describe(name, direction, t.getElementType(), dims,
                            t.getRank() == 4 ? std::optional(t.getDimSize(3))
                                             : std::nullopt));
  };
  constexpr StringRef queries[] = {"batch", "seqlen_q", "heads"};
  constexpr StringRef keys[] = {"batch", "seqlen_k", "heads_kv"};
  add("q", "in", type(op.getQ()), queries);
  add("k", "in", type(op.getK()), keys);
  add("v", "in", type(op.getV()), keys);
  add("out", "in", type(op.getOut()), queries);
  add("lse", "in", type(op.getLse()), {"batch", "heads", "seqlen_q"});
  add("dout", "in", type(op.getDout()), queries);
  if (op.getDlse())
    add("dlse", "in", type(op.getDlse()), {"batch", "heads", "seqlen_q"});
  add("dq", "out", type(op.getDq()), queries);
  add("dk", "out", type(op.getDk()), keys);
  add("dv", "out", type(op.getDv()), keys);
  // The workspace: a sum of dQ, n and -delta, by whole tiles.
  std::string rows = "ceildiv(seqlen_q, " + std::to_string(statRows) + ") * " +
                     std::to_string(statRows);
  int64_t any = ShapedType::kDynamic;
  if (schedule.getDq() != GradQ::Recompute)
    add("dq_sum", "workspace",
        RankedTensorType::get({any, any, any, sumColumns()}, f32),
        {"batch", rows, "heads"});
  // Whose turn it is to add: counters of a tile where its rows begin.
  if (schedule.getFields().takesTurns())
    add("dq_turns", "workspace",
        RankedTensorType::get({any, any, any}, b.getI32Type()),
        {"batch", "heads", rows});
  for (StringRef name : {"neg_lse", "neg_delta"})
    add(name, "workspace", RankedTensorType::get({any, any, any}, f32),
        {"batch", "heads", rows});
  for (unsigned i : exactSums()) {
    auto t = RankedTensorType::get({any, kRowOfWords}, b.getI32Type());
    std::string name = "d" + programOf(op).extraName(extraOf(i));
    types.push_back(globalType(t));
    args.push_back(describe(name + "_words", "workspace", t.getElementType(),
                            {rowsOfWords(i)}, kRowOfWords));
  }
  std::string sums = "ceildiv(seqlen_q, " + std::to_string(statRows) + ") * " +
                     std::to_string(statRows / 16);
  if (op.getDsink())
    add("sink_sums", "workspace", RankedTensorType::get({any, any, any}, f32),
        {"heads", "batch", sums});
  // Tiles of block_kv keys by block_q queries, one above the other.
  for (unsigned i : gradientsThatAre(GradientForm::Tiles)) {
    std::string tiles =
        llvm::formatv("ceildiv(seqlen_k, {0}) * ceildiv(seqlen_q, {1}) * {0}",
                      schedule.getBlockKv(), schedule.getBlockQ());
    std::string name = "d" + programOf(op).extraName(extraOf(i));
    StringRef batches = isSummedOver(i, ScoreProgram::Batch) ? "1" : "batch",
              heads = isSummedOver(i, ScoreProgram::Head) ? "1" : "heads";
    add(name + "_sum", "workspace",
        RankedTensorType::get({any, any, any, schedule.getBlockQ()}, f32),
        {batches, tiles, heads});
    if (addsInTurns(i))
      add(name + "_turns", "workspace",
          RankedTensorType::get({any, any, any}, b.getI32Type()),
          {batches, heads, tiles});
  }
  double c = 1.0 / std::sqrt(double(headDim));
  if (op.getScale()) {
    types.push_back(f32);
    args.push_back(describeScale(headDim, scoresBeginWithLse()));
  }
  auto addOfHeads = [&](StringRef name, StringRef direction) {
    types.push_back(typeOfHeads());
    args.push_back(describeHeads(name, direction));
  };
  if (op.getSink())
    addOfHeads("sink", "in");
  if (op.getDropout())
    addDropout(types, args);
  size_t fixed = types.size();
  addExtras(programOf(op), types, args);
  ArrayRef<int64_t> grads = op.getGrads().value_or(ArrayRef<int64_t>());
  addExtraGradients(programOf(op), grads, op.getDextras().getTypes(), types,
                    args);
  if (op.getDsink())
    addOfHeads("dsink", "out");
  auto spec =
      SpecAttr::get(b.getContext(), "backward", dtype, headDim, headDimV,
                    op.getMaskAttr(), programOf(op).describe());
  StringRef own = alternative->kernels.front().suffix, when = alternative->when;
  std::string name = (func.getName() + suffix).str();
  if (rowsOf != Keys)
    name += own;
  auto kernel = KernelOp::create(
      b, loc, name, b.getFunctionType(types, {}), spec, s, b.getArrayAttr(args),
      IntegerAttr{},
      when.empty() ? GuardAttr() : GuardAttr::get(b.getContext(), when),
      /*main=*/suffix.empty() && own.empty(), ArrayAttr{},
      alternative->number ? b.getI64IntegerAttr(alternative->number)
                          : IntegerAttr(),
      ArrayAttr{}, ArrayAttr{});
  entry = b.createBlock(&kernel.getBody());
  for (Type t : types)
    entry->addArgument(t, loc);
  size_t next = 0;
  for (Value *x : {&q, &k, &v, &out, &lse, &dout})
    *x = arg(next++);
  if (op.getDlse())
    dlse = arg(next++);
  for (Value *x : {&dq, &dk, &dv})
    *x = arg(next++);
  // Of the alternatives each sums dQ in its way.
  bool recomputes = schedule.getDq() == GradQ::Recompute;
  dqSum = recomputes ? Value() : arg(next++);
  turns = schedule.getFields().takesTurns() ? arg(next++) : Value();
  negLse = arg(next++);
  negDelta = arg(next++);
  exactWords.assign(grads.size(), Value());
  for (unsigned i : exactSums())
    exactWords[i] = arg(next++);
  if (op.getDsink())
    sinkSums = arg(next++);
  tileSums.clear();
  tileTurns.clear();
  for (unsigned i : gradientsThatAre(GradientForm::Tiles)) {
    tileSums.push_back(arg(next++));
    tileTurns.push_back(addsInTurns(i) ? arg(next++) : Value());
  }
  scale = op.getScale() ? arg(next++)
                        : Value(arith::ConstantOp::create(
                              b, loc, b.getF32FloatAttr(float(c))));
  if (op.getSink())
    sink = arg(next++);
  extras = entry->getArguments().slice(fixed, op.getExtras().size());
  dextras = entry->getArguments().slice(fixed + extras.size(), grads.size());
  if (op.getDsink())
    dsink = entry->getArguments().back();
  softmaxScale = scale;
  if (auto own = normal ? normal->scale() : std::nullopt)
    softmaxScale = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(*own));

  auto extent = [&](int64_t dim) -> Value {
    return memref::DimOp::create(b, loc, rowsOf == Keys ? k : q, dim);
  };
  // Named, as the order in which arguments are evaluated is the compiler's.
  bool tiled = rowsOf == Queries || rowsOf == Keys;
  Value rowCount = tiled             ? extent(1)
                   : rowsOf == Heads ? extent(2)
                                     : constant(block);
  Value heads = tiled ? extent(2) : constant(1);
  Value batches = tiled ? extent(0) : constant(1);
  auto tiles =
      ForEachTileOp::create(b, loc, rowCount, heads, batches,
                            rowsOf == Nothing ? 1 : block, order, cluster);
  ReturnOp::create(b, loc);
  b.setInsertionPointToStart(&tiles.getBody().front());
  if (op.getDropout())
    dropout.emplace(b, loc, arg(next), arg(next + 1));
  return tiles;
}

/// Of a kernel without products.
ScheduleAttr GradTiler::plainSchedule() {
  Schedule fields = schedule.getFields();
  fields.blockQ = statRows;
  fields.warps = statRows / 16;
  fields.partition = Partition::SplitQ;
  fields.keyWarps = fields.dqWarps = 0;
  fields.dqByProducer = fields.dqRole = false;
  fields.roleColumns = 0;
  fields.roleProducts = false;
  fields.cluster = 1;
  fields.slotsDout = 0;
  fields.qInRegisters = fields.persistent = fields.separateOutput = false;
  fields.directOutput = false;
  // It waits for memory: several blocks a multiprocessor, which have 80
  // registers a thread for rows of up to 128 columns.
  auto values = cast<RankedTensorType>(op.getV().getType());
  int64_t registers = values.getDimSize(3) <= 128 ? 80 : 160;
  fields.minBlocks =
      std::clamp<int64_t>(64 * 1024 / (fields.warps * 32 * registers), 1, 8);
  fields.order = TileOrder::Ascending;
  // Its blocks are short, and there is no work that the next kernel's could
  // take the place of.
  if (fields.chained != Chain::None)
    fields.chained = Chain::Early;
  return ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields);
}

/// n = -log2(e) lse, or -lse / scale where scores begin with it, for P times a
/// power of two with that in it, and with what a program adds to all scores of
/// the row; and -delta = -rowsum(dO o O), to which what lse has of a gradient
/// is added; dQ's sum and its turns are zeroed, or, where turns finish it, dQ
/// where nobody adds.
void GradTiler::createStatistics() {
  // What the next kernel reads first is written last, and is in the cache.
  auto tiles = createKernel("_statistics", plainSchedule(), Queries, statRows,
                            TileOrder::Descending);
  Block &body = tiles.getBody().front();
  Value head = body.getArgument(1), batch = body.getArgument(2);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  Value row = times(body.getArgument(0), statRows);
  // All are on their way before any is waited for.
  Value l = load(view(lse, batch, head, sequence), row, statRows);
  Value o = load(view(out, batch, head, sequence), row, statRows),
        d = load(view(dout, batch, head, sequence), row, statRows);
  auto widened = [&](Value x) -> Value {
    return arith::ExtFOp::create(b, loc, tile(statRows, headDimV, f32), x);
  };
  Value product = arith::MulFOp::create(b, loc, widened(o), widened(d));
  auto vector = RankedTensorType::get({statRows}, f32);
  Value delta = SumRowsOp::create(b, loc, vector, product);
  // lse = -inf is a row without keys: n = -inf makes its P 0.
  Value factor = splat({statRows}, -std::numbers::log2e_v<float>);
  if (scoresBeginWithLse()) {
    Value minusOne = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(-1));
    factor = tensor::SplatOp::create(
        b, loc, cast<RankedTensorType>(l.getType()),
        arith::DivFOp::create(b, loc, minusOne, scale), ValueRange{});
  }
  Value exponent = l; // of exp(s - lse), less what P is multiplied with
  if (exponentOfP)
    exponent = arith::SubFOp::create(
        b, loc, l,
        splat({statRows}, float(exponentOfP) * std::numbers::ln2_v<float>));
  if (Value own = normal ? normal->row() : Value()) {
    ScorePlace place{batch, head, body.getArgument(0), statRows, /*cols=*/8};
    exponent =
        arith::SubFOp::create(b, loc, exponent, programAt(place)->rowsOf(own));
  }
  Value n = arith::MulFOp::create(b, loc, exponent, factor);
  Value none = splat({statRows}, -kInf), empty;
  // What a program makes may be so large that f32 holds nothing of exp(x -
  // lse): such rows are as those without keys.
  if (op.getScore().empty())
    empty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, l, none);
  else
    empty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE,
                                  math::AbsFOp::create(b, loc, l),
                                  splat({statRows}, kLargestLse));
  n = arith::SelectOp::create(b, loc, empty, none, n);
  // So is what a program makes of rows past the end.
  if (!op.getScore().empty())
    n = arith::SelectOp::create(
        b, loc, rowsInside(body.getArgument(0), sequence.getLength()), n, none);
  StoreOp::create(b, loc, n, wholeView(negLse, batch, head), row);
  Value negative;
  if (dlse) { // 0 for a row without keys, whatever it is given
    Value d = load(view(dlse, batch, head, sequence), row, statRows);
    d = arith::SelectOp::create(b, loc, empty, splat({statRows}, 0.0f), d);
    negative = arith::SubFOp::create(b, loc, d, delta);
  } else {
    negative = arith::NegFOp::create(b, loc, delta);
  }
  // Of what dropout keeps dP is to be divided by 1 - p: so is all, at the end.
  Value stored = negative;
  if (dropout)
    stored = scaledBy(stored, dropout->share());
  StoreOp::create(b, loc, stored, wholeView(negDelta, batch, head), row);
  if (dsink)
    storeSinkSums(body.getArgument(0), head, batch, l, negative);
  if (schedule.getTurnsFinish())
    zeroUnseen(body.getArgument(0), head, batch, sequence);
  // Zeros are zeros in any order of all the kernel's warps.
  SumOrderAttr order =
      SumOrderAttr::get(b.getContext(), warps(statRows / 16, 1), 1);
  bool zeroed = dqSum && !schedule.getTurnsFinish();
  for (const Columns &part : zeroed ? gradQParts() : SmallVector<Columns>())
    StoreOp::create(b, loc,
                    splat({statRows, sumColumnsOfPart(part.count)}, 0.0f),
                    partOfSum(batch, head, part.first, part.count, order), row);
  if (turns) {
    auto none = DenseElementsAttr::get(
        RankedTensorType::get({statRows}, b.getI32Type()), int32_t(0));
    StoreOp::create(b, loc, arith::ConstantOp::create(b, loc, none),
                    wholeView(turns, batch, head), row);
  }
}

/// dQ of the rows of a tile of statistics that are in query tiles to which no
/// block adds, as no row of theirs sees a key.
void GradTiler::zeroUnseen(Value tile, Value head, Value batch,
                           SequenceOp sequence) {
  int64_t bq = schedule.getBlockQ();
  Value length = sequence.getLength(),
        keys = SequenceOp::create(b, loc, k, batch).getLength();
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, loc, x, y);
  };
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(b, loc, x, y);
  };
  Value row = times(tile, statRows);
  Value end = least(plus(row, constant(statRows)), length);
  Value firstTile = arith::DivUIOp::create(b, loc, row, constant(bq));
  // Tiles of both kinds begin together, or each may begin within the other.
  int64_t tiles = statRows / bq + (statRows % bq ? 2 : 0);
  for (int64_t i = 0; i < tiles; ++i) {
    Value qBlock = plus(firstTile, constant(i));
    auto adders = addersTo(qBlock, keysFall(), length, keys);
    Value none =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                              TileCountOp::create(b, loc, adders), constant(0));
    Value from = times(qBlock, bq), to = plus(from, constant(bq));
    from = arith::MaxSIOp::create(b, loc, from, row);
    to = arith::SelectOp::create(b, loc, none, least(to, end), from);
    Value first = sequence.getOffset();
    ZeroBoxOp::create(b, loc, dq,
                      ValueRange{batch, plus(first, from), head, constant(0)},
                      ValueRange{plus(batch, constant(1)), plus(first, to),
                                 plus(head, constant(1)), constant(headDim)},
                      /*rows=*/1);
  }
}

/// Which rows of a tile of statistics are those of a sequence.
Value GradTiler::rowsInside(Value tile, Value length) {
  auto index = RankedTensorType::get({statRows}, b.getIndexType());
  return arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::slt,
      PositionsOp::create(b, loc, index, tile, Value()),
      tensor::SplatOp::create(b, loc, index, length, ValueRange{}));
}

/// What rows add to the sink's gradient: its P is exp(sink - lse), and its dP
/// is 0, as its value is.
void GradTiler::storeSinkSums(Value tile, Value head, Value batch, Value l,
                              Value negative) {
  Value s = readByHead(b, loc, sink, {batch, head, tile, statRows, 0});
  Value p = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, s, l));
  Value part = arith::MulFOp::create(b, loc, p, negative);
  // Neither rows past the end nor those without any score.
  Value inside =
      rowsInside(tile, SequenceOp::create(b, loc, q, batch).getLength());
  Value scored = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, l,
                                       splat({statRows}, -kInf));
  Value counts = arith::AndIOp::create(b, loc, inside, scored);
  part = arith::SelectOp::create(b, loc, counts, part, splat({statRows}, 0.0f));
  StoreSumsOp::create(b, loc, part, sinkSums, ValueRange{head, batch},
                      times(tile, statRows / 16));
}

/// A block a head adds up what all rows have.
void GradTiler::createSinkGradient() {
  auto tiles = createKernel("_dsink", plainSchedule(), Heads, /*block=*/1,
                            TileOrder::Ascending);
  AddUpOp::create(b, loc, sinkSums, dsink,
                  tiles.getBody().front().getArgument(0));
}

void GradTiler::createScaledSum() {
  int64_t bq = gradQRows();
  Schedule fields = schedule.getFields();
  fields.blockQ = bq;
  fields.warps = schedule.warpsOfGradQ();
  fields.keyWarps = std::min(fields.keyWarps, fields.warps);
  fields.persistent = fields.separateOutput = fields.directOutput = false;
  fields.dqRole = false;
  fields.roleColumns = 0;
  fields.roleProducts = false;
  fields.cluster = 1;
  fields.slotsDout = 0;
  // What was added to last is read first.
  auto tiles = createKernel(
      "_dq", ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields),
      Queries, bq, TileOrder::Descending);
  Block &body = tiles.getBody().front();
  Value head = body.getArgument(1), batch = body.getArgument(2);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  Value row = times(body.getArgument(0), bq);
  for (Columns part : gradQParts()) {
    part.count = std::min(part.count, headDim - part.first);
    if (part.count <= 0)
      continue;
    Value sum = LoadOp::create(
        b, loc, tile(bq, part.count, f32),
        partOfSum(batch, head, part.first, part.count, sumOrder()), row);
    storeScaled(sum, true, columnsView(dq, part, batch, head, sequence), row);
  }
}
