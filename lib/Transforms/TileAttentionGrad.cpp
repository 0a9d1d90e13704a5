//===- TileAttentionGrad.cpp - fa2-tile-grad ------------------------------===//
//
// A function that is one fa2.attention_grad becomes kernels over tiles: the
// statistics of each row; Algorithm 2 of FlashAttention-2 (arXiv:2307.08691),
// one block a tile of keys, whose dK and dV stay while the tiles of queries
// that see it go by; and dQ, from the sum of the key tiles' parts, or in a
// kernel of its own.
//
//===----------------------------------------------------------------------===//

#include "ContributionSums.h"
#include "TileBuilder.h"
#include "fa2/Dialect/FA2GPU/Layout.h"
#include "fa2/Target/Target.h"
#include "fa2/Transforms/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numbers>

namespace fa2 {
#define GEN_PASS_DEF_TILEATTENTIONGRAD
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
/// Blocks that zero gradients: enough for any device's memory.
constexpr int64_t kZeroBlocks = 512;

class GradTiler : TileBuilder {
public:
  GradTiler(func::FuncOp func, AttentionGradOp op)
      : TileBuilder(func), func(func), op(op), schedule(*op.getSchedule()) {
    loc = op.getLoc();
    f32 = b.getF32Type();
  }

  void run() {
    bool atomic = schedule.getDq() != GradQ::Recompute;
    std::string error;
    if (const Target *target = lookupTarget(schedule.getTarget(), error))
      panelColumns = target->sharedPanelBytes() / 2; // of 16 bits
    // Statistics by whole rows of 16 a warp; the sums' tiles are whole.
    statRows = std::max(schedule.getBlockQ(), 16 * schedule.getWarps());
    if (!op.getDextras().empty())
      createZeros();
    createStatistics();
    createKeys();
    if (atomic)
      createScaledSum();
    else
      createQueries(*op.getDqSchedule());
    func.erase();
  }

private:
  /// A kernel with the program's arguments, and one block's work in it: tiles
  /// of `block` rows of q or k, or so many blocks for what has no rows.
  enum RowsOf { Queries, Keys, Nothing };
  ForEachTileOp createKernel(StringRef suffix, ScheduleAttr s, RowsOf rowsOf,
                             int64_t block, TileOrder order);
  ScheduleAttr plainSchedule();
  void createZeros();
  void createStatistics();
  void createKeys();
  void createScaledSum();
  void createQueries(ScheduleAttr s);
  /// One pass over the query tiles of one head: dK and dV with its part.
  SmallVector<Value> addHead(Value kTile, Value vTile, QRangeOp range,
                             Value kvBlock, Value batch, Value head,
                             ValueRange sums);

