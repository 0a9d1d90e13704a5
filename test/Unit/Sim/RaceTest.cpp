//===- RaceTest.cpp - Rules 1, 2, 7, 8, 10, 11 ----------------------------===//
//
// Each rule with a kernel that keeps it and one that breaks it.
//
//===----------------------------------------------------------------------===//

#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

// Thread t writes word t and reads word t ^ 32 after `middle`.
std::string exchange(const std::string &middle) {
  return "mov.u32 %r0, dyn;\nadd.u32 %r1, %r0, %lane;\n"
         "st.shared.u32 [%r1], %tid;\n" +
         middle +
         "\nxor.b32 %r2, %lane, 128;\nadd.u32 %r2, %r2, %r0;\n"
         "ld.shared.u32 %r3, [%r2];\nst.global.u32 [%my], %r3;";
}

Bench two() {
  Bench b;
  b.threads = 64;
  b.dynamicShared = 1024;
  return b;
}

TEST(SimRules, R1SharedRace) {
  Bench b = two();
  b.expectClean(exchange("bar.sync 0;"));
  EXPECT_EQ(b.out[0], 32u);
  b.expectRule(1, exchange("bar.warp.sync -1;"));
}

TEST(SimRules, R1LanesOfOneStore) {
  Bench b = two();
  b.threads = 32;
  b.expectRule(1, "mov.u32 %r0, dyn;\nst.shared.u32 [%r0], %tid;");
  b.expectClean("mov.u32 %r0, dyn;\nmov.u32 %r1, 5;\n"
                "st.shared.u32 [%r0], %r1;");
}

TEST(SimRules, R1HalfWordsOfOneWordAreApart) {
  Bench b = two();
  // Warp 0 writes low halves, warp 1 high halves.
  b.expectClean("mov.u32 %r0, dyn;\nand.b32 %r1, %lane, 127;\n"
                "shr.u32 %r2, %tid, 5;\nshl.b32 %r2, %r2, 1;\n"
                "add.u32 %r0, %r0, %r1;\nadd.u32 %r0, %r0, %r2;\n"
                "cvt.u16.u32 %h0, %tid;\nst.shared.u16 [%r0], %h0;\n"
                "ld.shared.u16 %h1, [%r0];");
}

TEST(SimRules, R2Barriers) {
  Bench b = two();
  b.expectClean(exchange("bar.sync 3, 64;"));
  b.expectClean(exchange("barrier.sync.aligned 3, 64;"));
  // Producer and consumer: warp 0 arrives, warp 1 syncs.
  std::string producer =
      "mov.u32 %r0, dyn;\nsetp.lt.u32 %p0, %tid, 32;\nadd.u32 %r1, %r0, "
      "%lane;\n"
      "@%p0 bra FIRST;\nbar.sync 1, 64;\nld.shared.u32 %r3, [%r1+-128];\n"
      "st.global.u32 [%my], %r3;\nbra DONE;\nFIRST:\n"
      "st.shared.u32 [%r1], %tid;\nbar.arrive 1, COUNT;\nDONE:\n";
  auto with = [&](const std::string &count) {
    std::string s = producer;
    s.replace(s.find("COUNT"), 5, count);
    return s;
  };
  b.expectClean(with("64"));
  EXPECT_EQ(b.out[33], 1u);
  b.expectCaught(with("32"));
  b.expectRule(2, "setp.lt.u32 %p0, %tid, 16;\n@%p0 bar.sync 0;\n"
                  "@!%p0 bar.sync 0;");
  b.expectRule(10, "setp.lt.u32 %p0, %tid, 32;\n@%p0 bar.sync 0;");
}

TEST(SimRules, R7LanesOfAWarp) {
  Bench b = two();
  b.threads = 32;
  // Lane 0 publishes a flag for data of all lanes.
  auto publish = [](const std::string &sync) {
    return "add.s64 %rd1, %my, 256;\nst.global.u32 [%rd1], %tid;\n" + sync +
           "\nsetp.eq.u32 %p0, %tid, 0;\nmov.u32 %r0, 1;\n"
           "@%p0 red.release.gpu.global.add.u32 [%out], %r0;";
  };
  b.expectClean(publish("bar.warp.sync -1;"));
  b.expectRule(7, publish(""));
  // A neighbour's word within the warp.
  std::string neighbour =
      "mov.u32 %r0, dyn;\nadd.u32 %r1, %r0, %lane;\nst.shared.u32 [%r1], "
      "%tid;\n"
      "SYNC\nxor.b32 %r2, %r1, 4;\nld.shared.u32 %r3, [%r2];\n"
      "st.global.u32 [%my], %r3;";
  std::string good = neighbour;
  good.replace(good.find("SYNC"), 4, "bar.warp.sync -1;");
  b.expectClean(good);
  std::string bad = neighbour;
  bad.replace(bad.find("SYNC"), 4, "");
  b.expectRule(7, bad, Severity::Warning);
}

