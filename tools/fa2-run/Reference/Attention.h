//===- Attention.h - attention on the host ----------------------*- C++ -*-===//
//
// Two of them, a row at a time: in float64, the truth; and "standard
// attention" in the input dtype, the yardstick of the accuracy rule.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_ATTENTION_H
#define FA2RUN_REFERENCE_ATTENTION_H

#include "Reference/Dropout.h"
#include "Reference/Float16.h"
#include "Reference/Program.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace fa2run {

enum class Mask { None, Causal, CausalTopLeft, StrictlyCausal };

/// Row i sees the keys [0, visibleKeys(i)).
///   causal:          j <= i + seqlenK - seqlenQ
///   causal_top_left: j <= i
///   strictly_causal: j < i + seqlenK - seqlenQ
inline int64_t visibleKeys(Mask mask, int64_t row, int64_t seqlenQ,
                           int64_t seqlenK) {
  switch (mask) {
  case Mask::None:
    return seqlenK;
  case Mask::Causal:
    return std::clamp<int64_t>(row + seqlenK - seqlenQ + 1, 0, seqlenK);
  case Mask::CausalTopLeft:
    return std::clamp<int64_t>(row + 1, 0, seqlenK);
  case Mask::StrictlyCausal:
    return std::clamp<int64_t>(row + seqlenK - seqlenQ, 0, seqlenK);
  }
  return 0;
}

/// One query head. Rows are packed; the values are the inputs' own, exactly.
struct Head {
  int64_t headDim = 0, headDimV = 0;
  const float *k = nullptr; // [seqlen_k, headDim]
  const float *v = nullptr; // [seqlen_k, headDimV]
  double scale = 1;
  Precision precision = Precision::BF16;
  /// Scores pass through a program, where there is one: that of row `place`.
  const ScoreProgram *program = nullptr;
  ProgramLine place = {};
  /// One more score of each row, which has no value; -inf is none.
  double sink = -std::numeric_limits<double>::infinity();
  /// What is dropped of the probabilities, if anything.
  const Dropout *dropout = nullptr;
};

/// The head with another row of scores before it.
inline Head atRow(Head head, int64_t row) {
  head.place.row = row;
  return head;
}
/// A head whose scores are those of a key, with the rows from `row` on.
inline Head atColumn(Head head, int64_t column, int64_t row) {
  head.place.row = row;
  head.place.column = column;
  head.place.alongColumn = true;
  return head;
}

/// Multiplies what belongs to the keys of the head's row, or to the rows of its
/// column, by what dropout makes of it.
template <typename T>
void applyDropout(const Head &head, T *values, size_t count) {
  const ProgramLine &at = head.place;
  for (size_t i = 0; head.dropout && i < count; ++i) {
    int64_t row = at.row + (at.alongColumn ? int64_t(i) : 0),
            column = at.column + (at.alongColumn ? 0 : int64_t(i));
    values[i] *= T(head.dropout->at(at.batch, at.head, row, column));
  }
}
inline double dropoutFactor(const Head &head) {
  return head.dropout ? head.dropout->factor() : 1;
}

/// Scores in natural units through the program, and its slopes; without one
/// the scores stay, and slopes are 1.
template <typename T>
void applyProgram(const Head &head, std::vector<T> &scores,
                  std::vector<T> &slopes) {
  slopes.assign(scores.size(), 1);
  if (head.program)
    head.program->apply(head.place, scores.data(), int64_t(scores.size()),
                        slopes.data());
}

/// Buffers that a thread keeps between rows.
struct Scratch {
  std::vector<double> query, scores, sums, slopes;
  std::vector<float> scores32, sums32, slopes32;
  /// After referenceRow: what the row's `scores`, by then what its values are
  /// weighed by, are divided by.
  double sum = 1;
};

/// s_j = scale q.k_j over j < keys, through the program; lse = log sum_j
/// exp(s_j), with the sink among the s_j; out = sum_j exp(s_j - lse) v_j. All
/// in float64. No keys, or none with a score above -inf: 0 and the sink.
void referenceRow(const Head &head, const float *q, int64_t keys,
                  Scratch &scratch, double *out, double &lse);

/// The same as a framework without a fused kernel does it: S = q.k_j summed in
/// f32 and rounded to the input dtype, P = softmax(scale S) in f32 rounded to
/// the input dtype, out = P v summed in f32 and rounded to the input dtype.
void standardRow(const Head &head, const float *q, int64_t keys,
                 Scratch &scratch, float *out);

} // namespace fa2run

#endif // FA2RUN_REFERENCE_ATTENTION_H
