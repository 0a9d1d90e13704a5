//===- SpecializeWarps.cpp - fa2gpu-specialize-warps ----------------------===//

#include "fa2/Dialect/FA2GPU/Roles.h"

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace fa2 {
#define GEN_PASS_DEF_SPECIALIZEWARPS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The role whose tile a value is: that of the operation that computes it,
/// maybe around a loop. Null where it is everyone's.
StringAttr ownerOf(Value v) {
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    auto loop = dyn_cast<LoopLikeOpInterface>(arg.getOwner()->getParentOp());
    OpOperand *init = loop ? loop.getTiedLoopInit(arg) : nullptr;
    return init ? ownerOf(init->get()) : StringAttr();
  }
  Operation *op = v.getDefiningOp();
  if (auto loop = dyn_cast<LoopLikeOpInterface>(op))
    return ownerOf(
        loop.getYieldedValues()[cast<OpResult>(v).getResultNumber()]);
  return roleOf(op);
}

struct SpecializeWarpsPass
    : public fa2::impl::SpecializeWarpsBase<SpecializeWarpsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    FailureOr<PlanAttr> made = planOf(kernel);
    if (failed(made))
      return signalPassFailure();
    PlanAttr plan = *made;
    kernel->removeAttr(kPlanName);
    if (!plan.hasRoles())
      return;
    SmallVector<Operation *> loops;
    for (Operation &op : kernel.getBody().front())
      if (isa<ForEachTileOp, TileLoopOp>(op))
        loops.push_back(&op);
    for (Operation *loop : loops)
      if (failed(checkBranches(loop)) || failed(checkCrossings(loop)) ||
          failed(specialize(loop, plan)))
        return signalPassFailure();
  }

  static LogicalResult checkBranches(Operation *loop) {
    WalkResult result = loop->walk([](scf::IfOp op) {
      op.emitOpError() << "expected no branch, whose arms may be of several "
                          "roles, before roles have programs of their own";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// What is computed from a role's tiles is of that role; what another needs
  /// of them comes through a ring.
  static LogicalResult checkCrossings(Operation *loop) {
    WalkResult result = loop->walk([](Operation *op) {
      if (isa<LoopLikeOpInterface>(op) || op->hasTrait<OpTrait::IsTerminator>())
        return WalkResult::advance();
      StringAttr role = roleOf(op);
      for (Value v : op->getOperands()) {
        StringAttr owner = v.getType().isIndex() ? role : ownerOf(v);
        if (!owner || owner == role)
          continue;
        InFlightDiagnostic error = op->emitOpError();
        if (role)
          error << "expected role '" << role.getValue()
                << "' to get through a ring what role '" << owner.getValue()
                << "' computes (fa2gpu-form-rings)";
        else
          error << "expected a role because role '" << owner.getValue()
                << "' computes its operand (fa2gpu-assign-roles)";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult specialize(Operation *loop, PlanAttr plan) {
    OpBuilder b(loop);
    auto roles = RolesOp::create(b, loop->getLoc(), plan.getRoles());
    TileLoopOp draws;
    for (auto [i, program] : llvm::enumerate(roles.getPrograms())) {
      b.createBlock(&program);
      Operation *tiles = b.clone(*loop);
      keep(tiles->getRegion(0).front(), roles.getRoleName(i));
      draws = dyn_cast<TileLoopOp>(tiles); // the last that can
      Region &body = tiles->getRegion(0);
      if (!fills(body) || !getOperation().getSchedule().getOverlap())
        continue;
      // What only copies runs ahead. What else fills slots does so as often.
      if (onlyCopies(body) && failed(firstTileFirst(body.front())))
        return failure();
      if (!onlyCopies(body) && failed(alwaysOneTile(body.front())))
        return failure();
    }
    if (draws)
      draws.setDraws(true);
    loop->erase();
    return success();
  }

  static bool fills(Region &program) {
    return program.walk([](RingCommitOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  }

  /// What is left for a role, from the last operation to the first, so that
  /// users go before what they use: its own operations, and numbers that they
  /// need.
  static void keep(Block &block, StringRef role) {
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      StringAttr owner = roleOf(op);
      if (owner && owner.getValue() == role) {
        op->removeAttr(kRoleName);
      } else if (owner) {
        // A cursor, or turns seen ahead, that another role moves on.
        if (isa<RingAcquireOp, RingWaitOp>(op))
          op->getResult(1).replaceAllUsesWith(op->getOperand(1));
        else if (auto await = dyn_cast<AwaitTurnOp>(op))
          await.getNext().replaceAllUsesWith(await.getSeen());
        op->erase();
      } else if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
        keepLoop(loop, role);
      } else if (isOpTriviallyDead(op)) {
        op->erase();
      }
    }
  }

  /// What a loop carries of other roles stays as it came.
  static void keepLoop(LoopLikeOpInterface loop, StringRef role) {
    auto yields = loop.getYieldedValuesMutable();
    for (auto [yield, arg] : llvm::zip(*yields, loop.getRegionIterArgs()))
      if (StringAttr owner = ownerOf(yield.get());
          isTile(arg) && owner && owner.getValue() != role)
        yield.set(arg);
    keep(loop.getLoopRegions().front()->front(), role);
    for (auto [result, init, yield, arg] :
         llvm::zip(*loop.getLoopResults(), loop.getInits(), *yields,
                   loop.getRegionIterArgs()))
      if (yield.get() == arg)
        result.replaceAllUsesWith(init);
    if (isOpTriviallyDead(loop))
      loop.erase();
  }

  /// Loops have a tile always where the roles that copy, and those that wait
  /// for copies, peel the first.
  static LogicalResult alwaysOneTile(Block &block) {
    for (ForTilesOp loop : block.getOps<ForTilesOp>())
      if (fills(loop->getRegion(0)) &&
          !loop.getRange().getDefiningOp<RangeOfTiles>().makeNonempty())
        return loop.emitOpError() << "expected a range that can have a tile "
                                     "always, because the first is peeled";
    return success();
  }

  /// The loop's first tile is fetched before what stands in front of the loop,
  /// whose slots are free later: keys before queries. What the loop copies into
  /// other rings than its first comes after them; before them where an output
  /// still lies in their slots.
  LogicalResult firstTileFirst(Block &block) {
    auto loops = block.getOps<ForTilesOp>();
    if (!llvm::hasSingleElement(loops))
      return block.getParentOp()->emitOpError()
             << "expected one loop over tiles, not in another, in a role that "
                "copies with overlap = true, because its first tile is fetched "
                "first; got "
             << std::distance(loops.begin(), loops.end());
    ForTilesOp loop = *loops.begin();
    if (failed(alwaysOneTile(block)))
      return failure();
    SmallVector<Operation *> inFront;
    for (Operation &op : block)
      if (isOfCopy(&op) && op.isBeforeInBlock(loop))
        inFront.push_back(&op);
    OpBuilder b(loop);
    IRMapping map;
    Value first = arith::ConstantIndexOp::create(b, loop.getLoc(), 0);
    map.map(loop.getTile(),
            TileAtOp::create(b, loop.getLoc(), loop.getRange(), first));
    map.map(loop.getRegionIterArgs(), loop.getInitArgs());
    ScheduleAttr schedule = getOperation().getSchedule();
    bool ownOutput = schedule.getSeparateOutput() || schedule.getDirectOutput();
    Operation *before = nullptr;
    for (Operation &op : loop.getBody().front().without_terminator()) {
      Operation *copy = b.clone(op, map);
      if (isa<RingCommitOp>(copy) && !(before && ownOutput))
        before = copy;
    }
    for (auto [init, yielded] :
         llvm::zip(loop.getInitsMutable(), *loop.getYieldedValuesMutable()))
      init.set(map.lookupOrDefault(yielded.get()));
    loop.setFrom(1);
    Operation *after = before;
    for (Operation *op : inFront) {
      op->moveAfter(after);
      after = op;
    }
    return success();
  }
};

} // namespace
