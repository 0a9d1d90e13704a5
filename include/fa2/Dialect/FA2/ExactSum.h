//===- ExactSum.h - sums of f32 that no order changes -----------*- C++ -*-===//
//
// A sum of f32 kept as whole numbers, which has the same bits in whatever order
// its terms arrive: a long accumulator as U. Kulisch has it (Computer
// Arithmetic and Validity, 2008), with carries left for the end. An f32 is a
// whole number of at most 24 bits times 2^(p - 149), 0 <= p < 255. Limb i
// counts 2^(32 i - 149): a term's bits are added to two neighbours, each an
// i64, whose upper half has room for 2^31 of them.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_DIALECT_FA2_EXACTSUM_H
#define FA2_DIALECT_FA2_EXACTSUM_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fa2 {

constexpr int64_t kExactLimbs = 9;
/// i64 words of a sum: the limbs, and marks of what is no number.
constexpr int64_t kExactWords = kExactLimbs + 1;
enum ExactMark : int64_t { kExactNaN = 1, kExactInf = 2, kExactMinusInf = 4 };
constexpr int64_t kExactLimbBits = 32;
/// The exponent of the first limb's last bit, that of the smallest f32.
constexpr int64_t kExactFirstExponent = -149;

/// Adds `x` to a sum, whose words lie `step` words apart.
inline void addExactly(int64_t *words, int64_t step, float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
  if (exponent == 255)
    words[kExactLimbs * step] |= fraction     ? kExactNaN
                                 : bits >> 31 ? kExactMinusInf
                                              : kExactInf;
  uint32_t place = exponent ? exponent - 1 : 0;
  uint64_t whole = uint64_t(exponent ? fraction | 0x800000 : fraction)
                   << (place % kExactLimbBits);
  int64_t sign = bits >> 31 ? -1 : 1;
  int64_t *limb = words + place / kExactLimbBits * step;
  limb[0] += sign * int64_t(whole & 0xffffffff);
  limb[step] += sign * int64_t(whole >> kExactLimbBits);
}

/// The sum as an f32.
inline float roundExact(const int64_t *words, int64_t step) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  if (int64_t marks = words[kExactLimbs * step])
    return marks == kExactInf        ? inf
           : marks == kExactMinusInf ? -inf
                                     : std::numeric_limits<float>::quiet_NaN();
  double sum = 0;
  for (int64_t i = kExactLimbs - 1; i >= 0; --i)
    sum = sum * 0x1p32 + double(words[i * step]);
  return float(sum * 0x1p-149);
}

} // namespace fa2

#endif
