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

/// What a role adds to one tile of a sum: its first addition, or the sum that
/// its product begins with, and its last.
struct Addition {
  Operation *first = nullptr; // fa2.resume or fa2.accumulate
  AccumulateOp last;
};

/// Those of all roles that add to the tile, in one turn.
using Additions = llvm::MapVector<StringAttr, Addition>;

/// Whether its turns are looked for by another role.
bool isGiven(AccumulateOp add) {
  ScheduleAttr schedule = add->getParentOfType<KernelOp>().getSchedule();
  return add.getTurns() && add.changeIn(schedule) == TurnChange::ByRoles;
}

struct GiveTurnsPass : public fa2::impl::GiveTurnsBase<GiveTurnsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    auto plan = kernel->getAttrOfType<PlanAttr>(kPlanName);
    if (!plan || !plan.findRole(kLooksRole) || !plan.findRole(kPassesRole))
      return;
    Additions additions;
    AccumulateOp last;
    WalkResult result = kernel.walk([&](Operation *op) {
      auto add = dyn_cast<AccumulateOp>(op);
      auto resume = dyn_cast<ResumeOp>(op);
      if (!(add && isGiven(add)) && !resume)
        return WalkResult::advance();
      if (resume ? bool(resume.getSharedRow()) : bool(add.getSharedRow())) {
        op->emitOpError() << "expected a turn of its own for each tile, where "
                             "a role of its own looks for it";
        return WalkResult::interrupt();
      }
      if (last && last.getEnds()) {
        op->emitOpError() << "expected one sum that blocks add to in turns, "
                             "whose rings are '"
                          << kTurnRing << "' and '" << kAddedRing << "'";
        return WalkResult::interrupt();
      }
      Addition &of = additions[roleOf(op)];
      if (!of.first)
        of.first = op;
      if (add)
        of.last = last = add;
      return WalkResult::advance();
    });
    const Target *target = targetOf(kernel);
    if (result.wasInterrupted() || !target)
      return signalPassFailure();
    if (!last)
      return;
    auto loop = dyn_cast<ForTilesOp>(last->getParentOp());
    for (auto &[role, of] : additions)
      if (!loop || !of.last || of.first->getParentOp() != loop ||
          of.last->getParentOp() != loop) {
        last.emitOpError() << "expected additions to a tile in one loop over "
                              "tiles, whose turns are looked for ahead";
        return signalPassFailure();
      }
    RingFormer former{kernel, *target, plan};
    give(former, additions, loop, last);
  }

  void give(RingFormer &former, Additions &additions, ForTilesOp loop,
            AccumulateOp last) {
    MLIRContext *ctx = &getContext();
    Location loc = last.getLoc();
    auto named = [&](StringRef name) { return StringAttr::get(ctx, name); };
    StringAttr looks = named(kLooksRole), passes = named(kPassesRole);
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
    SmallVector<Value> made{ring(kTurnRing)};
    Value come = made.front();
    IRRewriter b(loop);
    Value none = arith::ConstantIntOp::create(b, loc, 0, 32);
    Operation *first = additions.front().second.first;
    b.setInsertionPoint(first);
    Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded

    auto slot = createFor<RingAcquireOp>(looks, b, loc, tile, come, use);
    auto await = createFor<AwaitTurnOp>(looks, b, loc, last.getTurns(),
                                        last.getRow(), /*step=*/use,
                                        last.getTurn(), /*seen=*/Value(none),
                                        slot.getSlot(), last.getAtLeast());
    createFor<RingCommitOp>(looks, b, loc, come, use);

    // Whoever adds waits and passes on no more.
    for (auto &[role, of] : additions) {
      b.setInsertionPoint(of.first);
      Value added = made.emplace_back(ring(kAddedRing));
      auto given = createFor<RingWaitOp>(role, b, loc, tile, come, use);
      auto told = createFor<RingAcquireOp>(role, b, loc, tile, added, use);
      bool begins = true;
      for (Operation &op : *loop.getBody().begin()) {
        auto add = dyn_cast<AccumulateOp>(op);
        auto resume = dyn_cast<ResumeOp>(op);
        if (resume && roleOf(resume) == role)
          resume.setBegins(false);
        if (!add || !isGiven(add) || roleOf(add) != role)
          continue;
        add.getGivenMutable().assign(given.getTile());
        add.getToldMutable().assign(told.getSlot());
        add.setBegins(begins);
        add.setEnds(add == of.last);
        begins = false;
      }
      b.setInsertionPointAfter(of.last);
      createFor<RingReleaseOp>(role, b, loc, come, use);
      createFor<RingCommitOp>(role, b, loc, added, use);
    }
    for (Value added : ArrayRef(made).drop_front())
      createFor<RingWaitOp>(passes, b, loc, tile, added, use);
    createFor<ChangeTurnOp>(passes, b, loc, Type(), last.getTurns(),
                            last.getRow(), Value(), Value());
    for (Value added : ArrayRef(made).drop_front())
      createFor<RingReleaseOp>(passes, b, loc, added, use);
    lookAhead(await, loop, last);
    decided(last, "fa2gpu-give-turns", "turn",
            "role {0} looks for turns ahead, and role {1} passes them on",
            kLooksRole, kPassesRole);
    for (Value ring : made)
      threadCursors(former.kernel.getBody().front(), ring, /*phases=*/true);
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
