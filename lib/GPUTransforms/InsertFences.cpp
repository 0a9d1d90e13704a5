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
    getOperation().walk([](RingReleaseOp release) {
      // What lanes read one by one, before it is written again: all lanes have
      // read. Before the copy engine writes there one thread fences for all,
      // the one that copies; a fence of theirs would wait for all that they
      // have in flight.
      if (release->getParentOfType<RolesOp>() && isReadByLanes(release)) {
        OpBuilder b(release);
        if (isCopied(release.getRing()) && !fenceCopies(release.getRing()))
          ProxyFenceOp::create(b, release.getLoc());
        WarpBarrierOp::create(b, release.getLoc());
      }
    });
    // Columns that lanes hold, and vectors that they gather from, are read long
    // before their slot is released, and other slots may be released in
    // between, by one lane.
    getOperation().walk([](Operation *read) {
      auto holds = [&](Operation *user) {
        auto dot = dyn_cast<DotStartOp>(user);
        return dot && dot.getHeld() == read->getResult(0);
      };
      if (read->getParentOfType<RolesOp>() &&
          (isa<GatherOp>(read) ||
           (isa<LocalLoadOp>(read) && llvm::any_of(read->getUsers(), holds)))) {
        OpBuilder b(read->getContext());
        b.setInsertionPointAfter(read);
        WarpBarrierOp::create(b, read->getLoc());
      }
    });
    getOperation().walk([](RingCommitOp commit) {
      // Threads' copies and writes, for whoever waits for them in another role.
      if (!commit->getParentOfType<RolesOp>() || isCopied(commit.getRing()))
        return;
      OpBuilder b(commit);
      if (isCopiedByThreads(commit.getRing())) {
        CopyCommitOp::create(b, commit.getLoc());
        CopyWaitOp::create(b, commit.getLoc(), 0);
      }
      if (isReadByEngines(commit.getRing()))
        ProxyFenceOp::create(b, commit.getLoc());
    });
  }

  static bool isCopiedByThreads(Value ring) {
    return llvm::any_of(ring.getUsers(), [](Operation *user) {
      auto acquire = dyn_cast<RingAcquireOp>(user);
      return acquire &&
             llvm::any_of(acquire.getSlot().getUsers(), llvm::IsaPred<CopyOp>);
    });
  }

  /// Has copies into the ring fence, unless parts of a slot are filled one by
  /// one.
  static bool fenceCopies(Value ring) {
    if (cast<RingType>(ring.getType()).getParts() > 1)
      return false;
    for (Operation *user : ring.getUsers())
      if (auto acquire = dyn_cast<RingAcquireOp>(user))
        acquire.setFences(true);
    return true;
  }

  /// Whether threads of the role read the ring's tiles by themselves: vectors,
  /// and what a matmul takes from registers.
  static bool isReadByLanes(RingReleaseOp release) {
    Value ring = release.getRing();
    if (cast<RingType>(ring.getType()).getTile().getRank() == 1)
      return true;
    auto roles = release->getParentOfType<RolesOp>();
    return llvm::any_of(ring.getUsers(), [&](Operation *user) {
      auto wait = dyn_cast<RingWaitOp>(user);
      return wait && roles.getRoleOf(wait) == roles.getRoleOf(release) &&
             llvm::any_of(wait.getTile().getUsers(),
                          llvm::IsaPred<LocalLoadOp>);
    });
  }

  /// Whether each warpgroup reads rows of its own of the slot that `store`
  /// takes the place of.
  static bool isReadByRows(TensorStoreOp store) {
    auto wait = store.getSlot().getDefiningOp<RingWaitOp>();
    if (!wait)
      return true; // a slot of the output's own
    auto roles = store->getParentOfType<RolesOp>();
    return wait.getRing().getType().getParts() > 1 ||
           roles.getWarps()[roles.getRoleOf(store)] == kGroupWarps;
  }

  /// Another role wrote the tile: before its slot is released it has been read.
  /// Behind loops of such stores the role does all else first.
  static LogicalResult finish(TensorStoreOp store, RingWaitOp wait) {
    for (Operation *at = store; !isa<RolesOp>(at->getParentOp());
         at = at->getParentOp())
      for (Operation *op = at->getNextNode(); op; op = op->getNextNode())
        if (auto release = dyn_cast<RingReleaseOp>(op);
            release && release.getRing() == wait.getRing()) {
          if (at != store)
            release->moveBefore(release->getBlock(),
                                endOf(release->getBlock()));
          OpBuilder b(release);
          StoreWaitOp::create(b, store.getLoc());
          return success();
        }
    return store.emitOpError() << "expected fa2gpu.ring.release of its slot "
                                  "behind it, in its block or one around it";
  }

  static Block::iterator endOf(Block *block) {
    return block->mightHaveTerminator()
               ? Block::iterator(block->getTerminator())
               : block->end();
  }

  /// Whether a role stores there more than once.
  static bool repeats(TensorStoreOp store) {
    Operation *around = store->getParentOp();
    while (isa<ForEachTileOp>(around)) // a block's one tile
      around = around->getParentOp();
    return !isa<RolesOp>(around);
  }

  /// Has the slot released when all that the role does is done, so that nobody
  /// waits between stores.
  static void releaseLast(TensorStoreOp store) {
    auto wait = store.getSlot().getDefiningOp<RingWaitOp>();
    Block *block = store->getBlock();
    OpBuilder b(block, endOf(block));
    StoreWaitOp::create(b, store.getLoc());
    for (Operation *op = store->getNextNode(); op && wait;
         op = op->getNextNode())
      if (auto release = dyn_cast<RingReleaseOp>(op);
          release && release.getRing() == wait.getRing()) {
        release->moveBefore(block, b.getInsertionPoint());
        return;
      }
  }

  LogicalResult fence(TensorStoreOp store) {
    LocalStoreOp write;
    for (Operation *user : store.getSlot().getUsers())
      if (auto op = dyn_cast<LocalStoreOp>(user))
        write = op;
    if (auto wait = store.getSlot().getDefiningOp<RingWaitOp>(); wait && !write)
      return finish(store, wait);
    if (!write)
      return store.emitOpError()
             << "expected a slot that fa2gpu.local_store writes";
    if (!store->getParentOfType<RolesOp>())
      return store.emitOpError()
             << "expected fa2gpu.roles around it; run fa2gpu-specialize-warps";
    Location loc = store.getLoc();
    OpBuilder b(store);
    // Writes by threads, then the fence of each, then the meeting.
    bool ownRows = store.getAcross() == 1;
    auto meet = [&](bool groups) {
      if (groups)
        GroupBarrierOp::create(b, loc, IntegerAttr{});
      else
        RoleBarrierOp::create(b, loc, IntegerAttr{});
    };
    ProxyFenceOp::create(b, loc);
    meet(ownRows);

    auto own = store.getSlot().getDefiningOp<RingAcquireOp>();
    b.setInsertionPoint(write);
    if (own) {
      // The slot is the output's own: the tile before may still be read.
      if (repeats(store)) {
        StoreWaitOp::create(b, loc);
        meet(ownRows);
      }
      b.setInsertionPoint(own);
      auto slot = RingSlotOp::create(b, loc, own.getSlot().getType(),
                                     own.getRing(), own.getUse());
      own.getSlot().replaceAllUsesWith(slot.getTile());
      own.getNext().replaceAllUsesWith(own.getUse());
      own.erase();
      // Shared memory outlives the last store's reads.
      if (!repeats(store)) {
        releaseLast(store);
        return success();
      }
      Operation *last = store;
      while (!isa<RolesOp>(last->getParentOp()))
        last = last->getParentOp();
      b.setInsertionPointAfter(last);
      StoreWaitOp::create(b, loc);
    } else {
      // It is another tile's, which all have read before it is overwritten, and
      // whose release must find the store done.
      meet(ownRows && isReadByRows(store));
      if (!repeats(store)) {
        releaseLast(store);
        return success();
      }
      b.setInsertionPointAfter(store);
      StoreWaitOp::create(b, loc);
    }
    return success();
  }
};

} // namespace
