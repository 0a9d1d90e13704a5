//===- TargetTest.cpp - the registry and facts about chips ----------------===//

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
  mlir::MLIRContext context;
  std::string error;
};

TEST_F(TargetTest, UnknownNamesOfferTheNearest) {
  for (auto [name, nearest] : {std::pair{"sm_85", "sm_86"},
                               {"sm_90b", "sm_90"},
                               {"sm90a", "sm_90"},
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

TEST_F(TargetTest, RegisterBudgets) {
  EXPECT_EQ(target("sm_80").registerBudget(128, 1), 255);
  EXPECT_EQ(target("sm_80").registerBudget(128, 3), 168); // floor8(65536 / 384)
  EXPECT_EQ(target("sm_80").registerBudget(1024, 1), 64);
}

TEST_F(TargetTest, RolesAreOfSm90aAlone) {
  for (const Target *t : allTargets()) {
    bool is = t->name() == "sm_90a";
    EXPECT_EQ(t->copyEngine(), is) << t->name().str();
    EXPECT_EQ(t->asynchronousMatmul(), is) << t->name().str();
    EXPECT_EQ(t->producerWarps(), is ? 4 : 0) << t->name().str();
    EXPECT_EQ(t->isFamilySpecific(), is) << t->name().str();
    EXPECT_EQ(t->sharedPanelBytes(), is ? 128 : 0) << t->name().str();
    EXPECT_EQ(t->roleRegisters(Schedule()).consumer > 0, is) << t->name().str();
  }
  const Target &t = target("sm_90a");
  EXPECT_EQ(t.computeCapability(), 90);
  EXPECT_EQ(t.limits().sharedBytesPerBlock, 232448);
  EXPECT_EQ(t.limits().sharedBytesPerMultiprocessor, 233472);
  EXPECT_EQ(t.ptx().isaVersion, 81);
  EXPECT_EQ(t.ptx().minDriver, 12010);
  EXPECT_EQ(t.matmulFamily(&context).warpsPerInstruction(), 4);
}

// setmaxnreg.inc waits until the multiprocessor has the registers; nobody gives
// any back but the producers. So the budgets, summed over warpgroups, must fit
// what the block got at entry.
TEST_F(TargetTest, RoleBudgetsFitTheRegistersAtEntry) {
  const Target &t = target("sm_90a");
  for (auto [warps, dqByProducer, dqRole, entry, producer, sums, consumer] :
       {std::tuple{4, false, false, 248, 24, 0, 248},
        {8, false, false, 168, 24, 0, 240},
        {8, true, false, 168, 56, 0, 224},
        {8, true, true, 128, 24, 56, 216},
        {12, false, false, 128, 32, 0, 160}}) {
    Schedule schedule;
    schedule.warps = warps;
    schedule.dqByProducer = dqByProducer;
    schedule.dqRole = dqRole;
    int64_t all = (warps + schedule.otherWarps()) / 4;
    EXPECT_EQ(t.registerBudget(all * 4 * 32, 1) / 8 * 8, entry);
    RoleRegisters r = t.roleRegisters(schedule);
    EXPECT_EQ(r.producer, producer) << warps;
    EXPECT_EQ(r.sums, sums) << warps;
    EXPECT_EQ(r.consumer, consumer) << warps;
    EXPECT_LE(warps / 4 * r.consumer + r.producer + r.sums, all * entry)
        << warps;
    for (int64_t n : {r.producer, r.consumer}) // what setmaxnreg takes
      EXPECT_TRUE(n % 8 == 0 && n >= 24 && n <= 256) << n;
    EXPECT_LE(r.producer, entry); // .dec
    EXPECT_LE(r.sums, entry);
    EXPECT_GE(r.consumer, entry); // .inc
  }
}

} // namespace
