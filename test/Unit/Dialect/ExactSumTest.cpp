//===- ExactSumTest.cpp - sums that no order changes ----------------------===//

#include "fa2/Dialect/FA2/ExactSum.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

using namespace fa2;

namespace {

using Words = std::array<int64_t, kExactWords>;

float sumOf(const std::vector<float> &terms, Words &words) {
  words.fill(0);
  for (float x : terms)
    addExactly(words.data(), 1, x);
  return roundExact(words.data(), 1);
}

std::vector<float> draw(std::mt19937 &random, size_t count, int spread) {
  std::uniform_real_distribution<float> fraction(-2, 2);
  std::uniform_int_distribution<int> exponent(-spread, spread);
  std::vector<float> terms(count);
  for (float &x : terms)
    x = std::ldexp(fraction(random), exponent(random));
  return terms;
}

TEST(ExactSum, HasTheSameWordsInAnyOrder) {
  std::mt19937 random(1);
  for (int spread : {0, 10, 60, 126}) {
    std::vector<float> terms = draw(random, 2000, spread);
    Words first, again;
    float sum = sumOf(terms, first);
    for (int i = 0; i < 5; ++i) {
      std::shuffle(terms.begin(), terms.end(), random);
      EXPECT_EQ(sumOf(terms, again), sum);
      EXPECT_EQ(again, first);
    }
  }
}

TEST(ExactSum, IsTheSum) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    // Bits of such terms fit in a long double, so that its sum is exact.
    std::vector<float> terms = draw(random, 50, 8);
    long double wanted = 0;
    for (float x : terms)
      wanted += x;
    Words words;
    EXPECT_EQ(sumOf(terms, words), float(double(wanted)));
  }
}

TEST(ExactSum, CancelsAcrossLimbs) {
  Words words;
  // In any other order of f32 or f64 the small one is lost.
  EXPECT_EQ(sumOf({0x1p100f, 0x1p-100f, -0x1p100f}, words), 0x1p-100f);
  EXPECT_EQ(sumOf({-0x1.8p31f, 0x1p-10f, 0x1.8p31f}, words), 0x1p-10f);
  std::vector<float> terms(100000, -0x1.fffffep-1f);
  terms.insert(terms.end(), 100000, 0x1.fffffep-1f);
  EXPECT_EQ(sumOf(terms, words), 0.0f);
}

TEST(ExactSum, HoldsAllOfF32) {
  constexpr float least = std::numeric_limits<float>::denorm_min(),
                  most = std::numeric_limits<float>::max(),
                  infinity = std::numeric_limits<float>::infinity();
  Words words;
  EXPECT_EQ(sumOf({}, words), 0.0f);
  EXPECT_EQ(sumOf({least, least, least}, words), 3 * least);
  EXPECT_EQ(sumOf({-least, 0.0f, -0.0f}, words), -least);
  EXPECT_EQ(sumOf({most}, words), most);
  EXPECT_EQ(sumOf({-most, most, -most}, words), -most);
  EXPECT_EQ(sumOf({most, most}, words), infinity);
  EXPECT_EQ(sumOf({infinity, 1.0f}, words), infinity);
  EXPECT_EQ(sumOf({-infinity, most}, words), -infinity);
}

TEST(ExactSum, KeepsNaN) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Words words;
  EXPECT_TRUE(std::isnan(sumOf({1, nan, 2}, words)));
  EXPECT_TRUE(std::isnan(sumOf(std::vector<float>(1000, -nan), words)));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(sumOf({infinity, 1, -infinity}, words)));
}

TEST(ExactSum, LiesInSteps) {
  std::array<int64_t, 3 * kExactWords> words{};
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t n = 0; n <= i; ++n)
      addExactly(words.data() + i, 3, 0x1.8p40f);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(roundExact(words.data() + i, 3), 0x1.8p40f * float(i + 1));
}

} // namespace
