//===- ModuloTest.cpp - when the steps of a loop run ----------------------===//

#include "fa2/Schedule/Modulo.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

using namespace fa2::modulo;

namespace {

/// Scores, their softmax, and the product with the values: what forward is.
Graph attention(int64_t registers) {
  Graph g;
  g.steps = {{"s", Resource::Tensor, 100},
             {"softmax", Resource::Exponential, 80},
             {"round", Resource::Arithmetic, 10},
             {"scale", Resource::Arithmetic, 10},
             {"o", Resource::Tensor, 100}};
  enum { S, Softmax, Round, Scale, O };
  g.edges = {{S, Softmax, 0, 0, true},
             {Softmax, Softmax, 0, 1},
             {Softmax, Round, 0, 0, true},
             {Softmax, Scale, 0, 0, true},
             {Round, O, 0, 0},
             {Scale, O, 0, 0},
             {O, Scale, 0, 1},
             {O, Round, 0, 1}};
  g.values = {{"s", S, 32, {{Softmax, 0, false}}},
              {"p", Softmax, 32, {{Round, 0, false}}},
              {"rounded", Round, 16, {{O, 0, true}}},
              {"out", O, 64, {{Scale, 1, false}}},
              {"scaled", Scale, 64, {{O, 0, false}}}};
  g.registers = registers;
  return g;
}

TEST(Modulo, AResourceBounds) {
  Graph g;
  g.steps = {{"a", Resource::Tensor, 100},
             {"b", Resource::Tensor, 60},
             {"c", Resource::Arithmetic, 70},
             {"d", Resource::Exponential, 80}};
  std::string error;
  std::optional<Times> t = search(g, error);
  ASSERT_TRUE(t) << error;
  EXPECT_EQ(t->interval, 160);
  EXPECT_EQ(check(g, *t), "");
}

TEST(Modulo, ThreadsDoOneThingAfterTheOther) {
  Graph g;
  g.steps = {{"a", Resource::Tensor, 100},
             {"c", Resource::Arithmetic, 70},
             {"d", Resource::Exponential, 80}};
  std::string error;
  EXPECT_EQ(search(g, error)->interval, 150);
}

TEST(Modulo, ARecurrenceBounds) {
  Graph g;
  g.steps = {{"a", Resource::Tensor, 100}, {"b", Resource::Arithmetic, 20}};
  g.edges = {{0, 1, 5, 0}, {1, 0, 0, 1}};
  std::string error;
  EXPECT_EQ(search(g, error)->interval, 125);
  // Of two iterations before: half of it, but not less than the units need.
  g.edges[1].distance = 2;
  EXPECT_EQ(search(g, error)->interval, 100);
}

TEST(Modulo, TheSoftmaxRunsBesideTheProductBefore) {
  Graph g = attention(180);
  std::string error;
  std::optional<Times> t = search(g, error);
  ASSERT_TRUE(t) << error;
  EXPECT_EQ(check(g, *t), "");
  // The scores, then the product of the iteration before beside the softmax,
  // then what needs both; one after the other takes 300.
  EXPECT_EQ(t->interval, 220);
  EXPECT_EQ(t->stage(0), 0);
  EXPECT_EQ(t->stage(1), 0);
  EXPECT_EQ(t->stage(4), 1);
  EXPECT_LT(t->offset(0), t->offset(4));
}

TEST(Modulo, RegistersBound) {
  std::string error;
  // P of the tile before beside the scores has no place: one after the other.
  Graph g = attention(100);
  std::optional<Times> t = search(g, error);
  ASSERT_TRUE(t) << error;
  EXPECT_EQ(t->interval, 300);
  EXPECT_EQ(check(g, *t), "");
  EXPECT_LE(registersOf(g, *t), 100);
  EXPECT_FALSE(search(attention(90), error));
  EXPECT_EQ(error,
            "no order of the loop's steps holds its values in 90 registers");
}

TEST(Modulo, StepsThatWaitForEachOtherAreRefused) {
  Graph g;
  g.steps = {{"a", Resource::Tensor, 1}, {"b", Resource::Tensor, 1}};
  g.edges = {{0, 1, 0, 0}, {1, 0, 0, 0}};
  std::string error;
  EXPECT_FALSE(search(g, error));
  EXPECT_EQ(error, "the loop's steps wait for each other");
}

TEST(Modulo, WhatIsWrongIsNamed) {
  Graph g = attention(180);
  std::string error;
  Times right = *search(g, error);
  auto wrong = [&](auto change) {
    Times t = right;
    change(t);
    return check(g, t);
  };
  EXPECT_EQ(wrong([](Times &t) { t.starts.pop_back(); }),
            "expected an interval and a time for each of 5 steps, got 220 "
            "clocks and 4 times");
  EXPECT_EQ(wrong([](Times &t) { --t.starts[1]; }),
            "expected 'softmax' to start when 's' is done at clock 100, got "
            "clock 99");
  EXPECT_EQ(wrong([](Times &t) { t.starts[2] = t.starts[1] + 40; }),
            "expected 'round' to start when 'softmax' is done at clock 180, "
            "got clock 140");
  EXPECT_EQ(wrong([](Times &t) { t.starts[4] = 220; }),
            "expected 'o' to start when the tensor cores have done 's' at "
            "clock 320, got clock 220");
  EXPECT_EQ(wrong([](Times &t) { t.starts[4] += 220; }),
            "expected 'o' to end within 2 stages of 220 clocks, got clocks 540 "
            "to 640");
  g.registers = 110;
  EXPECT_EQ(check(g, right), "expected the values of all steps to take at most "
                             "110 registers, got 112 when 'o' writes");
}

/// Every time of a tight schedule matters: what moves alone is refused.
TEST(Modulo, MutantsAreRefused) {
  Graph g = attention(180);
  std::string error;
  Times right = *search(g, error);
  for (size_t i = 0; i < g.steps.size(); ++i)
    for (int64_t by : {-300, -150, -101, 101, 150, 300}) {
      Times t = right;
      t.starts[i] += by;
      EXPECT_NE(check(g, t), "") << g.steps[i].name << " by " << by;
    }
  Times shorter = right;
  --shorter.interval;
  EXPECT_NE(check(g, shorter), "");
}

/// The least interval by trying every time of every step.
int64_t tryAll(const Graph &g) {
  for (int64_t interval = 1;; ++interval) {
    Times t{interval, std::vector<int64_t>(g.steps.size(), 0)};
    while (true) {
      if (check(g, t).empty())
        return interval;
      size_t i = 0;
      while (i < t.starts.size() && ++t.starts[i] == g.stages * interval)
        t.starts[i++] = 0;
      if (i == t.starts.size())
        break;
    }
  }
}

TEST(Modulo, NoScheduleIsShorter) {
  std::mt19937 random(7);
  auto below = [&](int n) { return int(random() % n); };
  for (int round = 0; round < 60; ++round) {
    Graph g;
    for (int i = 0; i < 4; ++i)
      g.steps.push_back({std::string(1, char('a' + i)),
                         below(2) ? Resource::Tensor : Resource::Arithmetic,
                         1 + below(2)});
    for (int to = 1; to < 4; ++to)
      g.edges.push_back({below(to), to, 0, 0, below(3) == 0});
    g.edges.push_back({3, below(4), 0, 1});
    for (int i = 0; i < 3; ++i)
      g.values.push_back({"", i, 1, {{3, 0, below(2) == 0}}});
    g.registers = 3 + below(2);
    std::string error;
    std::optional<Times> t = search(g, error);
    ASSERT_TRUE(t) << error;
    EXPECT_EQ(check(g, *t), "");
    EXPECT_EQ(t->interval, tryAll(g)) << "round " << round;
  }
}

/// A loop of so many operations: each waits for two before it, every fifth one
/// is a product, and only products may begin a stage where `cuts` says so.
Graph loopOf(int steps, bool cuts, int seed) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return int(random() % n); };
  Graph g;
  for (int i = 0; i < steps; ++i)
    g.steps.push_back({"", i % 5 ? Resource::Arithmetic : Resource::Tensor,
                       i % 5 ? 1 + below(20) : 40 + below(60)});
  for (int to = 1; to < steps; ++to) {
    g.edges.push_back({to - 1, to, 0, 0, cuts && to % 5 != 0});
    g.edges.push_back({below(to), to, 0, 0});
  }
  g.edges.push_back({steps - 1, below(steps), 0, 1});
  for (int i = 0; i + 1 < steps; ++i)
    g.values.push_back({"", i, 1 + below(8), {{i + 1, 0, i % 5 == 0}}});
  g.registers = 200;
  return g;
}

