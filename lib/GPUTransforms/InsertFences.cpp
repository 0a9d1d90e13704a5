//===- InsertFences.cpp - fa2gpu-insert-fences ----------------------------===//

#include "fa2/GPUTransforms/Passes.h"

namespace fa2 {
#define GEN_PASS_DEF_INSERTFENCES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct InsertFencesPass : public fa2::impl::InsertFencesBase<InsertFencesPass> {
  void runOnOperation() override {
    SmallVector<TensorStoreOp> stores;
    getOperation().walk([&](TensorStoreOp store) { stores.push_back(store); });
    for (TensorStoreOp store : stores)
      if (failed(fence(store)))
        return signalPassFailure();
    getOperation().walk([](RingCommitOp commit) {
      // Threads' writes, for whoever waits for them in another role.
      if (commit->getParentOfType<RolesOp>() && !isCopied(commit.getRing()) &&
          isReadByEngines(commit.getRing())) {
        OpBuilder b(commit);
        ProxyFenceOp::create(b, commit.getLoc());
      }
    });
  }

  LogicalResult fence(TensorStoreOp store) {
    LocalStoreOp write;
    for (Operation *user : store.getSlot().getUsers())
      if (auto op = dyn_cast<LocalStoreOp>(user))
        write = op;
    if (!write)
      return store.emitOpError()
             << "expected a slot that fa2gpu.local_store writes";
    if (!store->getParentOfType<RolesOp>())
      return store.emitOpError()
             << "expected fa2gpu.roles around it; run fa2gpu-specialize-warps";
    Location loc = store.getLoc();
    OpBuilder b(store);
    // Writes by threads, then the fence of each, then the meeting.
    ProxyFenceOp::create(b, loc);
    GroupBarrierOp::create(b, loc, IntegerAttr{});

    auto own = store.getSlot().getDefiningOp<RingAcquireOp>();
    b.setInsertionPoint(write);
    if (own) {
      // The slot is the output's own: the tile before may still be read.
      StoreWaitOp::create(b, loc);
      GroupBarrierOp::create(b, loc, IntegerAttr{});
      b.setInsertionPoint(own);
      auto slot = RingSlotOp::create(b, loc, own.getSlot().getType(),
                                     own.getRing(), own.getUse());
      own.getSlot().replaceAllUsesWith(slot.getTile());
      own.getNext().replaceAllUsesWith(own.getUse());
      own.erase();
      // Shared memory outlives the last store's reads.
      Operation *last = store;
      while (!isa<RolesOp>(last->getParentOp()))
        last = last->getParentOp();
      b.setInsertionPointAfter(last);
      StoreWaitOp::create(b, loc);
    } else {
      // It is another tile's, whose release must find the store done.
      GroupBarrierOp::create(b, loc, IntegerAttr{});
      b.setInsertionPointAfter(store);
      StoreWaitOp::create(b, loc);
    }
    return success();
  }
};

} // namespace
