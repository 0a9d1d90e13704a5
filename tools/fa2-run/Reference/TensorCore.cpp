//===- TensorCore.cpp - what tensor cores make of a dot product -----------===//

#include "Reference/TensorCore.h"

#include <cmath>

namespace fa2run {

namespace {

/// Subnormals count with the exponent of the smallest normal number.
int exponentOf(float value, int least) {
  return std::max(std::ilogb(value), least);
}

float towardsZero(double value) {
  float nearest = float(value);
  return std::abs(double(nearest)) > std::abs(value)
             ? std::nextafter(nearest, 0.0f)
             : nearest;
}

} // namespace

TensorCore tensorCoreOf(int capability) {
  return capability >= 90 ? TensorCore{16, 25} : TensorCore{8, 24};
}

float tensorCoreDot(TensorCore core, Precision precision, const float *q,
                    const float *k, int64_t dim, float start) {
  int least = precision == Precision::BF16 ? -126 : -14;
  float sum = start;
  for (int64_t first = 0; first < dim; first += core.terms) {
    int64_t end = std::min(first + core.terms, dim);
    int top = exponentOf(sum, -126);
    for (int64_t d = first; d < end; ++d)
      if (q[d] != 0 && k[d] != 0)
        top = std::max(top, exponentOf(q[d], least) + exponentOf(k[d], least));
    // In units of 2^(top - F); products and sums of these are exact.
    double units = std::trunc(std::ldexp(double(sum), core.fractionBits - top));
    for (int64_t d = first; d < end; ++d)
      units += std::trunc(
          std::ldexp(double(q[d]) * double(k[d]), core.fractionBits - top));
    sum = towardsZero(std::ldexp(units, top - core.fractionBits));
  }
  return sum;
}

static double programError(const Head &head, const float *q, int64_t keys,
                           double lse, TensorCore core) {
  constexpr double kMost = 80; // exp of it is beyond any allowance
  std::vector<Number> scores(static_cast<size_t>(keys));
  for (int64_t j = 0; j < keys; ++j) {
    const float *k = head.k + j * head.headDim;
    double s = 0;
    for (int64_t d = 0; d < head.headDim; ++d)
      s += double(q[d]) * double(k[d]);
    float t = tensorCoreDot(core, head.precision, q, k, head.headDim);
    Number &score = scores[size_t(j)];
    score.value = head.scale * s;
    score.error =
        head.scale * std::abs(double(t) - s) + std::abs(score.value) * 0x1p-24;
  }
  head.program->apply(head.place, scores);
  double error = 0;
  for (const Number &x : scores) {
    if (std::isinf(x.error))
      return x.error;
    error += std::exp(x.value - lse) * std::expm1(std::min(x.error, kMost));
  }
  return error;
}

double scoreError(const Head &head, const float *q, int64_t keys, double lse,
                  TensorCore core) {
  if (head.program)
    return programError(head, q, keys, lse, core);
  constexpr double kNegligible = 0x1p-40;
  double error = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float *k = head.k + j * head.headDim;
    double s = 0;
    for (int64_t d = 0; d < head.headDim; ++d)
      s += double(q[d]) * double(k[d]);
    double p = std::exp(head.scale * s - lse);
    if (p < kNegligible)
      continue;
    float t = tensorCoreDot(core, head.precision, q, k, head.headDim);
    error += p * head.scale * std::abs(double(t) - s);
  }
  return error;
}

} // namespace fa2run
