//===- ForwardTiler.cpp - one block's program -----------------------------===//
//
// Algorithm 1 of FlashAttention-2 (arXiv:2307.08691), with the key tiles taken
// from the last to the first, so that those which need a mask come first.
//
//===----------------------------------------------------------------------===//

#include "ForwardTiler.h"

#include "Sink.h"

#include <numeric>

using namespace mlir;
using namespace fa2;

/// What a row's maximum begins with. Finite, so that a row that has seen no
/// score above -inf has exp(-inf - m) = 0 like any other; far below what scores
/// are accurate for (docs/contract.md).
static constexpr float kNoScore = -0x1p100f;

void ForwardTiler::addVectors(StringRef name, int64_t count,
                              ArrayRef<std::string> extents,
                              SmallVectorImpl<Type> &types,
                              SmallVectorImpl<Attribute> &args) {
  SmallVector<int64_t> shape(3, ShapedType::kDynamic);
  SmallVector<StringRef> dims(extents.begin(), extents.end());
  for (int64_t i = 0; i < count; ++i) {
    types.push_back(globalType(RankedTensorType::get(shape, b.getF32Type())));
    args.push_back(
        describe((name + Twine(i)).str(), "workspace", b.getF32Type(), dims));
  }
}

void ForwardTiler::createKernel(const Twine &name, GuardAttr when,
                                ArrayAttr parts) {
  auto qType = cast<RankedTensorType>(op.getQ().getType());
  auto kType = cast<RankedTensorType>(op.getK().getType());
  auto vType = cast<RankedTensorType>(op.getV().getType());
  auto outType = cast<RankedTensorType>(op.getOut().getType());
  auto lseType = cast<RankedTensorType>(op.getLse().getType());
  headDim = qType.getDimSize(3);
  headDimV = vType.getDimSize(3);
  dtype = qType.getElementType();

  SmallVector<Type> types;
  for (RankedTensorType t : {qType, kType, vType, outType, lseType})
    types.push_back(globalType(t));
  SmallVector<Attribute> args{
      describe("q", "in", dtype, {"batch", "seqlen_q", "heads"}, headDim),
      describe("k", "in", dtype, {"batch", "seqlen_k", "heads_kv"}, headDim),
      describe("v", "in", dtype, {"batch", "seqlen_k", "heads_kv"}, headDimV),
      describe("out", "out", dtype, {"batch", "seqlen_q", "heads"}, headDimV),
      describe("lse", "out", b.getF32Type(), {"batch", "heads", "seqlen_q"})};
  if (op.getScale()) {
    types.push_back(b.getF32Type());
    args.push_back(describeScale(headDim, /*divides=*/bool(scores.start())));
  }
  if (op.getSink()) {
    types.push_back(typeOfHeads());
    args.push_back(describeHeads("sink", "in"));
  }
  if (op.getDropout())
    addDropout(types, args);
  size_t fixed = types.size();
  addExtras(programOf(op), types, args);
  if (scores.hasColumns())
    addVectors("column_values", scores.columns().size(), scores.columnExtents(),
               types, args);
  if (scores.hasDistances())
    addVectors("distance_values", 1, scores.distanceExtents(), types, args);
  if (scores.hasEntries())
    addVectors("entry_values", 1, scores.entryExtents(), types, args);
  auto spec = SpecAttr::get(b.getContext(), "forward", dtype, headDim, headDimV,
                            op.getMaskAttr(), programOf(op).describe());
  auto kernel =
      KernelOp::create(b, loc, name.str(), b.getFunctionType(types, {}), spec,
                       schedule, b.getArrayAttr(args), IntegerAttr{}, when,
                       /*main=*/name.str() == func.getName(), parts,
                       IntegerAttr{}, ArrayAttr{}, ArrayAttr{});
  Block *entry = b.createBlock(&kernel.getBody());
  for (Type t : types)
    entry->addArgument(t, loc);
  q = entry->getArgument(0);
  k = entry->getArgument(1);
  v = entry->getArgument(2);
  out = entry->getArgument(3);
  lse = entry->getArgument(4);
  size_t next = op.getScale() ? 6 : 5;
  if (op.getSink())
    sink = entry->getArgument(next++);
  if (op.getDropout()) {
    dropped = entry->getArgument(next++);
    rng = entry->getArgument(next++);
  }
  extras = entry->getArguments().slice(fixed, op.getExtras().size());
  size_t values = fixed + extras.size();
  if (scores.hasColumns())
    columns = entry->getArguments().slice(values, scores.columns().size());
  if (scores.hasDistances())
    distances = entry->getArguments().back();
  if (scores.hasEntries())
    entries = entry->getArguments().back();
  scale = op.getScale()
              ? Value(entry->getArgument(5))
              : arith::ConstantOp::create(
                    b, loc,
                    b.getF32FloatAttr(float(1.0 / std::sqrt(double(headDim)))));
}

