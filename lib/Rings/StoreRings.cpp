//===- StoreRings.cpp - where results stand before they are copied out ----===//
//
// A result in registers goes through shared memory: a ring of its own, or the
// slot of a tile that its role has read and needs no more.
//
//===----------------------------------------------------------------------===//

#include "fa2/Rings/RingFormer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// The slot of a tile that the role alone has read and that an output of type
/// `tile` may take the place of, the last of those that no output has taken:
/// best one of which each warpgroup reads rows of its own.
static RingWaitOp slotFor(PlanAttr plan, StoreOp op, RankedTensorType tile) {
  RoleAttr role = roleOf(op) ? plan.findRole(roleOf(op)) : RoleAttr();
  bool oneGroup = role && role.getWarps() == kGroupWarps;
  RingWaitOp found;
  bool foundByRows = false;
  for (auto wait : op->getBlock()->getOps<RingWaitOp>()) {
    auto type = cast<RankedTensorType>(wait.getTile().getType());
    bool fits =
        type.getRank() == 2 && type.getDimSize(0) == tile.getDimSize(0) &&
        sharedLayout(type).paddedCols() >= sharedLayout(tile).paddedCols();
    bool taken =
        llvm::any_of(wait.getTile().getUsers(), llvm::IsaPred<TensorStoreOp>) ||
        llvm::any_of(wait.getRing().getUsers(), [&](Operation *o) {
          return isa<RingWaitOp>(o) && roleOf(o) != roleOf(wait);
        });
    bool byRows = wait.getRing().getType().getParts() > 1 || oneGroup;
    if (!fits || taken || roleOf(wait) != roleOf(op) ||
        (foundByRows && !byRows))
      continue;
    found = wait;
    foundByRows = byRows;
  }
  return found;
}

/// The warpgroups store their rows by tensor map: from a ring of the output's
/// own, or from the slot of a tile that was read, which is then released
/// after the store.
static void formTensorStore(RingFormer &former, StoreOp op) {
  KernelOp kernel = former.kernel;
  Location loc = op.getLoc();
  OpBuilder b(op);
  auto value = cast<RankedTensorType>(op.getTile().getType());
  int64_t across = cast<AccAttr>(value.getEncoding()).warpCols();
  auto tile = sharedTile(value, across, former.target.sharedPanelBytes());
  auto view = op.getView().getDefiningOp<ViewOp>();
  Value map = former.tensorMap(view, kGroupRows);
  Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
  StringAttr role = roleOf(op);
  auto store = [&](Value slot) {
    createFor<LocalStoreOp>(role, b, loc, op.getTile(), slot);
    createFor<TensorStoreOp>(role, b, loc, slot, map, row, view.getHead(),
                             view.getBatch(), op.getColumn(),
                             view.getType().getHeads(), across);
  };
  bool separate = kernel.getSchedule().getSeparateOutput();
  RingWaitOp read = separate ? RingWaitOp() : slotFor(former.plan, op, tile);
  if (!read) {
    Value ring =
        former.createRing(loc, nameOf(former.kernel, op.getView()), tile, 1);
    Value use = arith::ConstantIndexOp::create(b, loc, 0);
    store(createFor<RingAcquireOp>(role, b, loc, tile, ring, use).getSlot());
  } else {
    RingReleaseOp release;
    for (auto other : op->getBlock()->getOps<RingReleaseOp>())
      if (other.getRing() == read.getRing() && roleOf(other) == role)
        release = other;
    store(read.getTile());
    release->moveBefore(op);
  }
  op.erase();
}

/// Threads put a tile into a ring, and copy it out by whole rows.
static void formCopyOut(RingFormer &former, StoreOp op) {
  Location loc = op.getLoc();
  OpBuilder b(op);
  auto value = cast<RankedTensorType>(op.getTile().getType());
  auto acc = dyn_cast_or_null<AccAttr>(value.getEncoding());
  auto tile = sharedTile(value, acc ? acc.warpCols() : 1,
                         former.target.sharedPanelBytes());
  Value ring =
      former.createRing(loc, nameOf(former.kernel, op.getView()), tile, 1);
  Value use = arith::ConstantIndexOp::create(b, loc, 0);
  Value slot = RingAcquireOp::create(b, loc, tile, ring, use).getSlot();
  LocalStoreOp::create(b, loc, op.getTile(), slot);
  RingCommitOp::create(b, loc, ring, use);
  Value full = RingWaitOp::create(b, loc, tile, ring, use).getTile();
  CopyOutOp::create(b, loc, full, op.getView(), op.getRow(), Value());
  RingReleaseOp::create(b, loc, ring, use);
  op.erase();
}

/// The copy engine takes a tile from the slot that has it.
static void formStoreOfSlot(RingFormer &former, StoreOp op) {
  OpBuilder b(op);
  auto view = op.getView().getDefiningOp<ViewOp>();
  int64_t rows = cast<RankedTensorType>(op.getTile().getType()).getDimSize(0);
  Value map = former.tensorMap(view, rows);
  Value row =
      arith::AddIOp::create(b, op.getLoc(), op.getRow(), view.getOffset());
  createFor<TensorStoreOp>(roleOf(op), b, op.getLoc(), op.getTile(), map, row,
                           view.getHead(), view.getBatch(), op.getColumn(),
                           view.getType().getHeads(), /*across=*/1);
  op.erase();
}

/// So do threads, where no role waits for the copy engine.
static void formCopyOutOfSlot(StoreOp op) {
  OpBuilder b(op);
  CopyOutOp::create(b, op.getLoc(), op.getTile(), op.getView(), op.getRow(),
                    op.getColumn());
  op.erase();
}

void RingFormer::formStore(StoreOp op) {
  if (op.getTile().getDefiningOp<RingWaitOp>())
    return plan.hasRoles() ? formStoreOfSlot(*this, op) : formCopyOutOfSlot(op);
  plan.hasRoles() ? formTensorStore(*this, op) : formCopyOut(*this, op);
}
