//===- Allocate.cpp - fa2gpu-allocate -------------------------------------===//
//
// Shared memory by liveness. A ring lives from its first to its last use in the
// block's program; loops count as one point. Largest first, each ring takes the
// lowest place that is free all its life.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "llvm/Support/MathExtras.h"

namespace fa2 {
#define GEN_PASS_DEF_ALLOCATE
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct Life {
  RingCreateOp ring;
  Operation *first = nullptr, *last = nullptr;
  int64_t bytes = 0, offset = 0;

  bool meets(const Life &o) const {
    return !(last->isBeforeInBlock(o.first) || o.last->isBeforeInBlock(first));
  }
  bool sharesBytes(const Life &o) const {
    return offset < o.offset + o.bytes && o.offset < offset + bytes;
  }
};

struct AllocatePass : public fa2::impl::AllocateBase<AllocatePass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    SmallVector<Life> lives;
    kernel.walk([&](RingCreateOp op) {
      if (auto life = lifeOf(op))
        lives.push_back(*life);
    });
    llvm::stable_sort(
        lives, [](const Life &a, const Life &b) { return a.bytes > b.bytes; });
    int64_t total = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      place(lives[i], ArrayRef(lives).take_front(i));
      total = std::max(total, lives[i].offset + lives[i].bytes);
    }
    Builder b(&getContext());
    for (Life &life : lives)
      life.ring.setOffset(life.offset);
    kernel.setSharedBytes(total);
    for (Life &later : lives)
      for (Life &earlier : lives)
        if (earlier.last->isBeforeInBlock(later.first) &&
            later.sharesBytes(earlier))
          separate(earlier.last, later.first);
  }

  static std::optional<Life> lifeOf(RingCreateOp op) {
    Life life{op};
    auto tile = op.getRing().getType().getTile();
    life.bytes =
        llvm::alignTo(sharedLayout(tile).bytes(), SharedLayout::kAlignment) *
        op.getRing().getType().getSlots();
    // Every use of the ring, and of its slots, in the block's program.
    SmallVector<Operation *> users(op.getRing().getUsers());
    for (size_t i = 0; i < users.size(); ++i)
      if (auto slot = dyn_cast<RingSlotOp>(users[i]))
        llvm::append_range(users, slot.getTile().getUsers());
    for (size_t i = 0; i < users.size(); ++i)
      if (auto dot = dyn_cast<DotStartOp>(users[i]))
        llvm::append_range(users, dot.getD().getUsers());
    auto tiles =
        *op->getParentOfType<KernelOp>().getOps<ForEachTileOp>().begin();
    for (Operation *user : users) {
      Operation *top = tiles.getBody().findAncestorOpInRegion(*user);
      if (!life.first || top->isBeforeInBlock(life.first))
        life.first = top;
      if (!life.last || life.last->isBeforeInBlock(top))
        life.last = top;
    }
    if (!life.first)
      return std::nullopt;
    return life;
  }

  static void place(Life &life, ArrayRef<Life> placed) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Life &o : placed)
        if (life.meets(o) && life.sharesBytes(o)) {
          life.offset = o.offset + o.bytes;
          moved = true;
        }
    }
  }

  /// A barrier between the last use of some bytes and their next owner.
  static void separate(Operation *last, Operation *first) {
    for (Operation *op = last->getNextNode(); op != first;
         op = op->getNextNode())
      if (isa<BarrierOp>(op))
        return;
    OpBuilder b(first);
    BarrierOp::create(b, first->getLoc());
  }
};

} // namespace
