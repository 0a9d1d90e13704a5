//===- Cursors.cpp - the numbers of a ring's uses -------------------------===//

#include "fa2/Rings/Cursors.h"

#include "fa2/Dialect/FA2GPU/Roles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

#include <deque>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// One side of one ring: the role's that fills it, or one's that reads it.
struct Cursor {
  Value ring;
  StringAttr role;
  bool fills, phases;

  bool uses(Operation *op) const {
    return op->getNumOperands() > 0 && op->getOperand(0) == ring &&
           roleOf(op) == role;
  }
  bool takes(Operation *op) const {
    return uses(op) && (fills ? isa<RingAcquireOp>(op) : isa<RingWaitOp>(op));
  }
  bool gives(Operation *op) const {
    return uses(op) && (fills ? isa<RingCommitOp>(op) : isa<RingReleaseOp>(op));
  }
  bool standsIn(Operation *op) const {
    return op
        ->walk([&](Operation *inner) {
          return takes(inner) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Numbers the uses in `block` from `n` on; the number after them.
  Value thread(Block &block, Value n) const;
  Value threadLoop(Operation *loop, Value n) const;
  Value threadTiles(TileLoopOp loop, Value n) const;
};

Value Cursor::thread(Block &block, Value n) const {
  std::deque<Value> held; // taken and not yet given back
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (takes(&op)) {
      op.setOperand(1, n);
      held.push_back(n);
      n = op.getResult(1);
    } else if (gives(&op)) {
      op.setOperand(1, held.front());
      held.pop_front();
    } else if (OpOperand *use = signalledUse(&op);
               use && fills && signalledRing(*use) == ring) {
      use->set(held.back());
    } else if (op.getNumRegions() > 0 && standsIn(&op)) {
      n = threadLoop(&op, n);
    }
  }
  return n;
}

Value Cursor::threadLoop(Operation *op, Value n) const {
  if (auto tiles = dyn_cast<TileLoopOp>(op))
    return threadTiles(tiles, n);
  auto loop = dyn_cast<LoopLikeOpInterface>(op);
  if (!loop || (!phases && !isa<ForTilesOp>(op))) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        thread(block, n);
    return n;
  }
  IRRewriter rewriter(op);
  Block &body = loop.getLoopRegions().front()->front();
  auto carried = loop.replaceWithAdditionalYields(
      rewriter, n, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
        return SmallVector<Value>{thread(body, args[0])};
      });
  return (*carried)->getResults().back();
}

Value Cursor::threadTiles(TileLoopOp loop, Value n) const {
  loop.getInitsMutable().append(n);
  Block &body = loop.getBody().front();
  Value last = thread(body, body.addArgument(n.getType(), loop.getLoc()));
  cast<TileYieldOp>(body.getTerminator()).getCursorsMutable().append(last);
  return n;
}

} // namespace

void fa2::gpu::threadCursors(Block &block, Value ring, bool phases) {
  OpBuilder b = OpBuilder::atBlockBegin(&block);
  Value first = arith::ConstantIndexOp::create(b, ring.getLoc(), 0);
  llvm::SmallSetVector<StringAttr, 2> sides[2];
  block.walk([&](Operation *op) {
    if (takesUse(op) && op->getOperand(0) == ring)
      sides[isa<RingAcquireOp>(op)].insert(roleOf(op));
  });
  for (bool fills : {true, false})
    for (StringAttr role : sides[fills])
      Cursor{ring, role, fills, phases}.thread(block, first);
}
