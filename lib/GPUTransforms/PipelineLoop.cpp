//===- PipelineLoop.cpp - fa2gpu-pipeline ---------------------------------===//
//
// Assigns every operation of a loop that uses rings to a stage and a place, and
// lets upstream's scf pipeliner do the rest. Copies are stage 0; everything
// that reads a tile is the last stage. In the steady state, iteration i then
// issues the copies of iteration i + distance.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fa2 {
#define GEN_PASS_DEF_PIPELINELOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

using Schedule = std::vector<std::pair<Operation *, unsigned>>;

/// acquire, copy and commit of one ring, with what they compute from the
/// induction variable.
struct CopyGroup {
  RingAcquireOp acquire;
  SmallVector<Operation *> ops;
};

/// Gives `op` its own copy of the pure operations in the loop's body that it
/// needs, so that they can move with it. Appends them to `ops` in order.
void takeOperands(Operation *op, Block *body, SmallVector<Operation *> &ops) {
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *def = operand.get().getDefiningOp();
    if (!def || def->getBlock() != body || !isPure(def))
      continue;
    OpBuilder b(op);
    Operation *copy = b.clone(*def);
    operand.set(
        copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
    takeOperands(copy, body, ops);
    ops.push_back(copy);
  }
}

SmallVector<CopyGroup> collectCopies(scf::ForOp loop) {
  SmallVector<CopyGroup> groups;
  Block *body = loop.getBody();
  for (auto acquire : body->getOps<RingAcquireOp>()) {
    if (llvm::none_of(acquire.getSlot().getUsers(), llvm::IsaPred<CopyOp>))
      continue; // a tile of the block's own
    CopyGroup g{acquire, {}};
    for (Operation *user : acquire.getSlot().getUsers())
      if (auto copy = dyn_cast<CopyOp>(user)) {
        takeOperands(copy, body, g.ops);
        g.ops.push_back(acquire);
        g.ops.push_back(copy);
      }
    for (Operation *user : acquire.getRing().getUsers())
      if (auto commit = dyn_cast<RingCommitOp>(user))
        if (commit->getBlock() == body)
          g.ops.push_back(commit);
    groups.push_back(std::move(g));
  }
  return groups;
}

/// A copy of an iteration that does not exist is predicated off; everything
/// else of stage 0 is harmless.
Operation *predicate(RewriterBase &rewriter, Operation *op, Value condition) {
  if (auto copy = dyn_cast<CopyOp>(op))
    rewriter.modifyOpInPlace(
        op, [&] { copy.getPredicateMutable().assign(condition); });
  return op;
}

struct PipelineLoopPass : public fa2::impl::PipelineLoopBase<PipelineLoopPass> {
  void runOnOperation() override {
    // A producer role runs ahead by itself, as far as its rings have slots.
    if (!getOperation().getOps<RolesOp>().empty())
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (!loop.getBody()->getOps<RingAcquireOp>().empty())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(pipeline(loop)))
        return signalPassFailure();
  }

  /// Two slots or more: waits, then the copies of iteration i + slots - 1,
  /// then work.
  Schedule doubleBuffered(scf::ForOp loop, ArrayRef<CopyGroup> groups,
                          unsigned distance);
  /// One slot: the values of iteration i, the scores, then the keys of i + 1.
  Schedule singleBuffered(scf::ForOp loop, ArrayRef<CopyGroup> groups);
  LogicalResult pipeline(scf::ForOp loop);
  static void sinkWaits(scf::ForOp loop);
};

bool isCopy(ArrayRef<CopyGroup> groups, Operation *op) {
  return llvm::any_of(groups, [&](const CopyGroup &g) {
    return llvm::is_contained(g.ops, op);
  });
}

/// Whether `op` waits for a tile that one of the groups copies.
bool isCopied(ArrayRef<CopyGroup> groups, Operation *op) {
  auto wait = dyn_cast<RingWaitOp>(op);
  return wait && llvm::any_of(groups, [&](CopyGroup g) {
           return g.acquire.getRing() == wait.getRing();
         });
}

Schedule PipelineLoopPass::doubleBuffered(scf::ForOp loop,
                                          ArrayRef<CopyGroup> groups,
                                          unsigned distance) {
  Schedule schedule;
  for (auto wait : loop.getBody()->getOps<RingWaitOp>())
    if (isCopied(groups, wait))
      schedule.push_back({wait, distance});
  for (const CopyGroup &g : groups)
    for (Operation *op : g.ops)
      schedule.push_back({op, 0});
  for (Operation &op : loop.getBody()->without_terminator())
    if (!isCopied(groups, &op) && !isCopy(groups, &op))
      schedule.push_back({&op, distance});
  return schedule;
}

