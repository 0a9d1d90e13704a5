//===- FA2ToFA2GPU.cpp - convert-fa2-to-fa2gpu ----------------------------===//
//
// Warp partitioning. Few layouts are needed, and what a tile is used for
// decides which one it gets: products and what is elementwise on them are
// accumulators, loaded tiles lie in shared memory, vectors of one value a row
// follow the accumulator's rows, and a computed left operand is converted once.
//
//===----------------------------------------------------------------------===//

#include "fa2/Conversion/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2 {
#define GEN_PASS_DEF_CONVERTFA2TOFA2GPU
#include "fa2/Conversion/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

class Partitioner {
public:
  Partitioner(KernelOp kernel, MatmulFamilyAttr family, int64_t sharedPanel)
      : kernel(kernel), sharedPanel(sharedPanel), ctx(kernel.getContext()),
        b(ctx), schedule(kernel.getSchedule()) {
    int64_t warps = schedule.getWarps();
    bool splitK = schedule.getPartition() == Partition::SplitK;
    if (schedule.getPartition() == Partition::Keys) {
      // Rows of the scores are keys; dK and dV have them too, dQ has queries.
      int64_t along = schedule.warpsAlongKeys(),
              rows = schedule.warpsAlongGradQ();
      scores = output = AccAttr::get(ctx, family, {along, warps / along}, 1);
      gradQ = AccAttr::get(ctx, family, {rows, warps / rows}, 1);
      return;
    }
    // split_q: warp w has rows; split_k: it has columns of the scores, and a
    // private sum over its keys of everything else.
    scores = AccAttr::get(
        ctx, family,
        splitK ? ArrayRef<int64_t>{1, warps} : ArrayRef<int64_t>{warps, 1}, 1);
    output = splitK ? AccAttr::get(ctx, family, {1, 1}, warps) : scores;
    gradQ = output;
  }

  LogicalResult run() {
    separateConstants();
    findPartialSums();
    encodeValues();
    convertLoads();
    convertDots();
    if (output.getSplitK() > 1)
      combineSplits();
    return success();
  }

private:
  using Tiles = llvm::SmallPtrSet<Value, 8>;

  void separateConstants();
  void findPartialSums();
  void findTiles();
  static void spread(SmallVector<Value> work, Tiles &tiles);
  void encodeValues();
  static int64_t columnParts(Value tile);
  void convertLoads();
  void convertDots();
  void combineSplits();

  Attribute encodingOf(Value value);
  static RankedTensorType withEncoding(RankedTensorType t, Attribute e) {
    return RankedTensorType::get(t.getShape(), t.getElementType(), e);
  }
  static bool isTile(Value v) {
    auto t = dyn_cast<RankedTensorType>(v.getType());
    return t && !t.getEncoding();
  }

  KernelOp kernel;
  int64_t sharedPanel;
  MLIRContext *ctx;
  OpBuilder b;
  ScheduleAttr schedule;
  AccAttr scores, output, gradQ;
  /// Row sums that stay partial over lanes until the softmax is finished.
  llvm::SmallPtrSet<Value, 8> partial;
  /// Tiles with the columns of the scores; those laid out like dQ; loaded ones,
  /// elementwise; vectors of one value a column, which stay in shared memory.
  Tiles scoreTiles, gradQTiles, loadedTiles, columnVectors;
};

/// A constant of its own for each use: equal ones may get different layouts.
void Partitioner::separateConstants() {
  SmallVector<arith::ConstantOp> constants;
  kernel.walk([&](arith::ConstantOp op) {
    if (isTile(op))
      constants.push_back(op);
  });
  for (arith::ConstantOp op : constants)
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses()))
      if (!op->hasOneUse()) {
        b.setInsertionPoint(op);
        use.set(cast<arith::ConstantOp>(b.clone(*op)));
      }
}

/// The running sum of a softmax_step, through the loop that carries it.
void Partitioner::findPartialSums() {
  kernel.walk([&](SoftmaxStepOp step) {
    SmallVector<Value> work{step.getL(), step.getNewL()};
    while (!work.empty()) {
      Value v = work.pop_back_val();
      if (!partial.insert(v).second)
        continue;
      if (auto arg = dyn_cast<BlockArgument>(v)) {
        auto loop = cast<LoopLikeOpInterface>(arg.getOwner()->getParentOp());
        work.push_back(loop.getTiedLoopInit(arg)->get());
        work.push_back(loop.getTiedLoopYieldedValue(arg)->get());
        work.push_back(loop.getTiedLoopResult(arg));
      }
    }
  });
}

Attribute Partitioner::encodingOf(Value v) {
  auto type = cast<RankedTensorType>(v.getType());
  if (columnVectors.contains(v))
    return SharedAttr::get(ctx, 0);
  if (gradQTiles.contains(v))
    return gradQ;
  if (loadedTiles.contains(v))
    return OperandAttr::get(ctx, output);
  if (type.getRank() == 1)
    return RowAttr::get(ctx, output,
                        partial.contains(v) ? Partial::Lanes : Partial::None);
  return scoreTiles.contains(v) ? scores : output;
}

