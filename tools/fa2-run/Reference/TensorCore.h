//===- TensorCore.h - what tensor cores make of a dot product ---*- C++ -*-===//
//
// Tensor cores sum in groups. With e the largest exponent of a group's products
// and of the sum so far, each of them is cut to a multiple of 2^(e - F), and
// their exact sum to f32. The error is relative to the largest product, not
// to the result: docs/decisions/2026-11-21-lse-of-large-scores.md.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_TENSORCORE_H
#define FA2RUN_REFERENCE_TENSORCORE_H

#include "Reference/Attention.h"

namespace fa2run {

/// How one generation sums: so many products at a time, so many bits behind
/// the point of the largest.
struct TensorCore {
  int terms = 16, fractionBits = 25;
};

/// Of a device whose compute capability is `capability` (90 for 9.0).
TensorCore tensorCoreOf(int capability);

/// start + q.k accumulated in f32 by the tensor core, d ascending. The values
/// are finite and those of the precision.
float tensorCoreDot(TensorCore core, Precision precision, const float *q,
                    const float *k, int64_t dim, float start = 0);

/// What the tensor core's scores t_j in place of the exact s_j can do to a
/// row's lse, to first order:
///   sum_j p_j scale |t_j - s_j|,   p_j = exp(scale s_j - lse)
/// With a program x, p_j = exp(x_j - lse), and the sum is of p_j (exp(e_j) - 1)
/// where e_j bounds what that difference and the roundings of f32 make x_j off
/// by: infinity where they may turn a choice between different scores.
double scoreError(const Head &head, const float *q, int64_t keys, double lse,
                  TensorCore core);

} // namespace fa2run

#endif // FA2RUN_REFERENCE_TENSORCORE_H
