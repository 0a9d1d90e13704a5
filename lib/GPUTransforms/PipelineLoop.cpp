//===- PipelineLoop.cpp - fa2gpu-pipeline ---------------------------------===//
//
// Copies of the next tiles run beside a tile's work: stagesOfCopies says which,
// expandLoop does it.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Loops/CopyStages.h"

namespace fa2 {
#define GEN_PASS_DEF_PIPELINELOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

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

  static LogicalResult pipeline(scf::ForOp loop) {
    LoopStages stages = stagesOfCopies(loop);
    if (stages.empty())
      return success();
    FailureOr<scf::ForOp> result = expandLoop(loop, stages, predicate);
    if (failed(result))
      return failure();
    // A loop around it needs none of them earlier either.
    for (scf::ForOp outer = *result; outer;
         outer = outer->getParentOfType<scf::ForOp>())
      sinkWaits(outer);
    return success();
  }

  /// Tiles waited for before the loop are needed only in it: the loop's first
  /// copies are issued before those waits.
  static void sinkWaits(scf::ForOp loop) {
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
};

} // namespace