// Block 0 writes data and sets a flag, block 1 waits for it and reads.
std::string message(const std::string &set, const std::string &get) {
  return "mov.u32 %r0, %ctaid.x;\nsetp.eq.u32 %p0, %r0, 0;\n"
         "add.s64 %rd1, %out, 1024;\nadd.s64 %rd2, %rd1, %lane64;\n"
         "setp.eq.u32 %p1, %tid, 0;\nmov.u32 %r9, 1;\n@!%p0 bra READER;\n"
         "add.u32 %r1, %tid, 7;\nst.global.u32 [%rd2], %r1;\n"
         "bar.warp.sync -1;\n@!%p1 bra END;\n" +
         set + "\nbra END;\nREADER:\n@!%p1 bra JOIN;\nSPIN:\n" + get +
         "\nsetp.ne.u32 %p2, %r2, 1;\n@%p2 bra SPIN;\nJOIN:\nbar.sync 0;\n"
         "ld.global.u32 %r3, [%rd2];\nadd.s64 %rd4, %my, 2048;\n"
         "st.global.u32 [%rd4], %r3;\nEND:";
}

TEST(SimRules, R8ReleaseAcquire) {
  Bench b;
  b.blocks = 2;
  auto run = [&](bool good, const std::string &set, const std::string &get) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      b.options.seed = seed;
      std::fill(b.out.begin(), b.out.end(), 0);
      Result r = b.run(message(set, get));
      bool found = false;
      for (const Report &report : r.reports)
        found |= report.rule == 8;
      EXPECT_EQ(found, !good) << seed << toJson(r);
      EXPECT_EQ(r.error, "");
      EXPECT_EQ(b.out[512 + 5], 12u);
    }
  };
  run(true, "st.release.gpu.global.u32 [%out], %r9;",
      "ld.acquire.gpu.global.u32 %r2, [%out];");
  run(true, "red.release.gpu.global.add.u32 [%out], %r9;",
      "ld.acquire.gpu.global.u32 %r2, [%out];");
  run(true, "fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%out], %r9;",
      "ld.relaxed.gpu.global.u32 %r2, [%out];\nfence.acq_rel.gpu;");
  run(false, "st.relaxed.gpu.global.u32 [%out], %r9;",
      "ld.acquire.gpu.global.u32 %r2, [%out];");
  run(false, "st.release.gpu.global.u32 [%out], %r9;",
      "ld.relaxed.gpu.global.u32 %r2, [%out];");
}

TEST(SimRules, R8WeakAgainstAtomic) {
  Bench b;
  b.blocks = 3;
  b.expectClean("mov.u32 %r0, 1;\nred.global.add.u32 [%out], %r0;");
  b.expectRule(8, "setp.eq.u32 %p0, %tid, 0;\nmov.u32 %r0, 1;\n"
                  "@%p0 st.global.u32 [%out], %r0;");
}

TEST(SimRules, R8Deterministic) {
  Bench b;
  b.blocks = 2;
  Launch l = b.launch("setp.eq.u32 %p0, %tid, 0;\nmov.f32 %f0, 0f3F800000;\n"
                      "@%p0 red.global.add.f32 [%out], %f0;");
  Region out = regionOf("out", b.out, true);
  Result plain = run({l}, {regionOf("in", b.in, false), out}, {});
  EXPECT_TRUE(plain.reports.empty());
  out.deterministic = true;
  Result r = run({l}, {regionOf("in", b.in, false), out}, {});
  ASSERT_EQ(r.reports.size(), 1u);
  EXPECT_EQ(r.reports[0].rule, 8u);
}

