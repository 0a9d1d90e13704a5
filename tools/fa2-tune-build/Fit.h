//===- Fit.h - the model's numbers from what was measured -------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_FIT_H
#define FA2_TOOLS_TUNEBUILD_FIT_H

#include "fa2/Schedule/Model.h"

#include <string>
#include <vector>

namespace fa2tune {

/// Candidates of one problem on one shape, and what they took.
struct MeasuredCell {
  const fa2::Target *target = nullptr;
  fa2::Rates rates{}; // of its code on an H200
  fa2::Problem problem{0, 0};
  fa2::Shape shape;
  std::vector<fa2::Schedule> schedules;
  std::vector<double> milliseconds;
};

/// Reads rows as docs/measurements/data/tuning has them. Returns what is wrong,
/// with its line, or an empty string.
std::string readMeasured(const std::string &path,
                         std::vector<MeasuredCell> &cells);

/// What choosing by a model is worth in a cell.
struct CellQuality {
  double first;      // the speed of its first choice, of the best's
  double firstEight; // of the best of its first eight
  size_t chosen, best;
};
/// By the estimate with those numbers.
CellQuality qualityOf(const MeasuredCell &cell,
                      const fa2::ModelNumbers &numbers);
/// By the trees, as candidates are ranked.
CellQuality qualityByTrees(const MeasuredCell &cell);

struct FitOptions {
  int64_t steps = 2000;
  double pull = 0; // towards the guesses: a factor of e costs that much loss
  uint64_t seed = 1;
};

/// Numbers by which choosing loses little in those cells: a random search that
/// begins at the guesses.
fa2::ModelNumbers fit(const std::vector<const MeasuredCell *> &cells,
                      const FitOptions &options);

/// Says what choosing by the model is worth: with its numbers and with the
/// trees, which may have seen those very rows; by the estimate with the
/// guesses, fitted to all cells and, where `leaveOut` is "shape" or "head_dim",
/// in the cells of each by a fit to the others. `numbers` says what was fitted,
/// `worst` that many cells where the model's own choice loses most. Returns
/// what is wrong, or an empty string.
std::string reportFit(const std::string &path, const std::string &leaveOut,
                      const FitOptions &options, bool numbers, size_t worst,
                      unsigned jobs);

} // namespace fa2tune

#endif
