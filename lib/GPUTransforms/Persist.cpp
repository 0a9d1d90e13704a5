//===- Persist.cpp - fa2gpu-persist ---------------------------------------===//
//
// Uses of a ring are numbered through the whole life of a block: those of one
// use a tile by the tiles visited, those of the kv loop by the key tiles taken.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fa2 {
#define GEN_PASS_DEF_PERSIST
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Tiles that the drawing role may be ahead of the others.
constexpr int64_t kQueueSlots = 2;

struct PersistPass : public fa2::impl::PersistBase<PersistPass> {
  void runOnOperation() override {
    if (!getOperation().getSchedule().getPersistent())
      return;
    SmallVector<ForEachTileOp> loops(getOperation().getOps<ForEachTileOp>());
    for (ForEachTileOp loop : loops)
      if (failed(persist(loop)))
        return signalPassFailure();
  }

  LogicalResult persist(ForEachTileOp op) {
    if (failed(checkLoops(op)))
      return failure();
    Location loc = op.getLoc();
    OpBuilder b(op);
    Type index = b.getIndexType();
    auto tile = RankedTensorType::get({1}, b.getI32Type());
    Value queue = RingCreateOp::create(
        b, loc, RingType::get(b.getContext(), kQueueSlots, tile),
        b.getStringAttr("tiles"), IntegerAttr{}, IntegerAttr{});
    auto loop = TileLoopOp::create(b, loc, op.getRows(), op.getHeads(),
                                   op.getBatches(), op.getBlockAttr(),
                                   op.getOrderAttr(), queue, UnitAttr{});
    loop.getBody().takeBody(op.getBody());
    Block &body = loop.getBody().front();
    Value visit = body.addArgument(index, loc);
    Value uses = body.addArgument(index, loc);
    op.erase();

    Value next = uses;
    for (auto kv : body.getOps<ForTilesOp>()) {
      Block &inside = kv.getBody().front();
      b.setInsertionPointToStart(&inside);
      renumber(inside, [&] {
        return arith::AddIOp::create(b, loc, uses, kv.getPlace());
      });
      b.setInsertionPointAfter(kv);
      Value count = TileCountOp::create(b, loc, kv.getRange());
      next = arith::AddIOp::create(b, loc, uses, count);
    }
    renumber(body, [&] { return visit; });
    b.setInsertionPoint(body.getTerminator());
    TileYieldOp::create(b, loc, next);
    body.getTerminator()->erase();
    return success();
  }

  /// Uses are numbered on from one loop.
  static LogicalResult checkLoops(ForEachTileOp op) {
    Operation *loop = nullptr;
    for (Operation &inner : op.getBody().front())
      if (isa<LoopLikeOpInterface>(inner)) {
        if (loop || !isa<ForTilesOp>(inner))
          return inner.emitOpError()
                 << "expected one fa2.for_tiles, whose tiles number uses of "
                    "rings, and no other loop";
        loop = &inner;
      }
    return success();
  }

  /// The ring uses that stand in `block` itself.
  template <typename Fn> void renumber(Block &block, Fn number) {
    Value value;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa<RingAcquireOp, RingCommitOp, RingWaitOp, RingReleaseOp,
               TensorCopyOp>(op))
        continue;
      if (!value)
        value = number();
      // The use is the last operand of all of these.
      op.setOperand(op.getNumOperands() - 1, value);
    }
  }
};

} // namespace
