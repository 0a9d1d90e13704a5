//===- Accuracy.h - the accuracy rule ---------------------------*- C++ -*-===//
//
// A gradient is compared with its float64 value for the out and lse that the
// kernel was given; standard attention, which is given none, with the exact
// gradient. Where dP and delta cancel, as with a single key, what is left of
// them in f32 is allowed too, and that P below 2^-126 is 0; where P or dS are
// subnormal in the input dtype, half of its step for each; and, for rows that
// need it, what the tensor core's own scores do to P.
//
// For each row: the largest error of `out` against float64 is at most twice
// the larger of that row's and the head's median row's error of standard
// attention in the input dtype, plus 2 ulp of the row's largest reference
// value, and with dropout what the steps of small P leave;
// |lse - ref| <= 1e-5 (1 + |ref|) + what the device's own f32
// accumulation of the scores does to lse. A row that sees no key is exactly 0
// and -inf.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_ACCURACY_H
#define FA2RUN_REFERENCE_ACCURACY_H

#include "Reference/Float16.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fa2run {

/// What one checked row showed.
struct RowResult {
  int64_t row = 0;
  bool empty = false;       // it sees no key
  double error = 0;         // max |out - reference|; inf when not a number
  int64_t column = -1;      // where that is
  double standardError = 0; // the same of standard attention
  double largest = 0;       // max |reference|
  double sumError = 0;      // of gradients: what formats and sums leave
  double lse = 0, lseReference = 0;
  double scoreError = 0; // of TensorCore.h; 0 where lse holds without it
  bool exact = true;     // of an empty row: out is 0 everywhere
};

/// max_d |out[d] - reference[d]|, infinity if any of `out` is not a number;
/// `column` becomes the first such d, -1 where all are equal.
double largestError(const float *out, const double *reference, int64_t count,
                    int64_t *column = nullptr);

/// |lse - reference|; infinity when lse is not a number.
double lseError(const RowResult &row);
double lseAllowed(const RowResult &row);

struct HeadVerdict {
  bool passed = true;
  double worstRatio = 0;                   // error over allowance
  int64_t worstRow = -1, worstColumn = -1; // where
  double worstError = 0, worstAllowed = 0;
  double maxError = 0; // over all rows
  double maxStandardError = 0;
  double lseWorstRatio = 0;
  int64_t lseWorstRow = -1;
  double lseMaxError = 0;
  int64_t failedRows = 0;
  std::string firstFailure; // "row 17: error 0.031 exceeds 0.004", or ""
};

/// Applies the rule to the checked rows of one head.
HeadVerdict judge(const std::vector<RowResult> &rows, Precision precision);

} // namespace fa2run

#endif // FA2RUN_REFERENCE_ACCURACY_H
