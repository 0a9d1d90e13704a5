//===- TileAttention.cpp - fa2-tile ---------------------------------------===//
//
// A function that is one fa2.attention becomes one block's program over tiles:
// Algorithm 1 of FlashAttention-2 (arXiv:2307.08691), with the key tiles taken
// from the last to the first, so that those which need a mask come first.
//
//===----------------------------------------------------------------------===//

#include "ForwardProgram.h"
#include "ProgramTiler.h"
#include "TileBuilder.h"
#include "fa2/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace fa2 {
#define GEN_PASS_DEF_TILEATTENTION
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

/// Whether kernels load tiles of what a program reads. The rows of packed heads
/// are not one after the other.
bool loadsTiles(ScheduleAttr schedule) {
  return schedule.getSlotsReads() > 0 && schedule.getPackedHeads() == 1;
}

/// What a row's maximum begins with. Finite, so that a row that has seen no
/// score above -inf has exp(-inf - m) = 0 like any other; far below what scores
/// are accurate for (docs/contract.md).
constexpr float kNoScore = -0x1p100f;

class Tiler : TileBuilder {
public:
  Tiler(func::FuncOp func, AttentionOp op, ScheduleAttr schedule,
        ForwardProgram &scores,
        ScorePlace::Loads loads = ScorePlace::Loads::None)
      : TileBuilder(func), func(func), op(op), schedule(schedule),
        scores(scores), loads(loads) {
    loc = op.getLoc();
  }

  /// Writes the kernel before the function.
  void run(const Twine &name, GuardAttr when);
  /// Before it, the one that computes what keys have of the scores' program.
  void runColumns(const Twine &name);

private:
  void createKernel(const Twine &name, GuardAttr when);
  void addColumns(SmallVectorImpl<Type> &types,
                  SmallVectorImpl<Attribute> &args);
  void buildTile(Value qBlock, Value head, Value batch);

  Value extent(Value of, int64_t dim) {
    return memref::DimOp::create(b, loc, of, dim);
  }
  /// What keys have, for the head and batch entry that a block works on.
  Value columnView(size_t i, Value batch, Value head) {
    Value zero = constant(0), whole = extent(columns[i], 2);
    bool heads = scores.columnsDependOn(ScoreProgram::Head),
         batches = scores.columnsDependOn(ScoreProgram::Batch);
    return view(columns[i], batches ? batch : zero, heads ? head : zero, zero,
                whole);
  }
  std::optional<ProgramTiler> programAt(ScorePlace place) {
    if (!scores)
      return std::nullopt;
    SmallVector<Value> operands(extras);
    operands.push_back(scale);
    return ProgramTiler(b, loc, scores->program(), operands, place);
  }
  void loadColumns(ProgramTiler &program, Value row, ScorePlace place);

  /// One pass over the key tiles: the final (m, l, o).
  ForTilesOp buildLoop(Value qTile, ScorePlace place, ProgramTiler *program,
                       Value kView, Value vView, Value seqlenQ, Value seqlenK);
  int64_t start() const;

  func::FuncOp func;
  AttentionOp op;
  ScheduleAttr schedule;
  ForwardProgram &scores;
  ScorePlace::Loads loads;
  // The kernel's arguments.
  Value q, k, v, out, lse, scale;
  Value softmaxScale; // what is left of it for the softmax
  ValueRange extras, columns;
  int64_t headDim = 0, headDimV = 0;
  Type dtype;
};

void Tiler::addColumns(SmallVectorImpl<Type> &types,
                       SmallVectorImpl<Attribute> &args) {
  SmallVector<int64_t> shape(3, ShapedType::kDynamic);
  SmallVector<std::string> extents = scores.columnExtents();
  SmallVector<StringRef> dims(extents.begin(), extents.end());
  for (size_t i = 0; i < scores.columns().size(); ++i) {
    types.push_back(globalType(RankedTensorType::get(shape, b.getF32Type())));
    args.push_back(describe("column_values" + std::to_string(i), "workspace",
                            b.getF32Type(), dims));
  }
}

