//===- Mutants.h - One thing removed or weakened at a time -----*- C++ -*-===//
#ifndef FA2_TEST_MUTATION_MUTANTS_H
#define FA2_TEST_MUTATION_MUTANTS_H

#include <string>
#include <vector>

namespace fa2::sim::mutation {

struct Mutant {
  std::string kind; ///< "barrier removed", "mask compare", ...
  bool synchronisation = false;
  unsigned line = 0; ///< of the PTX text, from 1
  std::string text;  ///< what stands there instead
  /// The line as it was, with a trap where the mutant's would give another
  /// value; empty where that is no question of values.
  std::string probe;
};

/// All mutants of a PTX text, in the order of its lines.
std::vector<Mutant> mutantsOf(const std::string &ptx);
/// The text with one line replaced.
std::string replaceLine(const std::string &ptx, unsigned line,
                        const std::string &text);

} // namespace fa2::sim::mutation

#endif // FA2_TEST_MUTATION_MUTANTS_H
