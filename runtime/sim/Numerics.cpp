//===- Numerics.cpp - Floating-point formats and rounding -----------------===//

#include "Numerics.h"

namespace fa2::sim {

float halfToFloat(u16 bits) {
  u32 sign = u32(bits & 0x8000) << 16;
  u32 exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31)
    return asFloat(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return asFloat(sign | (exponent + 112) << 23 | fraction << 13);
}

// Rounds |value| to a multiple of its ulp in the format; the ulp of
// subnormals is that of the smallest normal.
u16 toSmall(double value, SmallFormat f, Round round, bool saturate) {
  if (std::isnan(value))
    return kCanonicalNan16;
  const int bias = (1 << (f.exponent - 1)) - 1, most = (1 << f.exponent) - 1;
  const u16 sign = std::signbit(value) ? 0x8000 : 0;
  const u16 infinity = u16(most << f.fraction), largest = u16(infinity - 1);
  double magnitude = std::fabs(value);
  auto overflow = [&]() -> u16 {
    bool towardsZero = round == Round::Zero ||
                       (round == Round::Down && !sign) ||
                       (round == Round::Up && sign);
    return u16(sign | (saturate || towardsZero ? largest : infinity));
  };
  if (std::isinf(value))
    return u16(sign | (saturate ? largest : infinity));
  if (magnitude == 0)
    return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double scaled = std::ldexp(magnitude, f.fraction - exponent);
  double whole = std::floor(scaled), rest = scaled - whole;
  bool up = false;
  switch (round) {
  case Round::Nearest:
    up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1);
    break;
  case Round::NearestAway:
    up = rest >= 0.5;
    break;
  case Round::Zero:
    break;
  case Round::Down:
    up = rest > 0 && sign;
    break;
  case Round::Up:
    up = rest > 0 && !sign;
    break;
  }
  whole += up;
  if (whole >= std::ldexp(1.0, f.fraction + 1)) {
    whole /= 2;
    ++exponent;
  }
  if (exponent > bias)
    return overflow();
  u32 significand = u32(whole), hidden = 1u << f.fraction;
  if (significand < hidden)
    return u16(sign | significand);
  return u16(sign | u32(exponent + bias) << f.fraction |
             (significand - hidden));
}

u16 floatToHalf(float value) {
  u32 bits = asBits(value), magnitude = bits & 0x7fffffffu;
  u16 sign = u16(bits >> 16 & 0x8000);
  // Normal results below the largest half take the short way.
  if (magnitude >= 0x38800000u && magnitude < 0x477fe000u)
    return u16(
        sign |
        ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13));
  return toSmall(value, kHalf, Round::Nearest, false);
}

float toFloat(double value, Round round) {
  float nearest = float(value);
  if (round == Round::Nearest || double(nearest) == value || std::isnan(value))
    return nearest;
  bool above = double(nearest) > value;
  bool wantBelow = round == Round::Down || (round == Round::Zero && value > 0);
  if (above && wantBelow)
    return std::nextafterf(nearest, -INFINITY);
  if (!above && !wantBelow)
    return std::nextafterf(nearest, INFINITY);
  return nearest;
}

// The product is exact in double; the sum is rounded to odd (the last bit set
// when inexact), after which rounding to at most 11 bits is correct.
u16 fmaSmall(float a, float b, float c, SmallFormat format) {
  double p = double(a) * double(b), s = p + double(c);
  if (std::isfinite(s)) {
    double t = s - p;
    double error = (p - (s - t)) + (double(c) - t);
    if (error != 0) {
      u64 bits = std::bit_cast<u64>(s);
      if (!(bits & 1))
        bits += (error > 0) == (s > 0) ? 1 : u64(-1);
      s = std::bit_cast<double>(bits);
    }
  }
  return toSmall(s, format, Round::Nearest, false);
}

static float moved(float value, int ulps) {
  if (!std::isfinite(value) || value == 0)
    return value;
  for (; ulps > 0; --ulps)
    value = std::nextafterf(value, INFINITY);
  for (; ulps < 0; ++ulps)
    value = std::nextafterf(value, -INFINITY);
  return value;
}

// Hash of the argument: the same argument always moves the same way.
static u64 mixed(u64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

float approximate(Approx function, float a, float b, bool ftz, u64 perturb) {
  if (ftz) {
    a = flush(a);
    b = flush(b);
  }
  double x = a, y = 0;
  int ulps = 1;        // bound of the manual, in ulp of the result
  double absolute = 0; // or absolute
  switch (function) {
  case Approx::Ex2: // 9.7.3.20: 2 ulp
    y = std::exp2(x);
    ulps = 2;
    // Powers of two are exact.
    if (x == std::floor(x))
      ulps = 0;
    break;
  case Approx::Lg2: // 9.7.3.19: 2^-22 absolute in (0.5, 2), 2 ulp outside
    y = x < 0 ? NAN : std::log2(x);
    ulps = a > 0.5f && a < 2 ? 0 : 2;
    absolute = a > 0.5f && a < 2 && a != 1 ? 0x1p-22 : 0;
    break;
  case Approx::Rcp: // 9.7.3.13: 1 ulp
    y = 1 / x;
    break;
  case Approx::Sqrt: // 9.7.3.15: 2^-23 relative
    y = std::sqrt(x);
    break;
  case Approx::Rsqrt: // 9.7.3.16: 2^-22.9 relative
    y = 1 / std::sqrt(x);
    if (x == 0)
      y = std::copysign(INFINITY, x);
    break;
  case Approx::Sin: // 9.7.3.17
    y = std::sin(x);
    ulps = 0;
    absolute = 0x1p-20;
    break;
  case Approx::Cos: // 9.7.3.18
    y = std::cos(x);
    ulps = 0;
    absolute = 0x1p-20;
    break;
  case Approx::Tanh: // 9.7.3.21: 2^-11 relative
    y = std::tanh(x);
    ulps = 1 << 12;
    break;
  case Approx::Div: // 9.7.3.8: 2 ulp
    y = x / b;
    ulps = 2;
    break;
  }
  float result = float(y);
  if (perturb) {
    u64 h = mixed(perturb * 0x9e3779b97f4a7c15ull ^ asBits(a) ^
                  u64(asBits(b)) << 32 ^ u64(function) << 56);
    if (absolute != 0 && std::isfinite(y))
      result = float(y + absolute * (double(s32(u32(h))) * 0x1p-31));
    else if (function == Approx::Tanh && std::isfinite(y))
      result = float(y * (1 + 0x1p-11 * (double(s32(u32(h))) * 0x1p-31)));
    else if (ulps)
      result = moved(result, int(h % u64(2 * ulps + 1)) - ulps);
  }
  if (ftz)
    result = flush(result);
  return canonical(result);
}

} // namespace fa2::sim
