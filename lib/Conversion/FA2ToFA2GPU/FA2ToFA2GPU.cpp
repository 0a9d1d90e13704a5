//===- FA2ToFA2GPU.cpp - convert-fa2-to-fa2gpu ----------------------------===//
//
// Warp partitioning. Products say how warps share them, and what is computed
// with them follows (LayoutAssignment.h); loaded tiles lie in shared memory,
// and a computed left operand is converted once: it changes registers' names
// where its warps need no other's part of it, and goes through shared memory
// else.
//
//===----------------------------------------------------------------------===//

#include "fa2/Analysis/LayoutAssignment.h"
#include "fa2/Conversion/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

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
        b(ctx), schedule(kernel.getSchedule()), layouts(kernel, family) {}

  LogicalResult run() {
    separateConstants();
    if (failed(layouts.run()))
      return failure();
    encodeValues();
    convertLoads();
    convertTransposes();
    convertDots();
    combineSplits();
    return success();
  }

private:
  void separateConstants();
  void encodeValues();
  int64_t columnParts(Value tile) const;
  void convertLoads();
  void convertTransposes();
  void convertDots();
  void combineSplits();

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
  LayoutAssignment layouts;
};

/// A constant of its own for each use, and a splat: equal ones may get
/// different layouts.
void Partitioner::separateConstants() {
  SmallVector<Operation *> constants;
  kernel.walk([&](Operation *op) {
    if (isa<arith::ConstantOp, tensor::SplatOp>(op) && isTile(op->getResult(0)))
      constants.push_back(op);
  });
  for (Operation *op : constants)
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses()))
      if (!op->hasOneUse()) {
        b.setInsertionPoint(op);
        use.set(b.clone(*op)->getResult(0));
      }
}

static bool isUnaligned(fa2::LoadOp load) {
  auto view = load.getView().getDefiningOp<ViewOp>();
  return view && view.getUnaligned();
}

/// Whether a load brings its tile straight into registers: vectors of one value
/// a row, and f32 that no program reads.
static bool staysInRegisters(fa2::LoadOp load, Attribute layout) {
  auto type = cast<RankedTensorType>(load.getTile().getType());
  auto view = load.getView().getDefiningOp<ViewOp>();
  bool ofProgram = view && view.getDims();
  return !isa<SharedAttr>(layout) && !ofProgram &&
         (type.getRank() == 1 || type.getElementType().isF32());
}

void Partitioner::encodeValues() {
  auto encode = [&](Value v) {
    if (isTile(v))
      v.setType(
          withEncoding(cast<RankedTensorType>(v.getType()), layouts.of(v)));
  };
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<fa2::LoadOp>(op);
        load && !staysInRegisters(load, layouts.of(load.getTile())))
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

/// Into how many parts the warps split the columns of a right operand; with
/// tensor maps those of any, since the product that is split alike may be
/// stored from its place.
int64_t Partitioner::columnParts(Value tile) const {
  int64_t parts = 1;
  for (OpOperand &use : tile.getUses())
    if (auto dot = dyn_cast<DotOp>(use.getOwner());
        dot && (sharedPanel || (!dot.getTransposeB() && dot.getB() == tile))) {
      auto d = cast<RankedTensorType>(dot.getD().getType());
      parts = std::max(parts, cast<AccAttr>(d.getEncoding()).warpCols());
    }
  return parts;
}

/// The first of a load's users, in its block.
static Operation *firstUser(fa2::LoadOp op) {
  Operation *first = nullptr;
  for (Operation *user : op.getTile().getUsers())
    if (Operation *top = op->getBlock()->findAncestorOpInBlock(*user);
        top && (!first || top->isBeforeInBlock(first)))
      first = top;
  return first;
}

void Partitioner::convertLoads() {
  SmallVector<TransposeOp> transposes;
  kernel.walk([&](fa2::LoadOp op) {
    if (!isTile(op.getTile()))
      return;
    b.setInsertionPoint(op);
    auto plain = cast<RankedTensorType>(op.getTile().getType());
    auto type = sharedTile(plain, columnParts(op.getTile()),
                           plain.getRank() == 2 ? sharedPanel : 0);
    bool unaligned = isUnaligned(op);
    if (unaligned)
      type =
          withEncoding(plain, SharedAttr::get(ctx, 0, 1, /*unaligned=*/true));
    Value load =
        fa2::gpu::LoadOp::create(b, op.getLoc(), type, op.getView(),
                                 op.getRow(), op.getColumn(), unaligned);
    // Arithmetic works on registers.
    Value registers;
    for (OpOperand &use : llvm::make_early_inc_range(op.getTile().getUses())) {
      if (auto turned = dyn_cast<TransposeOp>(use.getOwner())) {
        turned.replaceAllUsesWith(
            LocalLoadOp::create(b, op.getLoc(), turned.getResult().getType(),
                                load, /*transposed=*/true)
                .getResult());
        transposes.push_back(turned);
        continue;
      }
      if (!use.getOwner()->hasTrait<OpTrait::Elementwise>())
        continue;
      if (!registers) {
        // Where it is first needed, so that loads in between have started; what
        // stands in loops has an order of its own.
        OpBuilder::InsertionGuard guard(b);
        if (!isa<ForTilesOp>(op->getParentOp()))
          b.setInsertionPoint(firstUser(op));
        registers = LocalLoadOp::create(
            b, op.getLoc(), withEncoding(plain, layouts.of(op.getTile())), load,
            /*transposed=*/false, unaligned ? op.getView() : Value(),
            unaligned ? op.getRow() : Value(),
            unaligned ? op.getColumn() : Value());
      }
      use.set(registers);
    }
    op.replaceAllUsesWith(load);
    op.erase();
  });
  for (TransposeOp op : transposes)
    op.erase();
}

