//===- CopyStages.cpp - copies of the next tiles beside this one's work ---===//
//
// Copies are stage 0; everything that reads a tile is the last stage. Where a
// loop is cut so, iteration i issues the copies of iteration i + distance.
//
//===----------------------------------------------------------------------===//

#include "fa2/Loops/CopyStages.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

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

/// Two slots or more: waits, then the copies of iteration i + slots - 1, then
/// work.
LoopStages doubleBuffered(scf::ForOp loop, ArrayRef<CopyGroup> groups,
                          unsigned distance) {
  LoopStages stages;
  for (auto wait : loop.getBody()->getOps<RingWaitOp>())
    if (isCopied(groups, wait))
      stages.push_back({wait, distance});
  for (const CopyGroup &g : groups)
    for (Operation *op : g.ops)
      stages.push_back({op, 0});
  for (Operation &op : loop.getBody()->without_terminator())
    if (!isCopied(groups, &op) && !isCopy(groups, &op))
      stages.push_back({&op, distance});
  return stages;
}

/// One slot: the values of iteration i, the scores, then the keys of i + 1.
LoopStages singleBuffered(scf::ForOp loop, ArrayRef<CopyGroup> groups) {
  // The first ring in program order is copied one iteration ahead. Its wait
  // comes first, so that the barrier there also frees the slots of the others;
  // its next copy follows the waits for those, whose barrier frees its own
  // slot.
  LoopStages stages;
  CopyGroup ahead = groups.front();
  Value aheadRing = ahead.acquire.getRing();
  auto push = [&](Operation *op, unsigned stage) {
    stages.push_back({op, stage});
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
  return stages;
}

} // namespace

LoopStages fa2::gpu::stagesOfCopies(scf::ForOp loop) {
  SmallVector<CopyGroup> groups = collectCopies(loop);
  if (groups.empty())
    return {};
  // As far ahead as every ring has slots.
  int64_t slots = std::numeric_limits<int64_t>::max();
  for (CopyGroup &g : groups)
    slots = std::min(slots, g.acquire.getRing().getType().getSlots());
  return slots > 1 ? doubleBuffered(loop, groups, slots - 1)
                   : singleBuffered(loop, groups);
}
