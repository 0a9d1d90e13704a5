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

// The widest vectors of the machine it runs on; the same results with all.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) &&          \
    !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                   \
    !defined(__SANITIZE_THREAD__)
#define FA2SIM_VECTOR __attribute__((target_clones("avx2", "default")))
#else
#define FA2SIM_VECTOR
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
// Rows of 8 results: vector code on any x86-64. With top in [-70, 120] every
// product is exact in f32 or too small to matter, scaling by a power of two is
// exact, and the conversion to an integer is the truncation.
constexpr int kLowest = -70, kHighest = 120;

struct Operand16 {
  float value[16];
  s16 exponent[16]; ///< kZero16 for zero
  bool special = false;
};
constexpr s16 kZero16 = -5000;

inline void split(u16 bits, bool bfloat, float &value, s16 &exponent,
                  bool &special) {
  int e, most;
  if (bfloat) {
    value = bfloatToFloat(bits);
    e = bits >> 7 & 255;
    most = 255;
    exponent = s16((e ? e : 1) - 127);
  } else {
    value = halfToFloat(bits);
    e = bits >> 10 & 31;
    most = 31;
    exponent = s16((e ? e : 1) - 15);
  }
  if ((bits & 0x7fff) == 0)
    exponent = kZero16;
  special |= e == most;
}

struct Columns { ///< eight columns of B, [k][8]
  float value[16][8];
  s16 exponent[16][8];
  bool special = false;
};

void rowTimesColumns(const u16 *rawA, const u16 *rawB, unsigned n,
                     const Operand16 &a, const Columns &b, float *c,
                     unsigned first, unsigned terms, bool bfloat, int F) {
  s16 top[8], products[8];
  bool slow = a.special || b.special;
  for (unsigned j = 0; j < 8; ++j) {
    s16 e = s16(asBits(c[j]) >> 23 & 255);
    top[j] = s16((e ? e : 1) - 127);
    products[j] = 2 * kZero16;
  }
  for (unsigned k = first; k < first + terms; ++k)
    for (unsigned j = 0; j < 8; ++j) {
      s16 e = s16(a.exponent[k] + b.exponent[k][j]);
      products[j] = e > products[j] ? e : products[j];
    }
  s16 lowest = 0, highest = -127;
  for (unsigned j = 0; j < 8; ++j) {
    bool none = products[j] < kZero16 / 2; // every product is zero
    top[j] = std::max(top[j], products[j]);
    highest = std::max(highest, top[j]);
    lowest = std::min(lowest, none ? s16(0) : top[j]);
    if (none && top[j] < kLowest)
      top[j] = kLowest;
  }
  slow |= lowest < kLowest || highest > kHighest;
  if (slow) {
    for (unsigned j = 0; j < 8; ++j)
      c[j] = fusedDotAdd(rawA + first, rawB + first * n + j, n, c[j], terms,
                         bfloat, unsigned(F));
    return;
  }
  float scale[8];
  s32 sum[8] = {}, fromC[8];
  double unit[8];
  for (unsigned j = 0; j < 8; ++j) {
    scale[j] = asFloat(u32(127 + F - top[j]) << 23);
    unit[j] = std::bit_cast<double>(u64(1023 + top[j] - F) << 52);
    fromC[j] = s32(c[j] * scale[j]);
  }
  for (unsigned k = first; k < first + terms; ++k) {
    float x = a.value[k];
    for (unsigned j = 0; j < 8; ++j)
      sum[j] += s32(x * b.value[k][j] * scale[j]);
  }
  for (unsigned j = 0; j < 8; ++j) {
    double total = (double(sum[j]) + double(fromC[j])) * unit[j];
    // 52 - 23 bits go: truncation towards zero.
    u64 bits = std::bit_cast<u64>(total) & ~((u64(1) << 29) - 1);
    // Without products c stays as it is, but for the sign of zero.
    c[j] = products[j] < kZero16 / 2 ? c[j] + 0.0f
                                     : float(std::bit_cast<double>(bits));
  }
}
} // namespace

FA2SIM_VECTOR
void multiplyAdd(const u16 *a, const u16 *b, float *c, unsigned n, unsigned k,
                 bool bfloat, unsigned capability) {
  const int F = capability >= 90 ? 25 : 24;
  const unsigned terms = capability >= 90 ? k : 8;
  Operand16 rows[16];
  for (unsigned m = 0; m < 16; ++m) {
    rows[m].special = false;
    for (unsigned i = 0; i < k; ++i)
      split(a[m * k + i], bfloat, rows[m].value[i], rows[m].exponent[i],
            rows[m].special);
  }
  for (unsigned j = 0; j < n; j += 8) {
    Columns columns;
    columns.special = false;
    for (unsigned i = 0; i < k; ++i)
      for (unsigned x = 0; x < 8; ++x)
        split(b[i * n + j + x], bfloat, columns.value[i][x],
              columns.exponent[i][x], columns.special);
    for (unsigned m = 0; m < 16; ++m)
      for (unsigned first = 0; first < k; first += terms)
        rowTimesColumns(a + m * k, b + j, n, rows[m], columns, c + m * n + j,
                        first, terms, bfloat, F);
  }
}

} // namespace fa2::sim