/// What is computed goes through shared memory, and comes out transposed.
void Partitioner::convertTransposes() {
  kernel.walk([&](TransposeOp op) {
    b.setInsertionPoint(op);
    auto type = withEncoding(cast<RankedTensorType>(op.getResult().getType()),
                             SharedAttr::get(ctx, sharedPanel));
    Value share = ShareOp::create(b, op.getLoc(), type, op.getTile(),
                                  /*transposed=*/true);
    op.replaceAllUsesWith(share);
    op.erase();
  });
}

/// Whether the warps that have rows of `a` have them of `d` too, with all of
/// the columns, or with those whose products they sum by themselves.
static bool ownRows(AccAttr a, AccAttr d) {
  return a.warpRows() == d.warpRows() && d.warpCols() == 1 &&
         a.warpCols() == d.getSplitK();
}

/// Of warpgroups that have programs of their own, whose registers a tile is
/// computed in: that of the product that it is made of. Null where there is one
/// program.
static StringAttr roleOfTile(Value tile) {
  Operation *op = tile.getDefiningOp();
  if (!op || isa<RelayOp>(op))
    return {};
  if (auto dot = dyn_cast<DotOp>(op))
    return dot.getRoleAttr();
  if (auto wait = dyn_cast<DotWaitOp>(op))
    return wait.getSource().getDefiningOp()->getAttrOfType<StringAttr>(
        kRoleName);
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      if (StringAttr role = roleOfTile(operand))
        return role;
  return {};
}

void Partitioner::convertDots() {
  llvm::DenseMap<Value, Value> operands; // a left side in registers
  llvm::DenseMap<Value, Value> shared;   // one that other warps read
  std::function<Value(Value)> asShared = [&](Value a) -> Value {
    if (Value known = shared.lookup(a))
      return known;
    b.setInsertionPointAfterValue(a);
    if (auto other = a.getDefiningOp<fa2::ExchangeOp>()) {
      Value own = asShared(other.getTile());
      b.setInsertionPointAfterValue(a);
      return shared[a] = fa2::gpu::ExchangeOp::create(b, a.getLoc(), own);
    }
    auto from = cast<RankedTensorType>(a.getType());
    return shared[a] = ShareOp::create(
               b, a.getLoc(),
               withEncoding(from, SharedAttr::get(ctx, sharedPanel)), a,
               /*transposed=*/false);
  };
  auto asOperand = [&](Value a, Attribute encoding) -> Value {
    Value &known = operands[a];
    if (known)
      return known;
    auto from = cast<RankedTensorType>(a.getType());
    auto to = withEncoding(from, encoding);
    b.setInsertionPointAfterValue(a);
    if (isa<SharedAttr>(from.getEncoding()))
      known = LocalLoadOp::create(b, a.getLoc(), to, a, /*transposed=*/false);
    else
      known = ConvertLayoutOp::create(b, a.getLoc(), to, a);
    return known;
  };
  llvm::DenseMap<std::pair<Value, int64_t>, Value> heldParts;
  auto heldColumns = [&](DotOp dot, Value a, AccAttr d) -> Value {
    Value &known = heldParts[{a, int64_t(dot.getHeld())}];
    if (known)
      return known;
    auto from = cast<RankedTensorType>(a.getType());
    auto to = RankedTensorType::get(
        {from.getDimSize(0), int64_t(dot.getHeld())}, from.getElementType(),
        OperandAttr::get(ctx, d, /*whole=*/d.warpCols() > 1));
    b.setInsertionPointAfterValue(a);
    return known = LocalLoadOp::create(b, a.getLoc(), to, a,
                                       /*transposed=*/false);
  };
  kernel.walk([&](DotOp dot) {
    Value a = dot.getA();
    auto aType = cast<RankedTensorType>(a.getType());
    auto dType = cast<RankedTensorType>(dot.getD().getType());
    auto d = cast<AccAttr>(dType.getEncoding());
    auto from = dyn_cast<AccAttr>(aType.getEncoding());
    auto operand = dyn_cast<OperandAttr>(aType.getEncoding());
    if (operand)
      from = operand.getAcc();
    if (from && (dot.getTransposeA() || !ownRows(from, d) ||
                 (dot.getRoleAttr() && roleOfTile(a) != dot.getRoleAttr())))
      a = asShared(a);
    else if (from && !operand)
      a = asOperand(a, OperandAttr::get(ctx, from));
    else if (!from && !a.getDefiningOp<ShareOp>() &&
             schedule.getQInRegisters() && !dot.getTransposeA() &&
             d.warpCols() == 1 && d.getSplitK() == 1)
      a = asOperand(a, OperandAttr::get(ctx, d));
    Value held;
    if (dot.getHeld() &&
        isa<SharedAttr>(cast<RankedTensorType>(a.getType()).getEncoding()))
      held = heldColumns(dot, a, d);
    b.setInsertionPoint(dot);
    auto start = DotStartOp::create(
        b, dot.getLoc(), InFlightType::get(ctx, dType), a, dot.getB(),
        dot.getAcc(), dot.getTransposeB(), dot.getTransposeA(),
        dot.getNameAttr(), dot.getFirstColumn(), dot.getFirstRow(),
        /*clears=*/false, /*joins=*/false, dot.getColumn(), held);
    if (StringAttr role = dot.getRoleAttr())
      start->setAttr(kRoleName, role);
    auto wait = DotWaitOp::create(b, dot.getLoc(), dType, start.getD());
    dot.replaceAllUsesWith(wait.getD());
    dot.erase();
  });
  kernel.walk([&](RelayOp op) {
    // A vector is read where it lies.
    if (auto type = cast<RankedTensorType>(op.getResult().getType());
        type.getRank() == 1) {
      b.setInsertionPoint(op);
      auto share = ShareOp::create(b, op.getLoc(), type, op.getTile(),
                                   /*transposed=*/false);
      share->setAttr(kRoleName, b.getStringAttr(kTermsRole));
      op.replaceAllUsesWith(share.getResult());
      op.erase();
      return;
    }
    Value there = asShared(op.getTile());
    b.setInsertionPoint(op);
    op.replaceAllUsesWith(LocalLoadOp::create(b, op.getLoc(),
                                              op.getResult().getType(), there,
                                              /*transposed=*/false)
                              .getResult());
    op.erase();
  });
}

