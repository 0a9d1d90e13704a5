//===- ScoreDerivative.cpp - a score program's derivative -----------------===//
//
// Reverse mode: each value gets its adjoint, the result's derivative by it,
// from those of its users, the last operation first. The adjoint of an arm that
// a select does not take is exactly 0, and stays so whatever it is multiplied
// by: the derivative of an arm not taken may be infinite.
//
//===----------------------------------------------------------------------===//

#include "ScoreDerivative.h"
#include "ScoreProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numbers>

using namespace mlir;
using namespace fa2;

namespace {

class Adjoints {
public:
  Adjoints(Region &score, ArrayRef<int64_t> grads)
      : block(score.front()), b(&getContext()) {
    b.setInsertionPoint(block.getTerminator());
    for (int64_t extra : grads)
      wanted.push_back(block.getArgument(ScoreProgram::FirstExtra + extra));
  }

  LogicalResult run() {
    findVarying();
    auto yield = cast<YieldOp>(block.getTerminator());
    Value result = yield.getValues()[0];
    SmallVector<Operation *> steps;
    for (Operation &step : block.without_terminator())
      steps.push_back(&step);
    if (varying.contains(result))
      add(result, real(yield.getLoc(), 1.0f), /*guarded=*/false);
    llvm::SetVector<Operation *> needed = ScoreProgram::neededBy(result);
    for (Operation *step : llvm::reverse(steps))
      if (needed.contains(step) && failed(propagate(step)))
        return failure();
    Value slope = adjoints.lookup(score()).value;
    yield.getValuesMutable().append(slope ? slope : real(yield.getLoc(), 0.0f));
    contribute(steps);
    return success();
  }

private:
  struct Adjoint {
    Value value;
    bool guarded = false; // exactly 0 where no select takes it
  };

  MLIRContext &getContext() { return *block.getParentOp()->getContext(); }
  Value score() { return block.getArgument(ScoreProgram::Score); }

  /// Values that the score, or what else there is to derive by, has a part in.
  void findVarying() {
    varying.insert(score());
    varying.insert_range(wanted);
    for (Operation &step : block.without_terminator())
      if (llvm::any_of(step.getOperands(),
                       [&](Value v) { return varying.contains(v); }))
        varying.insert(step.getResult(0));
  }

  /// Reads, and scalars, of what is wanted hand their adjoints on.
  void contribute(ArrayRef<Operation *> steps) {
    for (Value extra : wanted) {
      if (Value slope = adjoints.lookup(extra).value)
        ContributeOp::create(b, slope.getLoc(), slope, extra, ValueRange{});
      for (Operation *step : steps)
        if (auto read = dyn_cast<tensor::ExtractOp>(step);
            read && read.getTensor() == extra)
          if (Value slope = adjoints.lookup(read).value)
            ContributeOp::create(b, read.getLoc(), slope, extra,
                                 read.getIndices());
    }
  }

  Value real(Location loc, float value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value multiply(Location loc, Value x, Value y) {
    return b.createOrFold<arith::MulFOp>(loc, x, y);
  }

  void add(Value to, Value adjoint, bool guarded) {
    if (!varying.contains(to))
      return;
    Adjoint &sum = adjoints[to];
    if (!sum.value) {
      sum = {adjoint, guarded};
      return;
    }
    sum.value = arith::AddFOp::create(b, adjoint.getLoc(), sum.value, adjoint);
    sum.guarded &= guarded;
  }

  /// The adjoint times a factor, which does not matter where no arm is taken.
  void addProduct(Value to, Adjoint adjoint, Value factor) {
    if (!varying.contains(to))
      return;
    Location loc = factor.getLoc();
    Value product = multiply(loc, factor, adjoint.value);
    if (adjoint.guarded) {
      Value zero = real(loc, 0.0f);
      Value untaken = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                            adjoint.value, zero);
      product = arith::SelectOp::create(b, loc, untaken, zero, product);
    }
    add(to, product, adjoint.guarded);
  }

