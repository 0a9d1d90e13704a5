//===- NumberUses.cpp - fa2gpu-number-uses --------------------------------===//
//
// A cursor that goes on by one in each iteration of a loop is where it began
// plus the loop's counter: then no register carries it. Others stay carried.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {
#define GEN_PASS_DEF_NUMBERUSES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// A sum of values, each some times, and a constant.
struct Sum {
  SmallVector<std::pair<Value, int64_t>, 4> terms;
  int64_t constant = 0;

  size_t size() const { return terms.size() + (constant != 0); }
  bool operator==(const Sum &o) const {
    return constant == o.constant && terms == o.terms;
  }
  void add(Value v, int64_t times) {
    llvm::APInt c;
    if (matchPattern(v, m_ConstantInt(&c))) {
      constant += times * c.getSExtValue();
      return;
    }
    auto *it = llvm::find_if(terms, [&](auto &t) { return t.first == v; });
    if (it == terms.end())
      terms.push_back({v, times});
    else if ((it->second += times) == 0)
      terms.erase(it);
  }
};

/// Puts what a value is the sum or the difference of in its place where that
/// leaves fewer terms.
Sum simplified(const Sum &sum) {
  for (auto [v, times] : sum.terms) {
    Operation *op = v.getDefiningOp();
    if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op))
      continue;
    Sum other = sum;
    other.add(v, -times);
    other.add(op->getOperand(0), times);
    other.add(op->getOperand(1), isa<arith::AddIOp>(op) ? times : -times);
    if (other.size() < sum.size())
      return simplified(other);
  }
  return sum;
}

Value materialize(OpBuilder &b, Location loc, const Sum &sum) {
  Value total;
  for (auto [v, times] : sum.terms)
    for (int64_t i = 0; i < std::abs(times); ++i)
      if (!total)
        total = times > 0
                    ? v
                    : arith::SubIOp::create(
                          b, loc, arith::ConstantIndexOp::create(b, loc, 0), v);
      else if (times > 0)
        total = arith::AddIOp::create(b, loc, total, v);
      else
        total = arith::SubIOp::create(b, loc, total, v);
  if (total && sum.constant == 0)
    return total;
  Value constant = arith::ConstantIndexOp::create(b, loc, sum.constant);
  return total ? arith::AddIOp::create(b, loc, total, constant) : constant;
}

struct NumberUsesPass : public fa2::impl::NumberUsesBase<NumberUsesPass> {
  void runOnOperation() override {
    getOperation().walk([&](scf::ForOp loop) {
      count(loop);
      mergeCarried(loop);
    });
    getOperation().walk([&](TileLoopOp loop) {
      mergeThroughLoops(loop);
      merge(loop);
    });
    // What is left to say is said where it is used.
    for (auto &[cursor, sum] : ends)
      for (OpOperand &use : llvm::make_early_inc_range(cursor.getUses())) {
        OpBuilder b(use.getOwner());
        use.set(materialize(b, cursor.getLoc(), sum));
      }
    ends.clear();
  }

  /// The number that a cursor is: operations that take a use add one.
  Sum numberOf(Value cursor) {
    Sum sum;
    for (Operation *op = cursor.getDefiningOp();
         isa_and_nonnull<RingAcquireOp, RingWaitOp>(op);
         op = cursor.getDefiningOp()) {
      cursor = op->getOperand(1);
      ++sum.constant;
    }
    if (auto it = ends.find(cursor); it != ends.end()) {
      for (auto [v, times] : it->second.terms)
        sum.add(v, times);
      sum.constant += it->second.constant;
    } else if (auto add = cursor.getDefiningOp<arith::AddIOp>()) {
      sum.add(add.getLhs(), 1);
      sum.add(add.getRhs(), 1);
    } else {
      sum.add(cursor, 1);
    }
    return simplified(sum);
  }

