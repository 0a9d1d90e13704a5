//===- Symbols.cpp - index arithmetic as linear forms ---------------------===//

#include "fa2/Analysis/Symbols.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// Cases that a proof may look at. One that needs more has not been met.
static constexpr int64_t kMaxSteps = 4000;

Linear Linear::plus(const Linear &other, int64_t factor) const {
  Linear sum(constant + factor * other.constant);
  auto a = terms.begin(), b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    if (b == other.terms.end() || (a != terms.end() && a->first < b->first)) {
      sum.terms.push_back(*a++);
    } else if (a == terms.end() || b->first < a->first) {
      sum.terms.push_back({b->first, factor * b->second});
      ++b;
    } else {
      if (int64_t c = a->second + factor * b->second)
        sum.terms.push_back({a->first, c});
      ++a, ++b;
    }
  }
  return sum;
}

/// Of a key that tells linear forms, one after the other, apart.
static void append(std::vector<int64_t> &key, const Linear &e) {
  key.push_back(e.constant);
  key.push_back(e.terms.size());
  for (auto [s, c] : e.terms)
    key.insert(key.end(), {int64_t(s), c});
}

Linear Symbols::intern(Symbol symbol) {
  std::vector<int64_t> key{int64_t(symbol.kind),
                           int64_t(symbol.value.getAsOpaquePointer())};
  key.insert(key.end(), symbol.head.begin(), symbol.head.end());
  for (const Linear &operand : symbol.operands)
    append(key, operand);
  auto [it, isNew] = numbers.insert({std::move(key), symbols.size()});
  if (isNew)
    symbols.push_back(std::move(symbol));
  Linear result;
  result.terms.push_back({it->second, 1});
  return result;
}

Linear Symbols::of(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  auto compute = [&]() -> Linear {
    llvm::APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return constant.getSExtValue();
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<RingAcquireOp, RingWaitOp>(op))
      return of(op->getOperand(1)) + 1; // the use after it
    if (auto loop = dyn_cast_or_null<scf::ForOp>(op))
      return afterLoop(loop, cast<OpResult>(value));
    if (!op || op->getNumRegions() > 0 || op->getNumOperands() == 0 ||
        !isMemoryEffectFree(op))
      return intern({Kind::Value, value, {}, {}});
    SmallVector<Linear, 4> operands;
    for (Value operand : op->getOperands())
      operands.push_back(of(operand));
    if (isa<arith::AddIOp>(op))
      return operands[0] + operands[1];
    if (isa<arith::SubIOp>(op))
      return operands[0] - operands[1];
    if (isa<arith::MulIOp>(op)) {
      if (operands[0].isConstant())
        std::swap(operands[0], operands[1]);
      if (operands[1].isConstant())
        return Linear().plus(operands[0], operands[1].constant);
    }
    if (isa<arith::MinSIOp, arith::MaxSIOp>(op))
      return intern({isa<arith::MinSIOp>(op) ? Kind::Min : Kind::Max,
                     Value(),
                     {},
                     operands});
    if (isa<arith::SelectOp>(op))
      if (auto cmp = op->getOperand(0).getDefiningOp<arith::CmpIOp>())
        return intern(
            {Kind::Select,
             Value(),
             {int64_t(cmp.getPredicate())},
             {of(cmp.getLhs()), of(cmp.getRhs()), operands[1], operands[2]}});
    return intern({Kind::Pure,
                   Value(),
                   {int64_t(op->getName().getAsOpaquePointer()),
                    int64_t(op->getAttrDictionary().getAsOpaquePointer()),
                    int64_t(cast<OpResult>(value).getResultNumber())},
                   operands});
  };
  Linear result = compute();
  known[value] = result;
  return result;
}

/// What is carried goes on by as much in every iteration, or is unknown.
Linear Symbols::afterLoop(scf::ForOp loop, OpResult result) {
  unsigned i = result.getResultNumber();
  Linear step =
      of(loop.getYieldedValues()[i]) - of(loop.getRegionIterArgs()[i]);
  bool varies = involves(step, [&](Value v) {
    return loop.getRegion().isAncestor(v.getParentRegion());
  });
  if (varies || !result.getType().isIndex() ||
      !matchPattern(loop.getStep(), m_One()))
    return intern({Kind::Value, result, {}, {}});
  Linear lower = of(loop.getLowerBound());
  Linear count = max(lower, of(loop.getUpperBound())) - lower;
  Linear begin = of(loop.getInitArgs()[i]);
  if (step.isConstant())
    return begin.plus(count, step.constant);
  return begin + intern({Kind::Product, Value(), {}, {count, step}});
}

