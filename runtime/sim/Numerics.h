//===- Numerics.h - Floating-point formats and rounding --------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_NUMERICS_H
#define FA2_RUNTIME_SIM_NUMERICS_H

#include "Isa.h"

#include <cmath>

namespace fa2::sim {

constexpr u32 kCanonicalNan = 0x7fffffffu; ///< PTX ISA 9.7.3: f32 results
constexpr u16 kCanonicalNan16 = 0x7fffu;

inline float asFloat(u32 bits) { return std::bit_cast<float>(bits); }
inline u32 asBits(float value) { return std::bit_cast<u32>(value); }

enum class Round : u8 { Nearest, Zero, Down, Up, NearestAway };

/// A format of at most 16 bits: 1 sign, `exponent` and `fraction` bits.
struct SmallFormat {
  int exponent, fraction;
};
constexpr SmallFormat kHalf{5, 10}, kBfloat{8, 7};

inline float bfloatToFloat(u16 bits) { return asFloat(u32(bits) << 16); }
float halfToFloat(u16 bits);
/// One correct rounding from a double (an f32 is exact in it).
u16 toSmall(double value, SmallFormat format, Round round, bool saturate);
inline u16 floatToBfloat(float value) {
  u32 bits = asBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return kCanonicalNan16;
  return u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
u16 floatToHalf(float value);

/// double to f32 in a chosen direction.
float toFloat(double value, Round round);
/// Exact a*b+c rounded once to the nearest f32, bf16 or f16.
u16 fmaSmall(float a, float b, float c, SmallFormat format);

inline float flush(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}
inline double flush(double x) { return x; }
inline double canonical(double x) {
  return x == x ? x : std::bit_cast<double>(u64(0x7fffffffffffffffull));
}
inline float canonical(float x) { return x == x ? x : asFloat(kCanonicalNan); }

/// Approximations: the correctly rounded value, moved inside the manual's
/// bound when Options::perturbApproximations is set (PTX ISA 9.7.3).
enum class Approx : u8 { Ex2, Lg2, Rcp, Sqrt, Rsqrt, Sin, Cos, Tanh, Div };
float approximate(Approx function, float a, float b, bool ftz, u64 perturb);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_NUMERICS_H