void Tiler::createKernel(const Twine &name, GuardAttr when) {
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
    args.push_back(describeScale(headDim));
  }
  size_t fixed = types.size();
  addExtras(programOf(op), types, args);
  if (scores)
    addColumns(types, args);
  auto spec = SpecAttr::get(b.getContext(), "forward", dtype, headDim, headDimV,
                            op.getMaskAttr(), programOf(op).describe());
  auto kernel = KernelOp::create(
      b, loc, name.str(), b.getFunctionType(types, {}), spec, schedule,
      b.getArrayAttr(args), IntegerAttr{}, when, ArrayAttr{}, ArrayAttr{});
  Block *entry = b.createBlock(&kernel.getBody());
  for (Type t : types)
    entry->addArgument(t, loc);
  q = entry->getArgument(0);
  k = entry->getArgument(1);
  v = entry->getArgument(2);
  out = entry->getArgument(3);
  lse = entry->getArgument(4);
  extras = entry->getArguments().slice(fixed, op.getExtras().size());
  columns = entry->getArguments().take_back(scores.columns().size());
  scale = op.getScale()
              ? Value(entry->getArgument(5))
              : arith::ConstantOp::create(
                    b, loc,
                    b.getF32FloatAttr(float(1.0 / std::sqrt(double(headDim)))));
}

/// What the program computes for keys comes from memory, behind the keys.
void Tiler::loadColumns(ProgramTiler &program, Value row, ScorePlace place) {
  auto vector = RankedTensorType::get({place.cols}, b.getF32Type());
  for (auto [i, v] : llvm::enumerate(scores.columns()))
    if (program.axesOf(v) == ProgramTiler::Columns)
      program.useColumns(
          v, LoadOp::create(b, loc, vector,
                            columnView(i, place.batch, place.head), row));
}

ForTilesOp Tiler::buildLoop(Value qTile, ScorePlace place,
                            ProgramTiler *program, Value kView, Value vView,
                            Value seqlenQ, Value seqlenK) {
  Value qBlock = place.rowBlock;
  int64_t bq = schedule.getBlockQ(), bkv = schedule.getBlockKv();
  int64_t packed = schedule.getPackedHeads();
  Value range = KVRangeOp::create(b, loc, qBlock, /*falling=*/true, seqlenQ,
                                  seqlenK, bq / packed, bkv, op.getMaskAttr(),
                                  /*nonempty=*/false, /*past_end=*/false);
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
    loadColumns(*program, row, place);
  Value s =
      DotOp::create(b, loc, tile(bq, bkv, b.getF32Type()), qTile, kTile,
                    Value{}, /*transpose_b=*/true, /*transpose_a=*/false,
                    splitK ? warps(1, n) : warps(n, 1), b.getStringAttr("s"));
  if (program)
    s = program->atScores(s);
  s = ApplyMaskOp::create(b, loc, s.getType(), s, qBlock, j, seqlenQ, seqlenK,
                          op.getMaskAttr(), /*transposed=*/false, packed);
  // P, m, l, alpha
  auto step = SoftmaxStepOp::create(
      b, loc, TypeRange{s.getType(), m.getType(), l.getType(), m.getType()}, s,
      m, l, softmaxScale, b.getF32FloatAttr(float(schedule.getLazyRescale())),
      b.getI64IntegerAttr(start()));
  Value p = arith::TruncFOp::create(b, loc, tile(bq, bkv, dtype), step.getP());
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
int64_t Tiler::start() const {
  return schedule.getSpeculateMax() > 0 && dtype.isF16() ? 7 : 0;
}

void Tiler::buildTile(Value qBlock, Value head, Value batch) {
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
  Value qTile = LoadOp::create(b, loc, tile(bq, headDim, dtype),
                               view(q, batch, head, qSeq, packed), row);
  // Named, as the order in which arguments are evaluated is the compiler's.
  Value vView = view(v, batch, headKV, kSeq),
        kView = view(k, batch, headKV, kSeq);
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
                   loads};
  auto program = programAt(place);
  ForTilesOp loop = buildLoop(qTile, place, program ? &*program : nullptr,
                              kView, vView, qSeq.getLength(), kSeq.getLength());
  auto finish = SoftmaxFinishOp::create(
      b, loc,
      TypeRange{loop.getResult(2).getType(), RankedTensorType::get({bq}, f32)},
      loop.getResult(2), loop.getResult(0), loop.getResult(1), softmaxScale);
  Value o = finish.getOut(), l = finish.getLse();
  // Written again, so that nothing of it is kept through the loop.
  if (Value own = program ? scores->row() : Value())
    std::tie(o, l) = addRowTerm(b, loc, programAt(place)->rowsOf(own), o, l);
  Value rounded = arith::TruncFOp::create(b, loc, tile(bq, headDimV, dtype), o);
  StoreOp::create(b, loc, rounded, view(out, batch, head, qSeq, packed), row);
  StoreOp::create(b, loc, l, view(lse, batch, head, qSeq, packed), row);
}