  Value arg(size_t i) { return entry->getArgument(i); }
  /// Vectors and sums in the workspace hold whole tiles.
  Value wholeView(Value source, Value batch, Value head,
                  SumOrderAttr order = {}) {
    int64_t rowsDim = cast<MemRefType>(source.getType()).getRank() == 4 ? 1 : 2;
    Value length = memref::DimOp::create(b, loc, source, rowsDim);
    return view(source, batch, head, constant(0), length, /*heads=*/1, order);
  }
  /// Query heads that read one key head.
  Value headsOfGroup() {
    Value heads = memref::DimOp::create(b, loc, q, 2);
    Value headsKV = memref::DimOp::create(b, loc, k, 2);
    return arith::DivUIOp::create(b, loc, heads, headsKV);
  }
  Value load(Value view, Value row, int64_t rows) {
    auto type = cast<ViewType>(view.getType());
    SmallVector<int64_t> shape{rows};
    if (type.getCols())
      shape.push_back(type.getCols());
    return LoadOp::create(
        b, loc, RankedTensorType::get(shape, type.getElementType()), view, row);
  }
  Value dot(StringRef name, int64_t rows, int64_t cols, Value x, Value y,
            Value acc, bool transposeA, bool transposeB, WarpGridAttr over) {
    return DotOp::create(b, loc, tile(rows, cols, f32), x, y, acc, transposeB,
                         transposeA, over, b.getStringAttr(name));
  }
  Value round(Value t) {
    auto type = cast<RankedTensorType>(t.getType());
    return arith::TruncFOp::create(
        b, loc, RankedTensorType::get(type.getShape(), dtype), t);
  }
  /// x times the scale, rounded, to the rows of an argument.
  void storeScaled(Value x, bool scaled, Value to, Value row) {
    if (scaled)
      x = arith::MulFOp::create(
          b, loc, x, tensor::SplatOp::create(b, loc, x.getType(), scale));
    StoreOp::create(b, loc, round(x), to, row);
  }
  /// How the warps share what has rows of keys, and dQ, which has queries.
  WarpGridAttr keyWarps() {
    int64_t down = schedule.warpsAlongKeys();
    return warps(down, schedule.getWarps() / down);
  }
  WarpGridAttr gradQWarps() {
    int64_t down = schedule.warpsAlongGradQ();
    return warps(down, schedule.warpsOfGradQ() / down);
  }
  /// dQ's columns are multiplied and summed part by part.
  int64_t gradQColumns() {
    return schedule.getDqColumns() ? schedule.getDqColumns() : headDim;
  }
  int64_t gradQParts() {
    return (headDim + gradQColumns() - 1) / gradQColumns();
  }
  int64_t columnsOfPart(int64_t part) {
    return std::min(gradQColumns(), headDim - part * gradQColumns());
  }
  Value partOfSum(Value batch, Value head, int64_t part, SumOrderAttr order) {
    Value length = memref::DimOp::create(b, loc, dqSum, 1);
    return ViewOp::create(b, loc,
                          ViewType::get(b.getContext(), sumColumnsOfPart(part),
                                        f32, /*heads=*/1, order),
                          dqSum, batch, head, constant(0), length,
                          part * gradQColumns());
  }
  /// The columns of a part's sum: what the warps that share rows of dQ hold.
  int64_t sumColumnsOfPart(int64_t part) {
    int64_t across = gradQWarps().getAcross();
    return across *
           fa2::gpu::columnsPerPart(columnsOfPart(part), across, panelColumns);
  }
  int64_t sumColumns() {
    int64_t last = gradQParts() - 1;
    return last * gradQColumns() + sumColumnsOfPart(last);
  }
  /// Where dQ's sum has which element of a tile; `width` of them are added at
  /// once.
  SumOrderAttr sumOrder(int64_t width) {
    return SumOrderAttr::get(b.getContext(), gradQWarps(), width);
  }
  SumOrderAttr sumOrder() {
    return sumOrder(schedule.getDq() == GradQ::AtomicV4 ? 4 : 1);
  }
  /// The program for tiles there, where the operation has one.
  std::optional<ProgramTiler> programAt(ScorePlace place) {
    if (op.getScore().empty())
      return std::nullopt;
    return ProgramTiler(b, loc, programOf(op), extras, place);
  }
  /// scale q.k through the program, and the program's derivative there.
  std::pair<Value, Value> applyProgram(ProgramTiler &program, Value s) {
    Value factors = tensor::SplatOp::create(b, loc, s.getType(), scale);
    auto results =
        program.allAtScores(arith::MulFOp::create(b, loc, s, factors));
    return {results[0], results[1]};
  }
  Value throughProgram(Value ds, Value p, Value slope);
  Value hideColumns(Value scores, Value block, Value length);
  Value times(Value x, int64_t c) {
    return arith::MulIOp::create(b, loc, x, constant(c));
  }

