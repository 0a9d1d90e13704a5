//===- GroupLimits.cpp - fa2gpu-group-limits ------------------------------===//
//
// A block of several warpgroups takes the key tiles that any of its rows sees.
// A warpgroup whose rows see fewer begins later: key tiles fall, and under a
// causal mask the last ones are seen by the last rows alone. One whose rows all
// lie past the sequence's end sees none.
//
//===----------------------------------------------------------------------===//

#include "fa2/Dialect/FA2/KVRange.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
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
    SmallVector<scf::ForOp> loops;
    for (auto roles : getOperation().getOps<RolesOp>())
      roles.getConsumer().walk([&](scf::ForOp loop) {
        if (!loop.getBody()->getOps<ApplyMaskOp>().empty())
          loops.push_back(loop);
      });
    for (scf::ForOp loop : loops)
      if (failed(limit(loop)))
        return signalPassFailure();
  }

  LogicalResult limit(scf::ForOp loop) {
    ApplyMaskOp mask = *loop.getBody()->getOps<ApplyMaskOp>().begin();
    auto falls = mask.getKvBlock().getDefiningOp<arith::SubIOp>();
    if (!falls || falls.getRhs() != loop.getInductionVar())
      return mask.emitOpError()
             << "expected kv_block to fall by one an iteration";
    auto scores = cast<RankedTensorType>(mask.getScores().getType());
    int64_t rows = scores.getDimSize(0), keys = scores.getDimSize(1);
    if (rows == kGroupRows)
      return success(); // one group sees what the block sees
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    auto constant = [&](int64_t v) -> Value {
      return arith::ConstantIndexOp::create(b, loc, v);
    };
    auto add = [&](Value x, Value y) {
      return b.createOrFold<arith::AddIOp>(loc, x, y);
    };
    auto sub = [&](Value x, Value y) {
      return b.createOrFold<arith::SubIOp>(loc, x, y);
    };
    // The group's rows as a block of queries of their own, of all its heads.
    int64_t queries = kGroupRows / mask.getHeads();
    Value block = b.createOrFold<arith::MulIOp>(loc, mask.getQBlock(),
                                                constant(rows / kGroupRows));
    Value own = add(block, WarpgroupOp::create(b, loc, b.getIndexType()));
    auto range = KVRangeOp::create(
        b, loc, own, mask.getSeqlenQ(), mask.getSeqlenK(),
        b.getI64IntegerAttr(queries), b.getI64IntegerAttr(keys),
        mask.getMaskAttr(), UnitAttr());
    SmallVector<Value, 4> own4 = expandKVRange(b, range);
    range.erase();
    Value firstRow = b.createOrFold<arith::MulIOp>(loc, own, constant(queries));
    Value any = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                      firstRow, mask.getSeqlenQ());
    Value ownEnd = arith::SelectOp::create(b, loc, any, own4[1], constant(0));
    // Tiles end - 1, end - 2, ... of the block, of which the first `skipped`
    // are not the group's. One is always left: it may be hidden whole.
    Value count = sub(loop.getUpperBound(), loop.getLowerBound());
    Value end = add(falls.getLhs(), constant(1));
    Value skipped = sub(end, ownEnd);
    skipped =
        b.createOrFold<arith::MinSIOp>(loc, skipped, sub(count, constant(1)));
    skipped = b.createOrFold<arith::MaxSIOp>(loc, skipped, constant(0));

    skipLoop(b, loop, skipped);
    // The queries may come meanwhile.
    for (auto wait :
         llvm::make_early_inc_range(loop->getBlock()->getOps<RingWaitOp>()))
      if (wait->isBeforeInBlock(loop))
        wait->moveBefore(loop);
    // The loop goes on from there: last - (i + skipped) as (last - skipped) -
    // i, so that it still falls.
    b.setInsertionPoint(loop);
    Value iv = loop.getInductionVar();
    Value last = sub(falls.getLhs(), skipped);
    falls.getLhsMutable().assign(last);
    loop.getUpperBoundMutable().assign(sub(loop.getUpperBound(), skipped));
    for (auto other : loop.getBody()->getOps<ApplyMaskOp>()) {
      // A tile is full for the group when it is for the group's own rows.
      other.getFullEndMutable().assign(
          b.createOrFold<arith::MinSIOp>(loc, own4[3], add(last, constant(1))));
      other.getFullBeginMutable().assign(own4[2]);
    }
    // Uses of rings are numbered by the counter, or by a number and the
    // counter.
    OpBuilder body = OpBuilder::atBlockBegin(loop.getBody());
    Value counter;
    llvm::SmallPtrSet<Operation *, 4> numbers; // each once
    for (Operation &op : *loop.getBody()) {
      if (!isa<RingWaitOp, RingReleaseOp>(op))
        continue;
      Value use = op.getOperand(1);
      auto number = use.getDefiningOp<arith::AddIOp>();
      if (use == iv) {
        if (!counter)
          counter = arith::AddIOp::create(body, loc, skipped, iv);
        op.setOperand(1, counter);
      } else if (number && number.getRhs() == iv &&
                 numbers.insert(number).second) {
        b.setInsertionPoint(loop);
        number.getLhsMutable().assign(add(number.getLhs(), skipped));
      }
    }
    return success();
  }

  /// Waits for and releases what the group does not need.
  void skipLoop(OpBuilder &b, scf::ForOp loop, Value count) {
    Location loc = loop.getLoc();
    auto skip =
        scf::ForOp::create(b, loc, loop.getLowerBound(), count, loop.getStep());
    OpBuilder inner = OpBuilder::atBlockBegin(skip.getBody());
    IRMapping map;
    map.map(loop.getInductionVar(), skip.getInductionVar());
    for (Operation &op : loop.getBody()->without_terminator()) {
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
