//===- GroupLimits.cpp - fa2gpu-group-limits ------------------------------===//
//
// A block of several warpgroups takes the key tiles that any of its rows sees.
// A warpgroup whose rows see fewer begins later: key tiles fall, and under a
// causal mask the last ones are seen by the last rows alone. One whose rows all
// lie past the sequence's end sees none.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

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
    if (mask.getKvBlock() != loop.getTile() ||
        !loop.getRange().getDefiningOp<RangeOfTiles>().falls())
      return mask.emitOpError()
             << "expected kv_block to be the tile of a loop whose tiles fall";
    auto scores = cast<RankedTensorType>(mask.getScores().getType());
    int64_t rows = scores.getDimSize(0), keys = scores.getDimSize(1);
    if (rows == kGroupRows)
      return success(); // one group sees what the block sees
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    // The group's rows as a block of queries of their own, of all its heads.
    Value groups = arith::ConstantIndexOp::create(b, loc, rows / kGroupRows);
    Value block = b.createOrFold<arith::MulIOp>(loc, mask.getQBlock(), groups);
    Value group = WarpgroupOp::create(b, loc, b.getIndexType());
    Value own = KVRangeOp::create(
        b, loc, b.createOrFold<arith::AddIOp>(loc, block, group),
        /*falling=*/true, mask.getSeqlenQ(), mask.getSeqlenK(), mask.getLead(),
        kGroupRows / mask.getHeads(), keys, mask.getMaskAttr(),
        /*nonempty=*/false, /*past_end=*/true, /*whole_rows=*/false);
    Value skipped = TilesUntilOp::create(b, loc, own, loop.getRange());
    skipLoop(b, loop, skipped);
    // The queries may come meanwhile.
    for (auto wait :
         llvm::make_early_inc_range(loop->getBlock()->getOps<RingWaitOp>()))
      if (wait->isBeforeInBlock(loop))
        wait->moveBefore(loop);
    b.setInsertionPoint(loop);
    loop.getRangeMutable().assign(
        DropTilesOp::create(b, loc, skipped, loop.getRange(), own));
    return success();
  }

  /// Waits for and releases what the group does not need. The loop's cursors go
  /// on behind it.
  static void skipLoop(OpBuilder &b, ForTilesOp loop, Value count) {
    Location loc = loop.getLoc();
    Value range = TakeTilesOp::create(b, loc, count, loop.getRange());
    SmallVector<unsigned> cursors; // which of what the loop carries
    SmallVector<Value> inits;
    for (auto wait : loop.getBody().getOps<RingWaitOp>())
      for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs()))
        if (wait.getUse() == arg) {
          cursors.push_back(i);
          inits.push_back(loop.getInitArgs()[i]);
        }
    auto skip = ForTilesOp::create(b, loc, range, inits);
    OpBuilder inner = OpBuilder::atBlockBegin(&skip.getBody().front());
    IRMapping map;
    SmallVector<Value> ends;
    for (auto [i, arg] : llvm::zip(cursors, skip.getRegionIterArgs()))
      map.map(loop.getRegionIterArgs()[i], arg);
    for (Operation &op : loop.getBody().front())
      if (isa<RingWaitOp, RingReleaseOp>(op))
        inner.clone(op, map);
    for (auto [i, result] : llvm::zip(cursors, skip.getResults())) {
      ends.push_back(map.lookup((*loop.getYieldedValuesMutable())[i].get()));
      loop.getInitsMutable()[i].set(result);
    }
    if (!ends.empty())
      YieldOp::create(inner, loc, ends);
  }
};

} // namespace
