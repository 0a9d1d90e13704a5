//===- Model.h - what a schedule's time is made of --------------*- C++ -*-===//
//
// An estimate that needs no GPU, to rank schedules by. It counts what a loop's
// step asks of each unit of a multiprocessor, says what of it overlaps, and
// shares blocks out to multiprocessors. docs/guide/tuning.md says how far it is
// right.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_MODEL_H
#define FA2_SCHEDULE_MODEL_H

#include "fa2/Schedule/Decision.h"
#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Rates.h"

#include <vector>

namespace fa2 {

struct Shape {
  int64_t batch = 4, heads = 16, headsKv = 16, seqlenQ = 4096, seqlenK = 4096;
};

/// Clocks of a multiprocessor.
struct Estimate {
  /// Of one step of the loop of one block, by unit.
  double tensor = 0, exponential = 0, arithmetic = 0, shared = 0, global = 0;
  /// Of them, what the step takes beside other blocks and by itself.
  double step = 0, stepAlone = 0;
  /// What a block takes before and after its loop and nothing hides.
  double ends = 0;
  /// Steps of a block on the average and of the longest one.
  double steps = 0, longest = 0;
  int64_t blocks = 0, blocksPerMultiprocessor = 1;
  /// Blocks of the busiest multiprocessor over those of the average one.
  double imbalance = 1;
  double milliseconds = 0;
  Shape shape;
  const char *device = "";

  /// The unit that bounds a step: "the tensor cores".
  const char *bound() const;
  /// Of a step, and of a launch.
  std::vector<Decision> explain() const;
};

/// What the formulas take for given; fits try others.
struct ModelNumbers {
#define FA2_MODEL_NUMBER(NAME, VALUE, GUESS) double NAME = VALUE;
#include "fa2/Schedule/ModelNumbers.def"
  static ModelNumbers guesses();
};

/// On a device of those rates: ratesOf() has them.
Estimate estimate(const Target &target, const Rates &rates,
                  const Problem &problem, const Schedule &schedule,
                  const Shape &shape, const ModelNumbers &numbers = {});

} // namespace fa2

#endif