/// Whether a load brings its tile straight into registers: vectors of one value
/// a row, and sums in the order of the accumulator's registers.
static bool staysInRegisters(fa2::LoadOp load) {
  auto type = cast<RankedTensorType>(load.getTile().getType());
  return type.getRank() == 1 || type.getElementType().isF32();
}

/// Adds `work` and what is elementwise on it, up to the next product or memory.
void Partitioner::spread(SmallVector<Value> work, Tiles &tiles) {
  while (!work.empty()) {
    Value v = work.pop_back_val();
    if (cast<RankedTensorType>(v.getType()).getRank() != 2 ||
        !tiles.insert(v).second)
      continue;
    for (Operation *user : v.getUsers())
      if (!isa<DotOp, StoreOp, AccumulateOp>(user))
        for (Value r : user->getResults())
          if (isTile(r))
            work.push_back(r);
    // And what is combined with them element by element.
    Operation *def = v.getDefiningOp();
    if (auto at = dyn_cast_or_null<CoordinatesOp>(def))
      work.append({at.getRows(), at.getCols()});
    if (def && def->hasTrait<OpTrait::Elementwise>())
      for (Value operand : def->getOperands())
        if (isTile(operand))
          work.push_back(operand);
  }
}

void Partitioner::findTiles() {
  // The scores: products with a transposed right side, what they start from,
  // and what follows from them.
  SmallVector<Value> work, sums, loaded;
  kernel.walk([&](Operation *op) {
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (dot.getTransposeB())
        work.push_back(dot.getD());
      if (dot.getTransposeB() && dot.getAcc())
        work.push_back(dot.getAcc());
      if (dot.getTransposeA())
        sums.push_back(dot.getD());
    } else if (auto load = dyn_cast<fa2::LoadOp>(op)) {
      if (cast<RankedTensorType>(load.getTile().getType()).getRank() == 1)
        return;
      if (staysInRegisters(load))
        sums.push_back(load.getTile());
      else
        for (Operation *user : load.getTile().getUsers())
          if (user->hasTrait<OpTrait::Elementwise>())
            loaded.push_back(user->getResult(0));
    } else if (auto step = dyn_cast<SoftmaxStepOp>(op)) {
      work.push_back(step.getS()); // of a program, perhaps not of a product
    } else if (auto p = dyn_cast<SoftmaxRecomputeOp>(op)) {
      if (p.getColumns())
        columnVectors.insert(p.getN());
    } else if (auto tile = dyn_cast<BroadcastOp>(op)) {
      if (tile.getColumns())
        columnVectors.insert(tile.getVector());
    }
  });
  spread(work, scoreTiles);
  spread(sums, gradQTiles);
  spread(loaded, loadedTiles);
}

void Partitioner::encodeValues() {
  findTiles();
  auto encode = [&](Value v) {
    if (isTile(v))
      v.setType(
          withEncoding(cast<RankedTensorType>(v.getType()), encodingOf(v)));
  };
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<fa2::LoadOp>(op);
        load &&
        (!staysInRegisters(load) || columnVectors.contains(load.getTile())))
      return;
    for (Value r : op->getResults())
      encode(r);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value arg : block.getArguments())
          encode(arg);
    // A constant's attribute has its type.
    if (auto c = dyn_cast<arith::ConstantOp>(op))
      if (auto dense = dyn_cast<DenseElementsAttr>(c.getValue()))
        c.setValueAttr(DenseElementsAttr::get(
            cast<ShapedType>(c.getType()), dense.getSplatValue<Attribute>()));
  });
}

/// Into how many parts the warps split the columns of a right operand.
int64_t Partitioner::columnParts(Value tile) {
  int64_t parts = 1;
  for (OpOperand &use : tile.getUses())
    if (auto dot = dyn_cast<DotOp>(use.getOwner());
        dot && !dot.getTransposeB() && dot.getB() == tile) {
      auto d = cast<RankedTensorType>(dot.getD().getType());
      parts = std::max(parts, cast<AccAttr>(d.getEncoding()).getWarps()[1]);
    }
  return parts;
}

void Partitioner::convertLoads() {
  kernel.walk([&](fa2::LoadOp op) {
    if (!isTile(op.getTile()))
      return;
    b.setInsertionPoint(op);
    auto plain = cast<RankedTensorType>(op.getTile().getType());
    auto type = sharedPanel
                    ? withEncoding(plain, SharedAttr::get(ctx, sharedPanel))
                    : sharedTile(plain, columnParts(op.getTile()));
    Value load = fa2::gpu::LoadOp::create(b, op.getLoc(), type, op.getView(),
                                          op.getRow());
    // Arithmetic works on registers.
    Value registers;
    for (OpOperand &use : llvm::make_early_inc_range(op.getTile().getUses())) {
      if (!use.getOwner()->hasTrait<OpTrait::Elementwise>())
        continue;
      if (!registers)
        registers = LocalLoadOp::create(
            b, op.getLoc(), withEncoding(plain, OperandAttr::get(ctx, output)),
            load);
      use.set(registers);
    }
    op.replaceAllUsesWith(load);
    op.erase();
  });
}

