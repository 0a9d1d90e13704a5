//===- GiveTurns.cpp - fa2gpu-give-turns ----------------------------------===//
//
// A role that adds to a sum in turns hears from one that looks for them, and
// tells one that passes them on: rings whose tiles carry nothing but that.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Rings/Cursors.h"
#include "fa2/Rings/RingFormer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fa2 {
#define GEN_PASS_DEF_GIVETURNS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// What one tile's additions to a sum are made of, in the block where they
/// stand: the first that waits for a turn and the last, which passes it on.
struct Addition {
  Operation *first = nullptr; // fa2.resume or fa2.accumulate
  AccumulateOp last;
};

struct GiveTurnsPass : public fa2::impl::GiveTurnsBase<GiveTurnsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    auto plan = kernel->getAttrOfType<PlanAttr>(kPlanName);
    if (!plan || !plan.findRole(kLooksRole) || !plan.findRole(kPassesRole))
      return;
    SmallVector<Addition> additions;
    Addition next;
    WalkResult result = kernel.walk([&](Operation *op) {
      auto add = dyn_cast<AccumulateOp>(op);
      auto resume = dyn_cast<ResumeOp>(op);
      if (!(add && add.getTurns()) && !resume)
        return WalkResult::advance();
      if (resume ? bool(resume.getSharedRow()) : bool(add.getSharedRow())) {
        op->emitOpError() << "expected a turn of its own for each tile, where "
                             "a role of its own looks for it";
        return WalkResult::interrupt();
      }
      if (!next.first && (resume ? resume.getBegins() : add.getBegins()))
        next.first = op;
      if (add && add.getEnds()) {
        next.last = add;
        additions.push_back(next);
        next = {};
      }
      return WalkResult::advance();
    });
    const Target *target = targetOf(kernel);
    if (result.wasInterrupted() || !target)
      return signalPassFailure();
    if (additions.empty())
      return;
    if (additions.size() > 1) {
      additions.back().last.emitOpError()
          << "expected one sum that blocks add to in turns, whose rings are '"
          << kTurnRing << "' and '" << kAddedRing << "'";
      return signalPassFailure();
    }
    RingFormer former{kernel, *target, plan};
    give(former, additions.front());
  }

  void give(RingFormer &former, Addition of) {
    MLIRContext *ctx = &getContext();
    AccumulateOp last = of.last;
    Location loc = last.getLoc();
    auto loop = dyn_cast<ForTilesOp>(last->getParentOp());
    if (!loop || !of.first || of.first->getParentOp() != loop) {
      last.emitOpError() << "expected additions to a tile in one loop over "
                            "tiles, whose turns are looked for ahead";
      return signalPassFailure();
    }
    auto named = [&](StringRef name) { return StringAttr::get(ctx, name); };
    StringAttr looks = named(kLooksRole), passes = named(kPassesRole),
               adds = roleOf(last);
    auto tile = RankedTensorType::get({1}, IntegerType::get(ctx, 32),
                                      SharedAttr::get(ctx, /*panel=*/0));
    // Behind wider tiles, whose bytes would else begin further on.
    auto rings = llvm::to_vector(former.kernel.getOps<RingCreateOp>());
    llvm::erase_if(rings, [](RingCreateOp op) { return isQueue(op); });
    auto ring = [&](StringRef name) {
      Value made =
          former.createRing(loc, name, tile, former.plan.slotsOf(name));
      if (!rings.empty())
        made.getDefiningOp()->moveAfter(rings.back());
      return made;
    };
    Value come = ring(kTurnRing), added = ring(kAddedRing);
    IRRewriter b(loop);
    Value none = arith::ConstantIntOp::create(b, loc, 0, 32);
    b.setInsertionPoint(of.first);
    Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded

    createFor<RingAcquireOp>(looks, b, loc, tile, come, use);
    auto await = createFor<AwaitTurnOp>(
        looks, b, loc, last.getTurns(), last.getRow(), /*step=*/use,
        last.getTurn(), /*seen=*/Value(none), last.getAtLeast());
    createFor<RingCommitOp>(looks, b, loc, come, use);
    createFor<RingWaitOp>(adds, b, loc, tile, come, use);

    b.setInsertionPointAfter(last);
    createFor<RingReleaseOp>(adds, b, loc, come, use);
    createFor<RingAcquireOp>(adds, b, loc, tile, added, use);
    createFor<RingCommitOp>(adds, b, loc, added, use);
    createFor<RingWaitOp>(passes, b, loc, tile, added, use);
    createFor<ChangeTurnOp>(passes, b, loc, Type(), last.getTurns(),
                            last.getRow(), Value(), Value());
    createFor<RingReleaseOp>(passes, b, loc, added, use);

    // Whoever adds waits and passes on no more.
    last->getBlock()->walk([&](Operation *op) {
      if (auto add = dyn_cast<AccumulateOp>(op); add && add.getTurns()) {
        add.setGiven(true);
      } else if (auto resume = dyn_cast<ResumeOp>(op)) {
        resume.setBegins(false);
      }
    });
    lookAhead(await, loop, last);
    decided(last, "fa2gpu-give-turns", "turn",
            "role {0} looks for turns ahead, and role {1} passes them on",
            kLooksRole, kPassesRole);
    for (Value made : {come, added})
      threadCursors(former.kernel.getBody().front(), made, /*phases=*/true);
  }

  /// What has been seen ahead goes from tile to tile, which are `step` rows on.
  static void lookAhead(AwaitTurnOp await, ForTilesOp loop, AccumulateOp add) {
    IRRewriter b(loop);
    Location loc = await.getLoc();
    int64_t rows =
        cast<RankedTensorType>(add.getTile().getType()).getDimSize(0);
    Value step = arith::ConstantIndexOp::create(b, loc, rows);
    auto range = loop.getRange().getDefiningOp<QRangeOp>();
    if (range && range.getFalling())
      step = arith::SelectOp::create(
          b, loc, range.getFalling(),
          arith::ConstantIndexOp::create(b, loc, -rows), step);
    await.getStepMutable().assign(step);
    LogicalResult carried =
        cast<LoopLikeOpInterface>(loop.getOperation())
            .replaceWithAdditionalYields(
                b, await.getSeen(), /*replaceInitOperandUsesInLoop=*/false,
                [&](OpBuilder &, Location, ArrayRef<BlockArgument> carried) {
                  await.getSeenMutable().assign(carried.front());
                  return SmallVector<Value>{await.getNext()};
                });
    assert(succeeded(carried));
    (void)carried;
  }
};

} // namespace
