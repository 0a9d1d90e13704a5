//===- FloatTest.cpp - Floating point and conversions ---------------------===//
//
// Rounding, subnormals, infinities and NaN by PTX ISA 9.7.3, 9.7.4, 9.7.9.21.
//
//===----------------------------------------------------------------------===//

#include "Numerics.h"
#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

constexpr uint32_t kNan = 0x7fffffff, kInf = 0x7f800000, kMinusInf = 0xff800000;
const uint32_t one = bits(1.0f);

TEST(SimFloat, RoundToNearestEven) {
  Bench b;
  // 1 + 2^-24 is a tie, 1 + 3*2^-24 another one.
  EXPECT_EQ(b.eval("add.rn.f32 %r10, %r0, %r1;", one, bits(0x1p-24f)), one);
  EXPECT_EQ(b.eval("add.rn.f32 %r10, %r0, %r1;", one + 1, bits(0x1p-24f)),
            one + 2);
  EXPECT_EQ(b.eval("mul.f32 %r10, %r0, %r1;", one + 1, one + 1), one + 2);
  // fma keeps the product: (1+2^-23)^2 - (1+2^-22) = 2^-46.
  EXPECT_EQ(b.eval("fma.rn.f32 %r10, %r0, %r1, %r2;", one + 1, one + 1,
                   bits(-(1.0f + 0x1p-22f))),
            bits(0x1p-46f));
}

TEST(SimFloat, SpecialValues) {
  Bench b;
  EXPECT_EQ(b.eval("add.f32 %r10, %r0, %r1;", kInf, kMinusInf), kNan);
  EXPECT_EQ(b.eval("mul.f32 %r10, %r0, %r1;", 0, kInf), kNan);
  EXPECT_EQ(b.eval("add.f32 %r10, %r0, %r1;", 0x7f812345, one), kNan);
  EXPECT_EQ(b.eval("sub.rn.f32 %r10, %r0, %r1;", one, one), 0u);
  // Subnormals stay without .ftz and become zero of their sign with it.
  EXPECT_EQ(b.eval("add.f32 %r10, %r0, %r1;", 1, 1), 2u);
  EXPECT_EQ(b.eval("add.ftz.f32 %r10, %r0, %r1;", 0x80000001, 0x80000001),
            0x80000000u);
  // 2^-126 (1 - 2^-24) is subnormal, though its grid would round it to 2^-126;
  // 2^-126 (1 - 1e-15) has rounded to 2^-126 before it could be flushed.
  EXPECT_EQ(
      b.eval("fma.rn.ftz.f32 %r10, %r0, %r1, %r1;", 0xa6ac2fc5, 0x00800000),
      0x00800000u);
  EXPECT_EQ(b.eval("mul.rn.ftz.f32 %r10, %r0, %r1;", 0x00800000, 0x3f7fffff),
            0u);
  EXPECT_EQ(b.eval("mul.rn.f32 %r10, %r0, %r1;", 0x00800000, 0x3f7fffff),
            0x00800000u);
  EXPECT_EQ(
      b.eval("mul.ftz.f32 %r10, %r0, %r1;", bits(0x1p-100f), bits(0x1p-40f)),
      0u);
  EXPECT_EQ(b.eval("add.sat.f32 %r10, %r0, %r1;", one, one), one);
  EXPECT_EQ(b.eval("add.sat.f32 %r10, %r0, %r1;", kInf, kMinusInf), 0u);
}

TEST(SimFloat, MinMax) {
  Bench b;
  EXPECT_EQ(b.eval("max.f32 %r10, %r0, %r1;", kNan, one), one);
  EXPECT_EQ(b.eval("max.f32 %r10, %r0, %r1;", one, 0xffc00000), one);
  EXPECT_EQ(b.eval("max.f32 %r10, %r0, %r1;", 0xffc00000, 0xffc00001), kNan);
  EXPECT_EQ(b.eval("max.NaN.f32 %r10, %r0, %r1;", one, 0xffc00000), kNan);
  EXPECT_EQ(b.eval("max.f32 %r10, %r0, %r1;", 0x80000000, 0), 0u);
  EXPECT_EQ(b.eval("min.f32 %r10, %r0, %r1;", 0, 0x80000000), 0x80000000u);
  EXPECT_EQ(b.eval("max.f32 %r10, %r0, %r1;", kMinusInf, bits(-3.0f)),
            bits(-3.0f));
}

