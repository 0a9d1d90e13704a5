//===- ReduceDivisions.cpp - fa2-reduce-divisions -------------------------===//

#include "fa2/NVVMTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

namespace fa2 {
#define GEN_PASS_DEF_REDUCEDIVISIONS
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;

namespace {

/// counter + offset + the sum of invariants, of `type`.
struct Dividend {
  SmallVector<Value> invariants;
  int64_t offset = 0;
  bool counts = false; // the loop's counter is among the terms, once
};

/// Divisions of dividends that differ in their offsets alone.
struct Group {
  Type type;
  int64_t divisor;
  SmallVector<Value> invariants;
  SmallVector<std::pair<Operation *, int64_t>> divisions; // with offsets
  bool quotients = false; // asked for, not remainders alone
};

/// Adds the terms of v; false where one of them changes otherwise.
bool addTerms(Value v, scf::ForOp loop, Dividend &sum) {
  llvm::APInt constant;
  if (matchPattern(v, m_ConstantInt(&constant))) {
    sum.offset += constant.getSExtValue();
    return !constant.isNegative(); // the first dividend might be below zero
  }
  if (v == loop.getInductionVar())
    return !std::exchange(sum.counts, true);
  if (loop.isDefinedOutsideOfLoop(v)) {
    sum.invariants.push_back(v);
    return true;
  }
  if (auto cast = v.getDefiningOp<arith::IndexCastOp>())
    return addTerms(cast.getIn(), loop, sum);
  auto add = v.getDefiningOp<arith::AddIOp>();
  return add && addTerms(add.getLhs(), loop, sum) &&
         addTerms(add.getRhs(), loop, sum);
}

/// Unsigned divisions by a constant that is no power of two, by dividend.
SmallVector<Group> groupsOf(scf::ForOp loop) {
  SmallVector<Group> groups;
  loop.getBody()->walk([&](Operation *op) {
    llvm::APInt divisor;
    Dividend dividend;
    if (!isa<arith::RemUIOp, arith::DivUIOp>(op) ||
        !matchPattern(op->getOperand(1), m_ConstantInt(&divisor)) ||
        divisor.isZero() || divisor.isPowerOf2() ||
        !addTerms(op->getOperand(0), loop, dividend) || !dividend.counts)
      return;
    Type type = op->getResult(0).getType();
    auto *group = llvm::find_if(groups, [&](const Group &g) {
      return g.type == type && g.divisor == divisor.getSExtValue() &&
             g.invariants == dividend.invariants;
    });
    if (group == groups.end())
      group = &groups.emplace_back(
          Group{type, divisor.getSExtValue(), dividend.invariants, {}});
    group->divisions.emplace_back(op, dividend.offset);
    group->quotients |= isa<arith::DivUIOp>(op);
  });
  return groups;
}

struct Division {
  Value remainder, quotient; // null where no one asks for it

  SmallVector<Value> values() const {
    return quotient ? SmallVector<Value>{remainder, quotient}
                    : SmallVector<Value>{remainder};
  }
};

struct Builder {
  OpBuilder &b;
  Location loc;
  const Group &group;

  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, loc, group.type,
                                     b.getIntegerAttr(group.type, value));
  }

  /// Of the group's dividend at `counter` + offset.
  Division divide(Value counter, int64_t offset) {
    auto cast = [&](Value v) {
      return v.getType() == group.type
                 ? v
                 : arith::IndexCastOp::create(b, loc, group.type, v);
    };
    Value sum = cast(counter);
    for (Value term : group.invariants)
      sum = arith::AddIOp::create(b, loc, sum, cast(term));
    sum = arith::AddIOp::create(b, loc, sum, constant(offset));
    Value by = constant(group.divisor);
    Division result{arith::RemUIOp::create(b, loc, sum, by), Value()};
    if (group.quotients)
      result.quotient = arith::DivUIOp::create(b, loc, sum, by);
    return result;
  }

  /// Of a dividend larger by one.
  Division next(Division d) {
    Value one = constant(1);
    Value remainder = arith::AddIOp::create(b, loc, d.remainder, one);
    Value wraps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        remainder, constant(group.divisor));
    Division result{
        arith::SelectOp::create(b, loc, wraps, constant(0), remainder),
        Value()};
    if (d.quotient)
      result.quotient = arith::SelectOp::create(
          b, loc, wraps, arith::AddIOp::create(b, loc, d.quotient, one),
          d.quotient);
    return result;
  }
};

struct ReduceDivisionsPass
    : public fa2::impl::ReduceDivisionsBase<ReduceDivisionsPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (getConstantIntValue(loop.getStep()) == 1)
        for (const Group &group : groupsOf(loop))
          loop = reduce(loop, group);
  }

  /// The loop with the group's first division carried from one iteration to
  /// the next.
  static scf::ForOp reduce(scf::ForOp loop, const Group &group) {
    auto [least, most] = std::minmax_element(
        group.divisions.begin(), group.divisions.end(), llvm::less_second());
    int64_t first = least->second, steps = most->second - first;
    if (steps >= group.divisor) // too far ahead to be worth stepping to
      return loop;
    IRRewriter rewriter(loop);
    Division start = Builder{rewriter, loop.getLoc(), group}.divide(
        loop.getLowerBound(), first);
    SmallVector<Division> ahead; // by offset from the first
    auto yields = [&](OpBuilder &b, Location loc,
                      ArrayRef<BlockArgument> args) -> SmallVector<Value> {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(args[0].getOwner());
      ahead.push_back({args.front(), {}});
      if (group.quotients)
        ahead.front().quotient = args.back();
      Builder builder{b, loc, group};
      for (int64_t i = 0; i < std::max<int64_t>(steps, 1); ++i)
        ahead.push_back(builder.next(ahead.back()));
      return ahead[1].values();
    };
    auto carried = cast<scf::ForOp>(
        *cast<LoopLikeOpInterface>(loop.getOperation())
             .replaceWithAdditionalYields(
                 rewriter, start.values(),
                 /*replaceInitOperandUsesInLoop=*/false, yields));
    for (auto [op, offset] : group.divisions) {
      const Division &d = ahead[offset - first];
      rewriter.replaceOp(op,
                         isa<arith::RemUIOp>(op) ? d.remainder : d.quotient);
    }
    return carried;
  }
};

} // namespace
