//===- Products.h - sums of products on the host ----------------*- C++ -*-===//
//
// The inner loops of the reference: rows are packed f32, sums are float64, or
// f32 for the yardstick.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_PRODUCTS_H
#define FA2RUN_REFERENCE_PRODUCTS_H

#include <cstdint>

namespace fa2run {

/// scores[j] = sum_d q[d] k[j][d]
void dots(const double *q, const float *k, int64_t keys, int64_t dim,
          double *scores);
void dots(const float *q, const float *k, int64_t keys, int64_t dim,
          float *scores);

/// sums[d] = sum_j p[j] v[j][d]
void weigh(const double *p, const float *v, int64_t keys, int64_t dim,
           double *sums);
void weigh(const float *p, const float *v, int64_t keys, int64_t dim,
           float *sums);

} // namespace fa2run

#endif // FA2RUN_REFERENCE_PRODUCTS_H
