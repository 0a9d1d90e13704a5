//===- ScheduleTest.cpp - footprints, the choice and the check ------------===//

#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

using namespace fa2;

namespace {

struct Schedules : testing::Test {
  Schedules() { context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>(); }
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

// Every supported problem has a schedule on every target, and it fits.
TEST_F(Schedules, EveryProblemHasASchedule) {
  for (const Target *t : allTargets())
    for (int64_t d = 8; d <= 256; d += 8)
      for (int64_t dv = 8; dv <= 256; dv += 8) {
        auto s = select(*t, {d, dv, d % 16 == 0});
        ASSERT_TRUE(mlir::succeeded(s))
            << t->name().str() << " " << d << " " << dv << ": " << error;
        EXPECT_LE(s->footprint.sharedBytes, t->limits().sharedBytesPerBlock);
        EXPECT_TRUE(s->warnings.empty()) << t->name().str() << " " << d << " "
                                         << dv << ": " << s->warnings[0];
      }
}

// Nor does a pair of head dims want more registers backward than there are.
TEST_F(Schedules, EveryBackwardProblemHasASchedule) {
  for (const Target *t : allTargets())
    for (GradQ dq : {GradQ::Atomic, GradQ::Recompute})
      for (int64_t d = 8; d <= 256; d += 8)
        for (int64_t dv = 8; dv <= 256; dv += 8) {
          Problem p{d, dv, d % 16 == 0, /*backward=*/true};
          ScheduleOverrides asked;
          asked.dq = dq;
          auto s = select(*t, p, asked);
          ASSERT_TRUE(mlir::succeeded(s))
              << t->name().str() << " " << d << " " << dv << ": " << error;
          EXPECT_LE(s->footprint.sharedBytes, t->limits().sharedBytesPerBlock);
          EXPECT_TRUE(s->warnings.empty()) << t->name().str() << " " << d << " "
                                           << dv << ": " << s->warnings[0];
        }
}

// Where one head dim is 256, the other is padded to what its warps split.
TEST_F(Schedules, UnequalHeadDimsRunAsTheLarger) {
  for (auto [d, dv] :
       {std::pair{256, 168}, {168, 256}, {256, 240}, {240, 248}}) {
    auto wide = select(target("sm_90"), {256, 256, true, true});
    auto s = select(target("sm_90"), {d, dv, true, true});
    ASSERT_TRUE(mlir::succeeded(s) && mlir::succeeded(wide)) << error;
    EXPECT_EQ(s->schedule, wide->schedule) << d << " " << dv;
  }
}

// By hand, 64 x 64 tiles of eight warps: two along the keys, four share the
// columns of dK (256, 64 each) and of dV (168, padded to 48 each); four along
// the queries, two share those of dQ (128 each).
TEST_F(Schedules, FootprintOfSplitColumnsByHand) {
  Schedule s;
  s.partition = Partition::Keys;
  s.blockQ = s.blockKV = 64;
  s.warps = 8;
  s.stages = 1;
  s.keyWarps = 2;
  s.dqWarps = 4;
  Problem p{256, 168, false, /*backward=*/true};
  EXPECT_TRUE(padsColumns(target("sm_90"), p, s));
  Footprint f = footprint(target("sm_90"), p, s);
  EXPECT_EQ(f.queryBytes, 64 * (256 + 176) * 2); // no warps split V
  EXPECT_EQ(f.ringBytes, 64 * (256 + 192) * 2 + 2 * 256);
  EXPECT_EQ(f.outputBytes, 64 * (256 + 192) * 2);
  EXPECT_EQ(f.accumulatorRegisters, 64 + 48);
  EXPECT_EQ(f.scoreRegisters, 64); // dQ, more than the scores' 40
  s.dq = GradQ::Recompute;
  EXPECT_EQ(footprint(target("sm_90"), p, s).scoreRegisters, 40);
  p.headDimV = 256;
  EXPECT_FALSE(padsColumns(target("sm_90"), p, s));
}

// Head dim 128, 128 x 64 tiles, two stages, by hand: Q 128 * 256 bytes, K and V
// 64 * 256 bytes each, twice. Four warps of 32 rows: O 32 * 128 / 32 registers.
TEST_F(Schedules, FootprintByHand) {
  Schedule s;
  s.blockQ = 128;
  Footprint f = footprint(target("sm_80"), {128, 128}, s);
  EXPECT_EQ(f.queryBytes, 32768);
  EXPECT_EQ(f.ringBytes, 65536);
  EXPECT_EQ(f.outputBytes, 32768);
  EXPECT_EQ(f.sharedBytes, 98304);
  EXPECT_EQ(f.threads, 128);
  EXPECT_EQ(f.accumulatorRegisters, 128);
  EXPECT_EQ(f.scoreRegisters, 64);
  EXPECT_EQ(f.queryRegisters, 0);
  s.qInRegisters = true;
  f = footprint(target("sm_80"), {128, 128}, s);
  EXPECT_EQ(f.scoreRegisters, 64);
  EXPECT_EQ(f.queryRegisters, 64);
}

// An output wider than queries, keys and values together decides.
TEST_F(Schedules, OutputReusesQueriesAndRings) {
  Schedule s;
  s.blockQ = 256;
  s.blockKV = 16;
  s.stages = 1;
  Footprint f = footprint(target("sm_80"), {8, 256}, s);
  EXPECT_EQ(f.outputBytes, 131072);
  EXPECT_EQ(f.sharedBytes, 131072);
}

TEST_F(Schedules, Occupancy) {
  Schedule s;
  s.blockQ = 128;
  Footprint f = footprint(target("sm_80"), {128, 128}, s);
  EXPECT_EQ(blocksPerMultiprocessor(target("sm_80"), f), 1); // 2 * 97 KiB > 164
  EXPECT_EQ(blocksPerMultiprocessor(target("sm_90"), f), 2);
}

TEST_F(Schedules, WhatIsAskedStaysWhileTheRestAdapts) {
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

TEST_F(Schedules, SpillsAreForetold) {
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

// Head dim 72 is padded to two panels of 128 bytes. 192 x 80 tiles: Q and O
// 192 * 256 bytes, K and V 80 * 256 bytes each, twice; 16 bytes of mbarriers a
// slot, for queries a slot and 64 rows.
TEST_F(Schedules, FootprintWithRolesByHand) {
  Schedule s;
  s.blockQ = 192;
  s.blockKV = 80;
  s.warps = 12;
  Footprint f = footprint(target("sm_90a"), {72, 72}, s);
  EXPECT_EQ(f.queryBytes, 49152);
  EXPECT_EQ(f.ringBytes, 81920);
  EXPECT_EQ(f.outputBytes, 49152);
  EXPECT_EQ(f.barrierBytes, 16 * (2 + 2 + 3));
  EXPECT_EQ(f.sharedBytes, 131184); // the output takes the queries' place
  s.separateOutput = true;
  f = footprint(target("sm_90a"), {72, 72}, s);
  EXPECT_EQ(f.sharedBytes, 180336);
  EXPECT_EQ(f.threads, 512); // with the producers'
}

TEST_F(Schedules, ByDefaultSm90aUsesWhatItHas) {
  for (int64_t d : {64, 128, 256})
    for (bool masked : {false, true}) {
      auto s = select(target("sm_90a"), {d, d, masked});
      ASSERT_TRUE(mlir::succeeded(s)) << error;
      ScheduleAttr a = s->schedule;
      EXPECT_TRUE(a.getOverlap() && a.getPersistent());
      EXPECT_EQ(a.getBlockQ(), 16 * a.getWarps());
      TileOrder longest =
          d > 64 ? TileOrder::Balanced : TileOrder::LongestFirst;
      EXPECT_EQ(a.getOrder(), masked ? longest : TileOrder::Ascending);
    }
}

// What one family's schedule says makes no sense for another's.
TEST_F(Schedules, SchedulesOfAnotherFamilyAreRefusedByName) {
  auto refused = [&](llvm::StringRef arch, Schedule s, Problem p = {128, 128}) {
    auto attr = s.toAttr(&context, arch, error);
    if (mlir::failed(attr))
      return error;
    EXPECT_TRUE(mlir::failed(checkSchedule(target(arch), p, *attr, error)));
    return error;
  };
  auto starts = [](std::string text, llvm::StringRef with) {
    EXPECT_TRUE(llvm::StringRef(text).starts_with(with)) << text;
  };
  Schedule wide;
  wide.blockQ = 128;
  wide.warps = 8;

  Schedule s = wide;
  s.warps = 4;
  starts(refused("sm_90a", s), "expected warps to be a multiple of 4 and "
                               "block_q to be 16 * warps on sm_90a");
  s = wide;
  s.blockQ = 96;
  s.warps = 6;
  starts(refused("sm_90a", s), "expected warps to be a multiple of 4");
  s = wide;
  s.qInRegisters = true;
  starts(refused("sm_90a", s),
         "expected partition = split_q and q_in_registers = false on sm_90a");
  s = wide;
  starts(refused("sm_90a", s, {64, 128}),
         "expected separate_output because the output of 32768 bytes does not "
         "fit the 16384 bytes of the queries");
  s.separateOutput = true;
  s.stages = 3;
  starts(refused("sm_90a", s, {256, 256}),
         "the schedule needs 327808 bytes of shared memory of 232448 that "
         "sm_90a allows a block");
  s = wide;
  s.pingPong = true;
  s.packedHeads = 2;
  EXPECT_EQ(refused("sm_80", s),
            "expected ping_pong = false, packed_heads = 1 on sm_80, which has "
            "no roles; got ping_pong = true, packed_heads = 2");
  s = wide;
  s.overlap = true;
  s.speculateMax = 61;
  starts(refused("sm_90a", s), "expected speculate_max to be 0 to 60, got 61");
  s.overlap = false;
  s.speculateMax = 8;
  starts(refused("sm_90a", s),
         "expected speculate_max = 0 without overlap, got 8");
  // Warpgroups that skip tiles while others wait in their turn for one slot.
  s = wide;
  s.overlap = s.pingPong = s.groupLimits = true;
  s.stages = 1;
  starts(refused("sm_90a", s),
         "expected stages to be at least 2 with overlap, ping_pong and "
         "group_limits");
}

// Of fields that exclude each other, the one that nobody asked for gives way.
TEST_F(Schedules, WhatExcludesAnAskedFieldGivesWay) {
  Schedule table;
  table.overlap = true;
  table.speculateMax = 8;
  ScheduleOverrides asked;
  asked.overlap = false;
  Schedule s = withAsked(table, asked);
  EXPECT_TRUE(!s.overlap && s.speculateMax == 0);

  asked = {};
  asked.speculateMax = 4;
  table.overlap = false;
  s = withAsked(table, asked);
  EXPECT_TRUE(s.overlap && s.speculateMax == 4);

  asked.overlap = false; // both are asked for: refused later, by name
  s = withAsked(table, asked);
  EXPECT_TRUE(!s.overlap && s.speculateMax == 4);
}

} // namespace
