//===- CompilerTest.cpp - specifications, and what selection promised -----===//

#include "fa2/Compiler/Compiler.h"
#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "mlir/IR/MLIRContext.h"
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
  EXPECT_EQ(s.partition, "split_k");
  EXPECT_EQ(s.stages, 3);
  EXPECT_EQ(s.kernelName(), "fa2_forward_bf16_d64_v32_causal_top_left");
  EXPECT_EQ(Specification().setAll("  ,\t"), "");
}

TEST(Specification, EveryKeyCanBeSet) {
  for (const Specification::Key &key : Specification::keys()) {
    Specification s;
    EXPECT_EQ(s.set(key.name, "1"), "") << key.name.str();
    EXPECT_FALSE(key.help.empty());
  }
}

// fa2.h lists the keys where it says what fa2_compile takes.
TEST(Specification, EveryKeyIsInTheHeader) {
  std::stringstream text;
  text << std::ifstream(FA2_HEADER).rdbuf();
  std::string list = text.str();
  list = list.substr(list.find("key=value"));
  list = list.substr(0, list.find("fa2_compile("));
  for (const Specification::Key &key : Specification::keys())
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
// finds; of those kept for mbarriers some may be left.
TEST_P(Promise, SharedMemoryIsWhatWasCounted) {
  Specification spec;
  ASSERT_EQ(spec.setAll(GetParam()), "");
  std::string error;
  CompileOptions options;
  options.emit = Emit::NVVM;
  auto compiled = compile(spec, options, error);
  ASSERT_TRUE(mlir::succeeded(compiled)) << error;

  mlir::MLIRContext context;
  context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>();
  ScheduleOverrides asked;
  if (spec.partition == "split_k")
    asked.partition = Partition::SplitK;
  if (spec.stages)
    asked.stages = spec.stages;
  auto selection = selectSchedule(&context, *lookupTarget(spec.arch, error),
                                  {spec.headDim,
                                   spec.headDimV ? spec.headDimV : spec.headDim,
                                   spec.mask != "none"},
                                  asked, error);
  ASSERT_TRUE(mlir::succeeded(selection)) << error;
  const Footprint &f = selection->footprint;
  EXPECT_LE(compiled->sharedBytes, f.sharedBytes());
  EXPECT_GE(compiled->sharedBytes + f.barrierBytes, f.sharedBytes());
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
                    "head_dim=256 head_dim_v=64 arch=sm_90a"));

} // namespace