Schedule PipelineLoopPass::singleBuffered(scf::ForOp loop,
                                          ArrayRef<CopyGroup> groups) {
  // The first ring in program order is copied one iteration ahead. Its wait
  // comes first, so that the barrier there also frees the slots of the others;
  // its next copy follows the waits for those, whose barrier frees its own
  // slot.
  Schedule schedule;
  CopyGroup ahead = groups.front();
  Value aheadRing = ahead.acquire.getRing();
  auto push = [&](Operation *op, unsigned stage) {
    schedule.push_back({op, stage});
  };
  auto ofAhead = [&](auto op) { return op.getRing() == aheadRing; };
  // The other waits stand together: before the first use of any of their tiles,
  // at the latest where the ring ahead is released.
  llvm::SmallPtrSet<Value, 4> tiles;
  SmallVector<RingWaitOp> others;
  for (auto wait : loop.getBody()->getOps<RingWaitOp>())
    if (isCopied(groups, wait) && !ofAhead(wait)) {
      others.push_back(wait);
      tiles.insert(wait.getTile());
    }
  auto waitForOthers = [&] {
    for (RingWaitOp wait : others)
      push(wait, 1);
    others.clear();
  };
  for (auto wait : loop.getBody()->getOps<RingWaitOp>())
    if (ofAhead(wait))
      push(wait, 1);
  for (const CopyGroup &g : groups.drop_front())
    for (Operation *op : g.ops)
      push(op, 1);
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (isCopy(groups, &op) || isCopied(groups, &op))
      continue;
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return tiles.contains(v); }))
      waitForOthers();
    push(&op, 1);
    auto release = dyn_cast<RingReleaseOp>(op);
    if (!release || !ofAhead(release))
      continue;
    waitForOthers();
    for (Operation *op : ahead.ops)
      push(op, 0);
  }
  return schedule;
}

/// Tiles waited for before the loop are needed only in it: the loop's first
/// copies are issued before those waits.
void PipelineLoopPass::sinkWaits(scf::ForOp loop) {
  SmallVector<Operation *> sunk;
  llvm::SmallPtrSet<Operation *, 8> set;
  for (Operation &op : *loop->getBlock()) {
    if (&op == loop.getOperation())
      break;
    bool dependent = llvm::any_of(op.getOperands(), [&](Value v) {
      return v.getDefiningOp() && set.contains(v.getDefiningOp());
    });
    bool release = isa<RingReleaseOp>(op) && !sunk.empty();
    if (isa<RingWaitOp>(op) || dependent || release) {
      sunk.push_back(&op);
      set.insert(&op);
    }
  }
  for (Operation *op : sunk)
    op->moveBefore(loop);
}

LogicalResult PipelineLoopPass::pipeline(scf::ForOp loop) {
  SmallVector<CopyGroup> groups = collectCopies(loop);
  if (groups.empty())
    return success();
  // As far ahead as every ring has slots.
  int64_t slots = std::numeric_limits<int64_t>::max();
  for (CopyGroup &g : groups)
    slots = std::min(slots, g.acquire.getRing().getType().getSlots());
  scf::PipeliningOption options;
  options.getScheduleFn = [&](scf::ForOp op, Schedule &schedule) {
    schedule = slots > 1 ? doubleBuffered(op, groups, slots - 1)
                         : singleBuffered(op, groups);
  };
  options.supportDynamicLoops = true;
  options.peelEpilogue = false;
  options.predicateFn = predicate;
  IRRewriter rewriter(&getContext());
  rewriter.setInsertionPoint(loop);
  bool modified = false;
  FailureOr<scf::ForOp> result =
      scf::pipelineForLoop(rewriter, loop, options, &modified);
  if (failed(result))
    return loop.emitError("expected the kv loop to be pipelined with ")
           << slots << " slots a ring";
  sinkWaits(*result);
  // A loop around it needs none of them earlier either.
  for (auto outer = (*result)->getParentOfType<scf::ForOp>(); outer;
       outer = outer->getParentOfType<scf::ForOp>())
    sinkWaits(outer);
  return success();
}

} // namespace
