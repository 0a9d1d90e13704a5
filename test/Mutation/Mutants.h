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
};

/// All mutants of a PTX text, in the order of its lines.
std::vector<Mutant> mutantsOf(const std::string &ptx);
/// The text with one line replaced.
std::string applyMutant(const std::string &ptx, const Mutant &mutant);

} // namespace fa2::sim::mutation

#endif // FA2_TEST_MUTATION_MUTANTS_H
