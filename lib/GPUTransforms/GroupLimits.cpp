//===- GroupLimits.cpp - fa2gpu-group-limits ------------------------------===//
//
// A block of several warpgroups takes the tiles that any of its rows sees, or
// that see any of its keys. A warpgroup whose rows see fewer begins later: key
// tiles fall, and under a causal mask the last ones are seen by the last rows
// alone. So does one whose keys are seen by fewer queries: query tiles rise,
// and the first ones see the first keys alone; where they fall it ends earlier.
// One whose rows all lie past the sequence's end sees none.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fa2 {
#define GEN_PASS_DEF_GROUPLIMITS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct GroupLimitsPass : public fa2::impl::GroupLimitsBase<GroupLimitsPass> {
  void runOnOperation() override {
    if (!getOperation().getSchedule().getGroupLimits())
      return;
    SmallVector<ForTilesOp> loops;
    for (auto roles : getOperation().getOps<RolesOp>())
      roles.walk([&](ForTilesOp loop) {
        if (!loop.getBody().getOps<ApplyMaskOp>().empty())
          loops.push_back(loop);
      });
    for (ForTilesOp loop : loops)
      if (failed(limit(loop)))
        return signalPassFailure();
  }

  LogicalResult limit(ForTilesOp loop) {
    ApplyMaskOp mask = *loop.getBody().getOps<ApplyMaskOp>().begin();
    bool keys = mask.getTransposed(); // the scores' rows
    auto range = loop.getRange().getDefiningOp<RangeOfTiles>();
    auto queries = dyn_cast<QRangeOp>(range.getOperation());
    bool inOrder = queries && queries.getRotation() == 0;
    if ((keys ? mask.getQBlock() : mask.getKvBlock()) != loop.getTile() ||
        !(keys ? inOrder : range.falls()))
      return mask.emitOpError()
             << "expected " << (keys ? "q_block" : "kv_block")
             << " to be the tile of a loop whose tiles "
             << (keys ? "rise or fall, without a rotation" : "fall");
    auto scores = cast<RankedTensorType>(mask.getScores().getType());
    int64_t rows = scores.getDimSize(0), columns = scores.getDimSize(1);
    if (rows == kGroupRows)
      return success(); // one group sees what the block sees
    for (Operation &op : loop.getBody().front())
      if (keys && hasEffect<MemoryEffects::Write>(&op) &&
          !isa<RingWaitOp, RingReleaseOp, RingAcquireOp, RingCommitOp,
               LocalStoreOp, DotStartOp, DotWaitOp>(op))
        return op.emitOpError()
               << "expected no effect but on rings in a loop of which a "
                  "warpgroup leaves out tiles";
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    // The group's rows as a block of their own, of all its heads.
    Value groups = arith::ConstantIndexOp::create(b, loc, rows / kGroupRows);
    Value block = b.createOrFold<arith::MulIOp>(
        loc, keys ? mask.getKvBlock() : mask.getQBlock(), groups);
    Value group = WarpgroupOp::create(b, loc, b.getIndexType());
    block = b.createOrFold<arith::AddIOp>(loc, block, group);
    Value own;
    if (keys)
      own = QRangeOp::create(b, loc, block, queries.getFalling(),
                             mask.getSeqlenQ(), mask.getSeqlenK(), columns,
                             kGroupRows, mask.getMaskAttr(),
                             /*nonempty=*/false, /*rotation=*/0);
    else
      own = KVRangeOp::create(
          b, loc, block, /*falling=*/true, mask.getSeqlenQ(), mask.getSeqlenK(),
          mask.getLead(), kGroupRows / mask.getHeads(), columns,
          mask.getMaskAttr(), /*nonempty=*/false, /*past_end=*/true,
          /*whole_rows=*/false);
    Value all = loop.getRange(), upTo = all, through;
    Value skipped = TilesUntilOp::create(b, loc, own, all);
    if (keys && queries.getFalling()) { // the others may come last
      through = TilesThroughOp::create(b, loc, own, all);
      upTo = TakeTilesOp::create(b, loc, through, all);
    }
    skipBefore(b, loop, TakeTilesOp::create(b, loc, skipped, all));
    // The queries may come meanwhile.
    auto waits = loop->getBlock()->getOps<RingWaitOp>();
    for (RingWaitOp wait : llvm::to_vector(waits))
      if (wait->isBeforeInBlock(loop)) {
        wait->moveBefore(loop);
        for (Operation *user : wait.getTile().getUsers())
          if (isa<LocalLoadOp>(user) && user->getBlock() == loop->getBlock())
            user->moveBefore(loop);
      }
    b.setInsertionPoint(loop);
    loop.getRangeMutable().assign(
        DropTilesOp::create(b, loc, skipped, upTo, own));
    if (through) {
      b.setInsertionPointAfter(loop);
      skipBehind(b, loop, DropTilesOp::create(b, loc, through, all, own));
    }
    return success();
  }

  /// The loop's cursors go on behind the tiles that are left out.
  static void skipBefore(OpBuilder &b, ForTilesOp loop, Value range) {
    SmallVector<unsigned> cursors;
    ForTilesOp skip = skipLoop(b, loop, range, loop.getInits(), cursors);
    for (auto [i, result] : llvm::zip(cursors, skip.getResults()))
      loop.getInitsMutable()[i].set(result);
  }

  static void skipBehind(OpBuilder &b, ForTilesOp loop, Value range) {
    SmallVector<unsigned> cursors;
    ForTilesOp skip = skipLoop(b, loop, range, loop.getResults(), cursors);
    for (auto [i, result] : llvm::zip(cursors, skip.getResults()))
      loop.getResult(i).replaceAllUsesExcept(result, skip);
  }

  /// Waits for and releases what the group does not need, and gives others
  /// zeros for what hidden scores would have been. It carries the loop's
  /// `cursors`, which begin with some of `begin`.
  static ForTilesOp skipLoop(OpBuilder &b, ForTilesOp loop, Value range,
                             ValueRange begin, SmallVector<unsigned> &cursors) {
    Location loc = loop.getLoc();
    SmallVector<Value> inits;
    SmallVector<Operation *> uses;
    SmallPtrSet<Value, 4> slots; // that this role fills
    for (Operation &op : loop.getBody().front()) {
      Value use;
      if (auto wait = dyn_cast<RingWaitOp>(op))
        use = wait.getUse();
      if (auto acquire = dyn_cast<RingAcquireOp>(op)) {
        use = acquire.getUse();
        slots.insert(acquire.getSlot());
      }
      for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs()))
        if (use && use == arg) {
          cursors.push_back(i);
          inits.push_back(begin[i]);
        }
      auto store = dyn_cast<LocalStoreOp>(op);
      if (isa<RingWaitOp, RingReleaseOp, RingAcquireOp, RingCommitOp>(op) ||
          (store && slots.contains(store.getSlot())))
        uses.push_back(&op);
    }
    auto skip = ForTilesOp::create(b, loc, range, inits);
    OpBuilder inner = OpBuilder::atBlockBegin(&skip.getBody().front());
    IRMapping map;
    SmallVector<Value> ends;
    for (auto [i, arg] : llvm::zip(cursors, skip.getRegionIterArgs()))
      map.map(loop.getRegionIterArgs()[i], arg);
    for (Operation *op : uses) {
      if (auto store = dyn_cast<LocalStoreOp>(op))
        map.map(store.getValue(),
                arith::ConstantOp::create(
                    inner, loc, inner.getZeroAttr(store.getValue().getType())));
      inner.clone(*op, map);
    }
    for (unsigned i : cursors)
      ends.push_back(map.lookup((*loop.getYieldedValuesMutable())[i].get()));
    if (!ends.empty())
      YieldOp::create(inner, loc, ends);
    return skip;
  }
};

} // namespace
