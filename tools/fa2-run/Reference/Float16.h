//===- Float16.h - bf16 and f16 as bits -------------------------*- C++ -*-===//
//
// IEEE 754 binary16 and bfloat16; conversions round to nearest, ties to even.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_FLOAT16_H
#define FA2RUN_REFERENCE_FLOAT16_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace fa2run {

enum class Precision { BF16, F16 };

inline float decodeBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

inline uint16_t encodeBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 | 0x40); // a NaN stays one
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline float decodeF16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) { // mantissa * 2^-24
    float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline uint16_t encodeF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t(bits >> 16 & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) // 65520 rounds to infinity
    return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
    // Adding 0.5 leaves the multiple, rounded to even, in the low bits.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
  return uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

inline float decode(Precision precision, uint16_t bits) {
  return precision == Precision::BF16 ? decodeBF16(bits) : decodeF16(bits);
}

inline uint16_t encode(Precision precision, float value) {
  return precision == Precision::BF16 ? encodeBF16(value) : encodeF16(value);
}

inline float roundTo(Precision precision, float value) {
  return decode(precision, encode(precision, value));
}

/// The distance between neighbouring values of the format at |value|.
inline double ulp(Precision precision, double value) {
  int exponent = 0;
  std::frexp(value, &exponent); // |value| in [2^(exponent-1), 2^exponent)
  int bits = precision == Precision::BF16 ? 8 : 11;
  int least = precision == Precision::BF16 ? -133 : -24; // of subnormals
  if (value == 0)
    return std::ldexp(1.0, least);
  return std::ldexp(1.0, std::max(exponent - bits, least));
}

} // namespace fa2run

#endif // FA2RUN_REFERENCE_FLOAT16_H