  func::FuncOp func;
  AttentionGradOp op;
  ScheduleAttr schedule;
  Type f32, dtype;
  int64_t headDim = 0, headDimV = 0, statRows = 0, panelColumns = 0;
  // The current kernel's.
  Block *entry = nullptr;
  Value q, k, v, out, lse, dout, dq, dk, dv, scale, negLse, negDelta, dqSum;
  Value softmaxScale; // what is left of it for the softmax
  ValueRange extras, dextras;
};

ForEachTileOp GradTiler::createKernel(StringRef suffix, ScheduleAttr s,
                                      RowsOf rowsOf, int64_t block,
                                      TileOrder order) {
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
  add("dq", "out", type(op.getDq()), queries);
  add("dk", "out", type(op.getDk()), keys);
  add("dv", "out", type(op.getDv()), keys);
  // The workspace: a sum of dQ, -log2(e) lse and -delta, by whole tiles.
  std::string rows = "ceildiv(seqlen_q, " + std::to_string(statRows) + ") * " +
                     std::to_string(statRows);
  int64_t any = ShapedType::kDynamic;
  if (schedule.getDq() != GradQ::Recompute)
    add("dq_sum", "workspace",
        RankedTensorType::get({any, any, any, sumColumns()}, f32),
        {"batch", rows, "heads"});
  for (StringRef name : {"neg_lse", "neg_delta"})
    add(name, "workspace", RankedTensorType::get({any, any, any}, f32),
        {"batch", "heads", rows});
  double c = 1.0 / std::sqrt(double(headDim));
  if (op.getScale()) {
    types.push_back(f32);
    args.push_back(describeScale(headDim));
  }

  size_t fixed = types.size();
  addExtras(programOf(op), types, args);
  ArrayRef<int64_t> grads = op.getGrads().value_or(ArrayRef<int64_t>());
  addExtraGradients(programOf(op), grads, types, args);
  auto spec =
      SpecAttr::get(b.getContext(), "backward", dtype, headDim, headDimV,
                    op.getMaskAttr(), programOf(op).describe());
  auto kernel = KernelOp::create(b, loc, (func.getName() + suffix).str(),
                                 b.getFunctionType(types, {}), spec, s,
                                 b.getArrayAttr(args), IntegerAttr{},
                                 GuardAttr{}, ArrayAttr{}, ArrayAttr{});
  entry = b.createBlock(&kernel.getBody());
  for (Type t : types)
    entry->addArgument(t, loc);
  size_t next = 0;
  for (Value *x : {&q, &k, &v, &out, &lse, &dout, &dq, &dk, &dv})
    *x = arg(next++);
  if (schedule.getDq() != GradQ::Recompute)
    dqSum = arg(next++);
  negLse = arg(next++);
  negDelta = arg(next++);
  scale = op.getScale() ? arg(next++)
                        : Value(arith::ConstantOp::create(
                              b, loc, b.getF32FloatAttr(float(c))));
  extras = entry->getArguments().slice(fixed, op.getExtras().size());
  dextras = entry->getArguments().take_back(grads.size());
  // A score program sees, and gives, scores in natural units.
  softmaxScale = scale;
  if (!op.getScore().empty())
    softmaxScale = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));

  auto extent = [&](int64_t dim) -> Value {
    return memref::DimOp::create(b, loc, rowsOf == Queries ? q : k, dim);
  };
  // Named, as the order in which arguments are evaluated is the compiler's.
  bool tiled = rowsOf != Nothing;
  Value rowCount = tiled ? extent(1) : constant(block);
  Value heads = tiled ? extent(2) : constant(1);
  Value batches = tiled ? extent(0) : constant(1);
  auto tiles = ForEachTileOp::create(b, loc, rowCount, heads, batches,
                                     tiled ? block : 1, order);
  ReturnOp::create(b, loc);
  b.setInsertionPointToStart(&tiles.getBody().front());
  return tiles;
}

/// Of a kernel without products.
ScheduleAttr GradTiler::plainSchedule() {
  Schedule fields = schedule.getFields();
  fields.blockQ = statRows;
  fields.partition = Partition::SplitQ;
  fields.keyWarps = fields.dqWarps = 0;
  fields.dqByProducer = false;
  fields.qInRegisters = false;
  // It waits for memory: several blocks a multiprocessor, which have 64
  // registers a thread for rows of up to 128 columns.
  auto values = cast<RankedTensorType>(op.getV().getType());
  int64_t registers = values.getDimSize(3) <= 128 ? 64 : 128;
  fields.minBlocks = std::clamp<int64_t>(
      64 * 1024 / (schedule.getWarps() * 32 * registers), 1, 8);
  fields.order = TileOrder::Ascending;
  return ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields);
}

/// Before any kernel adds to them, whatever the lengths are: a launch without
/// queries has gradients too.
void GradTiler::createZeros() {
  auto tiles = createKernel("_zero", plainSchedule(), Nothing, kZeroBlocks,
                            TileOrder::Ascending);
  Value part = tiles.getBody().front().getArgument(0);
  for (Value sum : dextras)
    ZeroOp::create(b, loc, sum, part, constant(kZeroBlocks));
}

