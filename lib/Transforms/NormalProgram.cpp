//===- NormalProgram.cpp - a score program as kernels compute it ----------===//

#include "NormalProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace fa2;

/// Up to here the softmax may round scores times its scale: docs/contract.md.
constexpr double kLargestScaled = 1e7;

NormalProgram::NormalProgram(AttentionOp op)
    : copy(cast<AttentionOp>(op->clone())), b(op.getContext()),
      loc(op.getLoc()), factor(std::numbers::ln2_v<float>) {
  Block &block = program().block();
  Value score = block.getArgument(ScoreProgram::Score);
  Value scale = block.addArgument(b.getF32Type(), loc);
  b.setInsertionPointToStart(&block);
  auto scaled = arith::MulFOp::create(b, loc, score, scale);
  score.replaceAllUsesExcept(scaled, scaled);
  invertDivisors();
  split();
  foldFactors();
  fuse();
  eraseDead();
}

void NormalProgram::eraseDead() {
  for (Operation &step :
       llvm::make_early_inc_range(llvm::reverse(program().block())))
    if (isOpTriviallyDead(&step))
      step.erase();
}

bool NormalProgram::dependsOn(Value v, ScoreProgram::Argument argument) {
  return program().dependsOn(v, argument);
}

bool NormalProgram::isTile(Value v) {
  return dependsOn(v, ScoreProgram::Score) ||
         (dependsOn(v, ScoreProgram::Row) &&
          dependsOn(v, ScoreProgram::Column));
}

/// x / y = x (1 / y), where 1 / y is computed seldom.
void NormalProgram::invertDivisors() {
  for (auto quotient :
       llvm::make_early_inc_range(program().block().getOps<arith::DivFOp>())) {
    Value x = quotient.getLhs(), y = quotient.getRhs();
    if (isTile(y) || !isTile(x))
      continue;
    b.setInsertionPoint(quotient);
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    Value inverse = arith::DivFOp::create(b, loc, one, y);
    Value product = arith::MulFOp::create(b, loc, x, inverse);
    quotient.replaceAllUsesWith(product);
    quotient.erase();
  }
}

void NormalProgram::collectTerms(Value v, bool negative,
                                 SmallVectorImpl<Term> &terms) {
  if (auto sum = v.getDefiningOp<arith::AddFOp>()) {
    collectTerms(sum.getLhs(), negative, terms);
    collectTerms(sum.getRhs(), negative, terms);
  } else if (auto difference = v.getDefiningOp<arith::SubFOp>()) {
    collectTerms(difference.getLhs(), negative, terms);
    collectTerms(difference.getRhs(), !negative, terms);
  } else if (auto minus = v.getDefiningOp<arith::NegFOp>()) {
    collectTerms(minus.getOperand(), !negative, terms);
  } else {
    terms.push_back({v, negative});
  }
}

Value NormalProgram::sumOf(ArrayRef<Term> terms) {
  Value sum;
  for (Term term : terms) {
    if (!sum)
      sum = term.negative ? arith::NegFOp::create(b, loc, term.value)
                          : term.value;
    else if (term.negative)
      sum = arith::SubFOp::create(b, loc, sum, term.value);
    else
      sum = arith::AddFOp::create(b, loc, sum, term.value);
  }
  return sum;
}

bool NormalProgram::takesFactor(Value v) {
  Operation *step = v.getDefiningOp();
  return !isTile(v) || (step && step->hasOneUse() &&
                        isa<arith::MulFOp, arith::AddFOp, arith::SubFOp,
                            arith::NegFOp, arith::SelectOp>(step));
}

Value NormalProgram::times(Value v, Value c) {
  Operation *step = v.getDefiningOp();
  if (isTile(v) && takesFactor(v)) {
    Value x = step->getOperand(0);
    if (isa<arith::NegFOp>(step))
      return arith::NegFOp::create(b, loc, times(x, c));
    Value y = step->getOperand(1);
    if (isa<arith::MulFOp>(step)) {
      if (!isTile(x) || (isTile(y) && takesFactor(x)))
        std::swap(x, y);
      if (takesFactor(y))
        return arith::MulFOp::create(b, loc, x, times(y, c));
    } else if (isa<arith::SelectOp>(step)) {
      Value z = step->getOperand(2);
      if (takesFactor(y) || takesFactor(z))
        return arith::SelectOp::create(b, loc, x, times(y, c), times(z, c));
    } else if (takesFactor(x) || takesFactor(y)) {
      Value parts[] = {times(x, c), times(y, c)};
      OperationState state(loc, step->getName(), parts, {v.getType()});
      return b.create(state)->getResult(0);
    }
  }
  return arith::MulFOp::create(b, loc, v, c);
}

