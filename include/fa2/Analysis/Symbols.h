//===- Symbols.h - index arithmetic as linear forms -------------*- C++ -*-===//
//
// A verifier compares numbers that the kernel computes: which use of a ring an
// operation means, how many iterations a loop has. Each is a sum of terms over
// symbols; equal computations give the same symbol, in whatever region they
// stand. min, max and select are symbols with cases, which a proof goes
// through.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_ANALYSIS_SYMBOLS_H
#define FA2_ANALYSIS_SYMBOLS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace fa2::gpu {

/// constant + sum of coefficient * symbol, symbols ascending.
struct Linear {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 4> terms;
  int64_t constant = 0;

  Linear() = default;
  Linear(int64_t c) : constant(c) {}
  bool isConstant() const { return terms.empty(); }
  Linear plus(const Linear &other, int64_t factor = 1) const;
  bool operator==(const Linear &o) const {
    return constant == o.constant && terms == o.terms;
  }
};

inline Linear operator+(const Linear &a, const Linear &b) { return a.plus(b); }
inline Linear operator-(const Linear &a, const Linear &b) {
  return a.plus(b, -1);
}

class Symbols {
public:
  Linear of(mlir::Value value);
  Linear max(const Linear &a, const Linear &b);
  /// `value` is this number: a block argument that stands for another's.
  void bind(mlir::Value value, const Linear &number) { known[value] = number; }
  /// `in` with `to` for the value `from`.
  Linear substitute(const Linear &in, mlir::Value from, const Linear &to);
  /// Whether any symbol is, or is computed from, a value that `matches`.
  bool involves(const Linear &in,
                llvm::function_ref<bool(mlir::Value)> matches) const;

  /// What is known to be >= 0, until it is popped.
  void assume(const Linear &nonNegative) { facts.push_back(nonNegative); }
  void forget(size_t count) { facts.resize(facts.size() - count); }
  /// Proves a = b for all values that the facts allow.
  bool equal(const Linear &a, const Linear &b);

private:
  // Those from Min on have cases.
  enum class Kind { Value, Pure, Product, Min, Max, Select };
  struct Symbol {
    Kind kind;
    mlir::Value value; // of Kind::Value
    std::vector<int64_t> head;
    llvm::SmallVector<Linear, 4> operands;
  };
  struct Case {
    llvm::SmallVector<Linear, 2> facts;
    Linear value;
  };
  using Facts = std::vector<Linear>;
  /// What holds others is numbered after them.
  using Held = std::set<unsigned, std::greater<>>;

  Linear intern(Symbol symbol);
  Linear afterLoop(mlir::scf::ForOp loop, mlir::OpResult result);
  void collect(const Linear &in, Held &held) const;
  bool holds(const Linear &in, unsigned symbol) const;
  Linear substitute(const Linear &in, unsigned from, const Linear &to);
  llvm::SmallVector<Case, 3> casesOf(const Symbol &symbol) const;
  std::optional<unsigned> branching(const Linear &in) const;
  llvm::SmallVector<unsigned> branchingTogether(const Linear &e,
                                                const Facts &given) const;
  /// Calls `holds` with e and the facts in each case of the symbols, which ask
  /// the same.
  bool
  inEachCase(llvm::ArrayRef<unsigned> together, const Linear &e,
             const Facts &given,
             llvm::function_ref<bool(const Linear &, const Facts &)> holds);
  void settle(Linear &e, Facts &given);
  bool isZero(const Linear &e, const Facts &given);
  bool isEmpty(const Facts &given) const;

  std::vector<Symbol> symbols;
  std::map<std::vector<int64_t>, unsigned> numbers;
  llvm::DenseMap<mlir::Value, Linear> known;
  Facts facts;
  std::map<std::vector<int64_t>, bool> proofs; // of what is zero, by the facts
  int64_t steps = 0;                           // left to the proof
};

} // namespace fa2::gpu

#endif