void Partitioner::combineSplits() {
  kernel.walk([&](SoftmaxFinishOp op) {
    auto o = cast<RankedTensorType>(op.getO().getType());
    int64_t splitK = cast<AccAttr>(o.getEncoding()).getSplitK();
    if (splitK == 1)
      return;
    b.setInsertionPoint(op);
    // One private tile a warp, one above the other, then m and l of each.
    auto scratchTile =
        RankedTensorType::get({o.getDimSize(0) * splitK, o.getDimSize(1) + 2},
                              b.getF32Type(), SharedAttr::get(ctx, 0));
    Value scratch =
        RingCreateOp::create(b, op.getLoc(), RingType::get(ctx, 1, scratchTile),
                             b.getStringAttr("combine"));
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
  static bool comesFromMemory(TransposeOp op) {
    return bool(op.getTile().getDefiningOp<fa2::LoadOp>());
  }
  static bool goesThroughShared(TransposeOp op) {
    return llvm::all_of(op.getResult().getUses(), [](OpOperand &use) {
      auto dot = dyn_cast<DotOp>(use.getOwner());
      return (dot && dot.getA() == use.get() && dot.getB() != use.get() &&
              !dot.getTransposeA()) ||
             isa<StoreOp>(use.getOwner());
    });
  }

  /// An unaligned tile is read value by value.
  static bool isReadByValue(fa2::LoadOp load) {
    return llvm::all_of(load.getTile().getUsers(), [](Operation *user) {
      return user->hasTrait<OpTrait::Elementwise>();
    });
  }

  static bool isReadWhereItLies(RelayOp relay) {
    return llvm::all_of(relay.getResult().getUsers(), [](Operation *user) {
      auto tile = dyn_cast<BroadcastOp>(user);
      return tile && (tile.getColumns() || tile.getDiagonals());
    });
  }

  /// Tiles that have no layout yet, carried by loops alone, and transposed
  /// where shared memory can do it.
  static LogicalResult checkInput(KernelOp kernel) {
    auto bad = [&](Operation *op, Value v) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type)
        return false;
      auto turned = dyn_cast<TransposeOp>(op);
      auto load = dyn_cast<fa2::LoadOp>(op);
      auto gather = dyn_cast<GatherOp>(op);
      auto relay = dyn_cast<RelayOp>(op);
      if (relay && type.getRank() == 1 && !isReadWhereItLies(relay))
        op->emitOpError() << "expected broadcasts along columns or diagonals "
                             "alone to take a vector of another role, which "
                             "lies in shared memory";
      else if (gather && !gather.getVector().getDefiningOp<fa2::LoadOp>())
        op->emitOpError() << "expected the vector to be loaded, so that it "
                             "lies in shared memory";
      else if (load && isUnaligned(load) && !isReadByValue(load))
        op->emitOpError() << "expected elementwise operations alone to take a "
                             "tile of an unaligned view, which lies as memory "
                             "has it";
      else if (turned && !comesFromMemory(turned) && !goesThroughShared(turned))
        op->emitOpError() << "expected products and stores alone to take a "
                             "computed tile that is transposed, as their left "
                             "operand and their tile";
      else if (type.getEncoding())
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