  /// Cursors that begin and go on alike are one.
  void mergeCarried(scf::ForOp loop) {
    SmallVector<std::pair<Sum, unsigned>> kept;
    for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs())) {
      if (!arg.getType().isIndex())
        continue;
      Sum step = numberOf(loop.getYieldedValues()[i]);
      step.add(arg, -1);
      step = simplified(step);
      Value init = loop.getInitArgs()[i];
      auto *same = llvm::find_if(kept, [&](const auto &other) {
        return other.first == step && loop.getInitArgs()[other.second] == init;
      });
      if (same == kept.end()) {
        kept.push_back({step, i});
        continue;
      }
      BlockArgument instead = loop.getRegionIterArg(same->second);
      for (auto &[cursor, sum] : ends)
        for (auto &term : sum.terms)
          if (term.first == arg)
            term.first = instead;
      arg.replaceAllUsesWith(instead);
      loop.getYieldedValuesMutable()->slice(i, 1).front().set(arg);
      loop.getResult(i).replaceAllUsesWith(loop.getResult(same->second));
    }
  }

  /// Loops over places do not end before they begin.
  void count(scf::ForOp loop) {
    if (!matchPattern(loop.getStep(), m_One()))
      return;
    for (auto [i, arg] : llvm::enumerate(loop.getRegionIterArgs())) {
      Sum step;
      if (arg.getType().isIndex())
        step = numberOf(loop.getYieldedValues()[i]);
      step.add(arg, -1);
      if (!step.terms.empty() || step.constant != 1)
        continue;
      Sum begin = numberOf(loop.getInitArgs()[i]);
      begin.add(loop.getLowerBound(), -1);
      begin = simplified(begin);
      Sum end = begin;
      end.add(loop.getUpperBound(), 1);
      ends[loop.getResult(i)] = simplified(end);
      number(loop, arg, begin);
      loop.getYieldedValuesMutable()->slice(i, 1).front().set(arg);
    }
  }

  /// `arg` is begin + the counter.
  static void number(scf::ForOp loop, BlockArgument arg, const Sum &begin) {
    Operation *first = nullptr;
    for (Operation *user : arg.getUsers()) {
      Operation *top = loop.getBody()->findAncestorOpInBlock(*user);
      if (!first || top->isBeforeInBlock(first))
        first = top;
    }
    if (!first)
      return;
    // Before the arithmetic that stands there.
    while (first->getPrevNode() && isPure(first->getPrevNode()))
      first = first->getPrevNode();
    OpBuilder outside(loop), inside(first);
    Location loc = loop.getLoc();
    Value n = loop.getInductionVar();
    if (begin.constant != 0)
      n = arith::AddIOp::create(
          inside, loc, n,
          arith::ConstantIndexOp::create(inside, loc, begin.constant));
    if (!begin.terms.empty()) {
      Sum rest = begin;
      rest.constant = 0;
      n = arith::AddIOp::create(inside, loc, materialize(outside, loc, rest),
                                n);
    }
    arg.replaceAllUsesWith(n);
  }

  /// What a tile adds to a cursor that one of its loops carries on: the loop
  /// and what an iteration adds.
  std::pair<scf::ForOp, Sum> stepOf(Value next, Value arg) {
    auto result = dyn_cast<OpResult>(next);
    auto loop = result ? dyn_cast<scf::ForOp>(result.getOwner()) : scf::ForOp();
    if (!loop || loop.getInitArgs()[result.getResultNumber()] != arg)
      return {};
    Sum step = numberOf(loop.getYieldedValues()[result.getResultNumber()]);
    step.add(loop.getRegionIterArg(result.getResultNumber()), -1);
    return {loop, simplified(step)};
  }

  /// Cursors that begin and go on alike are one, where a loop in the tile
  /// carries them on: that loop sees them as different, as the tile does.
  void mergeThroughLoops(TileLoopOp loop) {
    Block &body = loop.getBody().front();
    auto yield = cast<TileYieldOp>(body.getTerminator());
    SmallVector<std::tuple<scf::ForOp, Sum, BlockArgument>> kept;
    llvm::SetVector<scf::ForOp> merged;
    for (size_t i = 0; i < loop.getInits().size();) {
      BlockArgument arg = loop.getCarried()[i];
      auto [inner, step] = stepOf(yield.getCursors()[i], arg);
      auto *same = llvm::find_if(kept, [&, in = inner, by = step](auto &other) {
        return std::get<0>(other) == in && std::get<1>(other) == by;
      });
      bool fromZero = matchPattern(loop.getInits()[i], m_Zero());
      if (!inner || !fromZero || same == kept.end()) {
        if (inner && fromZero)
          kept.push_back({inner, step, arg});
        ++i;
        continue;
      }
      replaceCarried(loop, i, std::get<2>(*same));
      merged.insert(inner);
    }
    for (scf::ForOp inner : merged)
      mergeCarried(inner);
  }

  /// Cursors that begin and go on alike are one, and those that go on by one
  /// are the number of the tile.
  void merge(TileLoopOp loop) {
    Block &body = loop.getBody().front();
    auto yield = cast<TileYieldOp>(body.getTerminator());
    SmallVector<std::pair<Sum, Value>> kept;
    Sum one;
    one.constant = 1;
    kept.push_back({one, loop.getVisit()});
    OpBuilder b(yield);
    for (size_t i = 0; i < loop.getInits().size();) {
      BlockArgument arg = loop.getCarried()[i];
      Sum next = numberOf(yield.getCursors()[i]), step = next;
      step.add(arg, -1);
      auto *same = llvm::find_if(
          kept, [&](const auto &other) { return other.first == step; });
      bool fromZero = matchPattern(loop.getInits()[i], m_Zero());
      Value instead;
      if (step == Sum())
        instead = loop.getInits()[i];
      else if (same != kept.end() && fromZero)
        instead = same->second;
      if (!instead) {
        if (fromZero)
          kept.push_back({step, arg});
        yield->setOperand(i, materialize(b, loop.getLoc(), next));
        ++i;
        continue;
      }
      replaceCarried(loop, i, instead);
    }
  }

  void replaceCarried(TileLoopOp loop, size_t i, Value instead) {
    Block &body = loop.getBody().front();
    BlockArgument arg = loop.getCarried()[i];
    for (auto &[cursor, sum] : ends)
      for (auto &term : sum.terms)
        if (term.first == arg)
          term.first = instead;
    arg.replaceAllUsesWith(instead);
    cast<TileYieldOp>(body.getTerminator()).getCursorsMutable().erase(i);
    loop.getInitsMutable().erase(i);
    body.eraseArgument(arg.getArgNumber());
  }

  /// The numbers that loops end with.
  llvm::MapVector<Value, Sum> ends;
};

} // namespace
