//===- RingFormer.cpp - loads and shares become uses of rings -------------===//

#include "fa2/Rings/RingFormer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The first and the last operation of a role, in the block of `op`, that read
/// `tile`: a matmul reads its operands until it has been waited for.
struct Readers {
  StringAttr role;
  Operation *first, *last;
};

SmallVector<Readers> readersOf(Operation *op, Value tile) {
  SmallVector<Readers> roles;
  auto readersIn = [&](StringAttr role) -> Readers & {
    for (Readers &r : roles)
      if (r.role == role)
        return r;
    return roles.emplace_back(Readers{role, nullptr, op});
  };
  for (Operation *user : tile.getUsers()) {
    Readers &r = readersIn(roleOf(user));
    Operation *top = op->getBlock()->findAncestorOpInBlock(*user);
    if (top && (!r.first || top->isBeforeInBlock(r.first)))
      r.first = top;
    if (auto dot = dyn_cast<DotStartOp>(user))
      for (Operation *wait : dot.getD().getUsers())
        user = wait;
    top = op->getBlock()->findAncestorOpInBlock(*user);
    if (top && r.last->isBeforeInBlock(top))
      r.last = top;
  }
  if (roles.empty())
    readersIn(roleOf(op));
  return roles;
}

} // namespace

ArgumentAttr fa2::gpu::argumentOf(KernelOp kernel, Value view) {
  if (auto op = view.getDefiningOp<ViewOp>())
    if (auto arg = dyn_cast<BlockArgument>(op.getSource()))
      return cast<ArgumentAttr>(kernel.getArguments()[arg.getArgNumber()]);
  return {};
}

StringRef fa2::gpu::nameOf(KernelOp kernel, Value view) {
  ArgumentAttr arg = argumentOf(kernel, view);
  return arg ? arg.getName() : "tile";
}

bool RingFormer::isWorkspace(Value view) {
  ArgumentAttr arg = argumentOf(kernel, view);
  return arg && arg.getDirection() == "workspace";
}

Value RingFormer::tensorMap(ViewOp view, int64_t rows) {
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Value map = TensorMapOp::create(b, view.getLoc(), view.getSource(), rows,
                                  IntegerAttr{}, view.getType().getHeads(),
                                  view.getDimsAttr());
  TensorMapPrefetchOp::create(b, view.getLoc(), map);
  return map;
}

Value RingFormer::createRing(Location loc, StringRef name,
                             RankedTensorType tile, int64_t slots,
                             int64_t parts) {
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
  return RingCreateOp::create(b, loc,
                              RingType::get(b.getContext(), slots, tile, parts),
                              b.getStringAttr(name));
}

/// Whether a tile is read as a left operand alone, by each warpgroup 64 rows of
/// its own: by matmuls, or into registers for them.
static bool isReadByRows(Value tile) {
  return llvm::all_of(tile.getUses(), [](OpOperand &use) {
    if (auto load = dyn_cast<LocalLoadOp>(use.getOwner())) {
      auto held = dyn_cast<OperandAttr>(
          cast<RankedTensorType>(load.getResult().getType()).getEncoding());
      return held && held.getAcc().getGroups()[1] == 1;
    }
    auto dot = dyn_cast<DotStartOp>(use.getOwner());
    return dot && dot.getA() == use.get() && dot.getB() != use.get() &&
           !dot.getTransposeA() &&
           cast<AccAttr>(dot.getD().getType().getTile().getEncoding())
                   .getGroups()[1] == 1;
  });
}

/// A role's wait, where `b` is, and the release behind its last reader.
static void read(OpBuilder &b, Value tile, const Readers &readers, Value ring,
                 Value use) {
  Location loc = tile.getLoc();
  auto wait =
      createFor<RingWaitOp>(readers.role, b, loc, tile.getType(), ring, use);
  b.setInsertionPointAfter(readers.last == tile.getDefiningOp() ? wait
                                                                : readers.last);
  createFor<RingReleaseOp>(readers.role, b, loc, ring, use);
  tile.replaceUsesWithIf(wait.getTile(), [&](OpOperand &operand) {
    return roleOf(operand.getOwner()) == readers.role;
  });
}

bool RingFormer::isCopiedByEngine(fa2::gpu::LoadOp op) {
  if (plan.getCopies() != CopiedBy::Engine || op.getByThreads())
    return false;
  if (cast<RankedTensorType>(op.getTile().getType()).getRank() == 1)
    return true;
  auto view = op.getView().getDefiningOp<ViewOp>();
  return view && view.getFirstColumn() == 0;
}