/// What the program computes for keys comes from memory, behind the keys, or
/// from a role that computes it for this tile.
void ForwardTiler::loadColumns(ProgramTiler &program, Value keyBlock, Value row,
                               ScorePlace place) {
  auto vector = RankedTensorType::get({place.cols}, b.getF32Type());
  std::optional<ProgramTiler> own =
      scores.byRoles()
          ? programOfKeys(place.batch, place.head, keyBlock, place.cols)
          : std::nullopt;
  for (auto [i, v] : llvm::enumerate(scores.columns())) {
    if (program.axesOf(v) != ProgramTiler::Columns)
      continue;
    Value x = own ? RelayOp::create(b, loc, columnsOf(*own, v)).getResult()
                  : LoadOp::create(b, loc, vector,
                                   columnView(i, place.batch, place.head), row)
                        .getTile();
    program.useColumns(v, x);
  }
}

std::optional<ProgramTiler> ForwardTiler::programOfKeys(Value batch, Value head,
                                                        Value keyBlock,
                                                        int64_t keys) {
  return programAt(
      {batch, head, keyBlock, keys, /*cols=*/8, /*transposed=*/true});
}

Value ForwardTiler::columnsOf(ProgramTiler &ofKeys, Value v) {
  auto vector = RankedTensorType::get({ofKeys.numRows()}, b.getF32Type());
  Value x = ofKeys.rowsOf(v);
  return x.getType() == vector
             ? x
             : arith::BitcastOp::create(b, loc, vector, x).getResult();
}

Value ForwardTiler::startOf(ProgramTiler &program, Value row,
                            ScorePlace place) {
  if (!scores.start())
    return {};
  if (table)
    return program.gather(scores->entry(), scores->entryDimension(), table);
  if (!scores.takesDistances() || place.packedHeads > 1)
    return program.atStart(scores.start());
  return program.atStart(scores.start(), distancesOf(row, place));
}

/// Of a tile, column j and row i have the element j - i + rows - 1 of a vector
/// that begins at the distance of its last row's first column. It has one
/// element more, which makes it whole multiples of 16 bytes.
Value ForwardTiler::distancesOf(Value row, ScorePlace place) {
  int64_t count = place.rows + place.cols;
  Value rows =
      arith::MulIOp::create(b, loc, place.rowBlock, constant(place.rows));
  if (lead)
    rows = arith::SubIOp::create(b, loc, rows, lead);
  Value behind = arith::AddIOp::create(b, loc, rows, constant(place.rows));
  if (scores.byRoles()) {
    // As columns 0, 1, ... have them of a row as far behind.
    Value last = arith::SubIOp::create(b, loc, behind, constant(1));
    ScorePlace there{place.batch,        place.head, constant(0), count,
                     /*cols=*/8,
                     /*transposed=*/true};
    there.row = arith::SubIOp::create(b, loc, last, row);
    return RelayOp::create(b, loc, programAt(there)->rowsOf(scores.start()));
  }
  Value before = arith::SubIOp::create(b, loc, distanceRows(), behind);
  Value first = arith::AddIOp::create(b, loc, before, row);
  auto vector = RankedTensorType::get({count}, b.getF32Type());
  return LoadOp::create(b, loc, vector, distanceView(place.batch, place.head),
                        first);
}

Value ForwardTiler::distanceRows() {
  Value n = constant(scores.distanceRows());
  Value tiles = arith::CeilDivUIOp::create(b, loc, extent(q, 1), n);
  return arith::MulIOp::create(b, loc, tiles, n);
}

