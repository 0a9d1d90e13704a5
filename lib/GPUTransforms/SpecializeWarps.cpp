//===- SpecializeWarps.cpp - fa2gpu-specialize-warps ----------------------===//

#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
      if (failed(specialize(loop, *target)))
        return signalPassFailure();
  }

  LogicalResult specialize(Operation *loop, const Target &target) {
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
    if (getOperation().getSchedule().getOverlap() &&
        failed(keysFirst(producer->getRegion(0).front())))
      return failure();
    if (auto tiles = dyn_cast<TileLoopOp>(producer))
      tiles.setDraws(true);
    loop->erase();
    return success();
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
      if (auto loop = dyn_cast<ForTilesOp>(op)) {
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
  /// output still lies in the queries' slot.
  LogicalResult keysFirst(Block &block) {
    auto loops = block.getOps<ForTilesOp>();
    if (!llvm::hasSingleElement(loops))
      return success();
    ForTilesOp loop = *loops.begin();
    if (!loop.getRange().getDefiningOp<RangeOfTiles>().makeNonempty())
      return loop.emitOpError() << "expected a range that can have a tile "
                                   "always, because the first is peeled";
    SmallVector<Operation *> queries;
    for (Operation &op : block)
      if (isCopySide(&op))
        queries.push_back(&op);
    OpBuilder b(loop);
    IRMapping map;
    Value first = arith::ConstantIndexOp::create(b, loop.getLoc(), 0);
    map.map(loop.getPlace(), first);
    map.map(loop.getTile(),
            TileAtOp::create(b, loop.getLoc(), loop.getRange(), first));
    bool ownOutput = getOperation().getSchedule().getSeparateOutput();
    Operation *before = nullptr;
    for (Operation &op : loop.getBody().front().without_terminator()) {
      Operation *copy = b.clone(op, map);
      if (isa<RingCommitOp>(copy) && !(before && ownOutput))
        before = copy;
    }
    loop.setFrom(1);
    Operation *after = before;
    for (Operation *op : queries) {
      op->moveAfter(after);
      after = op;
    }
    return success();
  }

  /// The loop with nothing carried from one iteration to the next.
  void withoutState(ForTilesOp loop) {
    OpBuilder b(loop);
    auto bare = ForTilesOp::create(b, loop.getLoc(), loop.getRange(),
                                   ValueRange(), loop.getFrom());
    loop.getTile().replaceAllUsesWith(bare.getTile());
    loop.getPlace().replaceAllUsesWith(bare.getPlace());
    Block &from = loop.getBody().front(), &into = bare.getBody().front();
    from.getTerminator()->erase();
    into.getOperations().splice(Block::iterator(into.getTerminator()),
                                from.getOperations());
    keepProducer(into);
    b.setInsertionPointToEnd(&from);
    YieldOp::create(b, loop.getLoc(), loop.getInitArgs());
    loop.erase();
  }

  llvm::SmallPtrSet<Value, 4> rings;
};

} // namespace
