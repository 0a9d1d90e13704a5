//===- VariantsTest.cpp - schedules where a guard holds -------------------===//

#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

using namespace fa2;

namespace {

struct Variants : testing::Test {
  Variants() { context.loadDialect<FA2Dialect, gpu::FA2GPUDialect>(); }
  const Target &target(llvm::StringRef name) {
    return *lookupTarget(name, error);
  }
  mlir::FailureOr<llvm::SmallVector<VariantAttr>>
  variants(const Target &t, Problem p, llvm::StringRef text = "",
           ScheduleOverrides asked = {}) {
    auto selection = selectSchedule(&context, t, p, asked, error);
    EXPECT_TRUE(mlir::succeeded(selection)) << error;
    auto chosen = selectVariants(&context, t, p, text, *selection, error);
    main = selection->schedule;
    warnings = selection->warnings;
    return chosen;
  }
  std::string refused(llvm::StringRef text) {
    EXPECT_TRUE(mlir::failed(variants(target("sm_90a"), {64, 64}, text)));
    return error;
  }
  mlir::MLIRContext context;
  std::string error;
  ScheduleAttr main;
  std::vector<std::string> warnings;
};

// What the tables hold fits, and differs from the main schedule.
TEST_F(Variants, OfTheTablesFit) {
  size_t found = 0;
  for (const Target *t : allTargets())
    for (int64_t d = 8; d <= 256; d += 8)
      for (int64_t dv = 8; dv <= 256; dv += 8)
        for (bool masked : {false, true}) {
          auto list = variants(*t, {d, dv, masked});
          ASSERT_TRUE(mlir::succeeded(list))
              << t->name().str() << " " << d << " " << dv << ": " << error;
          EXPECT_TRUE(warnings.empty()) << t->name().str() << " " << d << " "
                                        << dv << ": " << warnings[0];
          found += list->size();
          for (VariantAttr v : *list)
            EXPECT_NE(v.getSchedule(), main);
        }
  EXPECT_GT(found, 0u);
}

// A row's variants were measured on one target; they are left out on another
// that has no room for them.
TEST_F(Variants, OfBackwardsRowsFitOrAreLeftOut) {
  size_t found = 0, most = 0;
  for (const Target *t : allTargets()) {
    size_t own = 0;
    for (int64_t d = 8; d <= 256; d += 8)
      for (bool masked : {false, true}) {
        Problem problem{d, d, masked, /*backward=*/true, /*maxSlack=*/60};
        auto list = variants(*t, problem);
        ASSERT_TRUE(mlir::succeeded(list))
            << t->name().str() << " " << d << ": " << error;
        EXPECT_TRUE(warnings.empty())
            << t->name().str() << " " << d << ": " << warnings[0];
        for (VariantAttr v : *list)
          EXPECT_NE(v.getSchedule(), main);
        own += list->size();
      }
    found += own;
    most = std::max(most, own);
  }
  EXPECT_GT(found, 0u);
  EXPECT_LT(found, most * allTargets().size());
}

// One kernel where somebody asked for a field, for none, or for others.
TEST_F(Variants, OfTheTableOnlyWhereNothingIsAsked) {
  const Target &t = target("sm_90a");
  EXPECT_FALSE(variants(t, {128, 128, true})->empty());
  EXPECT_TRUE(variants(t, {128, 128, true}, "none")->empty());
  ScheduleOverrides asked;
  asked.stages = 2;
  EXPECT_TRUE(variants(t, {128, 128, true}, "", asked)->empty());
  asked = {};
  asked.overlap = true;
  EXPECT_TRUE(variants(t, {128, 128, true}, "", asked)->empty());
}

TEST_F(Variants, AreTheMainScheduleWithFieldsInPlace) {
  ScheduleOverrides asked;
  asked.lazyRescale = 3;
  auto list = variants(target("sm_90a"), {64, 64, /*masked=*/true},
                       " seqlen_k <= 100: block-q=128, warps=8,block_kv=64 ; "
                       "max(seqlen_q, heads) > 7 : ping_pong=1",
                       asked);
  ASSERT_TRUE(mlir::succeeded(list)) << error;
  ASSERT_EQ(list->size(), 2u);
  ScheduleAttr a = (*list)[0].getSchedule(), b = (*list)[1].getSchedule();
  EXPECT_EQ((*list)[0].getWhen().getExpression(), "seqlen_k <= 100");
  EXPECT_EQ(a.getBlockQ(), 128);
  EXPECT_EQ(a.getBlockKv(), 64);
  EXPECT_EQ(a.getWarps(), 8);
  EXPECT_EQ(a.getLazyRescale(), 3);
  EXPECT_EQ(a.getGroupLimits(), main.getGroupLimits());
  EXPECT_EQ((*list)[1].getWhen().getExpression(), "max(seqlen_q, heads) > 7");
  EXPECT_EQ(b.getBlockQ(), main.getBlockQ());
  EXPECT_TRUE(main.getGroupLimits());
  EXPECT_TRUE(b.getPingPong() && b.getGroupLimits());
}

TEST_F(Variants, AreRefusedByName) {
  std::string form =
      "expected variants to be 'guard: name=value,...' or 'guard: after rows: "
      "name=value,...', separated by ';', or none, got '";
  EXPECT_EQ(refused("seqlen_k <= 100"), form + "seqlen_k <= 100'");
  EXPECT_EQ(refused("seqlen_k <= 100:"), form + "seqlen_k <= 100:'");
  EXPECT_EQ(refused("seqlen_k < 9: stages=1;"), form + "'");
  EXPECT_EQ(refused("seqlen_k < 9: stages"),
            "expected variants to be name=value,..., got 'stages'");
  EXPECT_EQ(refused("seqlen_k < 9: slots=1")
                .rfind("unknown schedule field 'slots'; the nearest is ", 0),
            0u)
      << error;
  EXPECT_EQ(refused("seqlen_k < 9: stages=5"),
            "where seqlen_k < 9: expected stages to be 1 to 4, got 5");
  EXPECT_EQ(
      refused("seqlen_k < 9: warps=2")
          .rfind("where seqlen_k < 9: expected warps to be a multiple of 4 and "
                 "block_q to be 16 * warps",
                 0),
      0u)
      << error;
}

// The batch may choose how many rows a block takes, not what a row's bits are.
TEST_F(Variants, OfABatchAreOfOneClassOfBits) {
  std::string because = " reads batch, but its schedule and one after it "
                        "differ in block_kv, and so in bits: a sequence gets "
                        "the same bits in every batch";
  EXPECT_EQ(refused("batch > 1: block_kv=64"), "guard 'batch > 1'" + because);
  // The next variant, or the schedule where no guard holds.
  EXPECT_EQ(refused("batch > 1: block_q=64; seqlen_k < 9: block_kv=64"),
            "guard 'batch > 1'" + because);
  EXPECT_EQ(refused("seqlen_k < 9 && batch > 1: block_kv=64,block_q=64; "
                    "heads > 1: block_kv=64"),
            "guard 'seqlen_k < 9 && batch > 1'" + because);
  // Not what follows a guard that is part of its own.
  for (const char *good :
       {"batch > 1: block_q=64,stages=2,query_slots=1,ping_pong=0",
        "seqlen_k < 9: block_kv=64; batch > 1: block_q=128",
        "seqlen_k < 9 && batch > 1: block_kv=64,block_q=64; "
        "seqlen_k < 9: block_kv=64",
        "batch * 2 > 1 && (heads > 1 && heads < 9) && seqlen_k < 9: "
        "block_kv=64; (heads > 1 && heads < 9): block_kv=64; "
        "batch > 1: block_q=64"})
    EXPECT_TRUE(mlir::succeeded(variants(target("sm_90a"), {64, 64}, good)))
        << good << ": " << error;
}

// The grammar of docs/manifest.md, and names that may choose a kernel.
TEST_F(Variants, Guards) {
  auto wrong = [&](llvm::StringRef guard) {
    return refused((guard + ": stages=1").str());
  };
  for (const char *good :
       {"1", "seqlen_q<=seqlen_k", "!(seqlen_k > 7) || - 3 == heads % 2",
        "max(seqlen_q, min(heads, heads_kv)) != 3 && pow2floor(heads) >= 2",
        "if(seqlen_q > 1, ceildiv(seqlen_k, 64) * 2, 0)",
        "device.multiprocessors / 2 > 60", "!!heads", "(((seqlen_k)))"})
    EXPECT_TRUE(mlir::succeeded(
        variants(target("sm_90a"), {64, 64}, std::string(good) + ": stages=1")))
        << good << ": " << error;

  EXPECT_EQ(wrong("seqlen_k <= 1024 && seqlen > 1"),
            "guard 'seqlen_k <= 1024 && seqlen > 1': unknown name 'seqlen' "
            "(known: batch, seqlen_q, seqlen_k, heads, heads_kv, "
            "device.multiprocessors, device.l2_bytes, "
            "device.shared_bytes_per_block, device.compute_capability) at "
            "column 21");
  for (auto [guard, says] :
       {std::pair{"", "expected a value, got the end at column 1"},
        {"seqlen_k <", "expected a value, got the end at column 11"},
        {"seqlen_k <= 1 <= 2", "unexpected '<' at column 15"},
        {"seqlen_k seqlen_q", "unexpected 's' at column 10"},
        {"(seqlen_k > 1", "expected ')' at column 14"},
        {"seqlen_k & 1", "unexpected '&' at column 10"},
        {"seqlen_k = 1", "unexpected '=' at column 10"},
        {"*", "expected a value, got '*' at column 1"},
        {"!= 3", "expected a value, got '!' at column 1"},
        {"max(1) > 0", "expected ',' at column 6"},
        {"min(1, 2, 3)", "expected ')' at column 9"},
        {"abs(1)", "unknown function 'abs' (known: min, max, ceildiv, "
                   "pow2floor, if) at column 1"},
        {"9223372036854775808", "an integer beyond 2^63 - 1 at column 1"}})
    EXPECT_NE(wrong(guard).find(std::string("guard '") + guard + "': " + says),
              std::string::npos)
        << error;
  EXPECT_EQ(wrong("q.stride[0] > 1"),
            "expected a guard of a variant to read no strides, addresses or "
            "extents of arguments, got "
            "'q.stride[0] > 1'");
  EXPECT_NE(wrong(std::string(200, '(')).find("nested deeper than 100 levels"),
            std::string::npos)
      << error;
}

} // namespace
