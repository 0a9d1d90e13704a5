//===- MmaTest.cpp - Tensor-core numerics and fragments -------------------===//
//
// The models are those of arXiv 2511.10909: truncation of every summand to F
// fractional bits below the largest exponent, truncation of the sum to f32.
//
//===----------------------------------------------------------------------===//

#include "MmaNumerics.h"
#include "Numerics.h"
#include "SimTest.h"

#include <random>

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

u16 bf(float x) { return floatToBfloat(x); }

float dot(std::vector<float> a, std::vector<float> b, float c, unsigned f) {
  std::vector<u16> x, y;
  for (float v : a)
    x.push_back(bf(v));
  for (float v : b)
    y.push_back(bf(v));
  return fusedDotAdd(x.data(), y.data(), 1, c, unsigned(x.size()), true, f);
}

TEST(SimMma, TruncationByHand) {
  // Largest exponent 0, F = 24: units of 2^-24. 2^-24 stays in the sum but is
  // below f32's last bit (2^-23), so the result is truncated to 1.
  EXPECT_EQ(dot({0x1p-24f}, {1.0f}, 1.0f, 24), 1.0f);
  // Two of them make 2^-23.
  EXPECT_EQ(dot({0x1p-24f, 0x1p-24f}, {1.0f, 1.0f}, 1.0f, 24), 1.0f + 0x1p-23f);
  // 2^-25 is lost with 24 bits, four of them count with 25.
  EXPECT_EQ(
      dot({0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, {1, 1, 1, 1}, 1.0f, 24),
      1.0f);
  EXPECT_EQ(
      dot({0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, {1, 1, 1, 1}, 1.0f, 25),
      1.0f + 0x1p-23f);
  // Truncation is towards zero on both sides: -1 + -2^-24 is -1, and
  // 1 - 2^-24 is exact.
  EXPECT_EQ(dot({-0x1p-24f}, {1.0f}, -1.0f, 24), -1.0f);
  EXPECT_EQ(dot({-0x1p-24f}, {1.0f}, 1.0f, 24), 1.0f - 0x1p-24f);
  EXPECT_EQ(dot({-0x1p-26f}, {1.0f}, 1.0f, 24), 1.0f);
  // A product's exponent is the sum of its factors': 1.5 * 1.5 = 2.25 has 0.
  EXPECT_EQ(dot({1.5f}, {1.5f}, 0.0f, 24), 2.25f);
}

TEST(SimMma, SpecialValues) {
  float inf = INFINITY;
  EXPECT_EQ(dot({inf}, {1.0f}, 0.0f, 24), inf);
  EXPECT_EQ(dot({inf}, {-1.0f}, 5.0f, 24), -inf);
  EXPECT_EQ(bits(dot({inf}, {0.0f}, 0.0f, 24)), 0x7fffffffu);
  EXPECT_EQ(bits(dot({inf, -inf}, {1, 1}, 0.0f, 24)), 0x7fffffffu);
  EXPECT_EQ(bits(dot({1}, {1}, NAN, 24)), 0x7fffffffu);
  EXPECT_EQ(dot({1}, {1}, -inf, 25), -inf);
  EXPECT_EQ(bits(dot({0.0f}, {1.0f}, -0.0f, 24)), 0u);
  // Subnormal inputs and results count.
  EXPECT_EQ(dot({0x1p-130f}, {1.0f}, 0.0f, 24), 0x1p-130f);
  EXPECT_EQ(dot({0x1p127f, 0x1p127f}, {1, 1}, 0x1p127f, 24), inf);
}

// The vector code equals the definition: random bit patterns of every
// exponent, normal data, and special values.
TEST(SimMma, FastPathEqualsTheDefinition) {
  std::mt19937 g(11);
  std::normal_distribution<float> normal;
  for (unsigned round = 0; round < 600; ++round) {
    bool bfloat = round & 1;
    unsigned capability = round & 2 ? 90 : 80, k = round & 4 ? 16 : 8, n = 8;
    unsigned kind = round / 8 % 4;
    auto draw = [&]() -> u16 {
      u32 r = g();
      if (kind == 0)
        return u16(r); // any pattern
      float x =
          normal(g) * (kind == 2 ? std::ldexp(1.0f, int(r % 30) - 15) : 1);
      if (kind == 3 && r % 3 == 0)
        x = 0;
      return bfloat ? floatToBfloat(x) : floatToHalf(x);
    };
    std::vector<u16> a(16 * k), b(k * n);
    std::vector<float> c(16 * n), expected(16 * n);
    for (u16 &x : a)
      x = draw();
    for (u16 &x : b)
      x = draw();
    for (float &x : c)
      x = kind == 0 ? value(g()) : kind == 3 ? 0.0f : normal(g) * 3;
    for (unsigned m = 0; m < 16; ++m)
      for (unsigned j = 0; j < n; ++j) {
        float sum = c[m * n + j];
        unsigned terms = capability == 90 ? k : 8;
        for (unsigned first = 0; first < k; first += terms)
          sum = fusedDotAdd(&a[m * k + first], &b[first * n + j], n, sum, terms,
                            bfloat, capability == 90 ? 25 : 24);
        expected[m * n + j] = sum;
      }
    multiplyAdd(a.data(), b.data(), c.data(), n, k, bfloat, capability);
    for (unsigned e = 0; e < 16 * n; ++e)
      ASSERT_EQ(bits(c[e]), bits(expected[e])) << "round " << round;
  }
}

// D = A B with A = rows' numbers, B a permutation: fragments of m16n8k16
// (PTX ISA 9.7.14.5.8) and ldmatrix, by way of shared memory.
TEST(SimMma, FragmentsOfM16n8k16) {
  Bench b;
  b.declarations = ".shared .align 16 .b8 s[1024];\n";
  // in[]: A [16][16] bf16 (128 words), then B [16][8] bf16 (64 words).
  auto put = [&](unsigned index, float x) {
    u16 h = bf(x);
    std::memcpy(reinterpret_cast<u16 *>(b.in.data()) + index, &h, 2);
  };
  std::vector<float> A(256), B(128);
  for (unsigned i = 0; i < 256; ++i)
    put(i, A[i] = float(int(i % 17) - 8));
  for (unsigned i = 0; i < 128; ++i)
    put(256 + i, B[i] = float(int(i % 7) - 3));
  b.expectClean(
      // Each lane copies 24 bytes to shared memory.
      "mov.u32 %r0, s;\nmov.u32 %r1, 0;\nL:\nshl.b32 %r2, %r1, 7;\n"
      "add.u32 %r2, %r2, %lane;\ncvt.u64.u32 %rd0, %r2;\n"
      "add.s64 %rd1, %in, %rd0;\nld.global.b32 %r3, [%rd1];\n"
      "add.u32 %r4, %r0, %r2;\nst.shared.b32 [%r4], %r3;\n"
      "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 6;\n@%p0 bra L;\n"
      "bar.sync 0;\n"
      // Rows of A: lane % 16, right half for lanes 16 and up.
      "and.b32 %r5, %tid, 15;\nshl.b32 %r5, %r5, 5;\nand.b32 %r6, %tid, 16;\n"
      "add.u32 %r5, %r5, %r6;\nadd.u32 %r5, %r5, %r0;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20,%r21,%r22,%r23}, [%r5];\n"
      // Rows of B by k, transposed on the way.
      "and.b32 %r7, %tid, 15;\nshl.b32 %r7, %r7, 4;\nadd.u32 %r7, %r7, %r0;\n"
      "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r24,%r25}, [%r7+512];\n"
      "mov.f32 %f0, 0f3F800000;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%f4,%f5,%f6,%f7}, {%r20,%r21,%r22,%r23}, {%r24,%r25}, "
      "{%f0,%f0,%f0,%f0};\n"
      "shl.b32 %r8, %tid, 4;\ncvt.u64.u32 %rd2, %r8;\nadd.s64 %rd3, %out, "
      "%rd2;\n"
      "st.global.v4.f32 [%rd3], {%f4,%f5,%f6,%f7};");
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned r = 0; r < 4; ++r) {
      unsigned m = lane / 4 + 8 * (r / 2), n = 2 * (lane % 4) + r % 2;
      float sum = 1;
      for (unsigned k = 0; k < 16; ++k)
        sum += A[m * 16 + k] * B[k * 8 + n];
      EXPECT_EQ(value(b.out[lane * 4 + r]), sum) << m << "," << n;
    }
}

} // namespace
