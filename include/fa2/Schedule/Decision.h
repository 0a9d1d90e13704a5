//===- Decision.h - one step of a choice ------------------------*- C++ -*-===//
#ifndef FA2_SCHEDULE_DECISION_H
#define FA2_SCHEDULE_DECISION_H

#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// What was chosen, what was not, or what a choice comes to, and why: what a
/// remark of fa2-select-schedule says.
struct Decision {
  enum class Kind {
    Passed,  // it was taken
    Missed,  // it might have been
    Analysis // what was taken comes to this
  };
  /// Words for people and programs: "shared memory bytes", "115712".
  using Metrics = std::vector<std::pair<std::string, std::string>>;

  Kind kind = Kind::Analysis;
  /// What decides: "database", "table", "rule", "field", "variant", "spills",
  /// or what is counted.
  std::string name;
  std::string reason; // one sentence
  Metrics metrics;
  std::string suggestion; // what else to do; may be empty
};

} // namespace fa2

#endif
