//===- ReferenceTest.cpp - the references and the accuracy rule -----------===//

#include "Random.h"
#include "Reference/Accuracy.h"
#include "Reference/Attention.h"
#include "Reference/Float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace fa2run;

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

TEST(Float16, EveryValueGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    for (Precision precision : {Precision::BF16, Precision::F16}) {
      float value = decode(precision, uint16_t(bits));
      uint16_t back = encode(precision, value);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(decode(precision, back)));
      else
        EXPECT_EQ(back, bits);
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  // Against the definition: of the two neighbours the nearer, the even on a
  // tie.
  for (Precision precision : {Precision::BF16, Precision::F16}) {
    uint16_t largest = precision == Precision::BF16 ? 0x7f7f : 0x7bff;
    for (uint32_t bits = 0; bits < largest; ++bits) {
      double low = decode(precision, uint16_t(bits));
      double high = decode(precision, uint16_t(bits + 1));
      float middle = float((low + high) / 2);
      EXPECT_EQ(encode(precision, middle), bits + (bits & 1));
      EXPECT_EQ(encode(precision, std::nextafter(middle, 0.0f)), bits);
      EXPECT_EQ(encode(precision, std::nextafter(middle, INFINITY)), bits + 1);
      EXPECT_EQ(encode(precision, -middle), 0x8000 | (bits + (bits & 1)));
    }
  }
  EXPECT_EQ(encodeF16(65519.996f), 0x7bff);
  EXPECT_EQ(encodeF16(65520.0f), 0x7c00);
  EXPECT_EQ(encodeF16(INFINITY), 0x7c00);
}

TEST(Float16, UlpIsTheDistanceToTheNextValue) {
  for (Precision precision : {Precision::BF16, Precision::F16})
    for (uint16_t bits : {0, 1, 17, 0x80, 0x3c00, 0x3f80, 0x4049, 0x7000})
      EXPECT_EQ(ulp(precision, decode(precision, bits)),
                double(decode(precision, bits + 1)) -
                    double(decode(precision, bits)));
  EXPECT_EQ(ulp(Precision::BF16, 1.0), 0x1p-7);
  EXPECT_EQ(ulp(Precision::F16, -1.5), 0x1p-10);
}

TEST(Masks, VisibleKeys) {
  EXPECT_EQ(visibleKeys(Mask::None, 3, 10, 7), 7);
  // Bottom right: the last row sees every key.
  EXPECT_EQ(visibleKeys(Mask::Causal, 9, 10, 7), 7);
  EXPECT_EQ(visibleKeys(Mask::Causal, 3, 10, 7), 1);
  EXPECT_EQ(visibleKeys(Mask::Causal, 2, 10, 7), 0);
  EXPECT_EQ(visibleKeys(Mask::Causal, 0, 5, 8), 4);
  EXPECT_EQ(visibleKeys(Mask::CausalTopLeft, 0, 10, 7), 1);
  EXPECT_EQ(visibleKeys(Mask::CausalTopLeft, 9, 10, 7), 7);
  EXPECT_EQ(visibleKeys(Mask::CausalTopLeft, 3, 10, 0), 0);
  EXPECT_EQ(visibleKeys(Mask::StrictlyCausal, 0, 5, 5), 0);
  EXPECT_EQ(visibleKeys(Mask::StrictlyCausal, 4, 5, 5), 4);
  EXPECT_EQ(visibleKeys(Mask::StrictlyCausal, 0, 5, 8), 3);
}

namespace {

/// Random inputs, exact in the precision.
struct Problem {
  int64_t keys, dim, dimV;
  std::vector<float> q, k, v;
  Head head;