void Tiler::runColumns(const Twine &name) {
  Schedule fields = schedule.getFields();
  fields.blockQ = scores.columnRows();
  fields.warps = 4;
  fields.partition = Partition::SplitQ;
  fields.packedHeads = fields.minBlocks = 1;
  fields.persistent = false;
  fields.order = TileOrder::Ascending;
  schedule = ScheduleAttr::get(b.getContext(), schedule.getTarget(), fields);
  createKernel(name + "_columns", GuardAttr());
  bool byHead = scores.columnsDependOn(ScoreProgram::Head),
       byBatch = scores.columnsDependOn(ScoreProgram::Batch);
  Value keys = extent(k, 1), heads = byHead ? extent(q, 2) : constant(1),
        batches = byBatch ? extent(q, 0) : constant(1);
  auto tiles = ForEachTileOp::create(b, loc, keys, heads, batches,
                                     scores.columnRows(), TileOrder::Ascending);
  ReturnOp::create(b, loc);
  Block &body = tiles.getBody().front();
  b.setInsertionPointToStart(&body);
  Value tile = body.getArgument(0), head = body.getArgument(1),
        batch = body.getArgument(2);
  Value row =
      arith::MulIOp::create(b, loc, tile, constant(scores.columnRows()));
  auto program = programAt({batch, head, tile, scores.columnRows(), /*cols=*/8,
                            /*transposed=*/true});
  auto vector = RankedTensorType::get({scores.columnRows()}, b.getF32Type());
  for (auto [i, v] : llvm::enumerate(scores.columns())) {
    Value x = program->rowsOf(v);
    if (x.getType() != vector)
      x = arith::BitcastOp::create(b, loc, vector, x);
    StoreOp::create(b, loc, x, columnView(i, batch, head), row);
  }
}

