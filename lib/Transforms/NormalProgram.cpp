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

NormalProgram::NormalProgram(Operation *op, unsigned results)
    : copy(op->clone()), results(results), b(op->getContext()),
      loc(op->getLoc()) {
  Block &block = program().block();
  Value score = block.getArgument(ScoreProgram::Score);
  Value scale = block.addArgument(b.getF32Type(), loc);
  b.setInsertionPointToStart(&block);
  auto scaled = arith::MulFOp::create(b, loc, score, scale);
  score.replaceAllUsesExcept(scaled, scaled);
  invertDivisors();
}

NormalProgram::NormalProgram(AttentionOp op)
    : NormalProgram(op.getOperation(), /*results=*/1u) {
  factor = std::numbers::ln2_v<float>;
  split();
  foldFactors();
  fuse();
  eraseDead();
}

NormalProgram::NormalProgram(AttentionGradOp op, bool preload)
    : NormalProgram(op.getOperation(), /*results=*/2u) {
  factor = 1;
  bool begun = splitGradient(preload);
  eraseDead(); // whose uses keep others from being folded
  foldFactors();
  fuse();
  eraseDead();
  if (begun)
    begins = program().block().getTerminator()->getOperands().back();
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
  // A sum that is added to itself again and again has as many as there are
  // powers of two.
  constexpr size_t kMostTerms = 64;
  if (terms.size() >= kMostTerms)
    return terms.push_back({v, negative});
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

Value NormalProgram::added(Value sum, Term term) {
  if (!sum)
    return sumOf(term);
  return term.negative
             ? arith::SubFOp::create(b, loc, sum, term.value).getResult()
             : arith::AddFOp::create(b, loc, term.value, sum).getResult();
}

NormalProgram::SortedTerms NormalProgram::sortedTerms() {
  SmallVector<Term> terms;
  collectTerms(program().result(), false, terms);
  SortedTerms sorted;
  for (Term term : terms)
    (isTile(term.value)                            ? sorted.others
     : dependsOn(term.value, ScoreProgram::Column) ? sorted.columns
                                                   : sorted.rows)
        .push_back(term);
  return sorted;
}

void NormalProgram::setResults(Value first, Value row, Value start) {
  Operation *end = program().block().getTerminator();
  SmallVector<Value> values(end->getOperands().take_front(results));
  values.front() = first;
  for (Value more : {row, start})
    if (more)
      values.push_back(more);
  end->setOperands(values);
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
  SortedTerms terms = sortedTerms();
  Value row = sumOf(terms.rows);
  Value whole = sumOf(terms.others);
  if (terms.columns.empty() && leaveFactor(whole)) {
    whole = end->getOperand(0);
  } else {
    Value c = arith::ConstantOp::create(
        b, loc, b.getF32FloatAttr(std::numbers::log2e_v<float>));
    Value sum;
    if (!terms.columns.empty())
      sum = arith::MulFOp::create(b, loc, sumOf(terms.columns), c);
    for (Term term : terms.others)
      sum = added(sum, {times(term.value, c), term.negative});
    whole = sum;
  }
  setResults(whole, row, Value());
}

/// The same in natural units. With `preload`, all but the score divided by the
/// scale; returns whether there is something.
bool NormalProgram::splitGradient(bool preload) {
  Block &block = program().block();
  Operation *end = block.getTerminator();
  b.setInsertionPoint(end);
  SortedTerms terms = sortedTerms();
  Value row = sumOf(terms.rows);
  if (terms.columns.empty() && leaveFactor(sumOf(terms.others))) {
    setResults(end->getOperand(0), row, Value());
    return false;
  }
  Value score = block.getArgument(ScoreProgram::Score), whole, start;
  if (preload) {
    Value one = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1));
    Value inverse =
        arith::DivFOp::create(b, loc, one, block.getArguments().back());
    if (!terms.columns.empty())
      start = arith::MulFOp::create(b, loc, sumOf(terms.columns), inverse);
    for (Term term : terms.others) {
      // Of a term that is a sum with the score in it, all but the score.
      Value x = term.value, scaled = score.user_begin()->getResult(0);
      while (dependsOn(x, ScoreProgram::Score) && x != scaled) {
        Operation *sum = x.getDefiningOp();
        bool first = dependsOn(sum->getOperand(0), ScoreProgram::Score);
        start = added(start, {times(sum->getOperand(first ? 1 : 0), inverse),
                              isa<arith::SubFOp>(sum)});
        x = sum->getOperand(first ? 0 : 1);
      }
      if (x != scaled)
        start = added(start, {times(x, inverse), term.negative});
    }
    whole = score;
    factor.reset();
  } else {
    whole = terms.columns.empty() ? Value() : sumOf(terms.columns);
    for (Term term : terms.others)
      whole = added(whole, term);
  }
  setResults(whole, row, start);
  return bool(start);
}

/// Whether one of them is 1 by the other.
static bool areInverse(Value x, Value y) {
  for (auto [quotient, of] : {std::pair(x, y), std::pair(y, x)})
    if (auto one = quotient.getDefiningOp<arith::DivFOp>();
        one && one.getRhs() == of && matchPattern(one.getLhs(), m_OneFloat()))
      return true;
  return false;
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
    if (areInverse(v, y)) {
      product.replaceAllUsesWith(u);
      product.erase();
      continue;
    }
    Value both = arith::MulFOp::create(b, loc, v, y);
    if (isTile(both)) { // a row's and a column's
      both.getDefiningOp()->erase();
      continue;
    }
    product.setOperand(0, u);
    product.setOperand(1, both);
  }
}

/// a b + c, or c - a b, in one operation, where nothing else reads a b: best of
/// the score, as elements of a distance share products.
void NormalProgram::fuse() {
  for (Operation &sum : llvm::make_early_inc_range(program().block())) {
    if (!isa<arith::AddFOp, arith::SubFOp>(sum) || !isTile(sum.getResult(0)))
      continue;
    bool minus = isa<arith::SubFOp>(sum);
    bool first = !minus && dependsOn(sum.getOperand(0), ScoreProgram::Score);
    for (unsigned i : {first ? 0 : 1, first ? 1 : 0}) {
      auto product = sum.getOperand(i).getDefiningOp<arith::MulFOp>();
      if (!product || !isTile(product) || !product->hasOneUse() ||
          (minus && i == 0))
        continue;
      b.setInsertionPoint(&sum);
      Value factor = product.getLhs();
      if (minus)
        factor = arith::NegFOp::create(b, loc, factor);
      Value fused = math::FmaOp::create(b, loc, factor, product.getRhs(),
                                        sum.getOperand(1 - i));
      sum.getResult(0).replaceAllUsesWith(fused);
      sum.erase();
      product.erase();
      break;
    }
  }
}

Value NormalProgram::row() {
  Operation *end = program().block().getTerminator();
  Value next =
      end->getNumOperands() > results ? end->getOperand(results) : Value();
  return next != begins ? next : Value();
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

void NormalProgram::preloadTerms(bool often) {
  math::FmaOp sum = scoreAndTerms();
  Operation *end = program().block().getTerminator();
  Value row = this->row();
  b.setInsertionPoint(end);
  // (x log2(e)) / (scale log2(e)) = x / scale
  Value x = withoutLog2e(sum.getC());
  Value terms = x ? x : sum.getC(),
        by = x ? withoutLog2e(sum.getB()) : sum.getB();
  // Some kernels read entries of a table for each score.
  if (often || this->terms() == Terms::OfEntries) {
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
