//===- GradientTest.cpp - the reference's gradients -----------------------===//
//
// The float64 gradients are compared with central differences of the float64
// forward reference: f = sum of dout o out and dlse o lse. Inputs are multiples
// of 2^-6 and steps are 2^-8, so that perturbed inputs are exact in f32.
//
//===----------------------------------------------------------------------===//

#include "Reference/Gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace fa2run;

namespace {

constexpr float kStep = 1.0f / 256;

/// A group of query heads over one key head, small enough to differentiate.
struct Problem {
  Problem(Mask mask, int64_t seqlenQ, int64_t seqlenK, int64_t heads,
          uint32_t seed)
      : mask(mask), seqlenQ(seqlenQ), seqlenK(seqlenK), heads(heads) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    auto draw = [&](int64_t count) {
      std::vector<float> x;
      for (int64_t i = 0; i < count; ++i)
        x.push_back(std::round(normal(random) * 64) / 64);
      return x;
    };
    q = draw(heads * seqlenQ * dim);
    k = draw(seqlenK * dim);
    v = draw(seqlenK * dimV);
    dout = draw(heads * seqlenQ * dimV);
    dlse = draw(heads * seqlenQ);
  }

  Head head(int64_t h = 0, int64_t i = 0) const {
    Head head{dim, dimV, k.data(), v.data(), 0.4, Precision::BF16};
    head.sink = sink;
    head.dropout = drops ? &dropout : nullptr;
    head.place = {0, h, i, 0, false, nullptr};
    return head;
  }
  const float *row(const std::vector<float> &x, int64_t h, int64_t i,
                   int64_t columns) const {
    return x.data() + (h * seqlenQ + i) * columns;
  }
  int64_t keys(int64_t i) const {
    return visibleKeys(mask, i, seqlenQ, seqlenK);
  }

  /// out and lse as a forward pass in f32 gives them; out lives in `outs`.
  GivenRow given(int64_t h, int64_t i) const {
    std::vector<double> exact(static_cast<size_t>(dimV));
    double lse;
    Scratch scratch;
    referenceRow(head(h, i), row(q, h, i, dim), keys(i), scratch, exact.data(),
                 lse);
    outs.assign(exact.begin(), exact.end());
    return {outs.data(), double(float(lse)), *row(dlse, h, i, 1)};
  }

  /// sum of dout o out and dlse o lse
  double value() const {
    double sum = 0, lse;
    std::vector<double> out(static_cast<size_t>(dimV));
    Scratch scratch;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < seqlenQ; ++i) {
        referenceRow(head(h, i), row(q, h, i, dim), keys(i), scratch,
                     out.data(), lse);
        for (int64_t d = 0; d < dimV; ++d)
          sum += out[size_t(d)] * row(dout, h, i, dimV)[d];
        if (std::isfinite(lse))
          sum += lse * *row(dlse, h, i, 1);
      }
    return sum;
  }

  double difference(float &x) {
    float at = x;
    x = at + kStep;
    double above = value();
    x = at - kStep;
    double below = value();
    x = at;
    return (above - below) / (2 * double(kStep));
  }

  Mask mask;
  int64_t seqlenQ, seqlenK, heads, dim = 5, dimV = 3;
  std::vector<float> q, k, v, dout, dlse;
  double sink = -std::numeric_limits<double>::infinity();
  bool drops = false;
  Dropout dropout = Dropout::of(0.3, {1, 2, 3, 4}, 2);
  mutable std::vector<float> outs;
};

struct Gradients {
  std::vector<double> dq, dk, dv;
};

/// With out and lse in f32 the gradient is the exact one up to f32; the
/// yardstick errs by some roundings of its dtype, no more.
void expectNear(const GradientRow &row) {
  for (size_t d = 0; d < row.exact.size(); ++d) {
    EXPECT_NEAR(row.given[d], row.exact[d], 1e-5);
    EXPECT_NEAR(row.standard[d], row.exact[d],
                0.05 * (1 + std::abs(row.exact[d])));
  }
}

Gradients gradients(const Problem &p) {
  Gradients g;
  Scratch scratch;
  std::vector<std::vector<RowStatistics>> statistics;
  std::vector<QueryHead> group;
  std::vector<const RowStatistics *> pointers;
  for (int64_t h = 0; h < p.heads; ++h) {
    auto &of = statistics.emplace_back();
    for (int64_t i = 0; i < p.seqlenQ; ++i) {
      GradientRow dq;
      of.push_back(gradientOfRow(p.head(h, i), p.row(p.q, h, i, p.dim),
                                 p.row(p.dout, h, i, p.dimV), p.given(h, i),
                                 p.keys(i), scratch, &dq));
      g.dq.insert(g.dq.end(), dq.exact.begin(), dq.exact.end());
      expectNear(dq);
    }
    group.push_back(
        {p.seqlenQ, p.row(p.q, h, 0, p.dim), p.row(p.dout, h, 0, p.dimV), h});
  }
  for (const auto &of : statistics)
    pointers.push_back(of.data());
  for (int64_t j = 0; j < p.seqlenK; ++j) {
    GradientRow dk, dv;
    gradientOfKey(p.head(), group, pointers, j,
                  firstRowOfKey(p.mask, j, p.seqlenQ, p.seqlenK), scratch, dk,
                  dv);
    g.dk.insert(g.dk.end(), dk.exact.begin(), dk.exact.end());
    g.dv.insert(g.dv.end(), dv.exact.begin(), dv.exact.end());
    expectNear(dk);
    expectNear(dv);
  }
  return g;
}