namespace {
/// Blocks add 1 to 32 words, one after the other: a counter says whose turn it
/// is. With another line in place of one of these, something is found.
struct Turns {
  std::vector<std::string> lines = {
      "mov.u32 %r0, %ctaid.x;",
      "WAIT:\nld.acquire.gpu.global.b32 %r1, [%out];",
      "setp.ne.s32 %p0, %r1, %r0;",
      "@%p0 bra WAIT;",
      "mov.f32 %f0, 0f3F800000;\n"
      "red.relaxed.gpu.global.add.f32 [%my+128], %f0;",
      "bar.warp.sync -1;",
      "setp.eq.u32 %p1, %tid, 0;\nmov.u32 %r2, 1;",
      "@%p1 red.release.gpu.global.add.u32 [%out], %r2;"};

  Result run(uint64_t seed, unsigned resident) {
    Bench b;
    b.blocks = 5;
    std::fill(b.out.begin(), b.out.end(), 0);
    std::string body;
    for (const std::string &line : lines)
      body += line + "\n";
    Launch l = b.launch(body);
    Region out = regionOf("out", b.out, true);
    out.deterministic = true;
    Options options;
    options.seed = seed;
    options.residentBlocks = resident;
    options.strict = true;
    Result r = fa2::sim::run({l}, {regionOf("in", b.in, false), out}, options);
    sum = value(b.out[32 + 31]);
    return r;
  }
  float sum = 0;
};
} // namespace

TEST(SimRules, R8Turns) {
  // Whatever order warps run in, and blocks that are resident together start.
  for (unsigned resident : {1, 2, 5})
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Turns t;
      Result r = t.run(seed, resident);
      EXPECT_TRUE(r.ok()) << toJson(r);
      EXPECT_EQ(t.sum, 5.0f);
    }
  auto finds = [](size_t line, const std::string &other, unsigned rule) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Turns t;
      t.lines[line] = other;
      Result r = t.run(seed, 0);
      bool found = false;
      for (const Report &report : r.reports)
        found |= report.rule == rule;
      EXPECT_TRUE(found) << other << ", seed " << seed << toJson(r);
      EXPECT_EQ(r.error.find("deadlock") != r.error.npos, rule == 10);
    }
  };
  finds(1, "WAIT:\nld.relaxed.gpu.global.b32 %r1, [%out];", 8);
  finds(3, "", 8);
  finds(5, "", 7);
  finds(7, "@%p1 red.relaxed.gpu.global.add.u32 [%out], %r2;", 8);
  // Nobody says that it is the next one's turn, or a turn is left out.
  finds(7, "", 10);
  finds(0, "mov.u32 %r0, %ctaid.x;\nadd.u32 %r0, %r0, 1;", 10);
}

// A block that waits for one that starts behind it stops a device that does not
// hold both.
TEST(SimRules, R10BlocksInOrder) {
  Turns t;
  t.lines[0] = "mov.u32 %r0, %ctaid.x;\nsub.u32 %r0, 4, %r0;";
  EXPECT_TRUE(t.run(1, 5).ok());
  for (unsigned resident : {1, 2, 4})
    EXPECT_NE(t.run(1, resident).error.find("deadlock"), std::string::npos);
}

TEST(SimRules, R8KernelsInOrder) {
  Bench b;
  Launch write = b.launch("st.global.u32 [%my], %tid;");
  Launch read =
      b.launch("xor.b32 %r0, %lane, 4;\ncvt.u64.u32 %rd0, %r0;\n"
               "add.s64 %rd1, %out, %rd0;\nld.global.u32 %r1, [%rd1];\n"
               "st.global.u32 [%my+1024], %r1;");
  Result r =
      run({write, read},
          {regionOf("in", b.in, false), regionOf("out", b.out, true)}, {});
  EXPECT_TRUE(r.reports.empty()) << toJson(r);
  EXPECT_EQ(b.out[256 + 2], 3u);
}

TEST(SimRules, R10Deadlock) {
  Bench b;
  std::fill(b.out.begin(), b.out.end(), 0);
  Result r = b.run("SPIN:\nld.acquire.gpu.global.u32 %r0, [%out];\n"
                   "setp.eq.u32 %p0, %r0, 0;\n@%p0 bra SPIN;");
  EXPECT_NE(r.error.find("deadlock"), std::string::npos);
  b.options.instructionBudget = 1000;
  r = b.run("SPIN:\nbra SPIN;");
  EXPECT_NE(r.error.find("budget"), std::string::npos);
}