  Problem(int64_t keys, int64_t dim, int64_t dimV, Precision precision,
          float factor)
      : keys(keys), dim(dim), dimV(dimV) {
    auto fill = [&](std::vector<float> &values, int64_t count, uint64_t stream,
                    float by) {
      for (int64_t i = 0; i < count; ++i)
        values.push_back(
            roundTo(precision, normalPair(stream, uint64_t(i)).first * by));
    };
    fill(q, dim, 1, factor);
    fill(k, keys * dim, 2, 1);
    fill(v, keys * dimV, 3, 1);
    head = {dim, dimV, k.data(), v.data(), 0.3, precision};
  }
};

/// softmax(scale q K^T) V by the plain formula, in long double and without
/// subtracting a maximum.
void naive(const Problem &p, std::vector<long double> &out, long double &lse) {
  std::vector<long double> weights;
  long double sum = 0;
  for (int64_t j = 0; j < p.keys; ++j) {
    long double s = 0;
    for (int64_t d = 0; d < p.dim; ++d)
      s += (long double)(p.q[size_t(d)]) * p.k[size_t(j * p.dim + d)];
    weights.push_back(std::exp((long double)(p.head.scale) * s));
    sum += weights.back();
  }
  lse = std::log(sum);
  out.assign(size_t(p.dimV), 0);
  for (int64_t j = 0; j < p.keys; ++j)
    for (int64_t d = 0; d < p.dimV; ++d)
      out[size_t(d)] += weights[size_t(j)] / sum * p.v[size_t(j * p.dimV + d)];
}

} // namespace

TEST(Reference, MatchesTheNaiveFormula) {
  Scratch scratch;
  for (auto [keys, dim, dimV] : {std::array<int64_t, 3>{1, 8, 8},
                                 {3, 16, 24},
                                 {129, 40, 8},
                                 {1000, 128, 72}}) {
    for (float factor : {1.0f, 6.0f, 60.0f}) {
      Problem p(keys, dim, dimV, Precision::BF16, factor);
      std::vector<long double> expected;
      long double expectedLse;
      naive(p, expected, expectedLse);
      std::vector<double> out(size_t(dimV), NAN);
      double lse = NAN;
      referenceRow(p.head, p.q.data(), keys, scratch, out.data(), lse);
      EXPECT_NEAR(lse, double(expectedLse), 1e-12 * (1 + std::abs(lse)));
      for (size_t d = 0; d < out.size(); ++d)
        EXPECT_NEAR(out[d], double(expected[d]), 1e-12);
    }
  }
}

TEST(Reference, EmptyRow) {
  Problem p(0, 16, 16, Precision::F16, 1);
  Scratch scratch;
  std::vector<double> out(16, NAN);
  double lse = NAN;
  referenceRow(p.head, p.q.data(), 0, scratch, out.data(), lse);
  EXPECT_EQ(lse, -kInfinity);
  for (double value : out)
    EXPECT_EQ(value, 0.0);
}

TEST(Reference, SeesOnlyTheKeysItIsGiven) {
  Problem p(10, 16, 16, Precision::BF16, 1),
      shorter(7, 16, 16, Precision::BF16, 1);
  Scratch scratch;
  std::vector<double> a(16), b(16);
  double lseA, lseB;
  referenceRow(p.head, p.q.data(), 7, scratch, a.data(), lseA);
  referenceRow(shorter.head, p.q.data(), 7, scratch, b.data(), lseB);
  EXPECT_EQ(lseA, lseB);
  EXPECT_EQ(a, b);
}

TEST(Standard, RoundsWhereItShould) {
  // One key: P is 1 and the value comes back exactly.
  Problem one(1, 16, 8, Precision::BF16, 1);
  Scratch scratch;
  std::vector<float> out(8);
  standardRow(one.head, one.q.data(), 1, scratch, out.data());
  EXPECT_EQ(out, one.v);
  // Its error is of the dtype's size, and that of bf16 larger than of f16.
  double errors[2];
  for (Precision precision : {Precision::BF16, Precision::F16}) {
    double total = 0;
    Problem p(500, 64, 64, precision, 1);
    std::vector<double> reference(64);
    std::vector<float> standard(64);
    double lse;
    referenceRow(p.head, p.q.data(), 500, scratch, reference.data(), lse);
    standardRow(p.head, p.q.data(), 500, scratch, standard.data());
    for (size_t d = 0; d < 64; ++d) {
      total += std::abs(standard[d] - reference[d]);
      EXPECT_EQ(standard[d], roundTo(precision, standard[d]));
    }
    errors[precision == Precision::F16] = total / 64;
  }
  EXPECT_GT(errors[0], 1e-5);
  EXPECT_LT(errors[0], 1e-2);
  EXPECT_GT(errors[0], 3 * errors[1]);
}