TEST(SimFloat, Approximations) {
  Bench b;
  auto ex2 = [&](uint32_t x) {
    return b.eval("ex2.approx.ftz.f32 %r10, %r0;", x);
  };
  EXPECT_EQ(ex2(kMinusInf), 0u);
  EXPECT_EQ(ex2(kInf), kInf);
  EXPECT_EQ(ex2(0), one);
  EXPECT_EQ(ex2(0x80000001), one);
  EXPECT_EQ(ex2(bits(-126.5f)), 0u); // a subnormal result is flushed
  EXPECT_EQ(ex2(kNan), kNan);
  EXPECT_EQ(ex2(bits(128.0f)), kInf);
  EXPECT_NEAR(value(ex2(bits(0.5f))), std::sqrt(2.0), 2.4e-7);
  EXPECT_EQ(b.eval("lg2.approx.ftz.f32 %r10, %r0;", 0), kMinusInf);
  EXPECT_EQ(b.eval("lg2.approx.f32 %r10, %r0;", bits(-1.0f)), kNan);
  EXPECT_EQ(b.eval("lg2.approx.f32 %r10, %r0;", bits(8.0f)), bits(3.0f));
  EXPECT_EQ(b.eval("rcp.approx.ftz.f32 %r10, %r0;", bits(-0.0f)), kMinusInf);
  EXPECT_EQ(b.eval("rcp.approx.ftz.f32 %r10, %r0;", kInf), 0u);
  EXPECT_EQ(b.eval("rcp.rn.f32 %r10, %r0;", bits(3.0f)), bits(1.0f / 3.0f));
  EXPECT_EQ(b.eval("div.rn.f32 %r10, %r0, %r1;", one, bits(3.0f)),
            bits(1.0f / 3.0f));
  EXPECT_EQ(b.eval("sqrt.rn.f32 %r10, %r0;", bits(2.0f)),
            bits(std::sqrt(2.0f)));
}

TEST(SimFloat, PerturbationStaysInTheBound) {
  Bench b;
  unsigned moved = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    b.options.perturbApproximations = seed;
    float x = value(b.eval("ex2.approx.f32 %r10, %r0;", bits(0.3f)));
    double exact = std::exp2(double(0.3f));
    EXPECT_LE(std::fabs(x - exact), 2.51 * 0x1p-23);
    moved += bits(x) != bits(float(exact));
  }
  EXPECT_GT(moved, 10u);
}

TEST(SimFloat, PackedHalves) {
  Bench b;
  // bf16: 1 = 0x3f80, 2 = 0x4000; f16: 1 = 0x3c00, 2 = 0x4000.
  EXPECT_EQ(b.eval("fma.rn.bf16x2 %r10, %r0, %r1, %r2;", 0x3f804000, 0x40004000,
                   0x3f803f80),
            0x404040a0u); // 1*2+1 = 3, 2*2+1 = 5
  EXPECT_EQ(b.eval("add.rn.f16x2 %r10, %r0, %r1;", 0x3c003c00, 0x40003c00),
            0x42004000u);
  EXPECT_EQ(b.eval("max.f16x2 %r10, %r0, %r1;", 0x7e003c00, 0x3c007e00),
            0x3c003c00u);
  EXPECT_EQ(b.eval("max.NaN.bf16x2 %r10, %r0, %r1;", 0x7fc03f80, 0x3f803f80),
            0x7fff3f80u);
  EXPECT_EQ(b.eval("neg.bf16x2 %r10, %r0;", 0x3f808000), 0xbf800000u);
  // 65504 + 16 is the tie between 65504 and 65536: to even is infinity.
  EXPECT_EQ(b.eval("add.rn.f16x2 %r10, %r0, %r1;", 0x7bff7bff, 0x4c004bff),
            0x7c007bffu);
}

TEST(SimConvert, FloatToHalves) {
  Bench b;
  auto bf = [&](uint32_t x) {
    return b.eval("cvt.rn.bf16x2.f32 %r10, %r0, %r1;", 0, x) & 0xffff;
  };
  EXPECT_EQ(bf(0x3f808000), 0x3f80u); // tie to even
  EXPECT_EQ(bf(0x3f818000), 0x3f82u);
  EXPECT_EQ(bf(0x3f808001), 0x3f81u);
  EXPECT_EQ(bf(0x7f7fffff), 0x7f80u);
  EXPECT_EQ(bf(0x7f800001), 0x7fffu);
  EXPECT_EQ(bf(0x00000001), 0u);
  auto hf = [&](uint32_t x) {
    return b.eval("cvt.rn.f16x2.f32 %r10, %r0, %r1;", 0, x) & 0xffff;
  };
  EXPECT_EQ(hf(bits(65519.0f)), 0x7bffu);
  EXPECT_EQ(hf(bits(65520.0f)), 0x7c00u);
  EXPECT_EQ(hf(bits(0x1p-24f)), 1u);
  EXPECT_EQ(hf(bits(0x1p-25f)), 0u); // tie to even
  EXPECT_EQ(hf(bits(0x1.8p-25f)), 1u);
  EXPECT_EQ(hf(bits(1.0f + 0x1p-11f)), 0x3c00u);
  EXPECT_EQ(hf(bits(1.0f + 0x3p-11f)), 0x3c02u);
  // The first source is the upper half.
  EXPECT_EQ(b.eval("cvt.rn.bf16x2.f32 %r10, %r0, %r1;", one, bits(2.0f)),
            0x3f804000u);
  EXPECT_EQ(b.eval("cvt.rn.relu.bf16x2.f32 %r10, %r0, %r1;", bits(-1.0f), one),
            0x3f80u);
  EXPECT_EQ(b.eval("cvt.rz.bf16x2.f32 %r10, %r0, %r1;", 0x3f80ffff, 0xbf80ffff),
            0x3f80bf80u);
}