TEST(SimRules, R11Unwritten) {
  Bench b;
  b.expectRule(11, "add.u32 %r0, %r1, 1;");
  b.expectRule(11, "mov.u32 %r0, dyn;\nadd.u32 %r0, %r0, %lane;\n"
                   "ld.shared.u32 %r1, [%r0];");
  // Exempt: false predicates and arms that are not selected.
  b.expectClean("setp.eq.u32 %p0, %tid, 99;\n@%p0 add.u32 %r0, %r1, 1;\n"
                "selp.b32 %r2, %r3, %tid, %p0;");
}

TEST(SimRules, R11Bounds) {
  Bench b;
  auto fails = [&](const std::string &body) {
    Result r = b.run(body);
    EXPECT_NE(r.error, "") << body;
    ASSERT_FALSE(r.reports.empty());
    EXPECT_EQ(r.reports.back().rule, 11u);
  };
  fails("ld.global.u32 %r0, [%in+1024];");
  fails("ld.global.u32 %r0, [%in+-4];");
  fails("st.global.u32 [%in], %tid;");  // not writable
  fails("ld.global.u32 %r0, [%in+2];"); // not aligned
  fails("mov.u32 %r0, 0;\nld.shared.u32 %r1, [%r0];");
  fails("mov.u32 %r0, dyn;\nld.shared.u32 %r1, [%r0+4096];");
  b.options.checks = false;
  Result r = b.run("ld.global.u32 %r0, [%in+1024];");
  EXPECT_NE(r.error, "");
}

TEST(SimRules, R11ElementsNotAllocation) {
  // A 2 x 3 view with row stride 5 of a buffer: columns 3 and 4 are illegal.
  Bench b;
  Region view = regionOf("view", b.in, false);
  view.shape = {2, 3};
  view.strides = {5, 1};
  Launch legal = b.launch("ld.global.u32 %r0, [%in+28];");
  Launch illegal = b.launch("ld.global.u32 %r0, [%in+12];");
  Region out = regionOf("out", b.out, true);
  EXPECT_EQ(run({legal}, {view, out}, {}).error, "");
  EXPECT_NE(run({illegal}, {view, out}, {}).error, "");
  // The same rows from the end, with a negative stride.
  view.base += 20;
  view.strides = {-5, 1};
  EXPECT_EQ(run({legal}, {view, out}, {}).error, "");
  EXPECT_NE(run({illegal}, {view, out}, {}).error, "");
}

TEST(SimRules, R11StoredOnce) {
  Bench b;
  b.out.resize(32);
  Region out = regionOf("out", b.out, true);
  out.storedOnce = true;
  out.initialised = false;
  Region in = regionOf("in", b.in, false);
  auto rules = [&](const std::string &body) {
    Result r = run({b.launch(body)}, {in, out}, {});
    std::string all;
    for (const Report &report : r.reports)
      all += report.text + "\n";
    return all;
  };
  EXPECT_EQ(rules("st.global.u32 [%my], %tid;"), "");
  EXPECT_NE(rules("setp.ne.u32 %p0, %tid, 9;\n@%p0 st.global.u32 [%my], %tid;")
                .find("1 of 32 elements of 'out' were never stored, the first "
                      "is 9"),
            std::string::npos);
  EXPECT_NE(rules("st.global.u32 [%my], %tid;\nst.global.u32 [%my], %tid;")
                .find("stored twice"),
            std::string::npos);
  EXPECT_NE(rules("ld.global.u32 %r0, [%my];\nst.global.u32 [%my], %r0;")
                .find("never written"),
            std::string::npos);
}

TEST(SimRun, RefusesBadLaunches) {
  Bench b;
  auto refused = [&](auto change, const std::string &part) {
    Launch l = b.launch("");
    change(l);
    Result r = run({l}, {}, {});
    EXPECT_NE(r.error.find(part), std::string::npos) << r.error;
  };
  refused([](Launch &l) { l.kernel = "x"; }, "no kernel");
  refused([](Launch &l) { l.grid[1] = 0; }, "grid extent 0");
  refused([](Launch &l) { l.block[0] = 64; }, ".maxntid is 32");
  refused([](Launch &l) { l.parameters.pop_back(); }, "takes 16");
  refused([](Launch &l) { l.dynamicSharedBytes = 200000; }, "166912");
  refused([](Launch &l) { l.cluster[0] = 0; }, "cluster extent 0");
  b.capability = 90;
  refused([](Launch &) {}, "sm_90");
}

} // namespace
