//===- Attention.cpp - attention on the host ------------------------------===//

#include "Reference/Attention.h"

#include "Reference/Products.h"

#include <cmath>
#include <limits>

namespace fa2run {

/// A NaN among them is the largest: nothing else says that there is one.
template <typename T> static T largestOf(const T *s, int64_t count) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < count; ++j)
    largest = std::isnan(s[j]) ? s[j] : std::max(largest, s[j]);
  return largest;
}

void referenceRow(const Head &head, const float *q, int64_t keys,
                  Scratch &scratch, double *out, double &lse) {
  if (keys == 0) {
    lse = head.sink;
    std::fill(out, out + head.headDimV, 0.0);
    return;
  }
  scratch.query.assign(q, q + head.headDim);
  scratch.scores.resize(size_t(keys));
  double *s = scratch.scores.data();
  dots(scratch.query.data(), head.k, keys, head.headDim, s);
  for (int64_t j = 0; j < keys; ++j)
    s[j] *= head.scale;
  if (head.program)
    head.program->apply(head.place, s, keys);
  double largest = largestOf(s, keys);
  if (largest == -std::numeric_limits<double>::infinity()) {
    lse = head.sink;
    std::fill(out, out + head.headDimV, 0.0);
    return;
  }
  // A NaN stays the largest.
  largest = head.sink > largest ? head.sink : largest;
  double sum = std::exp(head.sink - largest);
  for (int64_t j = 0; j < keys; ++j) {
    s[j] = std::exp(s[j] - largest);
    sum += s[j];
  }
  lse = largest + std::log(sum);
  applyDropout(head, s, size_t(keys));
  scratch.sum = sum;
  weigh(s, head.v, keys, head.headDimV, out);
  for (int64_t d = 0; d < head.headDimV; ++d)
    out[d] /= sum;
}

void standardRow(const Head &head, const float *q, int64_t keys,
                 Scratch &scratch, float *out) {
  if (keys == 0) {
    std::fill(out, out + head.headDimV, 0.0f);
    return;
  }
  scratch.scores32.resize(size_t(keys));
  float *s = scratch.scores32.data();
  dots(q, head.k, keys, head.headDim, s);
  for (int64_t j = 0; j < keys; ++j)
    s[j] = float(head.scale) * roundTo(head.precision, s[j]);
  if (head.program)
    head.program->apply(head.place, s, keys);
  float largest = largestOf(s, keys);
  if (largest == -std::numeric_limits<float>::infinity()) {
    std::fill(out, out + head.headDimV, 0.0f);
    return;
  }
  largest = head.sink > largest ? float(head.sink) : largest;
  float sum = std::exp(float(head.sink) - largest);
  for (int64_t j = 0; j < keys; ++j) {
    s[j] = std::exp(s[j] - largest);
    sum += s[j];
  }
  for (int64_t j = 0; j < keys; ++j)
    s[j] = roundTo(head.precision, s[j] / sum);
  applyDropout(head, s, size_t(keys));
  for (int64_t j = 0; head.dropout && j < keys; ++j)
    s[j] = roundTo(head.precision, s[j]);
  weigh(s, head.v, keys, head.headDimV, out);
  for (int64_t d = 0; d < head.headDimV; ++d)
    out[d] = roundTo(head.precision, out[d]);
}

} // namespace fa2run