/// n = -log2(e) lse and -delta = -rowsum(dO o O); dQ's sum is zeroed.
void GradTiler::createStatistics() {
  auto tiles = createKernel("_statistics", plainSchedule(), Queries, statRows,
                            TileOrder::Ascending);
  Block &body = tiles.getBody().front();
  Value head = body.getArgument(1), batch = body.getArgument(2);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  Value row = times(body.getArgument(0), statRows);
  auto loadF32 = [&](Value x) -> Value {
    Value t = load(view(x, batch, head, sequence), row, statRows);
    return arith::ExtFOp::create(b, loc, tile(statRows, headDimV, f32), t);
  };
  Value o = loadF32(out);
  Value product = arith::MulFOp::create(b, loc, o, loadF32(dout));
  auto vector = RankedTensorType::get({statRows}, f32);
  Value delta = SumRowsOp::create(b, loc, vector, product);
  // lse = -inf is a row without keys: n = -inf makes its P 0.
  Value l = load(view(lse, batch, head, sequence), row, statRows);
  Value n = arith::MulFOp::create(
      b, loc, l, splat({statRows}, -std::numbers::log2e_v<float>));
  Value none = splat({statRows}, -kInf);
  Value empty =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, l, none);
  n = arith::SelectOp::create(b, loc, empty, none, n);
  StoreOp::create(b, loc, n, wholeView(negLse, batch, head), row);
  StoreOp::create(b, loc, arith::NegFOp::create(b, loc, delta),
                  wholeView(negDelta, batch, head), row);
  // Zeros are zeros in any order of all the kernel's warps.
  SumOrderAttr order =
      schedule.getDqByProducer()
          ? SumOrderAttr::get(b.getContext(), warps(schedule.getWarps(), 1), 1)
          : sumOrder(1);
  for (int64_t part = 0; dqSum && part < gradQParts(); ++part)
    StoreOp::create(b, loc, splat({statRows, sumColumnsOfPart(part)}, 0.0f),
                    partOfSum(batch, head, part, order), row);
}

/// dS by the score that went into the program. Where P is 0, so is it: the
/// derivative may be infinite there.
Value GradTiler::throughProgram(Value ds, Value p, Value slope) {
  if (!slope)
    return ds;
  ds = arith::MulFOp::create(b, loc, ds, slope);
  auto always = slope.getDefiningOp<tensor::SplatOp>();
  if (always && always.getInput().getDefiningOp<arith::ConstantOp>())
    return ds;
  Value zeros = splat(cast<RankedTensorType>(ds.getType()).getShape(), 0.0f);
  Value hidden =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, p, zeros);
  return arith::SelectOp::create(b, loc, hidden, zeros, ds);
}

/// -inf for queries past the end, which are columns here: who knows what the
/// program makes of them.
Value GradTiler::hideColumns(Value scores, Value block, Value length) {
  auto type = cast<RankedTensorType>(scores.getType());
  auto vector = [&](Type element) {
    return RankedTensorType::get({type.getDimSize(1)}, element);
  };
  Type index = vector(b.getIndexType());
  Value columns = PositionsOp::create(b, loc, index, block);
  Value end = tensor::SplatOp::create(b, loc, index, length, ValueRange{});
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, columns, end);
  inside = BroadcastOp::create(
      b, loc, RankedTensorType::get(type.getShape(), b.getI1Type()), inside,
      /*columns=*/true);
  return arith::SelectOp::create(b, loc, inside, scores,
                                 splat(type.getShape(), -kInf));
}

