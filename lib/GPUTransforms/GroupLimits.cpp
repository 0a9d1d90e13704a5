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
      roles.getConsumer().walk([&](ForTilesOp loop) {
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
        /*falling=*/true, mask.getSeqlenQ(), mask.getSeqlenK(),
        kGroupRows / mask.getHeads(), keys, mask.getMaskAttr(),
        /*nonempty=*/false, /*past_end=*/true);
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
    goOn(loop, skipped);
    return success();
  }

  /// Uses of rings are numbered by the place, or by a number and the place:
  /// they go on behind those that were skipped.
  static void goOn(ForTilesOp loop, Value skipped) {
    Location loc = loop.getLoc();
    Value place = loop.getPlace();
    OpBuilder b(loop);
    OpBuilder body = OpBuilder::atBlockBegin(&loop.getBody().front());
    Value counter;
    llvm::SmallPtrSet<Operation *, 4> numbers; // each once
    for (Operation &op : loop.getBody().front()) {
      if (!isa<RingWaitOp, RingReleaseOp>(op))
        continue;
      Value use = op.getOperand(1);
      auto number = use.getDefiningOp<arith::AddIOp>();
      if (use == place) {
        if (!counter)
          counter = arith::AddIOp::create(body, loc, skipped, place);
        op.setOperand(1, counter);
      } else if (number && number.getRhs() == place &&
                 numbers.insert(number).second) {
        number.getLhsMutable().assign(
            b.createOrFold<arith::AddIOp>(loc, number.getLhs(), skipped));
      }
    }
  }

  /// Waits for and releases what the group does not need.
  static void skipLoop(OpBuilder &b, ForTilesOp loop, Value count) {
    Location loc = loop.getLoc();
    Value range = TakeTilesOp::create(b, loc, count, loop.getRange());
    auto skip = ForTilesOp::create(b, loc, range, ValueRange());
    OpBuilder inner = OpBuilder::atBlockBegin(&skip.getBody().front());
    IRMapping map;
    map.map(loop.getTile(), skip.getTile());
    map.map(loop.getPlace(), skip.getPlace());
    for (Operation &op : loop.getBody().front().without_terminator()) {
      bool scalar =
          isPure(&op) && llvm::none_of(op.getResultTypes(), [](Type t) {
            return isa<RankedTensorType, InFlightType>(t);
          });
      bool wanted = scalar && llvm::all_of(op.getOperands(), [&](Value v) {
                      return !isa<RankedTensorType>(v.getType());
                    });
      if (isa<RingWaitOp, RingReleaseOp>(op) || wanted)
        inner.clone(op, map);
    }
  }
};

} // namespace