ForTilesOp ForwardTiler::buildLoop(Value qTile, ScorePlace place,
                                   ProgramTiler *program, Dropout *dropout,
                                   Value kView, Value vView, Value seqlenQ,
                                   Value seqlenK) {
  Value qBlock = place.rowBlock;
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  int64_t packed = schedule.getPackedHeads();
  Value range = KVRangeOp::create(
      b, loc, qBlock, /*falling=*/true, seqlenQ, seqlenK, lead, bq / packed,
      bkv, op.getMaskAttr(), /*nonempty=*/false, /*past_end=*/false,
      /*whole_rows=*/false);
  // A program's scores may be as low as f32 goes, to hide what they belong to.
  float none = program && !scores->isBounded()
                   ? std::numeric_limits<float>::lowest()
                   : kNoScore;
  Value m0 = splat({bq}, none), l0 = splat({bq}, 0.0f),
        o0 = splat({bq, headDimV}, 0.0f);

  auto loop = ForTilesOp::create(b, loc, range, ValueRange{m0, l0, o0});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&loop.getBody().front());
  Value m = loop.getRegionIterArgs()[0], l = loop.getRegionIterArgs()[1],
        o = loop.getRegionIterArgs()[2];
  Value j = loop.getTile();
  Value row = arith::MulIOp::create(b, loc, j, constant(bkv));

  if (program)
    program->atColumns(j);
  // Split-K: the warps share the keys, and each sums an output of its own.
  int64_t n = schedule.getWarps();
  bool splitK = schedule.getPartition() == Partition::SplitK;
  // S = Q K_j^T
  Value kTile = LoadOp::create(b, loc, tile(bkv, headDim, dtype), kView, row);
  if (program)
    loadColumns(*program, j, row, place);
  Value terms = program ? startOf(*program, row, place) : Value();
  Value s =
      DotOp::create(b, loc, tile(bq, bkv, b.getF32Type()), qTile, kTile, terms,
                    /*transpose_b=*/true, /*transpose_a=*/false,
                    splitK ? warps(1, n) : warps(n, 1), b.getStringAttr("s"),
                    schedule.getQueriesInRegisters());
  if (program && !terms)
    s = program->atScores(s);
  s = ApplyMaskOp::create(b, loc, s.getType(), s, qBlock, j, seqlenQ, seqlenK,
                          lead, op.getMaskAttr(), /*transposed=*/false, packed);
  // P, m, l, alpha
  auto step = SoftmaxStepOp::create(
      b, loc, TypeRange{s.getType(), m.getType(), l.getType(), m.getType()}, s,
      m, l, softmaxScale, b.getF32FloatAttr(float(schedule.getLazyRescale())),
      b.getI64IntegerAttr(start()),
      schedule.getPolynomialExp2() ? b.getUnitAttr() : UnitAttr());
  Value p = arith::TruncFOp::create(b, loc, tile(bq, bkv, dtype), step.getP());
  if (dropout)
    p = dropout->leftOf(p, place, headNumber(place), j);
  // O = diag(alpha) O + P V_j
  Value scaled = ScaleRowsOp::create(b, loc, o.getType(), o, step.getAlpha(),
                                     schedule.getLazyRescale() > 0);
  Value vTile = LoadOp::create(b, loc, tile(bkv, headDimV, dtype), vView, row);
  Value o1 = DotOp::create(b, loc, o.getType(), p, vTile, scaled,
                           /*transpose_b=*/false, /*transpose_a=*/false,
                           splitK ? warps(1, 1, n) : warps(n, 1),
                           b.getStringAttr("o"));
  YieldOp::create(b, loc, ValueRange{step.getNewM(), step.getNewL(), o1});
  return loop;
}

/// Where maxima are assumed, probabilities begin at 2^-start, low enough to
/// grow: from 2^-7 to f16's largest value there are 22 powers of two. Lower,
/// the many small ones beside a large one (a sink) would lose too many bits
/// below f16's least normal 2^-14. bf16 has f32's exponents.
int64_t ForwardTiler::start() const {
  return schedule.getSpeculateMax() > 0 && dtype.isF16() ? 7 : 0;
}