  void addArms(Location loc, Value condition, Value taken, Value other,
               Adjoint adjoint) {
    Value zero = real(loc, 0.0f);
    if (varying.contains(taken))
      add(taken,
          arith::SelectOp::create(b, loc, condition, adjoint.value, zero),
          /*guarded=*/true);
    if (varying.contains(other))
      add(other,
          arith::SelectOp::create(b, loc, condition, zero, adjoint.value),
          /*guarded=*/true);
  }

  LogicalResult propagate(Operation *step) {
    Value r = step->getResult(0);
    if (!varying.contains(r))
      return success();
    if (isa<arith::BitcastOp>(step))
      return step->emitOpError() << "has no derivative: expected "
                                    "differentiable operations between the "
                                    "score and the result";
    // Integers and comparisons are constant but for jumps.
    Adjoint adjoint = adjoints.lookup(r);
    if (!adjoint.value ||
        isa<arith::SIToFPOp, arith::UIToFPOp, tensor::ExtractOp>(step))
      return success();
    return rule(step, adjoint);
  }

  LogicalResult rule(Operation *step, Adjoint adjoint);

  Block &block;
  OpBuilder b;
  SmallVector<Value> wanted;
  llvm::SmallPtrSet<Value, 16> varying;
  llvm::DenseMap<Value, Adjoint> adjoints;
};

LogicalResult Adjoints::rule(Operation *step, Adjoint adjoint) {
  Location loc = step->getLoc();
  Value r = step->getResult(0), x = step->getOperand(0), g = adjoint.value;
  Value y = step->getNumOperands() > 1 ? step->getOperand(1) : Value();
  auto negated = [&](Value v) -> Value {
    return arith::NegFOp::create(b, loc, v);
  };
  if (isa<arith::AddFOp, arith::SubFOp>(step)) {
    add(x, g, adjoint.guarded);
    if (varying.contains(y))
      add(y, isa<arith::SubFOp>(step) ? negated(g) : g, adjoint.guarded);
  } else if (isa<arith::ExtFOp>(step)) { // of a read
    add(x, g, adjoint.guarded);
  } else if (isa<arith::NegFOp>(step)) {
    add(x, negated(g), adjoint.guarded);
  } else if (isa<arith::MulFOp>(step)) {
    addProduct(x, adjoint, y);
    addProduct(y, adjoint, x);
  } else if (isa<arith::DivFOp>(step)) {
    Value inverse = arith::DivFOp::create(b, loc, real(loc, 1.0f), y);
    addProduct(x, adjoint, inverse);
    if (varying.contains(y))
      addProduct(y, adjoint, negated(multiply(loc, r, inverse)));
  } else if (isa<arith::MaximumFOp, arith::MinimumFOp>(step)) {
    auto first = isa<arith::MaximumFOp>(step) ? arith::CmpFPredicate::OGE
                                              : arith::CmpFPredicate::OLE;
    addArms(loc, arith::CmpFOp::create(b, loc, first, x, y), x, y, adjoint);
  } else if (auto select = dyn_cast<arith::SelectOp>(step)) {
    if (!select.getCondition().getType().isInteger(1))
      return step->emitOpError() << "has no derivative";
    addArms(loc, select.getCondition(), select.getTrueValue(),
            select.getFalseValue(), adjoint);
  } else if (isa<math::AbsFOp>(step)) {
    Value negative = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x,
                                           real(loc, 0.0f));
    add(x, arith::SelectOp::create(b, loc, negative, negated(g), g),
        adjoint.guarded);
  } else if (isa<math::ExpOp>(step)) {
    addProduct(x, adjoint, r);
  } else if (isa<math::Exp2Op>(step)) {
    addProduct(x, adjoint,
               multiply(loc, r, real(loc, std::numbers::ln2_v<float>)));
  } else if (isa<math::TanhOp>(step)) {
    Value square = multiply(loc, r, r);
    addProduct(x, adjoint,
               arith::SubFOp::create(b, loc, real(loc, 1.0f), square));
  } else {
    return step->emitOpError() << "has no derivative: expected differentiable "
                                  "operations between the score and the result";
  }
  return success();
}

} // namespace

LogicalResult fa2::addDerivative(Region &score, ArrayRef<int64_t> grads) {
  return Adjoints(score, grads).run();
}
