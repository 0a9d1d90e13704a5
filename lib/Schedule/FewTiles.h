//===- FewTiles.h - when smaller tiles are faster ---------------*- C++ -*-===//
//
// Guards, as text, that compare how long the busiest multiprocessor of a launch
// takes with tiles of fewer rows and with the schedule's own.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_LIB_SCHEDULE_FEWTILES_H
#define FA2_LIB_SCHEDULE_FEWTILES_H

#include "fa2/Target/Problem.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fa2 {

class FewTiles {
public:
  /// The weight of a tile of so many rows: its time in that of a row of the
  /// schedule's own tiles, whose weight is their rows.
  using WeightOf = llvm::function_ref<int64_t(int64_t rows)>;

  FewTiles(const Problem &problem, const Schedule &base, WeightOf weightOf)
      : masked(problem.masked), base(base), weightOf(weightOf) {}

  /// Whether tiles of `rows` rows are the fastest.
  std::string fastest(int64_t rows) const;
  /// Variants that take the schedule's own tiles for whole rounds of all
  /// multiprocessors, and tiles of `fields.blockQ` rows for what is left: where
  /// that gains one part in `parts` at least.
  std::vector<Variant> shared(const ScheduleOverrides &fields,
                              int64_t parts) const;

private:
  std::string timeOf(int64_t rows) const;
  std::string sharedRounds(int64_t fewer) const;
  std::string sharedRows(int64_t fewer) const;
  std::string sharedTime(int64_t rows, int64_t fewer) const;

  bool masked;
  const Schedule &base;
  WeightOf weightOf;
};

} // namespace fa2

#endif
