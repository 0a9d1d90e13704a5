//===- Judge.h - How a mutant fares, and why one survives ------*- C++ -*-===//
//
// A mutant is caught by a report, by a deadlock or another error, or by its
// numbers. One that survives every run gets a class with evidence:
//
//   implied value  the line computes the same as before in every execution
//                  (the unmutated kernel with a trap for where it would not)
//   implied order  every wait completes the same copies as before; or the wait
//                  completes none that an earlier one had not; or no report and
//                  the same bits under 16 more schedules in which copies move
//                  their bytes as late as the waits allow
//   masked zero    other values, but not a bit of the outputs differs
//
// None of these: "unexplained".
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TEST_MUTATION_JUDGE_H
#define FA2_TEST_MUTATION_JUDGE_H

#include "Case.h"
#include "Mutants.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace fa2::sim::mutation {

struct Setup {
  std::string text; ///< the kernel's PTX
  Programs extra;   ///< further modules of the launch list
  std::vector<std::string> cases;
  bool allowWarnings = false; ///< those of the unmutated kernel are no catch
  unsigned capability = 80;
};

struct Verdict {
  /// "report", "error", "numbers", "survived"; "unexecuted":
  /// no run executes the line; "malformed": no PTX any more.
  std::string fate;
  std::string detail;   ///< the report, the error, or the evidence
  std::string category; ///< of a survivor
};

class Judge {
public:
  /// Runs the unmutated kernel; throws std::runtime_error when it fails.
  explicit Judge(const Setup &setup);
  Verdict judge(const Mutant &mutant);

private:
  using Key = std::tuple<unsigned, unsigned, int>; // rule, line, severity
  struct Plain {                                   ///< of one unmutated run
    uint64_t digest = 0;
    std::map<unsigned, WaitTrace> waits;
  };
  Options optionsOf(size_t run) const;
  Programs programsOf(const std::string &text, std::string &error) const;
  Verdict run(const Mutant &mutant, const Programs &programs);
  Verdict verdictOf(const Outcome &outcome) const; ///< of one run
  Verdict explain(const Mutant &mutant, const Programs &programs);

  const Setup &setup;
  std::vector<Case> cases;
  std::set<Key> known;
  std::map<unsigned, uint64_t> executions; ///< by line
  uint64_t longest = 0;
  std::vector<Plain> plain; ///< [case][run]
};

} // namespace fa2::sim::mutation

#endif // FA2_TEST_MUTATION_JUDGE_H