void RingFormer::formLoad(fa2::gpu::LoadOp op) {
  Location loc = op.getLoc();
  OpBuilder b(op);
  auto tile = cast<RankedTensorType>(op.getTile().getType());
  bool inLoop = isa<ForTilesOp>(op->getParentOp());
  // A tile of which each warpgroup reads rows of its own is theirs part by
  // part.
  bool engine = isCopiedByEngine(op);
  int64_t parts = engine && !inLoop && isReadByRows(op.getTile())
                      ? tile.getDimSize(0) / kGroupRows
                      : 1;
  StringRef name = nameOf(kernel, op.getView());
  Value ring = createRing(loc, name, tile, plan.slotsOf(name), parts);
  Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded
  StringAttr role = roleOf(op);
  auto acquire = createFor<RingAcquireOp>(role, b, loc, tile, ring, use);
  Value slot = acquire.getSlot();
  if (engine && tile.getRank() == 1) {
    createFor<BulkCopyOp>(role, b, loc, op.getView(), op.getRow(), slot, ring,
                          use);
  } else if (engine) {
    auto view = op.getView().getDefiningOp<ViewOp>();
    Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
    createFor<TensorCopyOp>(role, b, loc,
                            tensorMap(view, tile.getDimSize(0) / parts), row,
                            view.getHead(), view.getBatch(), slot, ring, use,
                            view.getType().getHeads(),
                            op.getColumn() ? op.getColumn() : view.getColumn(),
                            view.getCacheAttr());
  } else {
    createFor<CopyOp>(role, b, loc, op.getView(), op.getRow(), slot, Value{},
                      /*in_bounds=*/false, op.getColumn(),
                      op.getColumn() ? acquire.getNext() : Value());
  }
  createFor<RingCommitOp>(role, b, loc, ring, use);
  for (Readers &r : readersOf(op, op.getTile())) {
    b.setInsertionPoint(op);
    read(b, op.getTile(), r, ring, use);
  }
  op.erase();
}

// The other block's copy fills the ring here, and this block's there. A slot of
// the other's is free when that block has released it, which says too that the
// copy before has read its tile: it is asked for before that is written again.
void RingFormer::formExchange(fa2::gpu::ExchangeOp op) {
  Location loc = op.getLoc();
  auto share = op.getSource().getDefiningOp<ShareOp>();
  auto tile = cast<RankedTensorType>(op.getResult().getType());
  Value ring = createRing(loc, kPeerRing, tile, plan.slotsOf(kPeerRing));
  ring.getDefiningOp<RingCreateOp>().setPeer(true);
  StringAttr role = roleOf(op);
  OpBuilder b(share);
  Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded
  Value slot =
      createFor<RingAcquireOp>(role, b, loc, tile, ring, use).getSlot();
  b.setInsertionPoint(op);
  createFor<PeerCopyOp>(role, b, loc, op.getSource(), slot, ring, use);
  createFor<RingCommitOp>(role, b, loc, ring, use);
  for (Readers &r : readersOf(op, op.getResult())) {
    b.setInsertionPoint(r.first ? r.first : op);
    read(b, op.getResult(), r, ring, use);
  }
  op.erase();
}

void RingFormer::formShare(ShareOp op) {
  Location loc = op.getLoc();
  OpBuilder b(op);
  auto tile = cast<RankedTensorType>(op.getResult().getType());
  // A role may have a ring of its name in the plan.
  StringAttr role = roleOf(op);
  StringRef name =
      role && plan.slotsOf(role) ? role.getValue() : StringRef(kExchangeRing);
  Value ring = createRing(loc, name, tile, plan.slotsOf(name));
  Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded
  Value slot =
      createFor<RingAcquireOp>(role, b, loc, tile, ring, use).getSlot();
  createFor<LocalStoreOp>(role, b, loc, op.getSource(), slot,
                          op.getTransposed());
  createFor<RingCommitOp>(role, b, loc, ring, use);
  // What does not need the tile goes on until the first read.
  for (Readers &r : readersOf(op, op.getResult())) {
    b.setInsertionPoint(r.first ? r.first : op);
    read(b, op.getResult(), r, ring, use);
  }
  op.erase();
}
