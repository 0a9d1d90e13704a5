//===- MmaNumerics.cpp - Tensor-core arithmetic ---------------------------===//
//
// After arXiv 2511.10909: with e the largest exponent of the products and of
// c, each summand is truncated to a multiple of 2^(e - F), the sum of these is
// exact, and the result is truncated to f32. A product's exponent is the sum
// of its factors' exponents, subnormals have that of the smallest normal.
//
//===----------------------------------------------------------------------===//

#include "MmaNumerics.h"

#include "Numerics.h"

// Clang's word for __SANITIZE_ADDRESS__.
// The widest vectors of the machine it runs on; the same results with all.
#if defined(__x86_64__) && defined(__GNUC__)
#define FA2SIM_VECTORS 1
#else
#define FA2SIM_VECTORS 0
#endif

namespace fa2::sim {

namespace {
constexpr int kZeroExponent = -10000;

struct Parts {
  s32 significand = 0;          ///< with sign, an integer
  int exponent = kZeroExponent; ///< of 1.0 in the significand's scale
  int fraction = 0;             ///< bits behind the point
  bool nan = false, infinite = false, negative = false;
};

Parts partsOf16(u16 bits, bool bfloat) {
  Parts p;
  int fraction = bfloat ? 7 : 10, most = bfloat ? 255 : 31;
  int bias = bfloat ? 127 : 15;
  int exponent = bits >> fraction & most;
  s32 significand = bits & ((1 << fraction) - 1);
  p.fraction = fraction;
  p.negative = bits >> 15;
  if (exponent == most) {
    p.nan = significand != 0;
    p.infinite = significand == 0;
    return p;
  }
  if (exponent)
    significand |= 1 << fraction;
  else
    exponent = 1;
  if (significand) {
    p.exponent = exponent - bias;
    p.significand = p.negative ? -significand : significand;
  }
  return p;
}
Parts partsOf32(float value) {
  Parts p;
  u32 bits = asBits(value);
  int exponent = bits >> 23 & 255;
  s32 significand = bits & 0x7fffff;
  p.fraction = 23;
  p.negative = bits >> 31;
  if (exponent == 255) {
    p.nan = significand != 0;
    p.infinite = significand == 0;
    return p;
  }
  if (exponent)
    significand |= 1 << 23;
  else
    exponent = 1;
  p.exponent = exponent - 127; // c counts even when it is zero
  p.significand = p.negative ? -significand : significand;
  return p;
}

// |significand| * 2^(exponent - fraction) in units of 2^(top - F), truncated.
s64 aligned(s64 significand, int shift) {
  u64 magnitude = u64(significand < 0 ? -significand : significand);
  magnitude =
      shift >= 0 ? magnitude << shift : (shift > -64 ? magnitude >> -shift : 0);
  return significand < 0 ? -s64(magnitude) : s64(magnitude);
}

// sum * 2^unit truncated to f32.
float truncated(s64 sum, int unit) {
  if (sum == 0)
    return 0.0f;
  u64 magnitude = u64(sum < 0 ? -sum : sum);
  int top = 63 - std::countl_zero(magnitude); // value in [2^top, 2^(top+1))
  int exponent = top + unit;
  int keep = exponent >= -126 ? 23 : 23 - (-126 - exponent);
  if (keep < 0)
    return sum < 0 ? -0.0f : 0.0f;
  if (top > keep)
    magnitude = magnitude >> (top - keep) << (top - keep);
  double value = std::ldexp(double(magnitude), unit);
  float result = value > double(std::numeric_limits<float>::max())
                     ? INFINITY
                     : float(value);
  return sum < 0 ? -result : result;
}
} // namespace

float fusedDotAdd(const u16 *a, const u16 *b, unsigned strideB, float c,
                  unsigned terms, bool bfloat, unsigned fractionBits) {
  Parts pc = partsOf32(c);
  s64 significand[16];
  int exponent[16];
  bool nan = pc.nan, plus = pc.infinite && !pc.negative,
       minus = pc.infinite && pc.negative;
  int top = pc.exponent;
  int fraction = bfloat ? 14 : 20;
  for (unsigned k = 0; k < terms; ++k) {
    Parts x = partsOf16(a[k], bfloat), y = partsOf16(b[k * strideB], bfloat);
    nan |= x.nan || y.nan;
    if (x.infinite || y.infinite) {
      bool zero =
          (!x.infinite && !x.significand) || (!y.infinite && !y.significand);
      nan |= zero;
      (x.negative != y.negative ? minus : plus) |= !zero && !x.nan && !y.nan;
    }
    significand[k] = s64(x.significand) * y.significand;
    exponent[k] = significand[k] ? x.exponent + y.exponent : kZeroExponent;
    top = std::max(top, exponent[k]);
  }
  if (nan || (plus && minus))
    return asFloat(kCanonicalNan);
  if (plus || minus)
    return plus ? INFINITY : -INFINITY;
  int F = int(fractionBits);
  s64 sum = aligned(pc.significand, pc.exponent - 23 - top + F);
  for (unsigned k = 0; k < terms; ++k)
    if (significand[k])
      sum += aligned(significand[k], exponent[k] - fraction - top + F);
  return truncated(sum, top - F);
}

namespace {
// Rows of 8 results: vector code on any machine. With top in [-70, 120] every
// product is exact in f32 or too small to matter, scaling by a power of two is
// exact, and the conversion to an integer is the truncation.
constexpr int kLowest = -70, kHighest = 120;

// Eight columns at once. No such value is passed to a function that stays one.
#pragma GCC diagnostic ignored "-Wpsabi"
using F8 = float __attribute__((vector_size(32)));
using I8 = s32 __attribute__((vector_size(32)));
using D8 = double __attribute__((vector_size(64)));
using L8 = s64 __attribute__((vector_size(64)));
constexpr s32 kZero16 = -5000;

struct Row { ///< of A
  float value[16];
  s32 exponent[16]; ///< kZero16 for zero
  bool special = false;
};

struct Columns { ///< of B, [k][8]
  F8 value[16];
  I8 exponent[16];
  bool special = false;
};

inline void split(u16 bits, bool bfloat, float &value, s32 &exponent,
                  bool &special) {
  int e, most;
  if (bfloat) {
    value = bfloatToFloat(bits);
    e = bits >> 7 & 255;
    most = 255;
    exponent = (e ? e : 1) - 127;
  } else {
    value = halfToFloat(bits);
    e = bits >> 10 & 31;
    most = 31;
    exponent = (e ? e : 1) - 15;
  }
  if ((bits & 0x7fff) == 0)
    exponent = kZero16;
  special |= e == most;
}

[[gnu::always_inline]] inline I8 maximum(I8 x, I8 y) { return x > y ? x : y; }
[[gnu::always_inline]] inline bool any(I8 mask) {
  s64 parts[4];
  __builtin_memcpy(parts, &mask, sizeof(mask));
  return (parts[0] | parts[1] | parts[2] | parts[3]) != 0;
}

/// c += the products of these terms, or false where only fusedDotAdd can tell.
[[gnu::always_inline]] inline bool rowTimesColumns(const Row &a,
                                                   const Columns &b, float *c,
                                                   unsigned first,
                                                   unsigned terms, int F) {
  if (a.special || b.special)
    return false;
  F8 before;
  __builtin_memcpy(&before, c, sizeof(before));
  I8 bits = std::bit_cast<I8>(before) >> 23 & 255;
  I8 products = I8{} + 2 * kZero16;
  for (unsigned k = first; k < first + terms; ++k)
    products = maximum(products, b.exponent[k] + a.exponent[k]);
  I8 none = products < kZero16 / 2; // every product is zero
  I8 top = maximum(maximum(bits, I8{} + 1) - 127, products);
  if (any(((top < kLowest) & ~none) | (top > kHighest)))
    return false;
  top = maximum(top, I8{} + kLowest);
  F8 scale = std::bit_cast<F8>((127 + F - top) << 23);
  I8 fromC = __builtin_convertvector(before * scale, I8), sum{};
  for (unsigned k = first; k < first + terms; ++k)
    sum += __builtin_convertvector(b.value[k] * a.value[k] * scale, I8);
  L8 unit = __builtin_convertvector(1023 + top - F, L8) << 52;
  D8 total =
      (__builtin_convertvector(sum, D8) + __builtin_convertvector(fromC, D8)) *
      std::bit_cast<D8>(unit);
  // 52 - 23 bits go: truncation towards zero.
  L8 kept = std::bit_cast<L8>(total) & ~((s64(1) << 29) - 1);
  F8 after = __builtin_convertvector(std::bit_cast<D8>(kept), F8);
  // Without products c stays as it is, but for the sign of zero.
  after = none ? before + 0.0f : after;
  __builtin_memcpy(c, &after, sizeof(after));
  return true;
}
} // namespace

[[gnu::always_inline]] static inline void
multiplyAddOf(const u16 *a, const u16 *b, float *c, unsigned n, unsigned k,
              bool bfloat, unsigned capability) {
  const int F = capability >= 90 ? 25 : 24;
  const unsigned terms = capability >= 90 ? k : 8;
  Row rows[16];
  for (unsigned m = 0; m < 16; ++m) {
    rows[m].special = false;
    for (unsigned i = 0; i < k; ++i)
      split(a[m * k + i], bfloat, rows[m].value[i], rows[m].exponent[i],
            rows[m].special);
  }
  for (unsigned j = 0; j < n; j += 8) {
    Columns columns;
    columns.special = false;
    for (unsigned i = 0; i < k; ++i) {
      float value[8];
      s32 exponent[8];
      for (unsigned x = 0; x < 8; ++x)
        split(b[i * n + j + x], bfloat, value[x], exponent[x], columns.special);
      __builtin_memcpy(&columns.value[i], value, sizeof(value));
      __builtin_memcpy(&columns.exponent[i], exponent, sizeof(exponent));
    }
    for (unsigned m = 0; m < 16; ++m)
      for (unsigned first = 0; first < k; first += terms) {
        float *to = c + m * n + j;
        if (rowTimesColumns(rows[m], columns, to, first, terms, F))
          continue;
        for (unsigned x = 0; x < 8; ++x)
          to[x] = fusedDotAdd(a + m * k + first, b + first * n + j + x, n,
                              to[x], terms, bfloat, unsigned(F));
      }
  }
}

#if FA2SIM_VECTORS
[[gnu::target("avx2")]] static void multiplyAddWide(const u16 *a, const u16 *b,
                                                    float *c, unsigned n,
                                                    unsigned k, bool bfloat,
                                                    unsigned capability) {
  multiplyAddOf(a, b, c, n, k, bfloat, capability);
}
#endif

void multiplyAdd(const u16 *a, const u16 *b, float *c, unsigned n, unsigned k,
                 bool bfloat, unsigned capability) {
#if FA2SIM_VECTORS
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide)
    return multiplyAddWide(a, b, c, n, k, bfloat, capability);
#endif
  multiplyAddOf(a, b, c, n, k, bfloat, capability);
}

} // namespace fa2::sim
