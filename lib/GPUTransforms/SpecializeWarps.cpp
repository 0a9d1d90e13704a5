//===- SpecializeWarps.cpp - fa2gpu-specialize-warps ----------------------===//

#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fa2 {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Rings that copies fill: their producer's side is another role's.
llvm::SmallPtrSet<Value, 4> copiedRings(Operation *root) {
  llvm::SmallPtrSet<Value, 4> rings;
  root->walk([&](TensorCopyOp copy) { rings.insert(copy.getRing()); });
  return rings;
}

struct SpecializeWarpsPass
    : public fa2::impl::SpecializeWarpsBase<SpecializeWarpsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    if (!target->hasRoles())
      return;
    SmallVector<Operation *> loops;
    for (Operation &op : kernel.getBody().front())
      if (isa<ForEachTileOp, TileLoopOp>(op))
        loops.push_back(&op);
    for (Operation *loop : loops)
      specialize(loop, *target);
  }

  void specialize(Operation *loop, const Target &target) {
    OpBuilder b(loop);
    int64_t warps = getOperation().getSchedule().getWarps();
    RoleRegisters registers = target.roleRegisters(warps);
    auto roles = RolesOp::create(b, loop->getLoc(), warps, registers.consumer,
                                 kProducerWarps, registers.producer);
    rings = copiedRings(loop);
    b.createBlock(&roles.getConsumer());
    Operation *consumer = b.clone(*loop);
    keepConsumer(consumer);
    b.createBlock(&roles.getProducer());
    Operation *producer = b.clone(*loop);
    keepProducer(producer->getRegion(0).front());
    if (getOperation().getSchedule().getOverlap())
      keysFirst(producer->getRegion(0).front());
    if (auto tiles = dyn_cast<TileLoopOp>(producer))
      tiles.setDraws(true);
    loop->erase();
  }

  bool isCopySide(Operation *op) {
    if (isa<TensorCopyOp>(op))
      return true;
    return isa<RingAcquireOp, RingCommitOp>(op) &&
           rings.contains(op->getOperand(0));
  }

  void keepConsumer(Operation *root) {
    SmallVector<Operation *> dropped;
    root->walk([&](Operation *op) {
      if (isCopySide(op))
        dropped.push_back(op);
    });
    for (Operation *op : llvm::reverse(dropped))
      op->erase();
  }

  /// From the last operation to the first, so that users go before what they
  /// use.
  void keepProducer(Block &block) {
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      if (!op.hasTrait<OpTrait::IsTerminator>())
        ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      if (isCopySide(op))
        continue;
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        bool copies = false;
        loop->walk([&](TensorCopyOp) { copies = true; });
        if (copies)
          withoutState(loop);
        else
          loop.erase();
      } else if (op->use_empty()) {
        op->erase();
      }
    }
  }

  /// The first tile of keys is fetched before the queries, whose slot is free
  /// later, and the first tile of values after them; before them where the
  /// output still lies in the queries' slot. The range has at least one tile
  /// (fa2.kv_range nonempty).
  void keysFirst(Block &block) {
    auto loops = block.getOps<scf::ForOp>();
    if (!llvm::hasSingleElement(loops))
      return;
    scf::ForOp loop = *loops.begin();
    SmallVector<Operation *> queries;
    for (Operation &op : block)
      if (isCopySide(&op))
        queries.push_back(&op);
    OpBuilder b(loop);
    IRMapping map;
    map.map(loop.getInductionVar(), loop.getLowerBound());
    bool ownOutput = getOperation().getSchedule().getSeparateOutput();
    Operation *before = nullptr;
    for (Operation &op : loop.getBody()->without_terminator()) {
      Operation *copy = b.clone(op, map);
      if (isa<RingCommitOp>(copy) && !(before && ownOutput))
        before = copy;
    }
    Value one = arith::ConstantIndexOp::create(b, loop.getLoc(), 1);
    loop.getLowerBoundMutable().assign(
        arith::AddIOp::create(b, loop.getLoc(), loop.getLowerBound(), one));
    Operation *after = before;
    for (Operation *op : queries) {
      op->moveAfter(after);
      after = op;
    }
  }

  /// The loop with nothing carried from one iteration to the next.
  void withoutState(scf::ForOp loop) {
    OpBuilder b(loop);
    auto bare = scf::ForOp::create(b, loop.getLoc(), loop.getLowerBound(),
                                   loop.getUpperBound(), loop.getStep());
    loop.getInductionVar().replaceAllUsesWith(bare.getInductionVar());
    Operation *end = bare.getBody()->getTerminator();
    loop.getBody()->getTerminator()->erase();
    end->getBlock()->getOperations().splice(Block::iterator(end),
                                            loop.getBody()->getOperations());
    keepProducer(*bare.getBody());
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b, loop.getLoc(), loop.getInitArgs());
    loop.erase();
  }

  llvm::SmallPtrSet<Value, 4> rings;
};

} // namespace
