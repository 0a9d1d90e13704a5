//===- Gradient.h - the gradients of attention on the host ------*- C++ -*-===//
//
// In float64, the truth, and as a framework without a fused kernel does it in
// the input dtype, the yardstick. A pass over a head's query rows gives dq and
// what the second pass, over keys, needs to know of each row.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_GRADIENT_H
#define FA2RUN_REFERENCE_GRADIENT_H

#include "Reference/Attention.h"

namespace fa2run {

/// One query head of a group: rows are packed; the values are the inputs' own.
struct QueryHead {
  int64_t rows = 0;
  const float *q = nullptr;    // [seqlen_q, headDim]
  const float *dout = nullptr; // [seqlen_q, headDimV]
  int64_t head = 0;            // its number, for a program
};

/// What a backward kernel is given of the forward pass for one row.
struct GivenRow {
  const float *out = nullptr; // rounded to the input dtype
  double lse = 0;             // rounded to f32
  double dlse = 0;            // the gradient of lse
};

/// From here on a row of a score program has no gradient (docs/contract.md).
constexpr double kLargestLse = 0x1p23;

/// Of one query row: its log-sum-exp, and delta = sum_j P_j dP_j - dlse
/// = dout.out - dlse; the same from what is given; and the yardstick's largest
/// score, sum of exponentials and delta.
struct RowStatistics {
  double lse = 0, delta = 0;
  double givenLse = 0, givenDelta = 0;
  float largest32 = 0, sum32 = 0, delta32 = 0;
};

/// One row of a gradient: `exact`, as a function of q, k, v and dout; `given`,
/// with the out and lse that the kernel gets, which is what it has to compute;
/// and the yardstick, rounded as a framework does it.
struct GradientRow {
  std::vector<double> exact, given;
  std::vector<float> standard;
  double weight = 0; // sum of the P that it is made of, times slopes
  /// What is lost of P or dS where they are subnormal in the input dtype, whose
  /// steps there are as large as a sum of such terms.
  double underflow = 0;
};

/// P = exp(x - lse) of x = scale q.k, or the program's of it, dP = dout.v,
/// dS = P (dP - delta), times the program's slope, dq = scale sum_j dS_j k_j
/// over j < keys. `dq` may be null. The yardstick
/// rounds q.k, P, dP, dS and dq to the input dtype.
RowStatistics gradientOfRow(const Head &head, const float *q, const float *dout,
                            const GivenRow &row, int64_t keys, Scratch &scratch,
                            GradientRow *dq);

/// dv_j = sum_i P_ij dout_i, dk_j = scale sum_i dS_ij q_i over the rows i of
/// all heads of the group that see key j: those from `first` on. `statistics`
/// has those of each head's rows.
void gradientOfKey(const Head &head, const std::vector<QueryHead> &group,
                   const std::vector<const RowStatistics *> &statistics,
                   int64_t key, int64_t first, Scratch &scratch,
                   GradientRow &dk, GradientRow &dv);

/// The first row that sees `key`; seqlenQ when none does.
int64_t firstRowOfKey(Mask mask, int64_t key, int64_t seqlenQ, int64_t seqlenK);

} // namespace fa2run

#endif // FA2RUN_REFERENCE_GRADIENT_H