// Every half, and floats around every rounding border, against the generic
// rounding.
TEST(SimConvert, FastHalfConversionsEqualTheDefinition) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    float x = halfToFloat(u16(h));
    if (x == x)
      ASSERT_EQ(floatToHalf(x), h);
    float y = bfloatToFloat(u16(h));
    if (y == y)
      ASSERT_EQ(floatToBfloat(y), h);
    for (int d = -2; d <= 2; ++d) {
      float z = value((h << 16) + 0x8000u + uint32_t(d));
      ASSERT_EQ(floatToBfloat(z), toSmall(z, kBfloat, Round::Nearest, false));
      float v = value(bits(x) + 0x1000u + uint32_t(d));
      ASSERT_EQ(floatToHalf(v), toSmall(v, kHalf, Round::Nearest, false));
    }
  }
}

TEST(SimConvert, Integers) {
  Bench b;
  auto cvt = [&](const std::string &t, uint32_t x) {
    return b.eval("cvt." + t + " %r10, %r0;", x);
  };
  EXPECT_EQ(cvt("rni.s32.f32", bits(2.5f)), 2u);
  EXPECT_EQ(cvt("rni.s32.f32", bits(3.5f)), 4u);
  EXPECT_EQ(cvt("rzi.s32.f32", bits(-2.9f)), uint32_t(-2));
  EXPECT_EQ(cvt("rmi.s32.f32", bits(-2.1f)), uint32_t(-3));
  EXPECT_EQ(cvt("rpi.s32.f32", bits(-2.9f)), uint32_t(-2));
  EXPECT_EQ(cvt("rzi.s32.f32", bits(3e9f)), 0x7fffffffu);
  EXPECT_EQ(cvt("rzi.u32.f32", bits(-1.0f)), 0u);
  EXPECT_EQ(cvt("rzi.s32.f32", kNan), 0u);
  EXPECT_EQ(cvt("rn.f32.s32", 0x7fffffff), bits(2147483648.0f));
  EXPECT_EQ(cvt("rz.f32.s32", 0x7fffffff), bits(2147483520.0f));
  EXPECT_EQ(cvt("rn.f32.u32", 0xffffffff), bits(4294967296.0f));
  EXPECT_EQ(cvt("rni.f32.f32", bits(-2.5f)), bits(-2.0f));
  EXPECT_EQ(cvt("s32.s8", 0x80), 0xffffff80u);
  EXPECT_EQ(cvt("u32.u8", 0x180), 0x80u);
  EXPECT_EQ(cvt("sat.u8.s32", uint32_t(-4)), 0u);
  EXPECT_EQ(cvt("sat.s8.s32", 1000), 127u);
  EXPECT_EQ(b.eval64("mov.u32 %r3, -5;\ncvt.s64.s32 %rd10, %r3;"),
            uint64_t(-5));
  EXPECT_EQ(b.eval64("mov.u32 %r3, -5;\ncvt.u64.u32 %rd10, %r3;"),
            0xfffffffbull);
}

TEST(SimConvert, HalvesToFloat) {
  Bench b;
  EXPECT_EQ(
      b.eval("mov.b32 {%h0, %h1}, %r0;\ncvt.f32.bf16 %r10, %h1;", 0x3f800000),
      one);
  EXPECT_EQ(b.eval("mov.b32 {%h0, %h1}, %r0;\ncvt.f32.f16 %r10, %h0;", 1),
            bits(0x1p-24f));
  EXPECT_EQ(b.eval("cvt.rn.bf16.f32 %h0, %r0;\nmov.b32 %r10, {%h0, %h0};",
                   bits(-2.0f)),
            0xc000c000u);
}

} // namespace