/// The score as it is, or c tanh(x) for a constant c: the softmax multiplies by
/// the scale, or c, anyway.
bool NormalProgram::leaveFactor(Value result) {
  auto product = result ? result.getDefiningOp<arith::MulFOp>() : nullptr;
  if (!product)
    return false;
  Value score = program().block().getArgument(ScoreProgram::Score);
  if (product.getLhs() == score) {
    factor.reset();
    bounded = true;
    program().block().getTerminator()->setOperand(0, score);
    return true;
  }
  for (unsigned i : {0, 1}) {
    FloatAttr c;
    if (!product->getOperand(i).getDefiningOp<math::TanhOp>() ||
        !matchPattern(product->getOperand(1 - i), m_Constant(&c)))
      continue;
    double value = c.getValueAsDouble();
    if (!(value > 0 && value <= kLargestScaled))
      continue;
    factor = float(value);
    bounded = true;
    program().block().getTerminator()->setOperand(0, product->getOperand(i));
    return true;
  }
  return false;
}

/// The result's terms: those of a row apart, those of a column together, so
/// that they are one value, and the factor log2(e) into the others.
void NormalProgram::split() {
  Operation *end = program().block().getTerminator();
  b.setInsertionPoint(end);
  SmallVector<Term> terms, rows, columns, others;
  collectTerms(end->getOperand(0), false, terms);
  for (Term term : terms)
    (isTile(term.value)                            ? others
     : dependsOn(term.value, ScoreProgram::Column) ? columns
                                                   : rows)
        .push_back(term);
  Value row = sumOf(rows);
  Value whole = sumOf(others);
  if (columns.empty() && leaveFactor(whole)) {
    whole = end->getOperand(0);
  } else {
    Value c = arith::ConstantOp::create(
        b, loc, b.getF32FloatAttr(std::numbers::log2e_v<float>));
    Value sum = columns.empty()
                    ? Value()
                    : arith::MulFOp::create(b, loc, sumOf(columns), c);
    for (Term term : others) {
      Value x = times(term.value, c);
      if (!sum)
        sum = term.negative ? arith::NegFOp::create(b, loc, x).getResult() : x;
      else if (term.negative)
        sum = arith::SubFOp::create(b, loc, sum, x);
      else
        sum = arith::AddFOp::create(b, loc, x, sum);
    }
    whole = sum;
  }
  SmallVector<Value> results{whole};
  if (row)
    results.push_back(row);
  end->setOperands(results);
}

/// (x a) b = x (a b), where a b is computed seldom.
void NormalProgram::foldFactors() {
  for (auto product :
       llvm::make_early_inc_range(program().block().getOps<arith::MulFOp>())) {
    Value x = product.getLhs(), y = product.getRhs();
    if (isTile(y))
      std::swap(x, y);
    auto inner = x.getDefiningOp<arith::MulFOp>();
    if (!inner || isTile(y) || !isTile(x))
      continue;
    Value u = inner.getLhs(), v = inner.getRhs();
    if (isTile(v))
      std::swap(u, v);
    if (isTile(v))
      continue;
    b.setInsertionPoint(product);
    Value both = arith::MulFOp::create(b, loc, v, y);
    if (isTile(both)) { // a row's and a column's
      both.getDefiningOp()->erase();
      continue;
    }
    product.setOperand(0, u);
    product.setOperand(1, both);
  }
}

/// a b + c in one operation, where nothing else reads a b: best of the score,
/// as elements of a distance share products.
void NormalProgram::fuse() {
  for (auto sum :
       llvm::make_early_inc_range(program().block().getOps<arith::AddFOp>())) {
    bool first = dependsOn(sum.getLhs(), ScoreProgram::Score);
    for (unsigned i : {first ? 0 : 1, first ? 1 : 0}) {
      auto product = sum->getOperand(i).getDefiningOp<arith::MulFOp>();
      if (!product || !isTile(sum) || !isTile(product) || !product->hasOneUse())
        continue;
      b.setInsertionPoint(sum);
      Value fused = math::FmaOp::create(
          b, loc, product.getLhs(), product.getRhs(), sum->getOperand(1 - i));
      sum.replaceAllUsesWith(fused);
      sum.erase();
      product.erase();
      break;
    }
  }
}

Value NormalProgram::row() {
  Operation *end = program().block().getTerminator();
  Value last = end->getOperands().back();
  return end->getNumOperands() > 1 && last != begins ? last : Value();
}

