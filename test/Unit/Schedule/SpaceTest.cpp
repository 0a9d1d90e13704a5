//===- SpaceTest.cpp - the space of schedules, and what ranks it ----------===//

#include "fa2/Schedule/Space.h"
#include "fa2/Schedule/Model.h"
#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <set>

using namespace fa2;

namespace {

struct Space : testing::Test {
  Space() { context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>(); }
  const Target &target(llvm::StringRef name) {
    const Target *t = lookupTarget(name, error);
    EXPECT_TRUE(t) << error;
    return *t;
  }
  mlir::MLIRContext context;
  std::string error;
};

const std::pair<const char *, Problem> kProblems[] = {
    {"sm_80", {64, 64}},
    {"sm_86", {128, 128, /*masked=*/true}},
    {"sm_90a", {128, 128, /*masked=*/true, false, /*maxSlack=*/60}},
    {"sm_90a", {192, 128}},
    {"sm_80", {128, 128, false, /*backward=*/true}},
    {"sm_90a", {64, 64, false, /*backward=*/true}},
};

/// The tiles of the table: all of backward's on sm_90a take half a minute,
/// which one test spends.
ScheduleOverrides tilesOf(const Problem &problem) {
  ScheduleOverrides asked;
  if (problem.backward)
    EXPECT_EQ(asked.setFields("schedule", "block_q=64,warps=8"), "");
  return asked;
}

// Tiles of several groups of rows whose dQ the producer multiplies are whole.
TEST_F(Space, TheProducerTakesSeveralGroupsOfRows) {
  ScheduleOverrides asked;
  ASSERT_EQ(asked.setFields("schedule", "block_q=128,block_kv=64,warps=4,"
                                        "dq_by_producer=1,dq_warps=4,stages=1"),
            "");
  Problem problem{64, 64, false, /*backward=*/true};
  EXPECT_FALSE(searchSpace(target("sm_90a"), problem, asked).fits.empty());
}

// Above 128 columns dQ may have a kernel of its own, once for all parts of a
// sum that there is not.
TEST_F(Space, GradQMayHaveAKernelOfItsOwn) {
  ScheduleOverrides asked;
  ASSERT_EQ(asked.setFields("schedule", "block_q=64,block_kv=64,warps=8,"
                                        "stages=2,key_warps=4"),
            "");
  for (int64_t dim : {128, 160}) {
    Problem problem{dim, dim, false, /*backward=*/true};
    std::set<std::string> own;
    for (Schedule s : searchSpace(target("sm_90a"), problem, asked).fits)
      if (s.dq == GradQ::Recompute) {
        s.dqColumns = s.dqWarps = 0;
        EXPECT_TRUE(own.insert(fieldsText(s)).second) << fieldsText(s);
      }
    EXPECT_EQ(own.empty(), dim == 128);
  }
}

// What fits is what the check of any schedule takes, and nothing is counted
// twice or not at all.
TEST_F(Space, FitsAreChecked) {
  for (const auto &[name, problem] : kProblems) {
    const Target &t = target(name);
    SearchSpace space = searchSpace(t, problem, {});
    int64_t dropped = 0;
    for (const SearchSpace::Drop &drop : space.dropped)
      dropped += drop.count;
    EXPECT_EQ(int64_t(space.fits.size()) + dropped, space.candidates);
    ASSERT_FALSE(space.fits.empty()) << name;
    for (size_t i = 0; i < space.fits.size(); i += 97) {
      auto attr = space.fits[i].toAttr(&context, name, error);
      ASSERT_TRUE(mlir::succeeded(attr)) << error;
      auto checked = checkSchedule(t, problem, *attr, error);
      ASSERT_TRUE(mlir::succeeded(checked)) << error;
      EXPECT_TRUE(checked->warnings.empty()) << checked->warnings.front();
    }
  }
}

// What fa2-tune knows a class of bits by is what variants are checked by.
TEST_F(Space, BitsTextsTellWhatDiffersInBits) {
  for (const auto &[name, problem] : kProblems) {
    SearchSpace space = searchSpace(target(name), problem, tilesOf(problem));
    size_t step = space.fits.size() / 60 + 1, same = 0;
    std::vector<std::pair<ScheduleAttr, std::string>> some;
    for (size_t i = 0; i < space.fits.size(); i += step) {
      auto attr = space.fits[i].toAttr(&context, name, error);
      ASSERT_TRUE(mlir::succeeded(attr)) << error;
      some.push_back({*attr, bitsText(space.fits[i])});
    }
    for (const auto &[a, textA] : some)
      for (const auto &[b, textB] : some) {
        same += a != b && textA == textB;
        EXPECT_EQ(a.differsInBits(b).empty(), textA == textB)
            << fieldsText(a.getFields()) << "\n"
            << fieldsText(b.getFields());
      }
    EXPECT_GT(same, 0u) << name;
  }
}

// The tables' schedules, which were found by hand, are in it.
TEST_F(Space, HasWhatIsChosen) {
  for (const auto &[name, problem] : kProblems) {
    const Target &t = target(name);
    auto chosen = selectSchedule(&context, t, problem, {}, error);
    ASSERT_TRUE(mlir::succeeded(chosen)) << error;
    Schedule schedule = chosen->schedule.getFields().derived();
    SearchSpace space = searchSpace(t, problem, tilesOf(problem));
    EXPECT_TRUE(
        std::any_of(space.fits.begin(), space.fits.end(),
                    [&](const Schedule &s) { return s.derived() == schedule; }))
        << name << " " << fieldsText(schedule);
  }
}

// What is asked for is not searched, and a schedule's text gives it again.
TEST_F(Space, AskedFieldsAndText) {
  ScheduleOverrides asked;
  ASSERT_EQ(asked.setFields("schedule", "block_kv=32,stages=3,overlap=0"), "");
  SearchSpace space = searchSpace(target("sm_90a"), {128, 128}, asked);
  ASSERT_FALSE(space.fits.empty());
  for (const Schedule &s : space.fits) {
    ASSERT_TRUE(s.blockKV == 32 && s.stages == 3 && !s.overlap);
    ScheduleOverrides again;
    ASSERT_EQ(again.setFields("schedule", fieldsText(s)), "");
    ASSERT_EQ(again.applyTo(Schedule()), s);
  }
}

TEST_F(Space, NothingFits) {
  Problem problem{64, 64, false, /*backward=*/true};
  ScheduleOverrides asked = tilesOf(problem);
  asked.overlap = true;
  SearchSpace space = searchSpace(target("sm_90a"), problem, asked);
  EXPECT_TRUE(space.fits.empty());
  EXPECT_TRUE(llvm::any_of(space.dropped, [](const auto &drop) {
    return drop.example.find("expected overlap = false") != std::string::npos;
  }));
}

// Two warpgroups that share rows of dQ split its pieces: a piece of which they
// hold more than its columns would lie where the next one does.
TEST_F(Space, PiecesOfGradQLieApart) {
  Problem problem{128, 128, false, /*backward=*/true};
  for (bool byProducer : {false, true}) {
    ScheduleOverrides asked;
    ASSERT_EQ(asked.setFields("schedule",
                              "block_q=64,block_kv=64,warps=8,key_warps=4,"
                              "stages=2,rings.exchange=1,loop_order=written,"
                              "dq=atomic_v4,preload=both,chained=early"),
              "");
    asked.dqByProducer = byProducer;
    SearchSpace space = searchSpace(target("sm_90a"), problem, asked);
    std::set<int64_t> columns;
    for (const Schedule &s : space.fits)
      if (s.cluster == 1)
        columns.insert(s.dqColumns);
    EXPECT_EQ(columns.count(64), 1u);
    EXPECT_EQ(columns.count(96), byProducer ? 1u : 0u);
  }
}

// What must hold of any estimate: more work takes longer, half of the scores
// take less, and blocks that the device has no place for wait.
TEST_F(Space, EstimatesAreOrdered) {
  const Target &t = target("sm_90a");
  auto chosen = selectSchedule(&context, t, {128, 128}, {}, error);
  ASSERT_TRUE(mlir::succeeded(chosen)) << error;
  Schedule s = chosen->schedule.getFields();
  Shape shape{4, 16, 16, 4096, 4096}, longer = shape, wider = shape;
  longer.seqlenK *= 2;
  wider.batch *= 2;
  double time = estimate(t, ratesOf(t), {128, 128}, s, shape).milliseconds;
  EXPECT_GT(estimate(t, ratesOf(t), {128, 128}, s, longer).milliseconds,
            1.8 * time);
  EXPECT_GT(estimate(t, ratesOf(t), {128, 128}, s, wider).milliseconds,
            1.8 * time);
  EXPECT_LT(estimate(t, ratesOf(t), {128, 128, true}, s, shape).milliseconds,
            0.7 * time);
  // 2 * 4 * 16 * 4096^2 * 256 operations at 989e12 a second.
  EXPECT_GT(time, 0.55);
  EXPECT_LT(time, 2 * 0.55);
}

} // namespace