void Tiler::run(const Twine &name, GuardAttr when) {
  createKernel(name, when);
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

/// Where the copy engine can bring tiles of what the program reads: columns are
/// neighbours, and other strides multiples of 16 bytes. With `anyRows` rows may
/// begin anywhere, one behind the other, in a whole number of runs. Empty where
/// it brings none.
std::string copiesTiles(ForwardProgram &scores, ScheduleAttr schedule,
                        bool anyRows) {
  SmallVector<std::string> all;
  if (!scores || !loadsTiles(schedule))
    return "";
  ScoreProgram program = scores->program();
  llvm::SetVector<size_t> extras;
  for (tensor::ExtractOp read : program.tileReads())
    extras.insert(ScoreProgram::extraOf(read));
  for (size_t i : extras) {
    auto type = cast<RankedTensorType>(program.extraType(i));
    int64_t last = type.getRank() - 1,
            apart = 128 / type.getElementTypeBitWidth();
    auto stride = [&](int64_t dim) {
      return llvm::formatv("{0}.stride[{1}]", program.extraName(i), dim).str();
    };
    for (int64_t dim = 0; dim < last; ++dim) {
      all.push_back(stride(dim) + " >= 0");
      if (!anyRows || dim != program.rowDimension(i)) {
        all.push_back(llvm::formatv("{0} % {1} == 0", stride(dim), apart));
        continue;
      }
      // What is read behind the end of a row is the next one's beginning.
      // Columns of the map are 32-bit numbers.
      all.push_back(stride(dim) + " == seqlen_k");
      all.push_back(llvm::formatv("seqlen_k <= {0}", 1 << 27));
      all.push_back(llvm::formatv("seqlen_q % {0} == 0", apart));
    }
    all.push_back(stride(last) + " == 1");
  }
  return llvm::join(all, " && ");
}

/// The same bits without copies of tiles. Addresses of elements take registers,
/// of which threads of two warpgroups have more than those of three.
ScheduleAttr byElements(ScheduleAttr schedule) {
  Schedule fields = schedule.getFields();
  fields.slotsReads = 0;
  if (int64_t rows = 2 * kGroupRows; fields.blockQ > rows) {
    fields.warps = fields.warps * rows / fields.blockQ;
    fields.blockQ = rows;
  }
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// A kernel; of one that loads tiles of what the program reads two others
/// beside it, for where rows begin anywhere and for where nothing can be
/// copied.
void tileLaunch(func::FuncOp func, AttentionOp op, ForwardProgram &scores,
                ScheduleAttr schedule, const Twine &name, StringRef when) {
  using Loads = ScorePlace::Loads;
  auto tile = [&](const Twine &kernel, ScheduleAttr fields, Loads loads,
                  StringRef guard) {
    Tiler(func, op, fields, scores, loads)
        .run(kernel, guard.empty() ? GuardAttr()
                                   : GuardAttr::get(op.getContext(), guard));
  };
  std::string aligned = copiesTiles(scores, schedule, /*anyRows=*/false);
  if (aligned.empty())
    return tile(name, schedule, Loads::None, when);
  std::string any = copiesTiles(scores, schedule, /*anyRows=*/true);
  std::string both = when.empty() ? "" : llvm::formatv("({0}) && ", when).str();
  std::string other = both + "!(" + aligned + ") && ";
  tile(name, schedule, Loads::Aligned, both + aligned);
  tile(name + "_rows", schedule, Loads::Any, other + any);
  tile(name + "_elements", byElements(schedule), Loads::None,
       other + "!(" + any + ")");
}

/// A kernel for the schedule and one for each variant. Variant n is for
/// launches where the guards before it do not hold and its own does, the
/// schedule's kernel for those where none does.
void tileAttention(func::FuncOp func, AttentionOp op) {
  SmallVector<VariantAttr> variants;
  if (ArrayAttr attrs = op.getVariantsAttr())
    llvm::append_range(variants, attrs.getAsRange<VariantAttr>());
  SmallVector<std::string> when;
  std::string none;
  for (VariantAttr variant : variants) {
    std::string own = variant.getWhen().getExpression().str();
    when.push_back(none.empty() ? own
                                : (none + " && (").append(own).append(")"));
    none.append(none.empty() ? "!(" : " && !(").append(own).append(")");
  }
  StringRef name = func.getName();
  SmallVector<ScheduleAttr> schedules{op.getScheduleAttr()};
  for (VariantAttr variant : variants)
    schedules.push_back(variant.getSchedule());
  ForwardProgram scores(op, schedules);
  if (!scores.columns().empty())
    Tiler(func, op, schedules[0], scores).runColumns(name);
  tileLaunch(func, op, scores, schedules[0], name, none);
  for (auto [i, variant] : llvm::enumerate(variants))
    tileLaunch(func, op, scores, variant.getSchedule(),
               name + "_variant" + Twine(i + 1), when[i]);
}

struct TileAttentionPass
    : public fa2::impl::TileAttentionBase<TileAttentionPass> {
  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops) {
      SmallVector<Value> inputs{op.getQ(), op.getK(), op.getV()};
      if (op.getScale())
        inputs.push_back(op.getScale());
      llvm::append_range(inputs, op.getExtras());
      auto func = functionOf(op, inputs, "q, k, v");
      if (failed(func))
        return signalPassFailure();
      if (!op.getSchedule()) {
        op.emitOpError() << "expected a schedule; run fa2-select-schedule";
        return signalPassFailure();
      }
      if (!op.getScore().empty() && (failed(programOf(op).check()) ||
                                     failed(programOf(op).checkReadsScore())))
        return signalPassFailure();
      tileAttention(*func, op);
      func->erase();
    }
  }
};

} // namespace
