//===- ShareBarriers.cpp - fa2gpu-share-barriers --------------------------===//

#include "Decided.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

namespace fa2 {
#define GEN_PASS_DEF_SHAREBARRIERS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct ShareBarriersPass
    : public fa2::impl::ShareBarriersBase<ShareBarriersPass> {
  void runOnOperation() override {
    for (auto vector : getOperation().getOps<RingCreateOp>()) {
      Value ring = vector.getRing();
      if (vector.getShares() ||
          vector.getRing().getType().getTile().getRank() != 1)
        continue;
      if (RingAcquireOp acquire = mostOften(ring))
        if (RingCreateOp tiles =
                isCopied(ring) ? copiedBefore(acquire) : waitedForBefore(ring))
          share(vector, tiles);
    }
    getOperation().walk([](RingWaitOp wait) {
      if (wait.getTile().use_empty() || !whyNotImplied(wait).empty())
        return;
      wait.setImplied(true);
      auto roles = wait->getParentOfType<RolesOp>();
      for (RingReleaseOp release : releasesOf(wait))
        release.setWaits(true);
      decided(wait, "fa2gpu-share-barriers", "implied",
              "role {0} does not wait for {1}, which it reads beside what was "
              "made of it",
              roles.getRoleName(roles.getRoleOf(wait)),
              wait.getRing().getDefiningOp<RingCreateOp>().getName());
    });
  }

  /// The place that fills a slot most often: in the most loops.
  static RingAcquireOp mostOften(Value ring) {
    RingAcquireOp found;
    int64_t most = -1;
    for (Operation *user : ring.getUsers())
      if (auto acquire = dyn_cast<RingAcquireOp>(user)) {
        int64_t loops = 0;
        for (Operation *op = user; op; op = op->getParentOp())
          loops += isa<LoopLikeOpInterface>(op);
        if (loops > most) {
          most = loops;
          found = acquire;
        }
      }
    return found;
  }

  /// The ring of the tile that is copied last before, if it may be shared.
  static RingCreateOp copiedBefore(RingAcquireOp vector) {
    for (Operation *op = vector->getPrevNode(); op; op = op->getPrevNode())
      if (auto acquire = dyn_cast<RingAcquireOp>(op))
        if (acquire.getRing().getType().getTile().getRank() > 1) {
          auto tiles = acquire.getRing().getDefiningOp<RingCreateOp>();
          if (!tiles)
            return {};
          Moved moved = waitForTilesFirst(vector.getRing(), tiles.getRing());
          std::string why = whyNotShared(vector.getRing(), tiles);
          if (why.empty())
            return tiles;
          for (auto [wait, next] : llvm::reverse(moved))
            wait->moveBefore(next);
          decided(vector, "fa2gpu-share-barriers", "own",
                  "{0} has mbarriers of its own beside those of {1}: {2}",
                  vector.getRing().getDefiningOp<RingCreateOp>().getName(),
                  tiles.getName(), why);
          return {};
        }
    return {};
  }

  /// Of a vector that threads of a role write for others: the ring of a tile
  /// that these wait for wherever they wait for it.
  RingCreateOp waitedForBefore(Value vector) {
    bool written = llvm::any_of(vector.getUsers(), [](Operation *user) {
      auto acquire = dyn_cast<RingAcquireOp>(user);
      return acquire && llvm::any_of(acquire.getSlot().getUsers(),
                                     llvm::IsaPred<LocalStoreOp>);
    });
    for (auto tiles : getOperation().getOps<RingCreateOp>()) {
      if (!written || tiles.getRing().getType().getTile().getRank() == 1)
        continue;
      Moved moved = waitForTilesFirst(vector, tiles.getRing());
      if (whyNotShared(vector, tiles).empty())
        return tiles;
      for (auto [wait, next] : llvm::reverse(moved))
        wait->moveBefore(next);
    }
    return {};
  }

  /// Waits, and what stood behind each of them.
  using Moved = SmallVector<std::pair<Operation *, Operation *>>;

  /// A tile is there when what is copied behind it is: to wait for it earlier
  /// in the block costs nothing.
  static Moved waitForTilesFirst(Value vectors, Value tiles) {
    Moved moved;
    for (Operation *user : vectors.getUsers())
      if (auto wait = dyn_cast<RingWaitOp>(user))
        for (Operation *other : tiles.getUsers())
          if (auto outer = dyn_cast<RingWaitOp>(other);
              outer && outer.getUse() == wait.getUse() &&
              outer->getBlock() == wait->getBlock() &&
              wait->isBeforeInBlock(outer)) {
            moved.push_back({outer, outer->getNextNode()});
            outer->moveBefore(wait);
          }
    return moved;
  }

  static void share(RingCreateOp vector, RingCreateOp tiles) {
    vector->moveAfter(tiles);
    vector.getSharesMutable().assign(tiles.getRing());
    bool fences = copiesFence(vector.getRing());
    for (Operation *user : tiles.getRing().getUsers())
      if (auto acquire = dyn_cast<RingAcquireOp>(user); acquire && fences)
        acquire.setFences(true);
    decided(vector, "fa2gpu-share-barriers", "share",
            "{0} arrives with {1} and is released before it", vector.getName(),
            tiles.getName());
  }
};

} // namespace
