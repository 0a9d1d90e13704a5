//===- FormRings.cpp - fa2gpu-form-rings ----------------------------------===//

#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fa2 {
#define GEN_PASS_DEF_FORMRINGS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The last operation, in the block of `op`, that reads `tile`: a matmul reads
/// its operands until it has been waited for.
Operation *lastReader(Operation *op, Value tile) {
  Operation *last = op;
  for (Operation *user : tile.getUsers()) {
    if (auto dot = dyn_cast<DotStartOp>(user))
      for (Operation *wait : dot.getD().getUsers())
        user = wait;
    Operation *top = op->getBlock()->findAncestorOpInBlock(*user);
    if (top && last->isBeforeInBlock(top))
      last = top;
  }
  return last;
}

struct FormRingsPass : public fa2::impl::FormRingsBase<FormRingsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    kernel.walk([&](fa2::gpu::LoadOp op) { formLoad(op); });
    kernel.walk([&](ShareOp op) { formShare(op); });
    kernel.walk([&](StoreOp op) {
      auto type = cast<RankedTensorType>(op.getTile().getType());
      // Vectors and sums go straight to memory.
      if (type.getRank() == 2 && !type.getElementType().isF32())
        target->hasRoles() ? formTensorStore(op) : formStore(op);
    });
  }

  const Target *target = nullptr;

  /// The map of a view's tensor, in boxes of `rows` rows, asked for at once.
  Value tensorMap(ViewOp view, int64_t rows) {
    OpBuilder b = OpBuilder::atBlockBegin(&getOperation().getBody().front());
    Value map = TensorMapOp::create(b, view.getLoc(), view.getSource(), rows,
                                    IntegerAttr{}, view.getType().getHeads());
    TensorMapPrefetchOp::create(b, view.getLoc(), map);
    return map;
  }

  /// The tensor that a view shows part of.
  StringRef nameOf(Value view) {
    if (auto op = view.getDefiningOp<ViewOp>())
      if (auto arg = dyn_cast<BlockArgument>(op.getSource()))
        return cast<ArgumentAttr>(
                   getOperation().getArguments()[arg.getArgNumber()])
            .getName();
    return "tile";
  }

  /// A ring at the kernel's start.
  Value createRing(Location loc, StringRef name, RankedTensorType tile,
                   int64_t slots, int64_t parts = 1) {
    KernelOp kernel = getOperation();
    OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
    return RingCreateOp::create(
        b, loc, RingType::get(b.getContext(), slots, tile, parts),
        b.getStringAttr(name), IntegerAttr{}, IntegerAttr{});
  }

  void formLoad(fa2::gpu::LoadOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto tile = cast<RankedTensorType>(op.getTile().getType());
    auto loop = dyn_cast<ForTilesOp>(op->getParentOp());
    ScheduleAttr schedule = getOperation().getSchedule();
    // A tile with rows of each warpgroup is theirs part by part.
    int64_t parts =
        target->hasRoles() && !loop ? tile.getDimSize(0) / kGroupRows : 1;
    Value ring = createRing(
        loc, nameOf(op.getView()), tile,
        schedule.getFields().slotsOf(nameOf(op.getView()), bool(loop)), parts);
    Value use = loop ? loop.getPlace()
                     : Value(arith::ConstantIndexOp::create(b, loc, 0));
    Value slot = RingAcquireOp::create(b, loc, tile, ring, use);
    if (target->hasRoles()) {
      auto view = op.getView().getDefiningOp<ViewOp>();
      Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
      TensorCopyOp::create(b, loc, tensorMap(view, tile.getDimSize(0) / parts),
                           row, view.getHead(), view.getBatch(), slot, ring,
                           use, view.getType().getHeads());
    } else {
      CopyOp::create(b, loc, op.getView(), op.getRow(), slot, Value{},
                     /*in_bounds=*/false);
    }
    RingCommitOp::create(b, loc, ring, use);
    auto wait = RingWaitOp::create(b, loc, tile, ring, use);
    b.setInsertionPointAfter(lastReader(op, op.getTile()));
    RingReleaseOp::create(b, loc, ring, use);
    op.replaceAllUsesWith(wait.getTile());
    op.erase();
  }

  /// The warpgroups store their rows by tensor map: from a ring of the output's
  /// own, or from the queries' slot, which is then released after the store.
  void formTensorStore(StoreOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto value = cast<RankedTensorType>(op.getTile().getType());
    auto tile = RankedTensorType::get(
        value.getShape(), value.getElementType(),
        SharedAttr::get(b.getContext(), target->sharedPanelBytes()));
    auto view = op.getView().getDefiningOp<ViewOp>();
    Value map = tensorMap(view, kGroupRows);
    Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
    auto store = [&](Value slot) {
      LocalStoreOp::create(b, loc, op.getTile(), slot);
      TensorStoreOp::create(b, loc, slot, map, row, view.getHead(),
                            view.getBatch(), view.getType().getHeads());
    };
    if (getOperation().getSchedule().getSeparateOutput()) {
      Value ring = createRing(loc, nameOf(op.getView()), tile, 1);
      Value use = arith::ConstantIndexOp::create(b, loc, 0);
      store(RingAcquireOp::create(b, loc, tile, ring, use));
      RingReleaseOp::create(b, loc, ring, use);
    } else {
      RingWaitOp queries;
      for (auto wait : op->getBlock()->getOps<RingWaitOp>())
        queries = wait;
      RingReleaseOp release;
      for (auto other : op->getBlock()->getOps<RingReleaseOp>())
        if (other.getRing() == queries.getRing())
          release = other;
      store(queries.getTile());
      release->moveBefore(op);
    }
    op.erase();
  }

  /// One slot is enough: each iteration has a barrier between the last read of
  /// the tile before and the next write.
  void formShare(ShareOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto tile = cast<RankedTensorType>(op.getResult().getType());
    Value ring = createRing(loc, "exchange", tile, 1);
    auto loop = dyn_cast<ForTilesOp>(op->getParentOp());
    Value use = loop ? loop.getPlace()
                     : Value(arith::ConstantIndexOp::create(b, loc, 0));
    Value slot = RingAcquireOp::create(b, loc, tile, ring, use);
    LocalStoreOp::create(b, loc, op.getSource(), slot);
    RingCommitOp::create(b, loc, ring, use);
    // What does not need the tile goes on until the first read.
    Operation *first = op;
    for (Operation *user : op.getResult().getUsers())
      if (first == op || user->isBeforeInBlock(first))
        first = user;
    Operation *last = lastReader(op, op.getResult());
    b.setInsertionPoint(first);
    auto wait = RingWaitOp::create(b, loc, tile, ring, use);
    b.setInsertionPointAfter(last);
    RingReleaseOp::create(b, loc, ring, use);
    op.replaceAllUsesWith(wait.getTile());
    op.erase();
  }

  void formStore(StoreOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto value = cast<RankedTensorType>(op.getTile().getType());
    auto acc = dyn_cast_or_null<AccAttr>(value.getEncoding());
    auto tile = sharedTile(value, acc ? acc.getWarps()[1] : 1);
    Value ring = createRing(loc, nameOf(op.getView()), tile, 1);
    Value use = arith::ConstantIndexOp::create(b, loc, 0);
    Value slot = RingAcquireOp::create(b, loc, tile, ring, use);
    LocalStoreOp::create(b, loc, op.getTile(), slot);
    RingCommitOp::create(b, loc, ring, use);
    Value full = RingWaitOp::create(b, loc, tile, ring, use);
    CopyOutOp::create(b, loc, full, op.getView(), op.getRow());
    RingReleaseOp::create(b, loc, ring, use);
    op.erase();
  }
};

} // namespace