double secondsOf(const Graph &g, std::optional<Times> &t, std::string &error) {
  auto begin = std::clock();
  t = search(g, error);
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Of 40 operations, as the largest loops have them: at most 1 s, whatever comes
// out, and mostly a schedule where stages may be cut before products alone.
TEST(Modulo, FortyStepsTakeASecondAtMost) {
  int found = 0;
  for (int seed = 0; seed < 8; ++seed)
    for (bool cuts : {true, false}) {
      Graph g = loopOf(40, cuts, seed);
      std::optional<Times> t;
      std::string error;
      EXPECT_LT(secondsOf(g, t, error), 1) << "seed " << seed;
      if (t) {
        ++found;
        EXPECT_EQ(check(g, *t), "");
      } else {
        EXPECT_EQ(error, "expected a loop of which all orders can be tried, "
                         "got one of 40 steps");
      }
      if (!cuts) // 2^40 choices of stages
        EXPECT_FALSE(t);
    }
  EXPECT_GE(found, 6);
}

TEST(Modulo, ATimeLine) {
  Graph g = attention(180);
  std::string error;
  EXPECT_EQ(
      draw(g, *search(g, error)),
      R"(clocks        0                                                              220
tensor cores  |s----------------------------|o'---------------------------
exponentials                                |softmax----------------
arithmetic                                                                |sc|ro)");
}

} // namespace
