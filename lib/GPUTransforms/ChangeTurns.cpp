//===- ChangeTurns.cpp - fa2gpu-change-turns ------------------------------===//

#include "Decided.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

namespace fa2 {
#define GEN_PASS_DEF_CHANGETURNS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Has the arithmetic that gives `value` stand before `op` too, where it is in
/// the same block and can be moved. Whether it does.
bool standsBefore(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != op->getBlock() || def->isBeforeInBlock(op))
    return true;
  if (!isPure(def) || !llvm::all_of(def->getOperands(), [&](Value operand) {
        return standsBefore(operand, op);
      }))
    return false;
  def->moveBefore(op);
  return true;
}

/// Has scalars that are used behind `start` alone stand there, where the tensor
/// cores compute what is added: nobody waits for them then.
void sinkBehind(Operation *start) {
  Operation *at = start;
  for (Operation *op = start->getPrevNode(); op;) {
    Operation *before = op->getPrevNode();
    auto isBehind = [&](Operation *user) {
      Operation *here = start->getBlock()->findAncestorOpInBlock(*user);
      return here && start->isBeforeInBlock(here);
    };
    auto isScalar = [](Type type) { return type.isIntOrIndex(); };
    if (isPure(op) && op->getNumRegions() == 0 &&
        llvm::all_of(op->getResultTypes(), isScalar) &&
        llvm::all_of(op->getUsers(), isBehind))
      op->moveAfter(at);
    op = before;
  }
}

/// The additions to one sum, in the order in which a block comes to them.
class Turns {
public:
  Turns(Value counters, TurnChange how)
      : counters(counters), sees(how == TurnChange::LateSeen),
        b(counters.getContext()) {}

  /// Of the loops around `add`, those in which the counters are the same.
  Block *blockOf(AccumulateOp add) {
    Block *block = add->getBlock();
    while (block != counters.getParentBlock() &&
           isa<scf::ForOp>(block->getParentOp()))
      block = block->getParentOp()->getBlock();
    return block;
  }

  void change(Block &block) {
    root = &block;
    b.setInsertionPointToStart(&block);
    Value past = through(block, none(block.getParentOp()->getLoc()));
    Operation *end = past.getDefiningOp();
    if (!end || end->getBlock() != &block || end->isBeforeInBlock(last))
      end = last;
    b.setInsertionPointAfter(end);
    ChangeTurnOp::create(b, last->getLoc(), Type(), counters, past, Value(),
                         Value());
  }

private:
  Value none(Location loc) {
    return arith::ConstantIndexOp::create(b, loc, -1);
  }

  /// Goes through a block that begins with the turn at row `past` to be passed
  /// on, or a negative one; what it ends with.
  Value through(Block &block, Value past) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto add = dyn_cast<AccumulateOp>(op);
          add && add.getTurns() == counters) {
        past = at(add, past);
        last = add;
      } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && adds(loop)) {
        past = through(loop, past);
      }
    }
    return past;
  }

  Value through(scf::ForOp loop, Value past) {
    IRRewriter rewriter(loop.getContext());
    FailureOr<LoopLikeOpInterface> carries = loop.replaceWithAdditionalYields(
        rewriter, past, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument> carried) {
          return SmallVector<Value>{through(*loop.getBody(), carried.front())};
        });
    last = *carries;
    return (*carries)->getResults().back();
  }

  bool adds(scf::ForOp loop) {
    bool any = false;
    loop.walk([&](AccumulateOp add) {
      any |= add.getTurns() == counters && blockOf(add) == root;
    });
    return any;
  }

  /// Behind the start of the product that gives the tile, if that is waited for
  /// behind the addition before.
  Operation *placeOf(AccumulateOp add, Value row) const {
    // What no product gives is computed of the last one's.
    auto wait = add.getTile().getDefiningOp<DotWaitOp>();
    for (Operation *op = add; op && !wait; op = op->getPrevNode())
      wait = dyn_cast<DotWaitOp>(op);
    bool isLast = wait && wait->getBlock() == add->getBlock() &&
                  (!last || last->getBlock() != add->getBlock() ||
                   last->isBeforeInBlock(wait));
    return isLast && standsBefore(row, wait) &&
                   (!add.getFirst() || standsBefore(add.getFirst(), wait))
               ? wait
               : add;
  }

  Value at(AccumulateOp add, Value past) {
    Location loc = add.getLoc();
    Value row = add.getSharedRow() ? add.getSharedRow() : add.getRow();
    if (add.getBegins()) {
      Operation *before = placeOf(add, row);
      b.setInsertionPoint(before);
      auto change = ChangeTurnOp::create(b, loc, sees ? b.getI32Type() : Type(),
                                         counters, past, sees ? row : Value(),
                                         sees ? add.getFirst() : Value());
      decided(add, "fa2gpu-change-turns", "turn",
              "the turn before is passed on {0}",
              before == add ? "before the addition" : "behind its product");
      add.getSeenMutable().assign(change->getResults());
      if (auto wait = dyn_cast<DotWaitOp>(before))
        if (Operation *start = wait.getSource().getDefiningOp();
            start && start->getBlock() == before->getBlock())
          sinkBehind(start);
      past = none(loc);
    }
    if (!add.getEnds())
      return past;
    add.setLater(true);
    b.setInsertionPointAfter(add);
    if (!add.getLast())
      return row;
    return arith::SelectOp::create(b, loc, add.getLast(), row, past);
  }

  Value counters;
  bool sees; // whether the next turn is looked for too
  OpBuilder b;
  Block *root = nullptr;     // whose additions are followed
  Operation *last = nullptr; // that adds, or a loop that does
};

struct ChangeTurnsPass : public fa2::impl::ChangeTurnsBase<ChangeTurnsPass> {
  void runOnOperation() override {
    ScheduleAttr schedule = getOperation().getSchedule();
    llvm::MapVector<Value, std::pair<TurnChange, llvm::SetVector<Block *>>>
        sums;
    getOperation().walk([&](AccumulateOp add) {
      Value counters = add.getTurns();
      TurnChange how = add.changeIn(schedule);
      if (!counters || how == TurnChange::AtOnce || how == TurnChange::ByRoles)
        return;
      auto &[change, blocks] = sums[counters];
      change = how;
      blocks.insert(Turns(counters, how).blockOf(add));
    });
    for (auto &[counters, sum] : sums)
      for (Block *block : sum.second)
        Turns(counters, sum.first).change(*block);
  }
};

} // namespace
