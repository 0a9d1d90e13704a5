//===- AsyncTest.cpp - cp.async and rule 4 --------------------------------===//

#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

// Every thread copies 16 bytes and reads the next thread's after `wait`.
std::string copy(const std::string &extra, const std::string &wait) {
  return "mov.u32 %r0, dyn;\nshl.b32 %r1, %tid, 4;\nadd.u32 %r2, %r0, %r1;\n"
         "cvt.u64.u32 %rd0, %r1;\nadd.s64 %rd1, %in, %rd0;\n"
         "cp.async.cg.shared.global [%r2], [%rd1], 16" +
         extra + ";\n" + wait +
         "\nadd.u32 %r3, %r1, 16;\nand.b32 %r3, %r3, 1023;\n"
         "add.u32 %r3, %r3, %r0;\nld.shared.v4.b32 {%r4,%r5,%r6,%r7}, [%r3];\n"
         "add.u32 %r4, %r4, %r7;\nst.global.u32 [%my], %r4;";
}

Bench bench() {
  Bench b;
  b.threads = 64;
  b.dynamicShared = 2048;
  for (uint32_t k = 0; k < 256; ++k)
    b.in[k] = k;
  return b;
}

TEST(SimAsync, WaitAndBarrier) {
  Bench b = bench();
  b.expectClean(copy("", "cp.async.commit_group;\ncp.async.wait_group 0;\n"
                         "bar.sync 0;"));
  EXPECT_EQ(b.out[2], 12u + 15u);
  b.expectClean(copy("", "cp.async.wait_all;\nbar.sync 0;"));
  b.expectRule(4, copy("", "cp.async.commit_group;\ncp.async.wait_group 1;\n"
                           "bar.sync 0;"));
  b.expectRule(4, copy("", "cp.async.wait_group 0;\nbar.sync 0;"));
  b.expectRule(4, copy("", "bar.sync 0;\ncp.async.wait_all;"));
}

TEST(SimAsync, WaitCoversOnlyOwnLane) {
  Bench b = bench();
  b.threads = 32;
  std::string noBarrier = copy("", "cp.async.wait_all;");
  // Lane 31 reads what nobody wrote: let it read lane 0's.
  size_t at = noBarrier.find("1023");
  noBarrier.replace(at, 4, "511");
  b.expectRule(7, noBarrier, Severity::Warning);
}

// What each wait completes, and a digest that tells whether a commit matters.
TEST(SimAsync, TraceOfWaits) {
  Bench b = bench();
  b.options.traceWaits = true;
  auto traced = [&](const std::string &commit, const std::string &count) {
    Result r =
        b.run(copy("", commit +
                           "cp.async.commit_group;\n"
                           "cp.async.wait_group " +
                           count + ";\nbar.sync 0;\ncp.async.wait_all;"));
    std::vector<WaitTrace> waits;
    for (const auto &[line, trace] : r.waits)
      waits.push_back(trace);
    return waits;
  };
  auto plain = traced("", "0"), empty = traced("cp.async.commit_group;\n", "0"),
       weak = traced("", "1");
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[0].executions, 2u); // two warps
  EXPECT_EQ(plain[0].completed, 64u);
  EXPECT_EQ(plain[1].completed, 0u);
  EXPECT_EQ(plain[0].digest, empty[0].digest);
  EXPECT_EQ(weak[0].completed, 0u);
  EXPECT_EQ(weak[1].completed, 64u);
  EXPECT_NE(plain[0].digest, weak[0].digest);
  EXPECT_EQ(plain[1].digest, weak[1].digest);
}

TEST(SimAsync, SourceSizeFillsWithZero) {
  Bench b = bench();
  b.expectClean(copy(", %r9", "cp.async.wait_all;\nbar.sync 0;")
                    .insert(0, "mov.u32 %r9, 4;\n"));
  EXPECT_EQ(b.out[2], 12u); // word 0 copied, word 3 zero
  // Size 0 touches no source byte, even beyond the tensor.
  b.expectClean("mov.u32 %r0, dyn;\nmov.u32 %r9, 0;\n"
                "shl.b32 %r1, %tid, 4;\nadd.u32 %r0, %r0, %r1;\n"
                "cp.async.ca.shared.global [%r0], [%in+65536], 16, %r9;\n"
                "cp.async.wait_all;\nld.shared.u32 %r2, [%r0];\n"
                "st.global.u32 [%my], %r2;");
  EXPECT_EQ(b.out[40], 0u);
}

TEST(SimAsync, Alignment) {
  Bench b = bench();
  Result r = b.run("mov.u32 %r0, dyn;\n"
                   "cp.async.ca.shared.global [%r0+4], [%in], 16;");
  EXPECT_NE(r.error, "");
  r = b.run("mov.u32 %r0, dyn;\nadd.s64 %rd0, %in, 1016;\n"
            "cp.async.cg.shared.global [%r0], [%rd0], 16;");
  EXPECT_NE(r.error, "");
}

// A ring of two stages: overwriting a stage that others still read.
TEST(SimAsync, OverwriteWithoutBarrier) {
  auto loop = [](const std::string &barrier) {
    return "mov.u32 %r0, dyn;\nmov.u32 %r10, 0;\nshl.b32 %r1, %tid, 4;\n"
           "add.u32 %r2, %r0, %r1;\nxor.b32 %r3, %r1, 512;\n"
           "add.u32 %r3, %r3, %r0;\ncvt.u64.u32 %rd0, %r1;\n"
           "add.s64 %rd1, %in, %rd0;\nmov.u32 %r11, 0;\nL:\n"
           "cp.async.cg.shared.global [%r2], [%rd1], 16;\n"
           "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\n"
           "ld.shared.u32 %r4, [%r3];\nadd.u32 %r11, %r11, %r4;\n" +
           barrier +
           "\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p0, %r10, 4;\n@%p0 bra L;\n"
           "st.global.u32 [%my], %r11;";
  };
  Bench b = bench();
  b.expectClean(loop("bar.sync 0;"));
  b.expectRule(4, loop(""));
}

TEST(SimAsync, ExitWithPendingGroup) {
  Bench b = bench();
  b.expectRule(4, "mov.u32 %r0, dyn;\nshl.b32 %r1, %tid, 4;\n"
                  "add.u32 %r0, %r0, %r1;\n"
                  "cp.async.ca.shared.global [%r0], [%in], 16;\n"
                  "cp.async.commit_group;");
}

} // namespace