/// The rows that whole tiles have more than a sequence, in whole groups: of
/// tiles laid from its end, the first begins so many before it.
Value ForwardTiler::leadOf(Value length) {
  int64_t rows = schedule.getBlockQ();
  Value more = arith::AddIOp::create(b, loc, length, constant(rows - 1));
  Value tiles = arith::DivUIOp::create(b, loc, more, constant(rows));
  Value whole = arith::MulIOp::create(b, loc, tiles, constant(rows));
  Value over = arith::SubIOp::create(b, loc, whole, length);
  Value groups = arith::DivUIOp::create(b, loc, over, constant(kGroupRows));
  return arith::MulIOp::create(b, loc, groups, constant(kGroupRows));
}

void ForwardTiler::buildTile(Value qBlock, Value head, Value batch) {
  int64_t bq = schedule.getBlockQ(), packed = schedule.getPackedHeads();
  Type f32 = b.getF32Type();
  if (packed > 1) // the first of them
    head = arith::MulIOp::create(b, loc, head, constant(packed));
  // Query heads h of one group read the key head h / (heads / heads_kv).
  Value heads = memref::DimOp::create(b, loc, q, 2);
  Value headsKV = memref::DimOp::create(b, loc, k, 2);
  Value group = arith::DivUIOp::create(b, loc, heads, headsKV);
  Value headKV = arith::DivUIOp::create(b, loc, head, group);

  auto qSeq = SequenceOp::create(b, loc, q, batch);
  auto kSeq = SequenceOp::create(b, loc, k, batch);
  Value row = arith::MulIOp::create(b, loc, qBlock, constant(bq / packed));
  lead = schedule.getFromEnd() ? leadOf(qSeq.getLength()) : Value();
  if (lead)
    row = arith::SubIOp::create(b, loc, row, lead);
  Value qTile = LoadOp::create(b, loc, tile(bq, headDim, dtype),
                               view(q, batch, head, qSeq, packed), row);
  if (loadsTable)
    table = LoadOp::create(
        b, loc, RankedTensorType::get({kTableEntries}, b.getF32Type()),
        entryView(batch, head), constant(0));
  // Named, as the order in which arguments are evaluated is the compiler's.
  CacheHint hint = schedule.getCacheKeys();
  Value vView = hinted(view(v, batch, headKV, kSeq), hint),
        kView = hinted(view(k, batch, headKV, kSeq), hint);
  softmaxScale = scale;
  if (auto own = scores ? scores->scale() : std::nullopt)
    softmaxScale = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(*own));
  ScorePlace place{batch,
                   head,
                   qBlock,
                   bq,
                   schedule.getBlockKv(),
                   /*transposed=*/false,
                   packed,
                   loads,
                   lead};
  auto program = programAt(place);
  std::optional<Dropout> dropout;
  if (rng)
    dropout.emplace(b, loc, dropped, rng);
  ForTilesOp loop = buildLoop(qTile, place, program ? &*program : nullptr,
                              dropout ? &*dropout : nullptr, kView, vView,
                              qSeq.getLength(), kSeq.getLength());
  auto finish = SoftmaxFinishOp::create(
      b, loc,
      TypeRange{loop.getResult(2).getType(), RankedTensorType::get({bq}, f32)},
      loop.getResult(2), loop.getResult(0), loop.getResult(1), softmaxScale);
  Value o = finish.getOut(), l = finish.getLse();
  // Written again, so that nothing of it is kept through the loop.
  if (Value own = program ? scores->row() : Value())
    std::tie(o, l) = addRowTerm(b, loc, programAt(place)->rowsOf(own), o, l);
  if (sink)
    std::tie(o, l) = addSink(b, loc, readByHead(b, loc, sink, place), o, l);
  if (dropout)
    o = ScaleRowsOp::create(
        b, loc, o.getType(), o,
        tensor::SplatOp::create(b, loc, l.getType(), dropout->factor()),
        /*skip_unit=*/false);
  Value rounded = arith::TruncFOp::create(b, loc, tile(bq, headDimV, dtype), o);
  StoreOp::create(b, loc, rounded, view(out, batch, head, qSeq, packed), row);
  StoreOp::create(b, loc, l, view(lse, batch, head, qSeq, packed), row);
}

