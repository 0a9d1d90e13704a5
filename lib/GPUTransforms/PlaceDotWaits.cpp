//===- PlaceDotWaits.cpp - fa2gpu-place-dot-waits -------------------------===//

#include "Decided.h"
#include "HoldBack.h"

namespace fa2 {
#define GEN_PASS_DEF_PLACEDOTWAITS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct PlaceDotWaitsPass
    : public fa2::impl::PlaceDotWaitsBase<PlaceDotWaitsPass> {
  void runOnOperation() override {
    bool any = false;
    getOperation().walk([&](DotStartOp dot) { any |= dot.isAsynchronous(); });
    if (!any)
      return;
    SmallVector<ScaleRowsOp> lazy;
    getOperation().walk([&](ScaleRowsOp op) {
      if (op.getSkipUnit() && op.getTile().getDefiningOp<DotWaitOp>())
        lazy.push_back(op);
    });
    for (ScaleRowsOp op : lazy)
      branch(op);
    getOperation().walk([&](DotWaitOp wait) {
      auto dot = wait.getSource().getDefiningOp<DotStartOp>();
      if (dot &&
          !isa<SharedAttr>(
              cast<RankedTensorType>(dot.getA().getType()).getEncoding()))
        wait.getKeepMutable().assign(dot.getA());
      else if (dot && dot.getHeld())
        wait.getKeepMutable().assign(dot.getHeld());
    });
    SmallVector<Value> inFlight;
    for (Block &block : getOperation().getBody())
      if (failed(count(block, inFlight)))
        return signalPassFailure();
  }

  /// wait; scale if any row needs it  ->  hold; wait; if any row needs it
  /// (scale). The wait has one place, which all warps of a warpgroup come to.
  void branch(ScaleRowsOp scale) {
    auto wait = scale.getTile().getDefiningOp<DotWaitOp>();
    auto softmax = scale.getFactors().getDefiningOp<SoftmaxStepOp>();
    if (!wait->hasOneUse() || wait->getBlock() != scale->getBlock() ||
        !softmax || softmax->getBlock() != wait->getBlock() ||
        wait->isBeforeInBlock(softmax))
      return;
    OpBuilder b(wait);
    Location loc = wait.getLoc();
    Value any =
        NeedsRescaleOp::create(b, loc, softmax.getAlpha(), softmax.getNewL());
    holdBack(b, loc, any);
    b.setInsertionPoint(scale);
    auto choice =
        scf::IfOp::create(b, loc, scale.getType(), any, /*withElse=*/true);
    b.setInsertionPointToStart(choice.thenBlock());
    Value scaled = ScaleRowsOp::create(b, loc, scale.getType(), wait,
                                       scale.getFactors(), /*skip_unit=*/false);
    scf::YieldOp::create(b, loc, scaled);
    b.setInsertionPointToStart(choice.elseBlock());
    scf::YieldOp::create(b, loc, wait.getD());
    scale.replaceAllUsesWith(choice.getResult(0));
    scale.erase();
  }

  /// What the accumulator of `start` begins with is written behind `last`.
  static void fence(DotStartOp start, DotStartOp last, size_t inFlight) {
    Operation *begin =
        start.getAcc() ? start.getAcc().getDefiningOp() : nullptr;
    if (!last || !begin || begin->getBlock() != last->getBlock() ||
        begin->isBeforeInBlock(last))
      return;
    OpBuilder b(last);
    b.setInsertionPointAfter(last);
    decided(start, "fa2gpu-place-dot-waits", "fence",
            "what {0} begins with is written while {1} matmuls are in flight: "
            "a wait for none of them stands before",
            start.getName().value_or("a product"), inFlight);
    DotFenceOp::create(b, start.getLoc(), inFlight);
  }

  /// `inFlight`: matmuls started and not yet waited for, oldest first.
  LogicalResult count(Block &block, SmallVector<Value> &inFlight) {
    DotStartOp last; // since the last wait of this block
    for (Operation &op : block) {
      auto wait = dyn_cast<DotWaitOp>(op);
      DotStartOp start = wait ? wait.getSource().getDefiningOp<DotStartOp>()
                              : dyn_cast<DotStartOp>(op);
      if (start && !start.isAsynchronous())
        continue; // complete when it has been started
      if (start && !wait) {
        fence(start, last, inFlight.size());
        inFlight.push_back(start.getD());
        last = start;
      } else if (wait) {
        last = {};
        auto *it = llvm::find(inFlight, wait.getSource());
        if (it == inFlight.end())
          return wait.emitOpError()
                 << "expected a matmul that is in flight here";
        wait.setPending(inFlight.end() - it - 1);
        // Groups complete in order.
        inFlight.erase(inFlight.begin(), it + 1);
        continue;
      }
      SmallVector<Value> before = inFlight, after = inFlight;
      for (Region &region : op.getRegions())
        for (Block &inner : region) {
          SmallVector<Value> state = before;
          if (failed(count(inner, state)))
            return failure();
          after = state;
        }
      if (isa<scf::ForOp>(op) && after != before)
        return op.emitError("expected no matmul to be in flight from one "
                            "iteration to the next");
      inFlight = after;
    }
    return success();
  }
};

} // namespace
