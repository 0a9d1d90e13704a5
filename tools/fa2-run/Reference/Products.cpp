//===- Products.cpp - sums of products on the host ------------------------===//

#include "Reference/Products.h"

// Wider vectors where the processor has them. Sanitizers do not bear the
// dispatch at program start.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) &&  \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define FA2RUN_CLONES                                                          \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FA2RUN_CLONES
#endif
#define FA2RUN_INLINE [[gnu::always_inline]] inline

namespace fa2run {

namespace {

/// scores[j] = sum_d q[d] k[j][d]; four keys at a time, whose sums do not wait
/// for each other.
template <typename T>
FA2RUN_INLINE void dotsOf(const T *q, const float *k, int64_t keys, int64_t dim,
                          T *scores) {
  int64_t j = 0;
  for (; j + 4 <= keys; j += 4) {
    const float *k0 = k + j * dim, *k1 = k0 + dim, *k2 = k1 + dim,
                *k3 = k2 + dim;
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t d = 0; d < dim; ++d) {
      s0 += q[d] * T(k0[d]);
      s1 += q[d] * T(k1[d]);
      s2 += q[d] * T(k2[d]);
      s3 += q[d] * T(k3[d]);
    }
    scores[j] = s0;
    scores[j + 1] = s1;
    scores[j + 2] = s2;
    scores[j + 3] = s3;
  }
  for (; j < keys; ++j) {
    T sum = 0;
    for (int64_t d = 0; d < dim; ++d)
      sum += q[d] * T(k[j * dim + d]);
    scores[j] = sum;
  }
}

/// sums[d] = sum_j p[j] v[j][d]
template <typename T>
FA2RUN_INLINE void weighOf(const T *p, const float *v, int64_t keys,
                           int64_t dim, T *sums) {
  for (int64_t d = 0; d < dim; ++d)
    sums[d] = 0;
  int64_t j = 0;
  for (; j + 4 <= keys; j += 4) {
    const float *v0 = v + j * dim, *v1 = v0 + dim, *v2 = v1 + dim,
                *v3 = v2 + dim;
    T p0 = p[j], p1 = p[j + 1], p2 = p[j + 2], p3 = p[j + 3];
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d)
      sums[d] +=
          (p0 * T(v0[d]) + p1 * T(v1[d])) + (p2 * T(v2[d]) + p3 * T(v3[d]));
  }
  for (; j < keys; ++j)
    for (int64_t d = 0; d < dim; ++d)
      sums[d] += p[j] * T(v[j * dim + d]);
}

} // namespace

// The compiler clones functions, not templates.
FA2RUN_CLONES void dots(const double *q, const float *k, int64_t keys,
                        int64_t dim, double *scores) {
  dotsOf(q, k, keys, dim, scores);
}
FA2RUN_CLONES void dots(const float *q, const float *k, int64_t keys,
                        int64_t dim, float *scores) {
  dotsOf(q, k, keys, dim, scores);
}
FA2RUN_CLONES void weigh(const double *p, const float *v, int64_t keys,
                         int64_t dim, double *sums) {
  weighOf(p, v, keys, dim, sums);
}
FA2RUN_CLONES void weigh(const float *p, const float *v, int64_t keys,
                         int64_t dim, float *sums) {
  weighOf(p, v, keys, dim, sums);
}

} // namespace fa2run