/// x, of x log2(e); null of anything else.
static Value withoutLog2e(Value v) {
  auto product = v.getDefiningOp<arith::MulFOp>();
  FloatAttr unit;
  bool is = product && matchPattern(product.getRhs(), m_Constant(&unit)) &&
            unit.getValue() == APFloat(std::numbers::log2e_v<float>);
  return is ? product.getLhs() : Value();
}

math::FmaOp NormalProgram::scoreAndTerms() {
  Block &block = program().block();
  auto sum = program().result().getDefiningOp<math::FmaOp>();
  if (!sum || sum.getA() != block.getArgument(ScoreProgram::Score) ||
      !sum.getA().hasOneUse() || dependsOn(sum.getC(), ScoreProgram::Score))
    return {};
  Value scale = block.getArguments().back();
  return withoutLog2e(sum.getB()) == scale ? sum : math::FmaOp();
}

NormalProgram::Terms NormalProgram::terms() {
  math::FmaOp sum = scoreAndTerms();
  if (!sum)
    return Terms::Other;
  Value c = sum.getC();
  if (!dependsOn(c, ScoreProgram::Row) && dependsOn(c, ScoreProgram::Column))
    return llvm::is_contained(columns(), c) ? Terms::OfKeys : Terms::Other;
  if (!isTile(c))
    return Terms::Other;
  if (program().byDistance(c))
    return Terms::OfDistances;
  return entryOf(c) ? Terms::OfEntries : Terms::Other;
}

tensor::ExtractOp NormalProgram::entryOf(Value v) {
  auto varies = [&](Value x) {
    return dependsOn(x, ScoreProgram::Row) ||
           dependsOn(x, ScoreProgram::Column);
  };
  tensor::ExtractOp entry;
  SmallVector<Value> from{v};
  while (!from.empty()) {
    Value x = from.pop_back_val();
    Operation *step = x.getDefiningOp();
    if (!varies(x))
      continue;
    if (!step)
      return {};
    auto read = dyn_cast<tensor::ExtractOp>(step);
    if (!read) {
      llvm::append_range(from, step->getOperands());
      continue;
    }
    SmallVector<Value> own(llvm::make_filter_range(read.getIndices(), varies));
    if ((entry && entry != read) || own.size() != 1 || !isTile(own[0]))
      return {};
    entry = read;
  }
  return entry;
}

unsigned NormalProgram::entryDimension() {
  OperandRange indices = entry().getIndices();
  return llvm::find_if(indices, [&](Value v) { return isTile(v); }) -
         indices.begin();
}

void NormalProgram::takeEntriesForKeys() {
  entry().getIndicesMutable()[entryDimension()].set(
      program().block().getArgument(ScoreProgram::Column));
  eraseDead();
}

void NormalProgram::preloadTerms() {
  math::FmaOp sum = scoreAndTerms();
  Operation *end = program().block().getTerminator();
  Value row = this->row();
  b.setInsertionPoint(end);
  // (x log2(e)) / (scale log2(e)) = x / scale
  Value x = withoutLog2e(sum.getC());
  Value terms = x ? x : sum.getC(),
        by = x ? withoutLog2e(sum.getB()) : sum.getB();
  if (this->terms() == Terms::OfEntries) { // some kernels do so for each score
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    begins = arith::MulFOp::create(b, loc, terms,
                                   arith::DivFOp::create(b, loc, one, by));
  } else {
    begins = arith::DivFOp::create(b, loc, terms, by);
  }
  SmallVector<Value> results{sum.getA()};
  if (row)
    results.push_back(row);
  results.push_back(begins);
  end->setOperands(results);
  factor.reset();
  eraseDead();
}

SmallVector<Value> NormalProgram::columns() {
  SmallVector<Value> found;
  auto reads = [](Value v) {
    return llvm::any_of(ScoreProgram::neededBy(v),
                        llvm::IsaPred<tensor::ExtractOp>);
  };
  for (Operation &step : program().block())
    for (Value v : step.getOperands()) {
      bool needed = step.hasTrait<OpTrait::IsTerminator>() ||
                    (step.getNumResults() == 1 && isTile(step.getResult(0)));
      if (needed && v.getDefiningOp() && !llvm::is_contained(found, v) &&
          !isTile(v) && dependsOn(v, ScoreProgram::Column) && reads(v) &&
          (v.getType().isF32() || v.getType().isInteger(32)))
        found.push_back(v);
    }
  return found;
}
