//===- ProgramNumbers.h - operations on f32 and their bounds ----*- C++ -*-===//
//
// Each operation in float64: its value, a bound on what a kernel's f32 makes of
// operands that are themselves off, and the derivative. Where a derivative is
// 0, what it is multiplied by does not matter: an arm that no select takes adds
// nothing, though its factors be infinite.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_PROGRAMNUMBERS_H
#define FA2RUN_REFERENCE_PROGRAMNUMBERS_H

#include "Reference/Program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace fa2run {

/// Twice the rounding to nearest: contractions and float64's own count too.
constexpr double kRounding = 0x1p-23;
/// Below this, kernels flush to zero.
constexpr double kFlushed = 0x1p-125;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

inline double toF32Range(double x) {
  return std::abs(x) > double(std::numeric_limits<float>::max())
             ? std::copysign(kUnknown, x)
             : x;
}

/// x y, where nothing times anything is nothing.
inline double times(double x, double y) { return x == 0 ? 0 : x * y; }

/// The result of one operation whose operands alone make it off by `error`.
inline Number rounded(double value, double error, double slope,
                      double slopeError) {
  Number n{toF32Range(value), error, slope,
           slopeError + (slope == 0 ? 0 : kFlushed)};
  if (!(n.error == 0 && double(float(n.value)) == n.value))
    n.error += std::abs(n.value) * kRounding + kFlushed;
  if (!std::isfinite(n.value)) // of infinities, or beyond f32: unknown
    n.error = std::isfinite(value) ? kUnknown : 0;
  else if (std::isnan(n.error))
    n.error = kUnknown;
  return n;
}

inline Number add(Number a, Number b) {
  return rounded(a.value + b.value, a.error + b.error, a.slope + b.slope,
                 a.slopeError + b.slopeError);
}
inline Number negate(Number a) {
  return {-a.value, a.error, -a.slope, a.slopeError};
}
inline Number multiply(Number a, Number b) {
  double error = times(a.error, std::abs(b.value)) +
                 times(b.error, std::abs(a.value) + a.error);
  double slopeError = times(a.slopeError, std::abs(b.value)) +
                      times(b.slopeError, std::abs(a.value)) +
                      times(std::abs(a.slope), b.error) +
                      times(std::abs(b.slope), a.error);
  return rounded(a.value * b.value, error,
                 times(a.slope, b.value) + times(b.slope, a.value), slopeError);
}
inline Number divide(Number a, Number b) {
  double value = a.value / b.value, size = std::abs(b.value);
  double least = size - b.error, error = 0;
  if (a.error != 0 || b.error != 0)
    error = least > 0 ? (a.error + times(b.error, std::abs(value))) / least
                      : kUnknown;
  double slope = times(a.slope, 1 / b.value) - times(b.slope, value / b.value);
  double slopeError =
      times(a.slopeError, 1 / size) +
      times(b.slopeError, std::abs(value) / size) +
      times(std::abs(a.slope), times(b.error, 1 / (size * size))) +
      times(std::abs(b.slope),
            times(a.error + 2 * std::abs(value) * b.error, 1 / (size * size)));
  return rounded(value, error, slope, slopeError);
}
inline Number absolute(Number a) {
  double turned =
      a.error > 0 && std::abs(a.value) <= a.error ? 2 * std::abs(a.slope) : 0;
  return {std::abs(a.value), a.error, a.value < 0 ? -a.slope : a.slope,
          a.slopeError + turned};
}
inline Number largest(Number a, Number b) {
  if (std::isnan(a.value) || std::isnan(b.value))
    return {std::nan(""), 0, 0, 0};
  Number chosen = a.value >= b.value ? a : b;
  double off = a.error + b.error;
  chosen.error = std::max(a.error, b.error);
  if (off > 0 && std::abs(a.value - b.value) <= off)
    chosen.slopeError =
        std::max(a.slopeError, b.slopeError) + std::abs(a.slope - b.slope);
  return chosen;
}

/// 2^(x perUnit) by ex2.approx (2 ulp) of a rounded product.
inline Number power(Number x, double perUnit) {
  double value = std::exp2(x.value * perUnit);
  double factor = value * perUnit * std::numbers::ln2;
  if (std::isinf(x.value) && x.error == 0)
    return {value, 0, times(x.slope, factor), times(x.slopeError, factor)};
  double relative = std::expm1(x.error * perUnit * std::numbers::ln2) +
                    std::abs(x.value * perUnit) * kRounding + 0x1p-21;
  double slopeError =
      times(x.slopeError, factor) + times(std::abs(x.slope), factor * relative);
  return rounded(value, value * relative + kFlushed, times(x.slope, factor),
                 slopeError);
}

/// 1 - 2 / (2^(2 x log2 e) + 1): the power's error counts by sech^2 / 2; then
/// one rcp and one fma. Approximately: off by `relative` of its value besides.
inline Number hyperbolicTangent(Number x, double relative = 0) {
  double value = std::tanh(x.value);
  auto sech2 = [](double at) {
    double c = std::cosh(std::min(std::abs(at), 300.0));
    return 1 / (c * c);
  };
  double off = std::min(2.9 * std::abs(x.value), 100.0) * kRounding + 0x1p-21;
  double nearest = std::max(0.0, std::abs(x.value) - x.error);
  double error = std::min(2.0, times(x.error, sech2(nearest))) +
                 sech2(x.value) / 2 * off + 0x1p-21 +
                 std::abs(value) * relative;
  double slopeError =
      times(x.slopeError, sech2(nearest)) + times(std::abs(x.slope), 2 * error);
  return {value, error, times(x.slope, sech2(x.value)), slopeError};
}

/// One or the other, where rounding may turn the choice.
inline Number either(Number chosen, Number other) {
  chosen.error = std::max(chosen.error, other.error);
  if (chosen.value != other.value)
    chosen.error = std::max(chosen.error,
                            std::abs(chosen.value - other.value) + other.error);
  if (std::isnan(chosen.error))
    chosen.error = kUnknown;
  chosen.slopeError = std::max(chosen.slopeError, other.slopeError) +
                      std::abs(chosen.slope - other.slope);
  return chosen;
}

} // namespace fa2run

#endif // FA2RUN_REFERENCE_PROGRAMNUMBERS_H
