//===- Accuracy.cpp - the accuracy rule -----------------------------------===//

#include "Reference/Accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa2run {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The (lower) median of the rows that see a key; 0 when there is none.
double medianStandardError(const std::vector<RowResult> &rows) {
  std::vector<double> errors;
  for (const RowResult &row : rows)
    if (!row.empty)
      errors.push_back(row.standardError);
  if (errors.empty())
    return 0;
  auto middle = errors.begin() + ptrdiff_t((errors.size() - 1) / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

/// error / allowed, where 0 / 0 is no error.
double ratio(double error, double allowed) {
  if (error == 0)
    return 0;
  return allowed > 0 && error < kInfinity ? error / allowed : kInfinity;
}

} // namespace

double lseError(const RowResult &row) {
  if (row.lse == row.lseReference) // -inf too
    return 0;
  double error = std::abs(row.lse - row.lseReference);
  return std::isfinite(error) ? error : kInfinity;
}

double lseAllowed(const RowResult &row) {
  return 1e-5 * (1 + std::abs(row.lseReference)) + row.scoreError;
}

double largestError(const float *out, const double *reference, int64_t count,
                    int64_t *column) {
  double largest = 0;
  for (int64_t d = 0; d < count; ++d) {
    double error = std::abs(double(out[d]) - reference[d]);
    if (std::isnan(error))
      error = kInfinity;
    if (error <= largest)
      continue;
    largest = error;
    if (column)
      *column = d;
  }
  return largest;
}

HeadVerdict judge(const std::vector<RowResult> &rows, Precision precision) {
  HeadVerdict verdict;
  double median = medianStandardError(rows);
  auto failRow = [&](const RowResult &row, std::string text) {
    if (verdict.passed)
      verdict.firstFailure = fmt::format("row {}: {}", row.row, text);
    verdict.passed = false;
  };
  for (const RowResult &row : rows) {
    bool failed = false;
    if (row.empty) {
      if (!row.exact || row.lse != -kInfinity) {
        failed = true;
        failRow(row, fmt::format("it sees no key, but {} (lse {})",
                                 row.exact ? "its lse is not -inf"
                                           : "its output is not 0",
                                 row.lse));
        verdict.worstRatio = kInfinity;
        verdict.worstRow = row.row;
      }
    } else {
      double allowed = 2 * std::max(row.standardError, median) +
                       2 * ulp(precision, row.largest) + row.sumError;
      double outRatio = ratio(row.error, allowed);
      verdict.maxError = std::max(verdict.maxError, row.error);
      verdict.maxStandardError =
          std::max(verdict.maxStandardError, row.standardError);
      if (outRatio > verdict.worstRatio || verdict.worstRow < 0) {
        verdict.worstRatio = outRatio;
        verdict.worstRow = row.row;
        verdict.worstColumn = row.column;
        verdict.worstError = row.error;
        verdict.worstAllowed = allowed;
      }
      double error = lseError(row);
      double lseRatio = ratio(error, lseAllowed(row));
      verdict.lseMaxError = std::max(verdict.lseMaxError, error);
      if (lseRatio > verdict.lseWorstRatio || verdict.lseWorstRow < 0) {
        verdict.lseWorstRatio = lseRatio;
        verdict.lseWorstRow = row.row;
      }
      // Written so that a NaN fails.
      if (!(outRatio <= 1)) {
        failed = true;
        failRow(row, fmt::format("error {:.3g} exceeds the allowed {:.3g}",
                                 row.error, allowed));
      }
      if (!(lseRatio <= 1)) {
        failed = true;
        failRow(row,
                fmt::format("lse is {:.9g}, the reference {:.9g}: error "
                            "{:.3g} exceeds the allowed {:.3g}",
                            row.lse, row.lseReference, error, lseAllowed(row)));
      }
    }
    verdict.failedRows += failed;
  }
  return verdict;
}

} // namespace fa2run