SmallVector<Value> GradTiler::addHead(Value kTile, Value vTile, QRangeOp range,
                                      Value kvBlock, Value batch, Value head,
                                      ValueRange sums) {
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  auto sequence = SequenceOp::create(b, loc, q, batch);
  auto keys = SequenceOp::create(b, loc, k, batch);
  Value qView = view(q, batch, head, sequence),
        doView = view(dout, batch, head, sequence);
  Value nView = wholeView(negLse, batch, head),
        dView = wholeView(negDelta, batch, head);
  SmallVector<Value> sumViews;
  for (int64_t part = 0; dqSum && part < gradQParts(); ++part)
    sumViews.push_back(partOfSum(batch, head, part, sumOrder()));
  auto program =
      programAt({batch, head, kvBlock, bkv, bq, /*transposed=*/true});

  std::optional<ContributionSums> contributions;
  SmallVector<Value> begin(sums);
  if (program) {
    contributions.emplace(b, loc, *program,
                          op.getGrads().value_or(ArrayRef<int64_t>()), dextras);
    llvm::append_range(begin, contributions->zeros());
  }
  auto loop = ForTilesOp::create(b, loc, range, begin);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&loop.getBody().front());
  Value i = loop.getTile();
  Value row = times(i, bq);
  if (program)
    program->atColumns(i);
  // S^T = K Q_i^T, P^T = exp(c S^T - lse)
  Value qTile = load(qView, row, bq);
  Value s = dot("s", bkv, bq, kTile, qTile, {}, false, true, keyWarps()), slope;
  if (program) {
    std::tie(s, slope) = applyProgram(*program, s);
    s = hideColumns(s, i, sequence.getLength());
  }
  s = ApplyMaskOp::create(b, loc, s.getType(), s, i, kvBlock,
                          sequence.getLength(), keys.getLength(),
                          op.getMaskAttr(), /*transposed=*/true);
  Value p = SoftmaxRecomputeOp::create(b, loc, s.getType(), s,
                                       load(nView, row, bq), softmaxScale,
                                       /*columns=*/true);
  Value doTile = load(doView, row, bq);
  // dV += P^T dO_i. Where P goes through shared memory, dS goes with it.
  Value dv1;
  auto addDv = [&] {
    dv1 = dot("dv", bkv, headDimV, round(p), doTile,
              loop.getRegionIterArgs()[1], false, false, keyWarps());
  };
  bool together = schedule.warpsAlongKeys() < schedule.getWarps();
  if (!together)
    addDv();
  // dP^T - delta = V dO_i^T - delta,  dS^T = P^T o (dP^T - delta)
  Value delta = BroadcastOp::create(b, loc, s.getType(), load(dView, row, bq),
                                    /*columns=*/true);
  Value dp = dot("dp", bkv, bq, vTile, doTile, delta, false, true, keyWarps());
  Value g = arith::MulFOp::create(b, loc, p, dp);
  Value ds = round(throughProgram(g, p, slope));
  SmallVector<Value> next;
  if (contributions)
    next =
        contributions->add(loop.getRegionIterArgs().drop_front(sums.size()),
                           [&](Value by) { return throughProgram(g, p, by); });
  if (together)
    addDv();
  // dK += dS^T Q_i,  dQ_i += dS K
  Value dk1 = dot("dk", bkv, headDim, ds, qTile, loop.getRegionIterArgs()[0],
                  false, false, keyWarps());
  for (auto [part, sumView] : llvm::enumerate(sumViews)) {
    auto product = DotOp::create(
        b, loc, tile(bq, columnsOfPart(part), f32), ds, kTile, Value(),
        /*transpose_b=*/false, /*transpose_a=*/true, gradQWarps(),
        b.getStringAttr("dq"), part * gradQColumns());
    AccumulateOp::create(b, loc, product, sumView, row);
  }
  next.insert(next.begin(), {dk1, dv1});
  YieldOp::create(b, loc, next);
  b.setInsertionPointAfter(loop);
  if (contributions)
    contributions->finish(loop.getResults().drop_front(sums.size()));
  return SmallVector<Value>(loop.getResults().take_front(sums.size()));
}

void GradTiler::createKeys() {
  int64_t bkv = schedule.getBlockKv();
  auto tiles = createKernel("", schedule, Keys, bkv, schedule.getOrder());
  Block &body = tiles.getBody().front();
  Value kvBlock = body.getArgument(0), headKV = body.getArgument(1),
        batch = body.getArgument(2);
  // Query heads h of one group read the key head h / (heads / heads_kv).
  Value group = headsOfGroup();
  Value first = arith::MulIOp::create(b, loc, headKV, group);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  auto keys = SequenceOp::create(b, loc, k, batch);
  Value row = times(kvBlock, bkv);
  Value kTile = load(view(k, batch, headKV, keys), row, bkv);
  Value vTile = load(view(v, batch, headKV, keys), row, bkv);
  auto range =
      QRangeOp::create(b, loc, kvBlock, sequence.getLength(), keys.getLength(),
                       schedule.getBlockQ(), bkv, op.getMaskAttr(),
                       /*nonempty=*/true);
  // No head has anything to do where no query sees the keys.
  Value some =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt,
                            TileCountOp::create(b, loc, range), constant(0));
  Value visited = arith::SelectOp::create(b, loc, some, group, constant(0));
  Value zeroK = splat({bkv, headDim}, 0.0f),
        zeroV = splat({bkv, headDimV}, 0.0f);
  auto heads = scf::ForOp::create(b, loc, constant(0), visited, constant(1),
                                  ValueRange{zeroK, zeroV});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(heads.getBody());
    Value head = arith::AddIOp::create(b, loc, first, heads.getInductionVar());
    scf::YieldOp::create(b, loc,
                         addHead(kTile, vTile, range, kvBlock, batch, head,
                                 heads.getRegionIterArgs()));
  }
  storeScaled(heads.getResult(0), true, view(dk, batch, headKV, keys), row);
  storeScaled(heads.getResult(1), false, view(dv, batch, headKV, keys), row);
}

