//===- ForestTest.cpp - trees, and the order of candidates ----------------===//

#include "Forest.h"
#include "Ranking.h"

#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace fa2;
using namespace fa2tune;

namespace {

/// A candidate on a shape, which lives as long as this.
struct Fixture {
  const Target *target;
  Problem problem{128, 128};
  Schedule schedule;
  Shape shape;
  Estimate e;

  explicit Fixture(int64_t blockQ = 128) {
    std::string error;
    target = lookupTarget("sm_90a", error);
    schedule.blockQ = blockQ;
    schedule.blockKV = 64;
    schedule.warps = blockQ / 16;
    e = estimate(*target, ratesOf(*target), problem, schedule, shape);
  }
  RankedCandidate candidate() const {
    return {*target, problem, schedule, shape, e};
  }
  std::string header() const {
    std::string text = "fa2_forest 1 H200\nfeatures";
    forEachFeature(candidate(), [&](llvm::StringRef name, double) {
      text += " " + name.str();
    });
    return text + "\n";
  }
  /// The feature's place.
  size_t place(llvm::StringRef wanted) const {
    size_t at = 0, found = size_t(-1);
    forEachFeature(candidate(), [&](llvm::StringRef name, double) {
      found = name == wanted ? at : found;
      ++at;
    });
    return found;
  }
};

std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(Forest::parse(text, error).has_value());
  return error;
}

TEST(Forest, SumsTreesAndMeansParts) {
  Fixture small(64), large(192);
  std::string q = std::to_string(small.place("block_q"));
  std::string k = std::to_string(small.place("block_kv"));
  std::string error;
  // Below 64 queries, and at 64, 1; above it, by the keys.
  auto forest = Forest::parse(small.header() + "part loss\n" + q + ":64 =1 " +
                                  k + ":63.5 =2 =4\n=0.25\npart estimate\n" +
                                  q + ":100 =-1 =0\n",
                              error);
  ASSERT_TRUE(forest.has_value()) << error;
  double ofSmall = std::log(small.e.milliseconds) - 1;
  double ofLarge = std::log(large.e.milliseconds);
  EXPECT_DOUBLE_EQ(forest->loss(small.candidate()), (1.25 + ofSmall) / 2);
  EXPECT_DOUBLE_EQ(forest->loss(large.candidate()), (4.25 + ofLarge) / 2);
}

TEST(Forest, KnowsFeaturesByTheirNames) {
  Fixture small(64), large(192);
  std::string error;
  auto forest = Forest::parse("fa2_forest 1 H200\nfeatures block_kv block_q\n"
                              "part loss\n1:64 =1 =2\n",
                              error);
  ASSERT_TRUE(forest.has_value()) << error;
  EXPECT_DOUBLE_EQ(forest->loss(small.candidate()), 1);
  EXPECT_DOUBLE_EQ(forest->loss(large.candidate()), 2);
}

TEST(Forest, RefusesWhatIsNone) {
  std::string header = Fixture().header();
  EXPECT_EQ(errorOf(""),
            "expected the line 'fa2_forest 1' with a device's name");
  EXPECT_EQ(errorOf("fa2_forest 2\nfeatures\n"),
            "expected the line 'fa2_forest 1' with a device's name");
  EXPECT_EQ(errorOf("fa2_forest 1 H200\nfeatures a b\npart loss\n=1\n"),
            "line 2: feature 'a' is not one of this version's; bench/trees.py "
            "fits them anew");
  EXPECT_EQ(errorOf(header), "expected a part");
  EXPECT_EQ(errorOf(header + "=1\n"),
            "line 3: expected a part before the first tree");
  EXPECT_EQ(errorOf(header + "part losses\n=1\n"),
            "line 3: expected part loss or estimate, got 'losses'");
  EXPECT_EQ(errorOf(header + "part loss\n"), "expected a tree of each part");
  EXPECT_EQ(errorOf(header + "part loss\n0:1 =1\n"),
            "line 4: expected another node of the tree");
  EXPECT_EQ(errorOf(header + "part loss\n0:1 =1 =2 =3\n"),
            "line 4: expected one tree, got '=3' behind it");
  EXPECT_EQ(errorOf(header + "part loss\n=one\n"),
            "line 4: expected a number behind =, got 'one'");
  for (const char *node : {"999:1", "-1:1", "0", "x:1", "0:"})
    EXPECT_NE(errorOf(header + "part loss\n" + node + " =1 =2\n")
                  .find("line 4: expected a feature below "),
              std::string::npos)
        << node;
}

/// Tiles of 192 queries and 64 keys come before those of 64 and 16.
TEST(Ranking, PutsLargeTilesFirst) {
  Fixture good(192), bad(64);
  bad.schedule.blockKV = 16;
  std::vector<Shape> shapes(1);
  std::vector<size_t> order =
      rankSchedules({*good.target, ratesOf(*good.target), good.problem, shapes},
                    {bad.schedule, good.schedule});
  EXPECT_EQ(order, (std::vector<size_t>{1, 0}));
}

/// Trees were fitted on one device, for kernels without a program: elsewhere
/// the estimate orders alone.
TEST(Ranking, IsTheEstimatesWhereTreesSawNothing) {
  Fixture f;
  std::string error;
  std::vector<Schedule> schedules;
  for (int64_t q : {64, 128, 192})
    for (int64_t kv : {32, 64, 96, 128}) {
      Schedule s;
      s.blockQ = q;
      s.blockKV = kv;
      s.warps = q / 16;
      schedules.push_back(s);
    }
  std::vector<Shape> shapes(1);
  auto ordered = [&](const Problem &problem, const Rates &rates) {
    auto order = rankSchedules({*f.target, rates, problem, shapes}, schedules);
    double last = 0;
    for (size_t i : order) {
      double ms = estimate(*f.target, rates, problem, schedules[i], shapes[0])
                      .milliseconds;
      if (ms < last)
        return false;
      last = ms;
    }
    return true;
  };
  Problem program = f.problem, dropout = f.problem, uneven{128, 64};
  program.program = dropout.dropout = true;
  Rates hopper = ratesOf(*f.target), other = hopper;
  other.device = "another";
  EXPECT_TRUE(ordered(program, hopper));
  EXPECT_TRUE(ordered(dropout, hopper));
  EXPECT_TRUE(ordered(uneven, hopper));
  EXPECT_TRUE(ordered(f.problem, other));
  EXPECT_FALSE(ordered(f.problem, hopper));
}

} // namespace
