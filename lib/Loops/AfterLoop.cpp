//===- AfterLoop.cpp - what follows a loop with products behind -----------===//

#include "fa2/Loops/AfterLoop.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// What only the loop read, such as the queries, is free before the last
/// products.
static void releaseEarly(scf::ForOp loop) {
  SmallVector<RingReleaseOp> releases;
  for (Operation *op = loop->getNextNode(); op; op = op->getNextNode())
    if (auto release = dyn_cast<RingReleaseOp>(op))
      releases.push_back(release);
  for (RingReleaseOp release : releases) {
    bool readLater = false;
    for (Operation *user : release.getRing().getUsers())
      if (isa<RingWaitOp, RingSlotOp>(user))
        for (Operation *reader : user->getResult(0).getUsers()) {
          Operation *top = loop->getBlock()->findAncestorOpInBlock(*reader);
          readLater |= top && loop->isBeforeInBlock(top);
        }
    if (!readLater)
      release->moveAfter(loop);
  }
}

/// What alone reads a tile, if it scales all of the rows.
static ScaleRowsOp onlyScaledBy(Value tile) {
  if (!tile.hasOneUse())
    return {};
  auto scale = dyn_cast<ScaleRowsOp>(*tile.user_begin());
  return scale && !scale.getSkipUnit() ? scale : ScaleRowsOp();
}

/// The row part of the softmax's end, and the store of lse, need not wait for
/// the last product.
static void splitFinish(scf::ForOp loop) {
  for (auto finish : llvm::make_early_inc_range(
           loop->getBlock()->getOps<SoftmaxFinishOp>())) {
    auto wait = finish.getO().getDefiningOp<DotWaitOp>();
    if (!wait || wait->getBlock() != loop->getBlock())
      continue;
    OpBuilder b(wait);
    auto rows = NormalizerOp::create(
        b, finish.getLoc(), finish.getM().getType(), finish.getLse().getType(),
        finish.getM(), finish.getL(), finish.getScale());
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
    Value factors = rows.getInverse(), scaled = finish.getOut();
    SmallVector<ScaleRowsOp> merged; // rows are scaled once, by all factors
    while (ScaleRowsOp next = onlyScaledBy(scaled)) {
      b.setInsertionPoint(next);
      factors =
          arith::MulFOp::create(b, finish.getLoc(), factors, next.getFactors());
      merged.push_back(next);
      scaled = next.getResult();
    }
    Value out = ScaleRowsOp::create(b, finish.getLoc(), scaled.getType(),
                                    finish.getO(), factors,
                                    /*skip_unit=*/false);
    scaled.replaceAllUsesWith(out);
    finish.getLse().replaceAllUsesWith(rows.getLse());
    for (ScaleRowsOp each : llvm::reverse(merged))
      each.erase();
    finish.erase();
  }
}

void fa2::gpu::hurryAfter(scf::ForOp loop) {
  releaseEarly(loop);
  splitFinish(loop);
}
