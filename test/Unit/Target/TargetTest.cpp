//===- TargetTest.cpp - the registry, footprints, schedule choice ---------===//

#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

using namespace fa2;

namespace {

struct TargetTest : testing::Test {
  TargetTest() { context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>(); }
  const Target &target(llvm::StringRef name) {
    const Target *t = lookupTarget(name, error);
    EXPECT_TRUE(t) << error;
    return *t;
  }
  mlir::FailureOr<Selection> select(const Target &t, Problem p,
                                    ScheduleOverrides asked = {}) {
    return selectSchedule(&context, t, p, asked, error);
  }
  mlir::MLIRContext context;
  std::string error;
};

TEST_F(TargetTest, UnknownNamesOfferTheNearest) {
  for (auto [name, nearest] : {std::pair{"sm_85", "sm_86"},
                               {"sm_90a", "sm_90"},
                               {"sm_75", "sm_80"},
                               {"SM_80", "sm_80"},
                               {"sm_999", "sm_121"}}) {
    EXPECT_EQ(lookupTarget(name, error), nullptr);
    EXPECT_NE(error.find(std::string("unknown arch '") + name +
                         "'; the nearest supported is " + nearest),
              std::string::npos)
        << error;
  }
  EXPECT_EQ(lookupTarget("", error), nullptr);
  EXPECT_EQ(error.rfind("unknown arch '' (supported: sm_80, ", 0), 0u) << error;
}

// Every supported problem has a schedule on every target, and it fits.
TEST_F(TargetTest, EveryProblemHasASchedule) {
  for (const Target *t : allTargets())
    for (int64_t d = 8; d <= 256; d += 8)
      for (int64_t dv = 8; dv <= 256; dv += 8) {
        auto s = select(*t, {d, dv, d % 16 == 0});
        ASSERT_TRUE(mlir::succeeded(s))
            << t->name().str() << " " << d << " " << dv << ": " << error;
        EXPECT_LE(s->footprint.sharedBytes(), t->limits().sharedBytesPerBlock);
        EXPECT_TRUE(s->warnings.empty()) << t->name().str() << " " << d << " "
                                         << dv << ": " << s->warnings[0];
      }
}

// Head dim 128, 128 x 64 tiles, two stages, by hand: Q 128 * 256 bytes, K and V
// 64 * 256 bytes each, twice. Four warps of 32 rows: O 32 * 128 / 32 registers.
TEST_F(TargetTest, FootprintByHand) {
  Schedule s;
  s.blockQ = 128;
  Footprint f = footprint({128, 128}, s);
  EXPECT_EQ(f.queryBytes, 32768);
  EXPECT_EQ(f.ringBytes, 65536);
  EXPECT_EQ(f.outputBytes, 32768);
  EXPECT_EQ(f.sharedBytes(), 98304);
  EXPECT_EQ(f.threads, 128);
  EXPECT_EQ(f.accumulatorRegisters, 128);
  EXPECT_EQ(f.scoreRegisters, 64);
  EXPECT_EQ(f.queryRegisters, 0);
  s.qInRegisters = true;
  f = footprint({128, 128}, s);
  EXPECT_EQ(f.scoreRegisters, 64);
  EXPECT_EQ(f.queryRegisters, 64);
}

// An output wider than queries, keys and values together decides.
TEST_F(TargetTest, OutputReusesQueriesAndRings) {
  Schedule s;
  s.blockQ = 256;
  s.blockKV = 16;
  s.stages = 1;
  Footprint f = footprint({8, 256}, s);
  EXPECT_EQ(f.outputBytes, 131072);
  EXPECT_EQ(f.sharedBytes(), 131072);
}

TEST_F(TargetTest, Occupancy) {
  Schedule s;
  s.blockQ = 128;
  Footprint f = footprint({128, 128}, s);
  EXPECT_EQ(target("sm_80").blocksPerMultiprocessor(f), 1); // 2 * 97 KiB > 164
  EXPECT_EQ(target("sm_90").blocksPerMultiprocessor(f), 2);
  EXPECT_EQ(target("sm_80").registerBudget(128, 1), 255);
  EXPECT_EQ(target("sm_80").registerBudget(128, 3), 168); // floor8(65536 / 384)
  EXPECT_EQ(target("sm_80").registerBudget(1024, 1), 64);
}

TEST_F(TargetTest, WhatIsAskedStaysWhileTheRestAdapts) {
  ScheduleOverrides asked;
  asked.blockKV = 128;
  asked.stages = 2;
  auto s = select(target("sm_80"), {256, 256}, asked);
  ASSERT_FALSE(mlir::succeeded(s)); // keys and values alone: 256 KiB
  EXPECT_NE(error.find("of 166912 that sm_80 allows"), std::string::npos)
      << error;
  asked.stages = 1;
  s = select(target("sm_80"), {256, 256}, asked);
  ASSERT_TRUE(mlir::succeeded(s)) << error;
  EXPECT_EQ(s->schedule.getBlockKv(), 128);
  EXPECT_EQ(s->schedule.getStages(), 1);
  EXPECT_EQ(s->schedule.getBlockQ(), 64);
}

TEST_F(TargetTest, SpillsAreForetold) {
  ScheduleOverrides asked;
  asked.blockQ = 128;
  asked.blockKV = 64;
  asked.warps = 2;
  asked.stages = 1;
  auto s = select(target("sm_80"), {128, 128}, asked);
  ASSERT_TRUE(mlir::succeeded(s)) << error;
  ASSERT_EQ(s->warnings.size(), 1u);
  EXPECT_NE(s->warnings[0].find("spill"), std::string::npos);
}

} // namespace