void ForwardTiler::createVectors(const Twine &name, int64_t block,
                                 GuardAttr when) {
  Schedule fields = schedule.getFields();
  fields.blockQ = block;
  fields.warps = 4;
  fields.partition = Partition::SplitQ;
  fields.packedHeads = fields.minBlocks = 1;
  fields.persistent = false;
  fields.order = TileOrder::Ascending;
  schedule = ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields);
  createKernel(name, when, ArrayAttr());
}

Block &ForwardTiler::buildVectors(Value places, bool byHead, bool byBatch,
                                  int64_t block) {
  Value heads = byHead ? extent(q, 2) : constant(1),
        batches = byBatch ? extent(q, 0) : constant(1);
  auto tiles = ForEachTileOp::create(b, loc, places, heads, batches, block,
                                     TileOrder::Ascending);
  ReturnOp::create(b, loc);
  Block &body = tiles.getBody().front();
  b.setInsertionPointToStart(&body);
  return body;
}

/// Whole warpgroups of rows that divide `rows`, no more than a tile of queries
/// may have.
static int64_t blockOf(int64_t rows) {
  int64_t block = kGroupRows;
  while (block < 256 && rows % (2 * block) == 0)
    block *= 2;
  return block;
}

void ForwardTiler::runColumns(const Twine &name) {
  int64_t block = blockOf(scores.columnRows());
  createVectors(name + "_columns", block);
  // Blocks whose rows see no key take a tile past the end.
  Block &body = buildVectors(
      extent(columns.front(), 2), scores.columnsDependOn(ScoreProgram::Head),
      scores.columnsDependOn(ScoreProgram::Batch), block);
  Value tile = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value row = arith::MulIOp::create(b, loc, tile, constant(block));
  auto program = programOfKeys(batch, head, tile, block);
  for (auto [i, v] : llvm::enumerate(scores.columns()))
    StoreOp::create(b, loc, columnsOf(*program, v), columnView(i, batch, head),
                    row);
}

/// Those of keys from place 0 on and one row, the last.
void ForwardTiler::runDistances(const Twine &name, GuardAttr when) {
  int64_t block = blockOf(std::gcd(scores.distanceRows(), scores.columnRows()));
  createVectors(name + "_distances", block, when);
  Block &body = buildVectors(extent(distances, 2),
                             scores.startDependsOn(ScoreProgram::Head),
                             scores.startDependsOn(ScoreProgram::Batch), block);
  Value tile = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value first = arith::MulIOp::create(b, loc, tile, constant(block));
  ScorePlace place{batch, head, tile, block, /*cols=*/8, /*transposed=*/true};
  place.row = arith::SubIOp::create(b, loc, distanceRows(), constant(1));
  StoreOp::create(b, loc, programAt(place)->rowsOf(scores.start()),
                  distanceView(batch, head), first);
}

void ForwardTiler::runEntries(const Twine &name, GuardAttr when) {
  int64_t block = blockOf(kTableEntries);
  createVectors(name + "_entries", block, when);
  Block &body = buildVectors(
      constant(kTableEntries), scores.entriesDependOn(ScoreProgram::Head),
      scores.entriesDependOn(ScoreProgram::Batch), block);
  Value tile = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value first = arith::MulIOp::create(b, loc, tile, constant(block));
  NormalProgram &program = scores.entryProgram();
  ProgramTiler tiler =
      tilerOf(program.program(),
              {batch, head, tile, block, /*cols=*/8, /*transposed=*/true});
  StoreOp::create(b, loc, tiler.rowsOf(program.start()), entryView(batch, head),
                  first);
}

void ForwardTiler::run(const Twine &name, GuardAttr when, ArrayAttr parts) {
  createKernel(name, when, parts);
  Value rows = memref::DimOp::create(b, loc, q, 1);
  Value heads = memref::DimOp::create(b, loc, q, 2);
  Value batches = memref::DimOp::create(b, loc, q, 0);
  int64_t packed = schedule.getPackedHeads();
  if (packed > 1)
    heads = arith::DivUIOp::create(b, loc, heads, constant(packed));
  auto tiles =
      ForEachTileOp::create(b, loc, rows, heads, batches,
                            schedule.getBlockQ() / packed, schedule.getOrder());
  ReturnOp::create(b, loc);
  Block &body = tiles.getBody().front();
  b.setInsertionPointToStart(&body);
  buildTile(body.getArgument(0), body.getArgument(1), body.getArgument(2));
}
