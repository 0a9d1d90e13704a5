//===- Space.h - every schedule that a kernel may have ----------*- C++ -*-===//
//
// The product of what the table of fields allows, of which the checks that
// every schedule passes keep what fits. Nothing is measured here.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_SPACE_H
#define FA2_SCHEDULE_SPACE_H

#include "fa2/Target/Problem.h"

#include <vector>

namespace fa2 {

class Target;

struct SearchSpace {
  /// A field that has several values, as messages list them.
  struct Axis {
    std::string field, values;
  };
  /// Candidates that were dropped for one reason.
  struct Drop {
    std::string reason, example;
    int64_t count = 0;
  };
  std::vector<Axis> axes;
  /// In the order of the table's fields.
  std::vector<Schedule> fits;
  /// What dropped the most candidates first.
  std::vector<Drop> dropped;
  int64_t candidates = 0;
};

/// All schedules of a problem on a target with the fields that were asked for.
/// What changes the results' bits is among them; whether dQ is deterministic is
/// asked for, not searched.
SearchSpace searchSpace(const Target &target, const Problem &problem,
                        const ScheduleOverrides &asked);

/// Every field of a schedule, as `schedule=` takes them.
std::string fieldsText(const Schedule &schedule);

/// What of a schedule a row's bits follow from: on one target schedules of one
/// text give the same (ScheduleAttr::differsInBits).
std::string bitsText(const Schedule &schedule);

} // namespace fa2

#endif
