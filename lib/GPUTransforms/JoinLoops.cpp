//===- JoinLoops.cpp - fa2gpu-join-loops ----------------------------------===//
//
// Where copies are some tiles ahead of the work, the last tiles' work is a loop
// of its own, whose body is the end of the loop before:
//
//   for i in [a, b) { copies(i + d); work(i) }
//   for i in [b, c) { work(i) }
//
// becomes
//
//   for i in [min(a, b), c) { if (i < b) copies(i + d); work(i) }
//
//===----------------------------------------------------------------------===//

#include "Decided.h"

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fa2 {
#define GEN_PASS_DEF_JOINLOOPS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Two loops, of which the second goes on where the first one stops.
class Pair {
public:
  Pair(scf::ForOp first, scf::ForOp second) : first(first), second(second) {}

  /// Whether the second's body is the end of the first's.
  bool matches() {
    if (first.getUpperBound() != second.getLowerBound() ||
        first.getStep() != second.getStep() ||
        !llvm::equal(first.getResults(), second.getInits()) ||
        !llvm::all_of(first->getUsers(),
                      [&](Operation *user) { return user == second; }))
      return false;
    for (auto [x, y] : llvm::zip(first.getBody()->getArguments(),
                                 second.getBody()->getArguments()))
      same[y] = x;
    effects(first, ahead);
    SmallVector<Operation *> rest, all;
    effects(second, rest);
    if (rest.empty() || ahead.size() <= rest.size())
      return false;
    all = ahead;
    ahead.truncate(all.size() - rest.size());
    for (auto [x, y] :
         llvm::zip_equal(ArrayRef(all).drop_front(ahead.size()), rest))
      if (!equivalent(x, y))
        return false;
    for (auto [x, y] :
         llvm::zip_equal(first.getYieldedValues(), second.getYieldedValues()))
      if (!equivalent(x, y))
        return false;
    behind = all[ahead.size()];
    return llvm::none_of(ahead, [&](Operation *op) {
      return llvm::any_of(op->getUsers(), [&](Operation *user) {
        return !llvm::is_contained(ahead, ancestor(user));
      });
    });
  }

  void join() {
    Location loc = first.getLoc();
    OpBuilder b(first);
    Value until = first.getUpperBound();
    first.setLowerBound(
        b.createOrFold<arith::MinSIOp>(loc, first.getLowerBound(), until));
    first.setUpperBound(second.getUpperBound());
    // Its bound may stand between the two.
    if (Operation *bound = second.getUpperBound().getDefiningOp();
        bound && bound->getBlock() == first->getBlock() &&
        first->isBeforeInBlock(bound))
      first->moveBefore(second);
    b.setInsertionPoint(behind);
    auto isAhead = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                         first.getInductionVar(), until);
    auto branch = scf::IfOp::create(b, loc, isAhead);
    for (Operation *op : ahead)
      op->moveBefore(branch.thenBlock()->getTerminator());
    // What these alone need goes with them.
    for (Operation *op = isAhead->getPrevNode(); op;) {
      Operation *before = op->getPrevNode();
      bool inside = isPure(op) && !op->use_empty() &&
                    llvm::all_of(op->getUsers(), [&](Operation *user) {
                      return branch->isProperAncestor(user);
                    });
      if (inside)
        op->moveBefore(&branch.thenBlock()->front());
      op = before;
    }
    decided(first, "fa2gpu-join-loops", "join",
            "the last tiles' work stands once, with that of the tiles before");
    second.replaceAllUsesWith(first.getResults());
    second.erase();
  }

private:
  static void effects(scf::ForOp loop, SmallVectorImpl<Operation *> &ops) {
    for (Operation &op : loop.getBody()->without_terminator())
      if (!isPure(&op))
        ops.push_back(&op);
  }

  Operation *ancestor(Operation *op) {
    return first.getBody()->findAncestorOpInBlock(*op);
  }

  bool equivalent(Value x, Value y) {
    if (auto found = same.find(y); found != same.end())
      return found->second == x;
    if (x == y)
      return true;
    Operation *one = x.getDefiningOp(), *other = y.getDefiningOp();
    if (!one || !other || one->getBlock() != first.getBody() ||
        other->getBlock() != second.getBody() || !isPure(one) ||
        cast<OpResult>(x).getResultNumber() !=
            cast<OpResult>(y).getResultNumber())
      return false;
    return equivalent(one, other);
  }

  bool equivalent(Operation *one, Operation *other) {
    bool equal = OperationEquivalence::isEquivalentTo(
        one, other, [&](Value x, Value y) { return success(equivalent(x, y)); },
        [&](Value x, Value y) { same[y] = x; },
        OperationEquivalence::IgnoreLocations);
    if (equal)
      for (auto [x, y] : llvm::zip(one->getResults(), other->getResults()))
        same[y] = x;
    return equal;
  }

  scf::ForOp first, second;
  DenseMap<Value, Value> same;    // of the second's values, the first's
  SmallVector<Operation *> ahead; // of the first alone
  Operation *behind = nullptr;    // what comes after those
};

struct JoinLoopsPass : public fa2::impl::JoinLoopsBase<JoinLoopsPass> {
  void runOnOperation() override {
    // Where the work is short, twice of it costs less than the branch.
    if (!getOperation().getSchedule().getTurnsFinish() &&
        !getOperation().getSchedule().getJoinLoops())
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    // From the last one on, as a loop that has joined is gone.
    for (scf::ForOp loop : llvm::reverse(loops))
      if (scf::ForOp next = behind(loop)) {
        Pair pair(loop, next);
        if (pair.matches())
          pair.join();
      }
  }

  /// The loop that comes next, with nothing but numbers between.
  static scf::ForOp behind(scf::ForOp loop) {
    Operation *next = loop->getNextNode();
    while (next && isPure(next) && !isa<scf::ForOp>(next))
      next = next->getNextNode();
    return dyn_cast_or_null<scf::ForOp>(next);
  }
};

} // namespace
