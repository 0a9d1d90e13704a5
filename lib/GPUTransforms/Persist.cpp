//===- Persist.cpp - fa2gpu-persist ---------------------------------------===//

#include "fa2/Dialect/FA2GPU/Roles.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fa2 {
#define GEN_PASS_DEF_PERSIST
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct PersistPass : public fa2::impl::PersistBase<PersistPass> {
  void runOnOperation() override {
    FailureOr<PlanAttr> plan = planOf(getOperation());
    if (failed(plan))
      return signalPassFailure();
    if (plan->getTiles() != TilesFrom::Queue)
      return;
    SmallVector<ForEachTileOp> loops(getOperation().getOps<ForEachTileOp>());
    // Where there are sections a number's divisions take as long as a third of
    // a tile's products. A consumer beside a producer does them in registers
    // that it has, while the producer's copies come; of more roles one does.
    bool manyRoles = plan->getRoles().size() > 2;
    for (ForEachTileOp loop : loops)
      persist(loop, manyRoles && hasSections(loop.getOrder()));
  }

  static void persist(ForEachTileOp op, bool located) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto tile = RankedTensorType::get({1}, b.getI32Type());
    Value queue = RingCreateOp::create(
        b, loc, RingType::get(b.getContext(), kQueueSlots, tile),
        b.getStringAttr("tiles"));
    auto loop = TileLoopOp::create(
        b, loc, op.getRows(), op.getHeads(), op.getBatches(), op.getBlockAttr(),
        op.getOrderAttr(), queue, ValueRange(),
        /*draws=*/UnitAttr{}, located ? b.getUnitAttr() : UnitAttr{},
        op.getClusterAttr());
    loop.getBody().takeBody(op.getBody());
    Block &body = loop.getBody().front();
    body.addArgument(b.getIndexType(), loc); // visit
    b.setInsertionPoint(body.getTerminator());
    TileYieldOp::create(b, loc, ValueRange());
    body.getTerminator()->erase();
    op.erase();
  }
};

} // namespace
