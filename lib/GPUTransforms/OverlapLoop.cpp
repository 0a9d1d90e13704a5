//===- OverlapLoop.cpp - fa2gpu-overlap -----------------------------------===//
//
// By upstream's scf pipeliner, an iteration apart: the scores, their softmax
// and the rescaling, then P V. FlashAttention-3 (arXiv:2407.08608), section
// 3.2, calls it intra-warpgroup overlap.
//
//===----------------------------------------------------------------------===//

#include "RotateLoop.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {
#define GEN_PASS_DEF_OVERLAPLOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The parts of a kv loop's body.
struct Parts {
  DotStartOp scores, output;
  DotWaitOp scoresWait, outputWait;
  RingWaitOp keys, values;
  RingReleaseOp keysRelease, valuesRelease;
  SoftmaxStepOp softmax;

  explicit operator bool() {
    return scores && output && scoresWait && outputWait && keys && values &&
           keysRelease && valuesRelease && softmax;
  }
};

template <typename Op> Op onlyUser(Value v) {
  for (Operation *user : v.getUsers())
    if (auto op = dyn_cast<Op>(user))
      return op;
  return {};
}

Parts findParts(scf::ForOp loop) {
  Parts p;
  Block *body = loop.getBody();
  for (auto dot : body->getOps<DotStartOp>())
    (dot.getTransposeB() ? p.scores : p.output) = dot;
  for (auto step : body->getOps<SoftmaxStepOp>())
    p.softmax = step;
  if (!p.scores || !p.output)
    return p;
  p.scoresWait = onlyUser<DotWaitOp>(p.scores.getD());
  p.outputWait = onlyUser<DotWaitOp>(p.output.getD());
  p.keys = p.scores.getB().getDefiningOp<RingWaitOp>();
  p.values = p.output.getB().getDefiningOp<RingWaitOp>();
  for (auto release : body->getOps<RingReleaseOp>()) {
    if (p.keys && release.getRing() == p.keys.getRing())
      p.keysRelease = release;
    if (p.values && release.getRing() == p.values.getRing())
      p.valuesRelease = release;
  }
  return p;
}

/// The pure operations in the loop that `op` needs, in order, as its own
/// copies.
void ownOperands(Operation *op, Block *body, SmallVector<Operation *> &own) {
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *def = operand.get().getDefiningOp();
    if (!def || def->getBlock() != body || !isPure(def) ||
        isa<RankedTensorType>(operand.get().getType()))
      continue;
    Operation *copy = OpBuilder(op).clone(*def);
    operand.set(
        copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
    ownOperands(copy, body, own);
    own.push_back(copy);
  }
}

LoopStages twoStages(scf::ForOp loop, Parts p) {
  Block *body = loop.getBody();
  SmallVector<Operation *> own;
  ownOperands(p.values, body, own);
  size_t beforeRelease = own.size();
  ownOperands(p.valuesRelease, body, own);

  llvm::SmallPtrSet<Operation *, 16> placed;
  LoopStages schedule;
  auto push = [&](Operation *op, unsigned stage) {
    if (placed.insert(op).second)
      schedule.push_back({op, stage});
  };
  llvm::SmallPtrSet<Operation *, 16> second(own.begin(), own.end());
  for (Operation *op :
       {p.values.getOperation(), p.output.getOperation(),
        p.outputWait.getOperation(), p.valuesRelease.getOperation()})
    second.insert(op);
  auto pushFirst = [&](Operation *end) { // up to `end`
    for (Operation &op : body->without_terminator()) {
      if (!second.contains(&op))
        push(&op, 0);
      if (&op == end)
        break;
    }
  };
  pushFirst(p.scores);
  for (Operation *op : ArrayRef(own).take_front(beforeRelease))
    push(op, 1);
  push(p.values, 1);
  push(p.output, 1);
  pushFirst(p.softmax);
  push(p.outputWait, 1);
  for (Operation *op : ArrayRef(own).drop_front(beforeRelease))
    push(op, 1);
  push(p.valuesRelease, 1);
  pushFirst(nullptr);
  return schedule;
}

struct OverlapLoopPass : public fa2::impl::OverlapLoopBase<OverlapLoopPass> {
  void runOnOperation() override {
    if (!getOperation().getSchedule().getOverlap())
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (!loop.getBody()->getOps<SoftmaxStepOp>().empty())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(overlap(loop)))
        return signalPassFailure();
  }

  LogicalResult overlap(scf::ForOp loop) {
    Parts parts = findParts(loop);
    if (!parts)
      return loop.emitError("expected a kv loop of two matmuls on rings and a "
                            "softmax between them");
    FailureOr<scf::ForOp> result = rotateLoop(loop, twoStages(loop, parts));
    if (failed(result))
      return failure();
    releaseEarly(*result);
    splitFinish(*result);
    return success();
  }

  /// The row part of the softmax's end, and the store of lse, need not wait for
  /// the last P V.
  static void splitFinish(scf::ForOp loop) {
    for (auto finish : llvm::make_early_inc_range(
             loop->getBlock()->getOps<SoftmaxFinishOp>())) {
      auto wait = finish.getO().getDefiningOp<DotWaitOp>();
      if (!wait || wait->getBlock() != loop->getBlock())
        continue;
      OpBuilder b(wait);
      auto rows =
          NormalizerOp::create(b, finish.getLoc(), finish.getM().getType(),
                               finish.getLse().getType(), finish.getM(),
                               finish.getL(), finish.getScale());
      for (Operation *user : finish.getLse().getUsers())
        if (auto store = dyn_cast<StoreOp>(user)) {
          for (Value v : {Value(store.getView()), Value(store.getRow())})
            if (Operation *def = v.getDefiningOp();
                def && def->getBlock() == wait->getBlock() &&
                wait->isBeforeInBlock(def))
              def->moveBefore(wait);
          store->moveBefore(wait);
        }
      b.setInsertionPoint(finish);
      Value out = ScaleRowsOp::create(b, finish.getLoc(),
                                      finish.getOut().getType(), finish.getO(),
                                      rows.getInverse(), /*skip_unit=*/false);
      finish.getOut().replaceAllUsesWith(out);
      finish.getLse().replaceAllUsesWith(rows.getLse());
      finish.erase();
    }
  }

  /// What only the scores read, such as the queries, is free before the last
  /// P V.
  static void releaseEarly(scf::ForOp loop) {
    SmallVector<RingReleaseOp> releases;
    for (Operation *op = loop->getNextNode(); op; op = op->getNextNode())
      if (auto release = dyn_cast<RingReleaseOp>(op))
        releases.push_back(release);
    for (RingReleaseOp release : releases) {
      bool readLater = false;
      for (Operation *user : release.getRing().getUsers())
        if (auto wait = dyn_cast<RingWaitOp>(user))
          for (Operation *reader : wait.getTile().getUsers()) {
            Operation *top = loop->getBlock()->findAncestorOpInBlock(*reader);
            readLater |= top && loop->isBeforeInBlock(top);
          }
      if (!readLater)
        release->moveAfter(loop);
    }
  }
};

} // namespace
