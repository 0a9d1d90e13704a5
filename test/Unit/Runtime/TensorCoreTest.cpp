//===- TensorCoreTest.cpp - the checker's tensor core and its bound -------===//

#include "Reference/TensorCore.h"
#include "Random.h"
#include "Reference/Accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#ifdef HAS_SIMULATOR
#include "MmaNumerics.h"
#endif

using namespace fa2run;

namespace {

constexpr TensorCore kAmpere{8, 24}, kHopper{16, 25};

std::vector<float> draw(Precision precision, int64_t count, uint64_t stream,
                        float by) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        roundTo(precision, normalPair(stream, uint64_t(i)).first * by));
  return values;
}

float dot(TensorCore core, std::vector<float> q, std::vector<float> k) {
  return tensorCoreDot(core, Precision::BF16, q.data(), k.data(),
                       int64_t(q.size()));
}

} // namespace

TEST(TensorCore, OfADevice) {
  EXPECT_EQ(tensorCoreOf(80).terms, 8);
  EXPECT_EQ(tensorCoreOf(89).fractionBits, 24);
  EXPECT_EQ(tensorCoreOf(90).terms, 16);
  EXPECT_EQ(tensorCoreOf(100).fractionBits, 25);
}

TEST(TensorCore, CutsRelativeToTheLargestProduct) {
  // 2^8 - 2^8 + 2^-16: of the last, in units of 2^(8 - 24), all is kept ...
  EXPECT_EQ(dot(kAmpere, {16, 16, 0x1p-8f}, {16, -16, 0x1p-8f}), 0x1p-16f);
  // ... and of one half nothing, but for the finer units of the later core.
  EXPECT_EQ(dot(kAmpere, {16, 16, 0x1p-8f}, {16, -16, 0x1p-9f}), 0.0f);
  EXPECT_EQ(dot(kHopper, {16, 16, 0x1p-8f}, {16, -16, 0x1p-9f}), 0x1p-17f);
  // Groups of 8 and of 16: in the second group of 8 nothing is large.
  std::vector<float> q(16), k(16);
  q[0] = q[1] = 16, k[0] = 16, k[1] = -16;
  q[8] = 0x1p-10f, k[8] = 0x1p-10f;
  EXPECT_EQ(dot(kAmpere, q, k), 0x1p-20f);
  EXPECT_EQ(dot(kHopper, q, k), 0.0f);
}

#ifdef HAS_SIMULATOR
TEST(TensorCore, IsTheSimulators) {
  for (Precision precision : {Precision::BF16, Precision::F16})
    for (TensorCore core : {kAmpere, kHopper})
      for (float factor : {1.0f, 60.0f, 1e-3f, 1e-6f})
        for (int64_t dim = 8; dim <= 256; dim += 8) {
          auto q = draw(precision, 20 * dim, uint64_t(dim), factor);
          auto k = draw(precision, 20 * dim, uint64_t(dim) + 1000, 1);
          std::vector<uint16_t> a, b;
          for (float value : q)
            a.push_back(encode(precision, value));
          for (float value : k)
            b.push_back(encode(precision, value));
          for (int64_t row = 0; row < 20; ++row) {
            float expected = 0;
            for (int64_t d = 0; d < dim; d += core.terms)
              expected = fa2::sim::fusedDotAdd(
                  a.data() + row * dim + d, b.data() + row * dim + d, 1,
                  expected, unsigned(std::min<int64_t>(core.terms, dim - d)),
                  precision == Precision::BF16, unsigned(core.fractionBits));
            ASSERT_EQ(tensorCoreDot(core, precision, q.data() + row * dim,
                                    k.data() + row * dim, dim),
                      expected)
                << "dim " << dim << " factor " << factor;
          }
        }
}
#endif

namespace {

/// Rows of one key whose lse is the tensor core's score plus `wrong`.
HeadVerdict judgeOneKey(float factor, double wrong, double &largestTerm) {
  constexpr int64_t kRows = 400, kDim = 256;
  auto q = draw(Precision::F16, kRows * kDim, 1, factor);
  auto k = draw(Precision::F16, kDim, 2, 1), v = k;
  Head head{kDim, kDim, k.data(), v.data(), 0.0625, Precision::F16};
  Scratch scratch;
  std::vector<double> out(kDim);
  std::vector<RowResult> rows;
  largestTerm = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    const float *row = q.data() + i * kDim;
    RowResult result;
    result.row = i;
    referenceRow(head, row, 1, scratch, out.data(), result.lseReference);
    result.lse = head.scale * double(tensorCoreDot(kHopper, Precision::F16, row,
                                                   k.data(), kDim)) +
                 wrong;
    result.scoreError = scoreError(head, row, 1, result.lseReference, kHopper);
    largestTerm = std::max(largestTerm, result.scoreError);
    rows.push_back(result);
  }
  return judge(rows, Precision::F16);
}

} // namespace

TEST(TensorCore, TheBoundOfLseAllowsItsErrorAndNoMore) {
  double term;
  // Scores of ordinary size: the term is small beside 1e-5.
  EXPECT_TRUE(judgeOneKey(1, 0, term).passed);
  EXPECT_LT(term, 2e-6);
  EXPECT_FALSE(judgeOneKey(1, 4e-5, term).passed);
  // Large ones: the term alone exceeds 1e-5, and a wrong lse is seen still.
  EXPECT_TRUE(judgeOneKey(60, 0, term).passed);
  EXPECT_GT(term, 2e-5);
  EXPECT_FALSE(judgeOneKey(60, 4e-5, term).passed);
}

TEST(TensorCore, KeysWithoutWeightDoNotCount) {
  // The second key's score is 2^16 below and its error large.
  float q[3] = {256, 256, 1}, k[6] = {1, 0, 0.5f, -256, 0.0078125f, 0.3f};
  Head head{3, 3, k, k, 1, Precision::BF16};
  double lse = 256.5;
  EXPECT_NE(tensorCoreDot(kAmpere, Precision::BF16, q, k + 3, 3),
            -65534.0f + 0.3f);
  EXPECT_EQ(scoreError(head, q, 2, lse, kAmpere), 0.0);
}
