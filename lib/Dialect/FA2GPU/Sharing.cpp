//===- Sharing.cpp - rings that share mbarriers ---------------------------===//

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using llvm::formatv;

bool fa2::gpu::sharesBarriers(Value ring) {
  auto create = ring.getDefiningOp<RingCreateOp>();
  return create && create.getShares();
}

SmallVector<RingCreateOp> fa2::gpu::sharersOf(Value ring) {
  SmallVector<RingCreateOp> sharers;
  for (Operation *user : ring.getUsers())
    if (auto create = dyn_cast<RingCreateOp>(user))
      sharers.push_back(create);
  return sharers;
}

/// The operation of this kind on use `use` of `ring` in the block of `at`.
template <typename Op> static Op sameUse(Operation *at, Value ring, Value use) {
  for (Operation *user : ring.getUsers())
    if (auto op = dyn_cast<Op>(user);
        op && op.getUse() == use && op->getBlock() == at->getBlock())
      return op;
  return {};
}

/// A number as another and what is added to it.
static std::pair<Value, int64_t> withoutConstant(Value number) {
  llvm::APInt by;
  int64_t sum = 0;
  for (;;) {
    if (auto add = number.getDefiningOp<arith::AddIOp>();
        add && matchPattern(add.getRhs(), m_ConstantInt(&by))) {
      sum += by.getSExtValue();
      number = add.getLhs();
    } else if (auto subtract = number.getDefiningOp<arith::SubIOp>();
               subtract &&
               matchPattern(subtract.getRhs(), m_ConstantInt(&by))) {
      sum -= by.getSExtValue();
      number = subtract.getLhs();
    } else {
      return {number, sum};
    }
  }
}

/// Whether a release of use `use` of `ring`, or what may hold one, stands from
/// `first` to `last`, which are of one block.
static bool isReleasedWithin(Value ring, Value use, Operation *first,
                             Operation *last) {
  auto [of, by] = withoutConstant(use);
  return llvm::any_of(ring.getUsers(), [&, of = of, by = by](Operation *user) {
    auto release = dyn_cast<RingReleaseOp>(user);
    if (!release)
      return false;
    auto [other, offset] = withoutConstant(release.getUse());
    if (other == of && offset != by)
      return false;
    Operation *at = first->getBlock()->findAncestorOpInBlock(*user);
    return at && !at->isBeforeInBlock(first) && at->isBeforeInBlock(last);
  });
}

/// A use of the vectors is waited for behind the same use of the tiles, and
/// released in the same block while that is held.
static std::string whyNotHeld(RingWaitOp wait, Value tiles) {
  auto outer = sameUse<RingWaitOp>(wait, tiles, wait.getUse());
  if (!outer || !outer->isBeforeInBlock(wait))
    return "a use is not waited for behind the tile's in its block";
  auto release = sameUse<RingReleaseOp>(wait, wait.getRing(), wait.getUse());
  if (!release || release->isBeforeInBlock(wait))
    return "a use is not released in the block where it is waited for";
  if (isReleasedWithin(tiles, wait.getUse(), outer, release))
    return "a tile is released before what arrived with it";
  return "";
}

std::string fa2::gpu::whyNotShared(Value vectors, RingCreateOp create) {
  Value tiles = create.getRing();
  auto inner = cast<RingType>(vectors.getType()),
       outer = cast<RingType>(tiles.getType());
  // Threads of a role arrive at a tile's mbarriers beside its copy.
  bool byThreads = !isCopied(vectors);
  if (!isCopied(tiles) || create.getShares())
    return "the tiles must be filled by copies, and have mbarriers";
  if (inner.getSlots() != outer.getSlots() || inner.getParts() != 1 ||
      outer.getParts() != 1)
    return formatv("they must have as many slots, in one part, got {0} and {1}",
                   inner, outer);
  int64_t acquired = 0, filled = 0;
  for (Operation *user : tiles.getUsers())
    acquired += isa<RingAcquireOp>(user);
  for (Operation *user : vectors.getUsers()) {
    if (auto acquire = dyn_cast<RingAcquireOp>(user)) {
      if (byThreads)
        continue;
      auto before = sameUse<RingAcquireOp>(user, tiles, acquire.getUse());
      if (!before || !before->isBeforeInBlock(user))
        return "a use is not acquired behind the tile's in its block";
      ++filled;
    } else if (auto wait = dyn_cast<RingWaitOp>(user)) {
      if (std::string why = whyNotHeld(wait, tiles); !why.empty())
        return why;
    } else if (auto release = dyn_cast<RingReleaseOp>(user)) {
      if (!sameUse<RingWaitOp>(user, vectors, release.getUse()))
        return "a use is not released in the block where it is waited for";
    }
  }
  if (!byThreads && filled != acquired)
    return formatv("each use of the tiles must be one of the vectors', got {0} "
                   "places that fill these and {1} that fill those",
                   filled, acquired);
  return "";
}