void Partitioner::convertDots() {
  llvm::DenseMap<Value, Value> operands; // a left side in registers
  llvm::DenseMap<Value, Value> shared;   // one that other warps read
  auto asShared = [&](Value a) -> Value {
    Value &known = shared[a];
    if (known)
      return known;
    b.setInsertionPointAfterValue(a);
    auto from = cast<RankedTensorType>(a.getType());
    return known = ShareOp::create(
               b, a.getLoc(), withEncoding(from, SharedAttr::get(ctx, 0)), a);
  };
  auto asOperand = [&](Value a, Attribute encoding) -> Value {
    Value &known = operands[a];
    if (known)
      return known;
    auto from = cast<RankedTensorType>(a.getType());
    auto to = withEncoding(from, encoding);
    b.setInsertionPointAfterValue(a);
    if (isa<SharedAttr>(from.getEncoding()))
      known = LocalLoadOp::create(b, a.getLoc(), to, a);
    else
      known = ConvertLayoutOp::create(b, a.getLoc(), to, a);
    return known;
  };
  kernel.walk([&](DotOp dot) {
    Value a = dot.getA();
    auto aType = cast<RankedTensorType>(a.getType());
    auto dType = cast<RankedTensorType>(dot.getD().getType());
    bool aShared = isa<SharedAttr>(aType.getEncoding());
    bool ownRows =
        schedule.getPartition() != Partition::Keys || scores.getWarps()[1] == 1;
    if (!aShared && (dot.getTransposeA() || !ownRows))
      a = asShared(a);
    else if (!aShared)
      a = asOperand(a,
                    OperandAttr::get(ctx, cast<AccAttr>(aType.getEncoding())));
    else if (schedule.getQInRegisters() &&
             schedule.getPartition() == Partition::SplitQ)
      a = asOperand(a, OperandAttr::get(ctx, output));
    b.setInsertionPoint(dot);
    auto start = DotStartOp::create(
        b, dot.getLoc(), InFlightType::get(ctx, dType), a, dot.getB(),
        dot.getAcc(), dot.getTransposeB(), dot.getTransposeA());
    auto wait = DotWaitOp::create(b, dot.getLoc(), dType, start.getD());
    dot.replaceAllUsesWith(wait.getD());
    dot.erase();
  });
}

void Partitioner::combineSplits() {
  kernel.walk([&](SoftmaxFinishOp op) {
    b.setInsertionPoint(op);
    auto o = cast<RankedTensorType>(op.getO().getType());
    // One private tile a warp, one above the other, then m and l of each.
    auto scratchTile = RankedTensorType::get(
        {o.getDimSize(0) * output.getSplitK(), o.getDimSize(1) + 2},
        b.getF32Type(), SharedAttr::get(ctx, 0));
    Value scratch = RingCreateOp::create(
        b, op.getLoc(), RingType::get(ctx, 1, scratchTile),
        b.getStringAttr("combine"), IntegerAttr{}, IntegerAttr{});
    auto combined = CombineSplitsOp::create(
        b, op.getLoc(), TypeRange{o, op.getM().getType(), op.getM().getType()},
        op.getO(), op.getM(), op.getL(), op.getScale(), scratch);
    op.getOMutable().assign(combined.getOutO());
    op.getMMutable().assign(combined.getOutM());
    op.getLMutable().assign(combined.getOutL());
  });
}

struct ConvertFA2ToFA2GPUPass
    : public fa2::impl::ConvertFA2ToFA2GPUBase<ConvertFA2ToFA2GPUPass> {
  /// Tiles that have no layout yet, carried by loops alone.
  static LogicalResult checkInput(KernelOp kernel) {
    auto bad = [&](Operation *op, Value v) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type)
        return false;
      if (type.getEncoding())
        op->emitOpError() << "expected tiles without layouts, as they are "
                             "before this pass";
      else if (isa<BlockArgument>(v) && !isa<LoopLikeOpInterface>(op))
        op->emitOpError() << "expected no tiles as arguments of a region that "
                             "is not a loop's";
      else
        return false;
      return true;
    };
    WalkResult result = kernel.walk([&](Operation *op) {
      for (Value v : op->getResults())
        if (bad(op, v))
          return WalkResult::interrupt();
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value v : block.getArguments())
            if (bad(op, v))
              return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target || failed(checkInput(kernel)))
      return signalPassFailure();
    if (failed(Partitioner(kernel, target->matmulFamily(&getContext()),
                           target->sharedPanelBytes())
                   .run()))
      signalPassFailure();
  }
};

} // namespace