Linear Symbols::max(const Linear &a, const Linear &b) {
  if (Linear d = a - b; d.isConstant())
    return d.constant > 0 ? a : b;
  // A quotient of unsigned numbers by two or more is not negative.
  auto isQuotient = [&](const std::pair<unsigned, int64_t> &term) {
    const Symbol &symbol = symbols[term.first];
    if (symbol.kind != Kind::Pure || term.second < 0)
      return false;
    auto name = OperationName::getFromOpaquePointer(
        reinterpret_cast<void *>(symbol.head.front()));
    return name.getStringRef() == arith::DivUIOp::getOperationName() &&
           symbol.operands[1].isConstant() && symbol.operands[1].constant > 1;
  };
  if (a == Linear(0) && b.constant >= 0 && llvm::all_of(b.terms, isQuotient))
    return b;
  return intern({Kind::Max, Value(), {}, {a, b}});
}

Linear Symbols::substitute(const Linear &in, Value from, const Linear &to) {
  Linear symbol = of(from);
  assert(symbol.terms.size() == 1 && "expected a symbol of its own");
  return substitute(in, symbol.terms[0].first, to);
}

/// A symbol holds only such as were there before it.
bool Symbols::holds(const Linear &in, unsigned symbol) const {
  return llvm::any_of(in.terms, [&](auto term) {
    return term.first == symbol ||
           (term.first > symbol && llvm::any_of(symbols[term.first].operands,
                                                [&](const Linear &operand) {
                                                  return holds(operand, symbol);
                                                }));
  });
}

Linear Symbols::substitute(const Linear &in, unsigned from, const Linear &to) {
  if (!holds(in, from))
    return in;
  Linear result(in.constant);
  for (auto [s, c] : in.terms) {
    Linear now;
    now.terms.push_back({s, 1});
    if (s == from) {
      now = to;
    } else if (holds(now, from)) {
      Symbol symbol = symbols[s];
      for (Linear &operand : symbol.operands)
        operand = substitute(operand, from, to);
      now = intern(std::move(symbol));
    }
    result = result.plus(now, c);
  }
  return result;
}

/// Adds what is in `in`, and what that holds: a symbol before what it holds.
void Symbols::collect(const Linear &in, Held &held) const {
  for (auto term : in.terms)
    if (held.insert(term.first).second)
      for (const Linear &operand : symbols[term.first].operands)
        collect(operand, held);
}

bool Symbols::involves(const Linear &in,
                       llvm::function_ref<bool(Value)> matches) const {
  Held held;
  collect(in, held);
  return llvm::any_of(held, [&](unsigned s) {
    return symbols[s].kind == Kind::Value && matches(symbols[s].value);
  });
}

//===----------------------------------------------------------------------===//
// Proofs
//===----------------------------------------------------------------------===//

SmallVector<Symbols::Case, 3> Symbols::casesOf(const Symbol &symbol) const {
  const Linear &a = symbol.operands[0], &b = symbol.operands[1];
  Linear aLess = b - a - 1, aLessEqual = b - a, bLess = a - b - 1,
         bLessEqual = a - b;
  if (symbol.kind == Kind::Min)
    return {{{aLessEqual}, a}, {{bLess}, b}};
  if (symbol.kind == Kind::Max)
    return {{{aLessEqual}, b}, {{bLess}, a}};
  const Linear &yes = symbol.operands[2], &no = symbol.operands[3];
  switch (arith::CmpIPredicate(symbol.head[0])) {
  case arith::CmpIPredicate::eq:
    return {{{aLessEqual, bLessEqual}, yes}, {{aLess}, no}, {{bLess}, no}};
  case arith::CmpIPredicate::ne:
    return {{{aLessEqual, bLessEqual}, no}, {{aLess}, yes}, {{bLess}, yes}};
  case arith::CmpIPredicate::slt:
    return {{{aLess}, yes}, {{bLessEqual}, no}};
  case arith::CmpIPredicate::sle:
    return {{{aLessEqual}, yes}, {{bLess}, no}};
  case arith::CmpIPredicate::sgt:
    return {{{bLess}, yes}, {{aLessEqual}, no}};
  case arith::CmpIPredicate::sge:
    return {{{bLessEqual}, yes}, {{aLess}, no}};
  default: // unsigned: either
    return {{{}, yes}, {{}, no}};
  }
}

/// The outermost symbol with cases: operands come before what holds them.
std::optional<unsigned> Symbols::branching(const Linear &in) const {
  for (auto term : llvm::reverse(in.terms))
    if (symbols[term.first].kind >= Kind::Min)
      return term.first;
  return std::nullopt;
}

