//===- RotateLoop.cpp - parts of a loop one tile behind -------------------===//

#include "fa2/Loops/RotateLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

/// So that prologue and epilogue always run.
static bool askForTile(scf::ForOp loop) {
  auto count = loop.getUpperBound().getDefiningOp<TileCountOp>();
  return count && count.getRange().getDefiningOp<RangeOfTiles>().makeNonempty();
}

/// Prologue and epilogue always run: of the pipeliner's choices between what
/// they compute and what the loop would have begun with, `inits`, or ended
/// with, the former are taken. A program's own choices stay.
static void settleChoices(scf::ForOp loop, ArrayRef<Value> inits,
                          Operation *end) {
  auto settle = [](arith::SelectOp select, Value otherwise) {
    if (!select || select.getFalseValue() != otherwise)
      return;
    select.replaceAllUsesWith(select.getTrueValue());
    select.erase();
  };
  for (auto [begin, init] : llvm::zip(loop.getInitArgs(), inits))
    settle(begin.getDefiningOp<arith::SelectOp>(), init);
  for (Operation *op = loop->getNextNode(); op != end;) {
    auto select = dyn_cast<arith::SelectOp>(op);
    op = op->getNextNode();
    if (select && select.getFalseValue().getDefiningOp() == loop)
      settle(select, select.getFalseValue());
  }
}

/// What the loop carries twice, as a number that both stages count, is one.
static void mergeCarried(scf::ForOp loop) {
  auto yielded = loop.getYieldedValues();
  for (size_t i = 0; i < yielded.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (yielded[i] == yielded[j] &&
          loop.getInitArgs()[i] == loop.getInitArgs()[j]) {
        loop.getRegionIterArg(i).replaceAllUsesWith(loop.getRegionIterArg(j));
        loop.getResult(i).replaceAllUsesWith(loop.getResult(j));
      }
}

FailureOr<scf::ForOp> fa2::gpu::rotateLoop(scf::ForOp loop,
                                           const LoopStages &stages) {
  if (!askForTile(loop)) {
    loop.emitError("expected a loop over the places of a range that can have a "
                   "tile always, because it is peeled");
    return failure();
  }
  Operation *after = loop->getNextNode();
  SmallVector<Value> inits(loop.getInitArgs());
  FailureOr<scf::ForOp> result = expandLoop(loop, stages);
  if (failed(result))
    return failure();
  settleChoices(*result, inits, after);
  mergeCarried(*result);
  return result;
}

//===----------------------------------------------------------------------===//
// What goes behind
//===----------------------------------------------------------------------===//

namespace {
class Behind {
public:
  explicit Behind(scf::ForOp loop) : block(*loop.getBody()) {}

  void addUsers(Operation *op) {
    Operation *top = block.findAncestorOpInBlock(*op);
    if (!top || top->hasTrait<OpTrait::IsTerminator>() ||
        !ops.insert(top).second)
      return;
    for (Operation *user : top->getUsers())
      addUsers(user);
  }

  void addRings() {
    for (auto release : block.getOps<RingReleaseOp>())
      if (RingWaitOp wait = waitOf(release); wait && isReadBehind(wait))
        ops.insert(release);
    for (auto wait : block.getOps<RingWaitOp>()) {
      auto readers = wait.getTile().getUsers();
      if (!readers.empty() && llvm::all_of(readers, [&](Operation *reader) {
            return ops.contains(reader);
          }))
        ops.insert(wait);
    }
    // What is written behind is acquired and committed there.
    for (auto acquire : block.getOps<RingAcquireOp>()) {
      auto writers = acquire.getSlot().getUsers();
      if (writers.empty() || !llvm::all_of(writers, [&](Operation *writer) {
            return ops.contains(block.findAncestorOpInBlock(*writer));
          }))
        continue;
      ops.insert(acquire);
      for (auto commit : block.getOps<RingCommitOp>())
        if (commit.getRing() == acquire.getRing() &&
            commit.getUse() == acquire.getUse())
          ops.insert(commit);
    }
  }

  /// A use that was waited for ahead: the one before the next.
  void nameAgain() {
    for (auto wait : llvm::to_vector(block.getOps<RingWaitOp>())) {
      if (ops.contains(wait))
        continue;
      Value use, slot;
      for (Operation &op : llvm::make_early_inc_range(block)) {
        auto release = dyn_cast<RingReleaseOp>(op);
        bool releases = release && waitOf(release) == wait;
        bool reads = llvm::is_contained(op.getOperands(), wait.getTile());
        if (!ops.contains(&op) || !(releases || reads))
          continue;
        OpBuilder b(&op);
        Location loc = op.getLoc();
        if (!use) {
          Value one = arith::ConstantIndexOp::create(b, loc, 1);
          use = arith::SubIOp::create(b, loc, wait.getNext(), one);
          ops.insert(one.getDefiningOp());
          ops.insert(use.getDefiningOp());
        }
        if (releases) {
          release.getUseMutable().assign(use);
          continue;
        }
        if (!slot) {
          slot = RingSlotOp::create(b, loc, wait.getTile().getType(),
                                    wait.getRing(), use);
          ops.insert(slot.getDefiningOp());
        }
        op.replaceUsesOfWith(wait.getTile(), slot);
      }
    }
  }

  /// Numbers are computed once more, not carried: one copy for all, so that a
  /// use is still the same number wherever it is named.
  void ownNumbers() {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (ops.contains(&op))
        ownOperands(&op);
  }

  llvm::DenseSet<Operation *> ops;

private:
  RingWaitOp waitOf(RingReleaseOp release) {
    for (auto wait : block.getOps<RingWaitOp>())
      if (wait.getRing() == release.getRing() &&
          wait.getUse() == release.getUse())
        return wait;
    return {};
  }

  bool isReadBehind(RingWaitOp wait) {
    return llvm::any_of(wait.getTile().getUsers(), [&](Operation *reader) {
      return ops.contains(block.findAncestorOpInBlock(*reader));
    });
  }

  void ownOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *def = operand.get().getDefiningOp();
      if (!def || def->getBlock() != &block || !isPure(def) ||
          ops.contains(def) || isa<RankedTensorType>(operand.get().getType()))
        continue;
      Operation *copy = copies.lookup(def);
      if (!copy) {
        copy = copies[def] = OpBuilder(op).clone(*def);
        ops.insert(copy);
        ownOperands(copy);
      }
      operand.set(
          copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
    }
  }

  Block &block;
  llvm::DenseMap<Operation *, Operation *> copies;
};
} // namespace

llvm::DenseSet<Operation *> fa2::gpu::takeBehind(scf::ForOp loop,
                                                 ArrayRef<Operation *> first) {
  Behind behind(loop);
  for (Operation *op : first)
    behind.addUsers(op);
  behind.addRings();
  behind.nameAgain();
  behind.ownNumbers();
  return std::move(behind.ops);
}