namespace {

std::vector<RowResult> goodRows() {
  std::vector<RowResult> rows(5);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].row = int64_t(i);
    rows[i].error = 0.009;
    rows[i].standardError = 0.001 * double(i + 1); // median 0.003
    rows[i].largest = 1.0;                         // 2 ulp: 0.015625
    rows[i].lse = rows[i].lseReference = 4;
  }
  return rows;
}

} // namespace

TEST(Accuracy, AllowanceOfARow) {
  auto rows = goodRows();
  // Row 0: 2 max(0.001, 0.003) + 2/128 = 0.021625
  rows[0].error = 0.0216;
  EXPECT_TRUE(judge(rows, Precision::BF16).passed);
  rows[0].error = 0.0217;
  HeadVerdict verdict = judge(rows, Precision::BF16);
  EXPECT_FALSE(verdict.passed);
  EXPECT_EQ(verdict.failedRows, 1);
  EXPECT_EQ(verdict.worstRow, 0);
  EXPECT_NEAR(verdict.worstAllowed, 0.021625, 1e-12);
  EXPECT_NE(verdict.firstFailure.find("row 0"), std::string::npos);
  // Row 4: its own error counts, 2 * 0.005 + 2/128.
  rows = goodRows();
  rows[4].error = 0.0256;
  EXPECT_TRUE(judge(rows, Precision::BF16).passed);
  rows[4].error = 0.0257;
  EXPECT_FALSE(judge(rows, Precision::BF16).passed);
  // In f16 the 2 ulp are an eighth.
  rows[4].error = 0.0120;
  rows[0].error = rows[1].error = rows[2].error = rows[3].error = 0.0079;
  EXPECT_FALSE(judge(rows, Precision::F16).passed);
}

TEST(Accuracy, EmptyRowsAreExactAndOutsideTheMedian) {
  auto rows = goodRows();
  for (int i = 0; i < 20; ++i) {
    RowResult empty;
    empty.row = 5 + i;
    empty.empty = true;
    empty.lse = empty.lseReference = -kInfinity;
    rows.push_back(empty);
  }
  rows[0].error = 0.0216;
  EXPECT_TRUE(judge(rows, Precision::BF16).passed);
  rows.back().exact = false;
  EXPECT_FALSE(judge(rows, Precision::BF16).passed);
  rows.back().exact = true;
  for (double lse : {0.0, -1e30, double(NAN), kInfinity}) {
    rows.back().lse = lse;
    EXPECT_FALSE(judge(rows, Precision::BF16).passed);
  }
}

TEST(Accuracy, LogSumExp) {
  auto rows = goodRows();
  rows[2].lse = 4 + 4.9e-5;
  EXPECT_TRUE(judge(rows, Precision::BF16).passed);
  for (double lse : {4 + 5.1e-5, 4 - 5.1e-5, -kInfinity, double(NAN)}) {
    rows[2].lse = lse;
    EXPECT_FALSE(judge(rows, Precision::BF16).passed);
  }
}

TEST(Accuracy, NotANumberIsTheLargestError) {
  float out[3] = {1, NAN, 2};
  double reference[3] = {1, 1, 1};
  EXPECT_EQ(largestError(out, reference, 3), kInfinity);
  out[1] = INFINITY;
  EXPECT_EQ(largestError(out, reference, 3), kInfinity);
  out[1] = 0.5f;
  EXPECT_EQ(largestError(out, reference, 3), 1.0);
  auto rows = goodRows();
  rows[3].error = kInfinity;
  EXPECT_FALSE(judge(rows, Precision::BF16).passed);
}

TEST(Random, NormalNumbersAreNormal) {
  double sum = 0, squares = 0, fourths = 0;
  constexpr int kPairs = 200000;
  for (int i = 0; i < kPairs; ++i) {
    auto [a, b] = normalPair(42, uint64_t(i));
    for (double x : {double(a), double(b)}) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
  }
  constexpr double n = 2 * kPairs;
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourths / n, 3, 0.1);
}
