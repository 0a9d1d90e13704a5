//===- Attention.cpp - attention on the host ------------------------------===//

#include "Reference/Attention.h"

#include <cmath>
#include <limits>

// Wider vectors where the processor has them. Sanitizers do not bear the
// dispatch at program start.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) &&  \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FA2RUN_CLONES                                                          \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FA2RUN_CLONES
#endif

namespace fa2run {

namespace {

/// scores[j] = sum_d q[d] k[j][d]
FA2RUN_CLONES void dots(const double *q, const float *k, int64_t keys,
                        int64_t dim, double *scores) {
  for (int64_t j = 0; j < keys; ++j) {
    const float *key = k + j * dim;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < dim; ++d)
      sum += q[d] * double(key[d]);
    scores[j] = sum;
  }
}

FA2RUN_CLONES void dots32(const float *q, const float *k, int64_t keys,
                          int64_t dim, float *scores) {
  for (int64_t j = 0; j < keys; ++j) {
    const float *key = k + j * dim;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < dim; ++d)
      sum += q[d] * key[d];
    scores[j] = sum;
  }
}

/// sums[d] = sum_j p[j] v[j][d]
FA2RUN_CLONES void weigh(const double *p, const float *v, int64_t keys,
                         int64_t dim, double *sums) {
  for (int64_t d = 0; d < dim; ++d)
    sums[d] = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float *value = v + j * dim;
    double weight = p[j];
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d)
      sums[d] += weight * double(value[d]);
  }
}

FA2RUN_CLONES void weigh32(const float *p, const float *v, int64_t keys,
                           int64_t dim, float *sums) {
  for (int64_t d = 0; d < dim; ++d)
    sums[d] = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float *value = v + j * dim;
    float weight = p[j];
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d)
      sums[d] += weight * value[d];
  }
}

} // namespace

void referenceRow(const Head &head, const float *q, int64_t keys,
                  Scratch &scratch, double *out, double &lse) {
  if (keys == 0) {
    lse = -std::numeric_limits<double>::infinity();
    std::fill(out, out + head.headDimV, 0.0);
    return;
  }
  scratch.query.assign(q, q + head.headDim);
  scratch.scores.resize(size_t(keys));
  double *s = scratch.scores.data();
  dots(scratch.query.data(), head.k, keys, head.headDim, s);
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    s[j] *= head.scale;
    largest = std::max(largest, s[j]);
  }
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    s[j] = std::exp(s[j] - largest);
    sum += s[j];
  }
  lse = largest + std::log(sum);
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
  dots32(q, head.k, keys, head.headDim, s);
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    s[j] = float(head.scale) * roundTo(head.precision, s[j]);
    largest = std::max(largest, s[j]);
  }
  float sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    s[j] = std::exp(s[j] - largest);
    sum += s[j];
  }
  for (int64_t j = 0; j < keys; ++j)
    s[j] = roundTo(head.precision, s[j] / sum);
  weigh32(s, head.v, keys, head.headDimV, out);
  for (int64_t d = 0; d < head.headDimV; ++d)
    out[d] = roundTo(head.precision, out[d]);
}

} // namespace fa2run