/// What to go through the cases of next, each symbol before what it holds:
/// selects that ask the same, as those of a loop's order do, or the outermost.
SmallVector<unsigned> Symbols::branchingTogether(const Linear &e,
                                                 const Facts &given) const {
  Held held;
  collect(e, held);
  for (const Linear &fact : given)
    collect(fact, held);
  std::map<std::vector<int64_t>, SmallVector<unsigned>> asked;
  for (unsigned s : held) {
    const Symbol &symbol = symbols[s];
    if (symbol.kind != Kind::Select)
      continue;
    std::vector<int64_t> key = symbol.head;
    append(key, symbol.operands[0]);
    append(key, symbol.operands[1]);
    asked[key].push_back(s);
  }
  for (const auto &[key, selects] : asked)
    if (selects.size() > 1)
      return selects;
  // What holds others, in a fact too, says how they compare.
  std::optional<unsigned> outermost = branching(e);
  for (const Linear &fact : given)
    outermost = std::max(outermost, branching(fact));
  return outermost ? SmallVector<unsigned>{*outermost}
                   : SmallVector<unsigned>();
}

bool Symbols::inEachCase(
    ArrayRef<unsigned> together, const Linear &e, const Facts &given,
    llvm::function_ref<bool(const Linear &, const Facts &)> holds) {
  std::vector<SmallVector<Case, 3>> cases;
  for (unsigned symbol : together)
    cases.push_back(casesOf(symbols[symbol]));
  for (size_t i = 0; i < cases.front().size(); ++i) {
    auto inThisCase = [&](Linear in) {
      for (size_t s = 0; s < together.size(); ++s)
        in = substitute(in, together[s], cases[s][i].value);
      return in;
    };
    Facts now(cases[0][i].facts.begin(), cases[0][i].facts.end());
    for (const Linear &fact : given)
      now.push_back(inThisCase(fact));
    if (--steps < 0)
      return false;
    if (!isEmpty(now) && !holds(inThisCase(e), now))
      return false;
  }
  return true;
}

bool Symbols::isZero(const Linear &e, const Facts &given) {
  if (e == Linear())
    return true;
  // e >= 1 and e <= -1 are both impossible.
  Facts more = given, less = given;
  more.push_back(Linear(-1) + e);
  less.push_back(Linear(-1) - e);
  if (isEmpty(more) && isEmpty(less))
    return true;
  SmallVector<unsigned> together = branchingTogether(e, given);
  return !together.empty() &&
         inEachCase(together, e, given, [&](const Linear &f, const Facts &now) {
           return isZero(f, now);
         });
}

/// Where the facts leave one case of what is in one of them, it is that.
void Symbols::settle(Linear &e, Facts &given) {
  for (size_t i = 0; i < given.size(); ++i) {
    std::optional<unsigned> symbol = branching(given[i]);
    if (!symbol)
      continue;
    std::optional<std::pair<Linear, Facts>> only;
    int64_t possible = 0;
    for (const Case &c : casesOf(symbols[*symbol])) {
      Facts now(c.facts.begin(), c.facts.end());
      for (const Linear &fact : given)
        now.push_back(substitute(fact, *symbol, c.value));
      if (isEmpty(now))
        continue;
      ++possible;
      only = {substitute(e, *symbol, c.value), std::move(now)};
    }
    if (possible == 1)
      std::tie(e, given) = std::move(*only);
  }
}

/// Whether no numbers satisfy all facts, whatever the cases are.
bool Symbols::isEmpty(const Facts &given) const {
  using namespace presburger;
  llvm::DenseMap<unsigned, unsigned> column;
  for (const Linear &fact : given)
    for (auto term : fact.terms)
      column.insert({term.first, column.size()});
  IntegerPolyhedron set(PresburgerSpace::getSetSpace(column.size()));
  for (const Linear &fact : given) {
    SmallVector<int64_t> row(column.size() + 1);
    for (auto [s, c] : fact.terms)
      row[column[s]] = c;
    row.back() = fact.constant;
    set.addInequality(row);
  }
  return set.isEmpty();
}

bool Symbols::equal(const Linear &a, const Linear &b) {
  Linear e = a - b;
  if (e == Linear())
    return true;
  // Each ring is asked the same.
  std::vector<int64_t> key;
  append(key, e);
  for (const Linear &fact : facts)
    append(key, fact);
  auto [it, isNew] = proofs.insert({std::move(key), false});
  if (isNew) {
    steps = kMaxSteps;
    Facts given = facts;
    settle(e, given);
    it->second = isZero(e, given);
  }
  return it->second;
}