/// The ring of a tile that is read in the same product as `tile`, if threads
/// of another role fill it.
static Value filledBeside(DotStartOp dot, Value tile, RolesOp roles) {
  for (Value other : {dot.getA(), dot.getB()}) {
    Operation *source = other.getDefiningOp();
    if (other == tile || !isa_and_nonnull<RingWaitOp, RingSlotOp>(source))
      continue;
    Value ring = source->getOperand(0);
    bool elsewhere = llvm::all_of(ring.getUsers(), [&](Operation *user) {
      return !isa<RingCommitOp>(user) ||
             roles.getRoleOf(user) != roles.getRoleOf(dot);
    });
    if (!isCopied(ring) && elsewhere)
      return ring;
  }
  return {};
}

/// The wait of a role's tile for a use of the ring, in front of all else in
/// which `op` stands; null where there is none or another one.
static RingWaitOp waitInFront(Operation *op, Value ring) {
  RingWaitOp found;
  for (Operation *user : ring.getUsers())
    if (auto wait = dyn_cast<RingWaitOp>(user);
        wait && wait->getParentOfType<RolesOp>() &&
        wait->getParentOfType<RolesOp>().getRoleOf(wait) ==
            wait->getParentOfType<RolesOp>().getRoleOf(op)) {
      if (found)
        return {};
      found = wait;
    }
  Operation *top =
      found ? found->getBlock()->findAncestorOpInBlock(*op) : nullptr;
  bool ofTile = found && isa<ForEachTileOp, TileLoopOp>(found->getParentOp());
  return top && ofTile && found->isBeforeInBlock(top) && !found.getImplied()
             ? found
             : RingWaitOp();
}

std::string fa2::gpu::whyNotImplied(RingWaitOp wait) {
  auto roles = wait->getParentOfType<RolesOp>();
  if (!roles || !isa<ForEachTileOp, TileLoopOp>(wait->getParentOp()))
    return "it is not the one wait of a tile of a role";
  for (Operation *user : wait.getTile().getUsers()) {
    auto dot = dyn_cast<DotStartOp>(user);
    Value made = dot ? filledBeside(dot, wait.getTile(), roles) : Value();
    if (!made)
      return "something reads the tile beside nothing that another role made";
    for (Operation *commit : made.getUsers())
      if (isa<RingCommitOp>(commit) && !waitInFront(commit, wait.getRing()))
        return formatv("ring '{0}' is filled without having waited for it",
                       made.getDefiningOp<RingCreateOp>().getName());
  }
  // One wait a tile in each role, so that all take the same use.
  int64_t waits = 0;
  for (Operation *user : wait.getRing().getUsers())
    waits += isa<RingWaitOp>(user) && roles->isProperAncestor(user) &&
             roles.getRoleOf(user) == roles.getRoleOf(wait);
  return waits == 1 ? "" : "the role waits for several uses";
}

SmallVector<RingReleaseOp> fa2::gpu::releasesOf(RingWaitOp wait) {
  SmallVector<RingReleaseOp> found;
  auto roles = wait->getParentOfType<RolesOp>();
  for (Operation *user : wait.getRing().getUsers())
    if (auto release = dyn_cast<RingReleaseOp>(user);
        release && roles && roles->isProperAncestor(release) &&
        roles.getRoleOf(release) == roles.getRoleOf(wait))
      found.push_back(release);
  return found;
}