void GradTiler::createScaledSum() {
  int64_t bq = schedule.getBlockQ();
  Schedule fields = schedule.getFields();
  fields.warps = schedule.warpsOfGradQ();
  fields.keyWarps = std::min(fields.keyWarps, fields.warps);
  auto tiles = createKernel(
      "_dq", ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields),
      Queries, bq, TileOrder::Ascending);
  Block &body = tiles.getBody().front();
  Value head = body.getArgument(1), batch = body.getArgument(2);
  auto sequence = SequenceOp::create(b, loc, q, batch);
  Value row = times(body.getArgument(0), bq);
  for (int64_t part = 0; part < gradQParts(); ++part) {
    int64_t cols = columnsOfPart(part);
    Value sum = LoadOp::create(b, loc, tile(bq, cols, f32),
                               partOfSum(batch, head, part, sumOrder()), row);
    Value to = ViewOp::create(
        b, loc, ViewType::get(b.getContext(), cols, dtype, 1, SumOrderAttr()),
        dq, batch, head, sequence.getOffset(), sequence.getLength(),
        part * gradQColumns());
    storeScaled(sum, true, to, row);
  }
}

/// One block a tile of queries, the key tiles from the last to the first.
void GradTiler::createQueries(ScheduleAttr s) {
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
  Value range = KVRangeOp::create(b, loc, qBlock, /*falling=*/true, sq, sk, bq,
                                  bkv, op.getMaskAttr(), /*nonempty=*/false,
                                  /*past_end=*/false);
  auto program = programAt({batch, head, qBlock, bq, bkv});
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
    Value scores = dot("s", bq, bkv, qTile, kTile, {}, false, true, rows),
          slope;
    if (program)
      std::tie(scores, slope) = applyProgram(*program, scores);
    scores = ApplyMaskOp::create(b, loc, scores.getType(), scores, qBlock, j,
                                 sq, sk, op.getMaskAttr(),
                                 /*transposed=*/false);
    Value p = SoftmaxRecomputeOp::create(b, loc, scores.getType(), scores, n,
                                         softmaxScale, /*columns=*/false);
    // dS = P o (dO V_j^T - delta)
    Value vTile = load(vView, kvRow, bkv);
    Value delta = BroadcastOp::create(b, loc, scores.getType(), negD,
                                      /*columns=*/false);
    Value dp = dot("dp", bq, bkv, doTile, vTile, delta, false, true, rows);
    Value ds =
        round(throughProgram(arith::MulFOp::create(b, loc, p, dp), p, slope));
    // dQ += dS K_j
    Value dq1 = dot("dq", bq, headDim, ds, kTile, loop.getRegionIterArgs()[0],
                    false, false, rows);
    YieldOp::create(b, loc, dq1);
  }
  storeScaled(loop.getResult(0), true, view(dq, batch, head, sequence), row);
}

struct TileAttentionGradPass
    : public fa2::impl::TileAttentionGradBase<TileAttentionGradPass> {
  void runOnOperation() override {
    SmallVector<AttentionGradOp> ops;
    getOperation().walk([&](AttentionGradOp op) { ops.push_back(op); });
    for (AttentionGradOp op : ops) {
      SmallVector<Value> inputs{op.getQ(),   op.getK(),   op.getV(),
                                op.getOut(), op.getLse(), op.getDout()};
      if (op.getScale())
        inputs.push_back(op.getScale());
      llvm::append_range(inputs, op.getExtras());
      auto func = functionOf(op, inputs, "q, k, v, out, lse, dout");
      if (failed(func) || failed(checkSchedules(op)))
        return signalPassFailure();
      if (!op.getScore().empty() && (failed(programOf(op).check()) ||
                                     failed(programOf(op).checkReadsScore())))
        return signalPassFailure();
      GradTiler(*func, op).run();
    }
  }

  static LogicalResult checkSchedules(AttentionGradOp op) {
    auto s = op.getScheduleAttr();
    if (!s)
      return op.emitOpError() << "expected a schedule; run fa2-select-schedule";
    if (s.getPartition() != Partition::Keys)
      return op.emitOpError() << "expected a schedule of partition keys, got "
                              << stringifyPartition(s.getPartition());
    if (s.getDq() == GradQ::Recompute && !op.getDqSchedule())
      return op.emitOpError() << "expected dq_schedule because dq = recompute "
                                 "gives dQ a kernel of its own; run "
                                 "fa2-select-schedule";
    return success();
  }
};

} // namespace
