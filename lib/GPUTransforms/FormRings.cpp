//===- FormRings.cpp - fa2gpu-form-rings ----------------------------------===//

#include "Cursors.h"
#include "Roles.h"

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

/// What is created for an operation is part of that one's role.
template <typename Op, typename... Args>
Op createFor(StringAttr role, OpBuilder &b, Location loc, Args &&...args) {
  auto op = Op::create(b, loc, std::forward<Args>(args)...);
  if (role)
    op->setAttr(kRoleName, role);
  return op;
}

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

struct FormRingsPass : public fa2::impl::FormRingsBase<FormRingsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    roles = kernel->hasAttr(kPlanName);
    if (failed(roles ? checkViews() : checkColumns()))
      return signalPassFailure();
    kernel.walk([&](fa2::gpu::LoadOp op) { formLoad(op); });
    kernel.walk([&](ShareOp op) { formShare(op); });
    kernel.walk([&](StoreOp op) {
      if (isCopied(op))
        roles ? formTensorStore(op) : formStore(op);
    });
    for (auto ring : llvm::to_vector(kernel.getOps<RingCreateOp>()))
      threadCursors(kernel.getBody().front(), ring, roles);
  }

  /// Vectors and f32 go straight to memory.
  static bool isCopied(StoreOp op) {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    return type.getRank() == 2 && !type.getElementType().isF32();
  }

  /// A tensor map is that of a view's tensor; a vector is copied in bulk, all
  /// of it, so that the view must hold whole tiles.
  LogicalResult checkViews() {
    WalkResult result = getOperation().walk([&](Operation *op) {
      Value view;
      bool vector = false;
      if (auto load = dyn_cast<fa2::gpu::LoadOp>(op)) {
        view = load.getView();
        vector =
            cast<RankedTensorType>(load.getTile().getType()).getRank() == 1;
      } else if (auto store = dyn_cast<StoreOp>(op); store && isCopied(store)) {
        view = store.getView();
      }
      if (vector && !isWorkspace(view)) {
        op->emitOpError() << "expected a view of the workspace, which holds "
                             "whole tiles, because the copy engine brings all "
                             "of a vector's tile";
        return WalkResult::interrupt();
      }
      auto made = view ? view.getDefiningOp<ViewOp>() : nullptr;
      if (!view || (made && made.getFirstColumn() == 0))
        return WalkResult::advance();
      op->emitOpError() << "expected a view that fa2.view makes of a tensor, "
                           "from its first column on, which a tensor map shows";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Threads copy whole rows.
  LogicalResult checkColumns() {
    WalkResult result = getOperation().walk([&](fa2::gpu::LoadOp op) {
      if (!op.getColumn())
        return WalkResult::advance();
      op.emitOpError() << "expected roles, because only the copy engine brings "
                          "some columns of a view (fa2gpu-assign-roles)";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  const Target *target = nullptr;
  bool roles = false; // the kernel has a plan: the copy engine copies

  /// The map of a view's tensor, in boxes of `rows` rows, asked for at once.
  Value tensorMap(ViewOp view, int64_t rows, int64_t apart = 1) {
    OpBuilder b = OpBuilder::atBlockBegin(&getOperation().getBody().front());
    Value map = TensorMapOp::create(b, view.getLoc(), view.getSource(), rows,
                                    IntegerAttr{}, view.getType().getHeads(),
                                    view.getDimsAttr(), apart);
    TensorMapPrefetchOp::create(b, view.getLoc(), map);
    return map;
  }

  /// The argument that a view shows part of; null where it shows none.
  ArgumentAttr argumentOf(Value view) {
    if (auto op = view.getDefiningOp<ViewOp>())
      if (auto arg = dyn_cast<BlockArgument>(op.getSource()))
        return cast<ArgumentAttr>(
            getOperation().getArguments()[arg.getArgNumber()]);
    return {};
  }
  StringRef nameOf(Value view) {
    ArgumentAttr arg = argumentOf(view);
    return arg ? arg.getName() : "tile";
  }
  bool isWorkspace(Value view) {
    ArgumentAttr arg = argumentOf(view);
    return arg && arg.getDirection() == "workspace";
  }

  /// How many tiles may wait: what a score program reads has rings of its own
  /// depth.
  int64_t slotsOf(fa2::gpu::LoadOp op, bool inLoop) {
    const Schedule &s = getOperation().getSchedule().getFields();
    ArgumentAttr arg = argumentOf(op.getView());
    return arg && arg.getBroadcast() ? s.slotsReads
                                     : s.slotsOf(nameOf(op.getView()), inLoop);
  }

  /// The columns of its tensor's map that a load begins with, if not all are
  /// loaded: one, or those of so many rows, each a stride behind the other.
  static SmallVector<Value> columnsOf(fa2::gpu::LoadOp op, OpBuilder &b,
                                      int64_t apart) {
    if (!op.getColumn())
      return {};
    Location loc = op.getLoc();
    auto view = op.getView().getDefiningOp<ViewOp>();
    Value first = MapColumnOp::create(b, loc, view.getSource());
    SmallVector<Value> columns{
        arith::AddIOp::create(b, loc, op.getColumn(), first)};
    if (apart == 1)
      return columns;
    Value stride =
        StrideOp::create(b, loc, view.getSource(), (*view.getDims())[1]);
    while (int64_t(columns.size()) < apart)
      columns.push_back(arith::AddIOp::create(b, loc, columns.back(), stride));
    return columns;
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

  /// Whether matmuls alone read a tile, each warpgroup 64 rows of its own.
  static bool isReadByRows(Value tile) {
    return llvm::all_of(tile.getUses(), [](OpOperand &use) {
      auto dot = dyn_cast<DotStartOp>(use.getOwner());
      return dot && dot.getA() == use.get() && dot.getB() != use.get() &&
             !dot.getTransposeA() &&
             cast<AccAttr>(dot.getD().getType().getTile().getEncoding())
                     .getGroups()[1] == 1;
    });
  }

  void formLoad(fa2::gpu::LoadOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto tile = cast<RankedTensorType>(op.getTile().getType());
    auto loop = dyn_cast<ForTilesOp>(op->getParentOp());
    // A tile of which each warpgroup reads rows of its own is theirs part by
    // part.
    int64_t parts = roles && !loop && isReadByRows(op.getTile())
                        ? tile.getDimSize(0) / kGroupRows
                        : 1;
    Value ring = createRing(loc, nameOf(op.getView()), tile,
                            slotsOf(op, bool(loop)), parts);
    Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded
    StringAttr role = roleOf(op);
    Value slot =
        createFor<RingAcquireOp>(role, b, loc, tile, ring, use).getSlot();
    if (roles && tile.getRank() == 1) {
      createFor<BulkCopyOp>(role, b, loc, op.getView(), op.getRow(), slot, ring,
                            use);
    } else if (roles) {
      auto view = op.getView().getDefiningOp<ViewOp>();
      Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
      int64_t apart = sharedLayout(tile).apart();
      createFor<TensorCopyOp>(
          role, b, loc, tensorMap(view, tile.getDimSize(0) / parts, apart), row,
          view.getHead(), view.getBatch(), slot, ring, use,
          view.getType().getHeads(), columnsOf(op, b, apart),
          view.getCacheAttr());
    } else {
      CopyOp::create(b, loc, op.getView(), op.getRow(), slot, Value{},
                     /*in_bounds=*/false);
    }
    createFor<RingCommitOp>(role, b, loc, ring, use);
    for (Readers &r : readersOf(op, op.getTile())) {
      b.setInsertionPoint(op);
      read(b, op.getTile(), r, ring, use);
    }
    op.erase();
  }

  /// A role's wait, where `b` is, and the release behind its last reader.
  static void read(OpBuilder &b, Value tile, const Readers &readers, Value ring,
                   Value use) {
    Location loc = tile.getLoc();
    auto wait =
        createFor<RingWaitOp>(readers.role, b, loc, tile.getType(), ring, use);
    b.setInsertionPointAfter(
        readers.last == tile.getDefiningOp() ? wait : readers.last);
    createFor<RingReleaseOp>(readers.role, b, loc, ring, use);
    tile.replaceUsesWithIf(wait.getTile(), [&](OpOperand &operand) {
      return roleOf(operand.getOwner()) == readers.role;
    });
  }

  int64_t warpsOf(StringAttr role) {
    auto plan = getOperation()->getAttrOfType<ArrayAttr>(kPlanName);
    for (auto other : plan.getAsRange<RoleAttr>())
      if (other.getName() == role.getValue())
        return other.getWarps();
    return 0;
  }

  /// The slot of a tile that the role alone has read and that an output of type
  /// `tile` may take the place of, the last of those that no output has taken:
  /// best one of which each warpgroup reads rows of its own.
  RingWaitOp slotFor(StoreOp op, RankedTensorType tile) {
    RingWaitOp found;
    bool foundByRows = false;
    for (auto wait : op->getBlock()->getOps<RingWaitOp>()) {
      auto type = cast<RankedTensorType>(wait.getTile().getType());
      bool fits =
          type.getRank() == 2 && type.getDimSize(0) == tile.getDimSize(0) &&
          sharedLayout(type).paddedCols() >= sharedLayout(tile).paddedCols();
      bool taken = llvm::any_of(wait.getTile().getUsers(),
                                llvm::IsaPred<TensorStoreOp>) ||
                   llvm::any_of(wait.getRing().getUsers(), [&](Operation *o) {
                     return isa<RingWaitOp>(o) && roleOf(o) != roleOf(wait);
                   });
      bool byRows = wait.getRing().getType().getParts() > 1 ||
                    warpsOf(roleOf(op)) == kGroupWarps;
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
  void formTensorStore(StoreOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto value = cast<RankedTensorType>(op.getTile().getType());
    int64_t across = cast<AccAttr>(value.getEncoding()).warpCols();
    auto tile = sharedTile(value, across, target->sharedPanelBytes());
    auto view = op.getView().getDefiningOp<ViewOp>();
    Value map = tensorMap(view, kGroupRows);
    Value row = arith::AddIOp::create(b, loc, op.getRow(), view.getOffset());
    StringAttr role = roleOf(op);
    auto store = [&](Value slot) {
      createFor<LocalStoreOp>(role, b, loc, op.getTile(), slot);
      createFor<TensorStoreOp>(role, b, loc, slot, map, row, view.getHead(),
                               view.getBatch(), view.getType().getHeads(),
                               across);
    };
    bool separate = getOperation().getSchedule().getSeparateOutput();
    RingWaitOp read = separate ? RingWaitOp() : slotFor(op, tile);
    if (!read) {
      Value ring = createRing(loc, nameOf(op.getView()), tile, 1);
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

  /// One slot is enough: each iteration has a barrier, or waits, between the
  /// last read of the tile before and the next write. With more, roles need not
  /// wait for each other so soon.
  void formShare(ShareOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto tile = cast<RankedTensorType>(op.getResult().getType());
    int64_t slots = roles ? getOperation().getSchedule().getExchangeSlots() : 1;
    Value ring = createRing(loc, "exchange", tile, slots);
    Value use = arith::ConstantIndexOp::create(b, loc, 0); // until threaded
    StringAttr role = roleOf(op);
    Value slot =
        createFor<RingAcquireOp>(role, b, loc, tile, ring, use).getSlot();
    createFor<LocalStoreOp>(role, b, loc, op.getSource(), slot);
    createFor<RingCommitOp>(role, b, loc, ring, use);
    // What does not need the tile goes on until the first read.
    for (Readers &r : readersOf(op, op.getResult())) {
      b.setInsertionPoint(r.first ? r.first : op);
      read(b, op.getResult(), r, ring, use);
    }
    op.erase();
  }

  void formStore(StoreOp op) {
    Location loc = op.getLoc();
    OpBuilder b(op);
    auto value = cast<RankedTensorType>(op.getTile().getType());
    auto acc = dyn_cast_or_null<AccAttr>(value.getEncoding());
    auto tile =
        sharedTile(value, acc ? acc.warpCols() : 1, target->sharedPanelBytes());
    Value ring = createRing(loc, nameOf(op.getView()), tile, 1);
    Value use = arith::ConstantIndexOp::create(b, loc, 0);
    Value slot = RingAcquireOp::create(b, loc, tile, ring, use).getSlot();
    LocalStoreOp::create(b, loc, op.getTile(), slot);
    RingCommitOp::create(b, loc, ring, use);
    Value full = RingWaitOp::create(b, loc, tile, ring, use).getTile();
    CopyOutOp::create(b, loc, full, op.getView(), op.getRow());
    RingReleaseOp::create(b, loc, ring, use);
    op.erase();
  }
};

} // namespace
