//===- Allocate.cpp - fa2gpu-allocate -------------------------------------===//
//
// Places for rings in shared memory (Placement.h), by liveness: a ring lives
// from its first to its last use in the block's program; loops count as one
// point.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Schedule/Placement.h"
#include "fa2/Target/Target.h"

namespace fa2 {
#define GEN_PASS_DEF_ALLOCATE
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// A ring, where it is placed, and its uses in the block's program.
struct Life {
  RingCreateOp ring;
  Operation *first = nullptr, *last = nullptr;
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
    llvm::DenseMap<Operation *, int64_t> moments;
    for (auto [i, op] : llvm::enumerate(program))
      moments[&op] = i;
    std::vector<Piece> pieces;
    for (Life &life : lives) {
      Piece &piece = pieces.emplace_back(pieceOf(life.ring));
      piece.first = moments[life.first];
      piece.last = moments[life.last];
    }
    int64_t total = placeByLife(pieces);
    if (failed(finish(total)))
      return signalPassFailure();
    for (auto [life, piece] : llvm::zip(lives, pieces))
      life.ring.setOffset(piece.offset);
    say(kernel, total);
    for (auto [later, taken] : llvm::zip(lives, pieces))
      for (auto [earlier, given] : llvm::zip(lives, pieces))
        if (given.last < taken.first && taken.sharesBytes(given))
          separate(earlier.last, later.first);
  }

  static Piece pieceOf(RingCreateOp ring) {
    Piece piece;
    piece.bytes = ringBytes(ring);
    piece.isQueue = isQueue(ring);
    piece.alignment =
        piece.isQueue
            ? kQueueSlotBytes
            : sharedLayout(ring.getRing().getType().getTile()).alignment();
    return piece;
  }

  static void say(KernelOp kernel, int64_t total) {
    decided(kernel, "fa2gpu-allocate", "shared-memory",
            "{0} bytes of shared memory", total);
    for (auto ring : kernel.getOps<RingCreateOp>())
      decided(ring, "fa2gpu-allocate", "place", "{0} is at byte {1}",
              ring.getName(), ring.getOffset().value_or(0));
  }

  /// Where roles run side by side every ring has bytes of its own, and those
  /// whose uses are waited for have mbarriers, maybe another one's.
  void allocateForRoles(RolesOp roles) {
    KernelOp kernel = getOperation();
    auto rings = llvm::to_vector(kernel.getOps<RingCreateOp>());
    auto hasBarriers = [](RingCreateOp ring) {
      return (isQueue(ring) || isWaitedFor(ring.getRing())) &&
             !ring.getShares();
    };
    std::vector<Piece> pieces;
    for (RingCreateOp ring : rings) {
      Piece &piece = pieces.emplace_back(pieceOf(ring));
      piece.barriers = hasBarriers(ring) ? barrierBytes(ring) : 0;
    }
    int64_t total = placeSideBySide(pieces);
    OpBuilder b(roles);
    for (auto [ring, piece] : llvm::zip(rings, pieces)) {
      ring.setOffset(piece.offset);
      if (!hasBarriers(ring))
        continue;
      ring.setBarriers(piece.barriersOffset);
      RingArrivals arrivals = arrivalsOf(ring.getRing(), roles);
      RingInitOp::create(b, ring.getLoc(), ring.getRing(), arrivals.consumers,
                         arrivals.fillers);
    }
    for (RingCreateOp ring : rings)
      for (RingCreateOp sharer : sharersOf(ring.getRing()))
        sharer.setBarriersAttr(ring.getBarriersAttr());
    if (failed(finish(total)))
      return signalPassFailure();
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

  LogicalResult finish(int64_t bytes) {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return failure();
    int64_t limit = target->limits().sharedBytesPerBlock;
    if (bytes > limit)
      return kernel.emitOpError()
             << "expected at most " << limit << " bytes of shared memory on "
             << target->name() << ", got " << bytes;
    kernel.setSharedBytes(bytes);
    return success();
  }

  /// Without uses, `first` stays null.
  static FailureOr<Life> lifeOf(RingCreateOp op, Block &program) {
    Life life{op};
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
