//===- CompilerTest.cpp - specifications, and what selection promised -----===//

#include "fa2/Compiler/Compiler.h"
#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSwitch.h"
#include "gtest/gtest.h"

#include <fstream>
#include <regex>
#include <sstream>

using namespace fa2;

namespace {

TEST(Specification, KeysAndTheirForms) {
  Specification s;
  EXPECT_EQ(s.setAll("head_dim=64,head_dim_v=32 mask=causal-top-left\n"
                     "partition=split-k arch=sm_90 stages=3"),
            "");
  EXPECT_EQ(s.check(), "");
  EXPECT_EQ(s.headDim, 64);
  EXPECT_EQ(s.headDimV, 32);
  EXPECT_EQ(s.mask, "causal_top_left");
  EXPECT_EQ(s.schedule, "partition=split-k,stages=3");
  EXPECT_EQ(s.kernelName(), "fa2_forward_bf16_d64_v32_causal_top_left");
  EXPECT_EQ(Specification().setAll("  ,\t"), "");
}

// A field of the schedule is a key too, and goes into the one text of them.
TEST(Specification, EveryKeyCanBeSet) {
  for (const Specification::Key &key : Specification::keys()) {
    Specification s;
    llvm::StringRef value = llvm::StringSwitch<llvm::StringRef>(key.name)
                                .Case("schedule", "stages=1")
                                .Case("partition", "keys")
                                .Case("order", "ascending")
                                .Case("dq", "recompute")
                                .Case("turns", "late")
                                .Case("producer_registers", "88")
                                .Case("preload", "both")
                                .Case("loop_order", "written")
                                .Case("chained", "late")
                                .Case("cache.dq", "evict_last")
                                .Case("cache.keys", "evict_first")
                                .Case("cache.queries", "none")
                                .Default("1");
    EXPECT_EQ(s.set(key.name, value), "") << key.name.str();
    EXPECT_FALSE(key.help.empty());
    if (key.of == Specification::Key::ScheduleField)
      EXPECT_EQ(s.schedule, (key.name + "=" + value).str());
  }
}

TEST(Specification, FieldsOfTheSchedule) {
  Specification s;
  EXPECT_EQ(s.setAll("schedule='block-q=64, warps=4' stages=3"), "");
  EXPECT_EQ(s.schedule, "block-q=64, warps=4,stages=3");
  EXPECT_EQ(s.set("stages", "2"), "expected one value of stages, got 3 and 2");
  EXPECT_EQ(s.set("overlap", "on"), "expected overlap to be 0 or 1, got 'on'");
  EXPECT_EQ(s.schedule, "block-q=64, warps=4,stages=3");
}

// fa2.h lists the keys where it says what fa2_compile takes.
TEST(Specification, EveryKeyIsInTheHeader) {
  std::stringstream text;
  text << std::ifstream(FA2_HEADER).rdbuf();
  std::string list = text.str();
  list = list.substr(list.find("key=value"));
  list = list.substr(0, list.find("fa2_compile("));
  for (const Specification::Key &key : Specification::keys())
    if (key.of != Specification::Key::ScheduleField)
      EXPECT_TRUE(
          std::regex_search(list, std::regex("\\b" + key.name.str() + "\\b")))
          << key.name.str();
}

TEST(Specification, HeadDims) {
  for (int64_t d = -16; d <= 300; ++d) {
    Specification s;
    s.headDim = d;
    bool fits = d >= 8 && d <= 256 && d % 8 == 0;
    EXPECT_EQ(s.check().empty(), fits) << d;
  }
}

class Promise : public testing::TestWithParam<const char *> {};

// The bytes that the choice of a schedule counted are those that allocation
// finds, but for mbarriers that some rings have together.
TEST_P(Promise, SharedMemoryIsWhatWasCounted) {
  Specification spec;
  ASSERT_EQ(spec.setAll(GetParam()), "");
  spec.database = "none"; // as selectSchedule below
  std::string error;
  CompileOptions options;
  options.emit = OutputKind::NVVM;
  auto compiled = compile(spec, options, error);
  ASSERT_TRUE(mlir::succeeded(compiled)) << error;

  mlir::MLIRContext context;
  context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>();
  ScheduleOverrides asked;
  ASSERT_EQ(asked.setFields("schedule", spec.schedule), "");
  auto selection = selectSchedule(
      &context, *lookupTarget(spec.arch, error),
      {spec.headDim, spec.headDimV ? spec.headDimV : spec.headDim,
       spec.mask != "none", spec.pass == "backward"},
      asked, error);
  ASSERT_TRUE(mlir::succeeded(selection)) << error;
  const Footprint &f = selection->footprint;
  EXPECT_LE(compiled->sharedBytes, f.sharedBytes);
  EXPECT_GE(compiled->sharedBytes + f.barrierBytes, f.sharedBytes);
  EXPECT_LT(f.barrierBytes, 600);
  EXPECT_EQ(compiled->threads, f.threads);
}

INSTANTIATE_TEST_SUITE_P(
    Specifications, Promise,
    testing::Values("head_dim=8", "head_dim=40 mask=causal",
                    "head_dim=64 dtype=f16", "head_dim=104 stages=1",
                    "head_dim=128 stages=3", "head_dim=16 head_dim_v=256",
                    "head_dim=256 head_dim_v=16 mask=causal_top_left",
                    "head_dim=256 arch=sm_86", "head_dim=192 arch=sm_90",
                    "head_dim=64 partition=split_k",
                    "head_dim=128 partition=split_k stages=1",
                    "head_dim=8 arch=sm_90a", "head_dim=128 arch=sm_90a",
                    "head_dim=72 arch=sm_90a mask=causal",
                    "head_dim=192 arch=sm_90a stages=1",
                    "head_dim=256 head_dim_v=64 arch=sm_90a",
                    "head_dim=128 arch=sm_90a rings.k=2 rings.v=3",
                    "head_dim=64 head_dim_v=128 arch=sm_90a rings.k=3",
                    "head_dim=64 arch=sm_90a separate_output=0",
                    "head_dim=128 arch=sm_90a persistent=0 query_slots=1"));

INSTANTIATE_TEST_SUITE_P(
    Backward, Promise,
    testing::Values(
        "pass=backward head_dim=64", "pass=backward head_dim=128 mask=causal",
        "pass=backward head_dim=72", "pass=backward head_dim=256",
        "pass=backward head_dim=128 dq=recompute",
        "pass=backward head_dim=64 stages=1 key_warps=2",
        "pass=backward head_dim=256 head_dim_v=168",
        "pass=backward head_dim=64 arch=sm_86",
        "pass=backward head_dim=128 arch=sm_120",
        "pass=backward head_dim=64 arch=sm_90a",
        "pass=backward head_dim=64 arch=sm_90a persistent=1",
        "pass=backward head_dim=64 arch=sm_90a rings.exchange=3",
        "pass=backward head_dim=64 arch=sm_90a separate_output=1 stages=2",
        "pass=backward head_dim=80 arch=sm_90a mask=causal",
        "pass=backward head_dim=128 arch=sm_90a",
        "pass=backward head_dim=128 arch=sm_90a dq=recompute",
        "pass=backward head_dim=128 arch=sm_90a cluster=2",
        "pass=backward head_dim=128 arch=sm_90a rings.exchange=1",
        "pass=backward head_dim=192 arch=sm_90a",
        "pass=backward head_dim=192 arch=sm_90a mask=causal",
        "pass=backward head_dim=256 arch=sm_90a", // a cluster, columns split
        "pass=backward head_dim=256 arch=sm_90a dq=recompute",
        "pass=backward head_dim=256 arch=sm_90a cluster=1",
        "pass=backward head_dim=128 head_dim_v=64 arch=sm_90a",
        "pass=backward head_dim=64 head_dim_v=128 arch=sm_90a"));

} // namespace
