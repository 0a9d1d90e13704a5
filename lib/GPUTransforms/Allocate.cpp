//===- Allocate.cpp - fa2gpu-allocate -------------------------------------===//
//
// Shared memory by liveness. A ring lives from its first to its last use in the
// block's program; loops count as one point. Largest first, each ring takes the
// lowest place that is free all its life.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Target/Target.h"

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
  int64_t bytes = 0, alignment = 0, offset = 0;

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
    for (auto roles : kernel.getOps<RolesOp>())
      return allocateForRoles(roles);
    auto programs = kernel.getOps<ForEachTileOp>();
    if (!llvm::hasSingleElement(programs)) {
      kernel.emitOpError()
          << "expected one fa2.for_each_tile because lives are "
             "counted along its body";
      return signalPassFailure();
    }
    Block &program = (*programs.begin()).getBody().front();
    SmallVector<Life> lives;
    bool known = true;
    kernel.walk([&](RingCreateOp op) {
      FailureOr<Life> life = lifeOf(op, program);
      known &= succeeded(life);
      if (succeeded(life) && life->first)
        lives.push_back(*life);
    });
    if (!known)
      return signalPassFailure();
    llvm::stable_sort(
        lives, [](const Life &a, const Life &b) { return a.bytes > b.bytes; });
    int64_t total = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      place(lives[i], ArrayRef(lives).take_front(i));
      total = std::max(total, lives[i].offset + lives[i].bytes);
    }
    if (failed(checkLimit(kernel, total)))
      return signalPassFailure();
    for (Life &life : lives)
      life.ring.setOffset(life.offset);
    kernel.setSharedBytes(total);
    say(kernel, total);
    for (Life &later : lives)
      for (Life &earlier : lives)
        if (earlier.last->isBeforeInBlock(later.first) &&
            later.sharesBytes(earlier))
          separate(earlier.last, later.first);
  }

  static void say(KernelOp kernel, int64_t total) {
    decided(kernel, "fa2gpu-allocate", "shared-memory",
            "{0} bytes of shared memory", total);
    for (auto ring : kernel.getOps<RingCreateOp>())
      decided(ring, "fa2gpu-allocate", "place", "{0} is at byte {1}",
              ring.getName(), ring.getOffset().value_or(0));
  }

  /// Where roles run side by side every ring has bytes of its own, and those
  /// whose uses are waited for have mbarriers.
  void allocateForRoles(RolesOp roles) {
    KernelOp kernel = getOperation();
    int64_t total = 0;
    OpBuilder b(roles);
    for (auto ring : kernel.getOps<RingCreateOp>())
      if (!isQueue(ring)) {
        SharedLayout layout = sharedLayout(ring.getRing().getType().getTile());
        total = llvm::alignTo(total, layout.alignment());
        ring.setOffset(total);
        total += ringBytes(ring);
      }
    for (auto ring : kernel.getOps<RingCreateOp>()) {
      if ((!isQueue(ring) && !isWaitedFor(ring.getRing())) || ring.getShares())
        continue;
      ring.setBarriers(total);
      total += barrierBytes(ring);
      if (isQueue(ring)) {
        ring.setOffset(total);
        total += ringBytes(ring);
      }
      RingArrivals arrivals = arrivalsOf(ring.getRing(), roles);
      RingInitOp::create(b, ring.getLoc(), ring.getRing(), arrivals.consumers,
                         arrivals.fillers);
    }
    for (auto ring : kernel.getOps<RingCreateOp>())
      for (RingCreateOp sharer : sharersOf(ring.getRing()))
        sharer.setBarriersAttr(ring.getBarriersAttr());
    if (failed(checkLimit(kernel, total)))
      return signalPassFailure();
    kernel.setSharedBytes(total);
    say(kernel, total);
    numberBarriers(roles);
    SmallVector<bool> oneThread;
    for (Region &program : roles.getPrograms())
      oneThread.push_back(isOneThreads(program));
    roles.setOneThread(oneThread);
  }

  /// Named barriers: 0 is the whole block's, then come those of each role: of
  /// its turns, one a warpgroup, then the warpgroups' own, then the role's.
  static void numberBarriers(RolesOp roles) {
    int64_t next = 1;
    for (auto [program, warps] :
         llvm::zip(roles.getPrograms(), roles.getWarps())) {
      bool turns = false, own = false, whole = false;
      program.walk([&](Operation *op) {
        turns |= isa<TurnWaitOp, TurnPassOp>(op);
        own |= isa<GroupBarrierOp>(op);
        whole |= isa<RoleBarrierOp>(op);
      });
      int64_t groups = warps / kGroupWarps,
              group = turns ? next + groups : next,
              role = own ? group + groups : group;
      program.walk([&](Operation *op) {
        if (auto wait = dyn_cast<TurnWaitOp>(op))
          wait.setId(next);
        else if (auto pass = dyn_cast<TurnPassOp>(op))
          pass.setId(next);
        else if (auto barrier = dyn_cast<GroupBarrierOp>(op))
          barrier.setId(group);
        else if (auto barrier = dyn_cast<RoleBarrierOp>(op))
          barrier.setId(role);
      });
      next = whole ? role + 1 : role;
    }
  }

  static LogicalResult checkLimit(KernelOp kernel, int64_t bytes) {
    const Target *target = targetOf(kernel);
    if (!target)
      return failure();
    int64_t limit = target->limits().sharedBytesPerBlock;
    if (bytes > limit)
      return kernel.emitOpError()
             << "expected at most " << limit << " bytes of shared memory on "
             << target->name() << ", got " << bytes;
    return success();
  }

  /// Without uses, `first` stays null.
  static FailureOr<Life> lifeOf(RingCreateOp op, Block &program) {
    Life life{op};
    life.bytes = ringBytes(op);
    life.alignment = sharedLayout(op.getRing().getType().getTile()).alignment();
    // Every use of the ring, and of its slots, in the block's program.
    SmallVector<Operation *> users(op.getRing().getUsers());
    for (size_t i = 0; i < users.size(); ++i)
      if (auto slot = dyn_cast<RingSlotOp>(users[i]))
        llvm::append_range(users, slot.getTile().getUsers());
    for (size_t i = 0; i < users.size(); ++i)
      if (auto dot = dyn_cast<DotStartOp>(users[i]))
        llvm::append_range(users, dot.getD().getUsers());
    for (Operation *user : users) {
      Operation *top = program.findAncestorOpInBlock(*user);
      if (!top) {
        user->emitOpError() << "expected uses of a ring in the body of "
                               "fa2.for_each_tile";
        return failure();
      }
      if (!life.first || top->isBeforeInBlock(life.first))
        life.first = top;
      if (!life.last || life.last->isBeforeInBlock(top))
        life.last = top;
    }
    return life;
  }

  static void place(Life &life, ArrayRef<Life> placed) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Life &o : placed)
        if (life.meets(o) && life.sharesBytes(o)) {
          life.offset = llvm::alignTo(o.offset + o.bytes, life.alignment);
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