void expectDifferences(Problem &p, std::vector<float> Problem::*input,
                       const std::vector<double> &gradient) {
  ASSERT_EQ((p.*input).size(), gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(p.difference((p.*input)[i]), gradient[i], 2e-4) << i;
}

class FiniteDifferences : public testing::TestWithParam<Mask> {};

TEST_P(FiniteDifferences, AgreeWithTheReference) {
  for (auto [seqlenQ, seqlenK] : {std::pair{6, 6}, {4, 9}, {9, 4}}) {
    Problem p(GetParam(), seqlenQ, seqlenK, /*heads=*/2,
              uint32_t(seqlenQ * 100 + seqlenK));
    Gradients g = gradients(p);
    expectDifferences(p, &Problem::q, g.dq);
    expectDifferences(p, &Problem::k, g.dk);
    expectDifferences(p, &Problem::v, g.dv);
  }
}

TEST_P(FiniteDifferences, AgreeWithASinkAndDropout) {
  for (auto [sink, drops] : {std::pair{0.75, false}, {-1.0, true}}) {
    Problem p(GetParam(), 6, 9, /*heads=*/2, /*seed=*/11);
    p.sink = sink;
    p.drops = drops;
    Gradients g = gradients(p);
    expectDifferences(p, &Problem::q, g.dq);
    expectDifferences(p, &Problem::k, g.dk);
    expectDifferences(p, &Problem::v, g.dv);
  }
}

/// dsink = sum of exp(sink - lse) (dlse - delta), delta that of the given out.
TEST_P(FiniteDifferences, AgreeWithTheSinksGradient) {
  Problem p(GetParam(), 9, 4, /*heads=*/2, /*seed=*/12);
  p.sink = 0.5;
  double sum = 0;
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < p.seqlenQ; ++i) {
      GivenRow row = p.given(h, i);
      double delta = 0;
      for (int64_t d = 0; d < p.dimV; ++d)
        delta += double(row.out[d]) * p.row(p.dout, h, i, p.dimV)[d];
      sum += std::exp(p.sink - row.lse) * (row.dlse - delta);
    }
  double at = p.sink, step = 1e-4;
  p.sink = at + step;
  double above = p.value();
  p.sink = at - step;
  EXPECT_NEAR((above - p.value()) / (2 * step), sum, 1e-4);
}

/// Of Random123's table of known answers.
TEST(Dropout, NumbersArePhilox) {
  std::array<uint32_t, 4> zeros = {0x5f6fb709, 0x0d893f64, 0x4f121f81,
                                   0x4f730a48},
                          ones = {0x5207ddc2, 0x45165e59, 0x4d8ee751,
                                  0x8c52f662};
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), zeros);
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), ones);
}

TEST(Dropout, DropsItsShare) {
  constexpr int64_t n = 200;
  for (double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    Dropout dropout = Dropout::of(p, {7, 8, 9, 10}, 3);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        kept += dropout.at(1, 2, i, j) > 0;
    double share = 1 / dropout.factor(), count = double(n * n);
    EXPECT_NEAR(double(kept) / count, share,
                4 * std::sqrt(share * (1 - share) / count));
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, FiniteDifferences,
                         testing::Values(Mask::None, Mask::Causal,
                                         Mask::CausalTopLeft,
                                         Mask::StrictlyCausal));

TEST(Gradient, WhatSeesNothingIsZero) {
  // Causal with more queries than keys: rows 0 to 4 see no key.
  Problem p(Mask::Causal, 9, 4, 1, 7);
  Gradients g = gradients(p);
  for (int64_t i = 0; i < 5 * p.dim; ++i)
    EXPECT_EQ(g.dq[size_t(i)], 0);
  // Top left with more keys than queries: nobody sees keys 4 to 8.
  Problem keys(Mask::CausalTopLeft, 4, 9, 1, 8);
  g = gradients(keys);
  for (int64_t j = 4 * keys.dim; j < 9 * keys.dim; ++j)
    EXPECT_EQ(g.dk[size_t(j)], 0);
  EXPECT_EQ(firstRowOfKey(Mask::CausalTopLeft, 4, 4, 9), 4);
  EXPECT_EQ(firstRowOfKey(Mask::Causal, 0, 9, 4), 5);
  EXPECT_EQ(firstRowOfKey(Mask::None, 3, 9, 4), 0);
}

/// The first row of a key is the first whose visible keys include it.
TEST(Gradient, FirstRowsInvertVisibleKeys) {
  for (Mask mask :
       {Mask::None, Mask::Causal, Mask::CausalTopLeft, Mask::StrictlyCausal})
    for (int64_t sq : {0, 1, 5, 8})
      for (int64_t sk : {1, 5, 8, 11})
        for (int64_t j = 0; j < sk; ++j) {
          int64_t first = 0;
          while (first < sq && visibleKeys(mask, first, sq, sk) <= j)
            ++first;
          EXPECT_EQ(firstRowOfKey(mask, j, sq, sk), first);
        }
}

} // namespace
