//===- Products.cpp - sums of products on the host ------------------------===//

#include "Reference/Products.h"

// Wider vectors where the processor has them, chosen when a sum is asked for:
// not every compiler makes a choice of its own out of `target_clones`.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__)
#define FA2RUN_VECTORS 1
#define FA2RUN_FOR(FEATURES) [[gnu::target(FEATURES)]]
#else
#define FA2RUN_VECTORS 0
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

#if FA2RUN_VECTORS
namespace {

template <typename T> struct Wide {
  FA2RUN_FOR("avx512f")
  static void dots512(const T *q, const float *k, int64_t keys, int64_t dim,
                      T *scores) {
    dotsOf(q, k, keys, dim, scores);
  }
  FA2RUN_FOR("avx2,fma")
  static void dots256(const T *q, const float *k, int64_t keys, int64_t dim,
                      T *scores) {
    dotsOf(q, k, keys, dim, scores);
  }
  FA2RUN_FOR("avx512f")
  static void weigh512(const T *p, const float *v, int64_t keys, int64_t dim,
                       T *sums) {
    weighOf(p, v, keys, dim, sums);
  }
  FA2RUN_FOR("avx2,fma")
  static void weigh256(const T *p, const float *v, int64_t keys, int64_t dim,
                       T *sums) {
    weighOf(p, v, keys, dim, sums);
  }
};

bool has512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}
bool has256() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

} // namespace
#endif

namespace {

template <typename T>
void widestDots(const T *q, const float *k, int64_t keys, int64_t dim,
                T *scores) {
#if FA2RUN_VECTORS
  if (has512())
    return Wide<T>::dots512(q, k, keys, dim, scores);
  if (has256())
    return Wide<T>::dots256(q, k, keys, dim, scores);
#endif
  dotsOf(q, k, keys, dim, scores);
}

template <typename T>
void widestWeigh(const T *p, const float *v, int64_t keys, int64_t dim,
                 T *sums) {
#if FA2RUN_VECTORS
  if (has512())
    return Wide<T>::weigh512(p, v, keys, dim, sums);
  if (has256())
    return Wide<T>::weigh256(p, v, keys, dim, sums);
#endif
  weighOf(p, v, keys, dim, sums);
}

} // namespace

void dots(const double *q, const float *k, int64_t keys, int64_t dim,
          double *scores) {
  widestDots(q, k, keys, dim, scores);
}
void dots(const float *q, const float *k, int64_t keys, int64_t dim,
          float *scores) {
  widestDots(q, k, keys, dim, scores);
}
void weigh(const double *p, const float *v, int64_t keys, int64_t dim,
           double *sums) {
  widestWeigh(p, v, keys, dim, sums);
}
void weigh(const float *p, const float *v, int64_t keys, int64_t dim,
           float *sums) {
  widestWeigh(p, v, keys, dim, sums);
}

} // namespace fa2run
