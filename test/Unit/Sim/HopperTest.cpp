//===- HopperTest.cpp - mbarriers, bulk copies, TMA, wgmma ----------------===//
//
// Rules 3, 4, 5, 6, 9 and 12, and the numbers of small wgmma.
//
//===----------------------------------------------------------------------===//

#include "Numerics.h"
#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

Bench bench(uint32_t threads = 64) {
  Bench b;
  b.capability = 90;
  b.threads = threads;
  b.dynamicShared = 32768;
  for (uint32_t k = 0; k < 256; ++k)
    b.in[k] = k;
  return b;
}

const char *const kWait = "W:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, "
                          "[%r1], %r2;\n@!%p5 bra W;\n";

// Thread 0 initialises an mbarrier at dyn + 2048 and loads 256 bytes to dyn;
// everyone waits for phase 0 and reads.
std::string load(const std::string &expect, const std::string &before,
                 const std::string &wait,
                 const std::string &sync = "bar.sync 0;") {
  return "mov.u32 %r0, dyn;\nadd.u32 %r1, %r0, 2048;\nmov.u32 %r2, 0;\n"
         "setp.eq.u32 %p0, %tid, 0;\nmov.u32 %r3, 1;\n"
         "@%p0 mbarrier.init.shared::cta.b64 [%r1], %r3;\n" +
         sync + "\n" + before + "@!%p0 bra WAIT;\nmov.u32 %r4, 256;\n" +
         expect +
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
         "[%r0], [%in], %r4, [%r1];\nWAIT:\n" +
         wait +
         "add.u32 %r5, %r0, %lane;\nld.shared.u32 %r6, [%r5];\n"
         "st.global.u32 [%my], %r6;";
}
const std::string kExpect =
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;\n";

TEST(SimMbarrier, BulkLoad) {
  Bench b = bench();
  b.expectClean(load(kExpect, "", kWait));
  EXPECT_EQ(b.out[63], 63u);
  b.expectRule(4, load(kExpect, "", ""));        // no wait
  b.expectRule(3, load(kExpect, "", kWait, "")); // init unordered
  // Bytes that were never expected: the phase ends early or never.
  b.expectRule(3,
               load("mbarrier.arrive.shared::cta.b64 _, [%r1];\n", "", kWait));
  b.expectRule(10, load("mov.u32 %r7, 272;\nmbarrier.arrive.expect_tx.shared::"
                        "cta.b64 _, [%r1], %r7;\n",
                        "", kWait)); // too many bytes
  // The wrong parity passes at once or hangs.
  b.expectCaught(load(kExpect, "mov.u32 %r2, 1;\n", kWait));
}

TEST(SimMbarrier, ExcessArrivalAndReuse) {
  Bench b = bench(32);
  b.expectRule(
      3, load(kExpect + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n", "", ""));
  b.expectRule(3, "mov.u32 %r0, dyn;\nmbarrier.arrive.shared::cta.b64 _, "
                  "[%r0];");
  b.expectRule(3, load(kExpect, "ld.shared.u32 %r9, [%r1];\n", kWait));
}

// Generic stores and an async access (rule 5): a bulk store of what the
// threads have written.
TEST(SimProxy, FenceBeforeBulkStore) {
  auto store = [](const std::string &fence, const std::string &wait) {
    return "mov.u32 %r0, dyn;\nadd.u32 %r5, %r0, %lane;\n"
           "st.shared.u32 [%r5], %tid;\n" +
           fence +
           "bar.sync 0;\nsetp.eq.u32 %p0, %tid, 0;\n@!%p0 bra END;\n"
           "mov.u32 %r4, 256;\n"
           "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r0], %r4;\n"
           "cp.async.bulk.commit_group;\n" +
           wait + "END:";
  };
  const char *fence = "fence.proxy.async.shared::cta;\n";
  const char *wait = "cp.async.bulk.wait_group.read 0;\n";
  Bench b = bench();
  b.expectClean(store(fence, wait));
  EXPECT_EQ(b.out[17], 17u);
  b.expectRule(5, store("", wait));
  b.expectRule(4, store(fence, ""));
}

TEST(SimProxy, ReadThenAsyncWriteIsAWarning) {
  // The threads read, a barrier, then the buffer is loaded again.
  std::string body = load(kExpect, "", kWait) +
                     "\nSYNC\nbar.sync 0;\n@!%p0 bra END;\n" + kExpect +
                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_"
                     "tx::bytes [%r0], [%in], %r4, [%r1];\n"
                     "mov.u32 %r2, 1;\nV:\nmbarrier.try_wait.parity.shared::cta"
                     ".b64 %p5, [%r1], %r2;\n@!%p5 bra V;\nEND:";
  Bench b = bench();
  std::string fenced = body;
  fenced.replace(fenced.find("SYNC"), 4, "fence.proxy.async.shared::cta;");
  b.expectClean(fenced);
  body.replace(body.find("SYNC"), 4, "");
  b.expectRule(5, body, Severity::Warning);
  b.options.strict = true;
  b.expectRule(5, body, Severity::Error);
}

// A tensor map over in[] as 8 rows of 32 words; a box of 4 rows x 8 words with
// the 32-byte swizzle, partly out of range.
TEST(SimTma, SwizzleAndOutOfRange) {
  Bench b = bench(32);
  std::string text =
      header(90) + ".extern .shared .align 1024 .b8 dyn[];\n"
                   ".visible .entry k(.param .align 64 .b8 map[128], "
                   ".param .u64 pout)\n{\n.reg .b64 %rd<8>;\n"
                   ".reg .b32 %r<16>;\n.reg .pred %p<4>;\n"
                   "mov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\n"
                   "ld.param.u64 %rd2, [pout];\nmov.u32 %r0, dyn;\n"
                   "add.u32 %r1, %r0, 1024;\nmov.u32 %r3, 1;\n"
                   "mov.u32 %r9, %tid.x;\nsetp.eq.u32 %p0, %r9, 0;\n"
                   "@%p0 mbarrier.init.shared::cta.b64 [%r1], %r3;\n"
                   "bar.warp.sync -1;\n@!%p0 bra W;\nmov.u32 %r4, 128;\n"
                   "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;\n"
                   "mov.u32 %r5, 28;\nmov.u32 %r6, 6;\n"
                   "cp.async.bulk.tensor.2d.shared::cluster.global.tile."
                   "mbarrier::complete_tx::bytes [%r0], [%rd1, {%r5, %r6}], "
                   "[%r1];\nW:\nmov.u32 %r2, 0;\n"
                   "V:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], "
                   "%r2;\n@!%p1 bra V;\nshl.b32 %r7, %r9, 2;\n"
                   "add.u32 %r8, %r0, %r7;\nld.shared.u32 %r10, [%r8];\n"
                   "cvt.u64.u32 %rd3, %r7;\nadd.s64 %rd4, %rd2, %rd3;\n"
                   "st.global.u32 [%rd4], %r10;\nret;\n}\n";
  std::vector<uint32_t> data(256 + 8);
  uint32_t *base = data.data();
  while (reinterpret_cast<uint64_t>(base) % 16)
    ++base;
  for (uint32_t k = 0; k < 256; ++k)
    base[k] = 1000 + k;
  TensorMap map;
  map.base = reinterpret_cast<uint64_t>(base);
  map.rank = 2;
  map.elementBytes = 4;
  map.swizzle = 32;
  map.box[0] = 8;
  map.box[1] = 4;
  map.dims[0] = 32;
  map.dims[1] = 8;
  map.strides[0] = 128;
  Launch l;
  l.program = parsed(text);
  ASSERT_TRUE(l.program);
  l.kernel = "k";
  l.block = {32, 1, 1};
  l.dynamicSharedBytes = 2048;
  uint64_t out = reinterpret_cast<uint64_t>(b.out.data());
  l.parameters.resize(136);
  auto go = [&] {
    std::memcpy(l.parameters.data(), &map, 128);
    std::memcpy(l.parameters.data() + 128, &out, 8);
    Region in = regionOf("in", data, false);
    in.base = map.base;
    in.shape = {256};
    Options o;
    o.capability = 90;
    return run({l}, {in, regionOf("out", b.out, true)}, o);
  };
  Result r = go();
  EXPECT_EQ(r.error, "");
  EXPECT_TRUE(r.reports.empty()) << toJson(r);
  for (uint32_t row = 0; row < 4; ++row)
    for (uint32_t c = 0; c < 8; ++c) {
      // Bit 7 of the address goes to bit 4.
      uint32_t byte = row * 32 + c * 4, at = byte ^ (byte >> 7 & 1) << 4;
      bool in = 28 + c < 32 && 6 + row < 8;
      EXPECT_EQ(b.out[at / 4], in ? 1000 + (6 + row) * 32 + 28 + c : 0u)
          << row << "," << c;
    }
  map.strides[0] = 120;
  EXPECT_NE(go().error.find("stride 120"), std::string::npos);
  map.strides[0] = 128;
  map.box[0] = 16;
  EXPECT_NE(go().error.find("wider than the swizzle"), std::string::npos);
  map.rank = 6;
  EXPECT_NE(go().error.find("rank 6"), std::string::npos);
}

// 64 x 8 x 16: A from registers (all lanes hold 1.0), B from shared memory,
// K-major with the 32-byte swizzle: row n holds n + 1 in every k.
std::string
product(const std::string &fence, const std::string &wait,
        const std::string &after = "",
        const std::string &proxy = "fence.proxy.async.shared::cta;") {
  return "mov.u32 %r0, dyn;\nsetp.lt.u32 %p0, %tid, 64;\n"
         // word t of B: row t / 8
         "shr.u32 %r1, %tid, 3;\nadd.u32 %r1, %r1, 1;\ncvt.rn.f32.u32 %f9, "
         "%r1;\ncvt.rn.bf16x2.f32 %r2, %f9, %f9;\nadd.u32 %r3, %r0, %lane;\n"
         "@%p0 st.shared.b32 [%r3], %r2;\n" +
         proxy +
         "\nbar.sync 0;\nshr.u32 %r4, %r0, 4;\ncvt.u64.u32 %rd0, %r4;\n"
         // SBO 256 bytes, swizzle 32 B (3 << 62)
         "or.b64 %rd1, %rd0, 0xC000001000000000;\n"
         "mov.u32 %r5, 0x3f803f80;\n"
         "mov.f32 %f0, 0f00000000;\nmov.f32 %f1, 0f00000000;\n"
         "mov.f32 %f2, 0f00000000;\nmov.f32 %f3, 0f3F800000;\n"
         "setp.eq.u32 %p1, 0, 0;\n" +
         fence +
         "\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
         "{%f0,%f1,%f2,%f3}, {%r5,%r5,%r5,%r5}, %rd1, %p1, 1, 1, 0;\n"
         "wgmma.commit_group.sync.aligned;\n" +
         after + wait +
         "\nadd.s64 %rd5, %my, %lane64;\nadd.s64 %rd5, %rd5, %lane64;\n"
         "add.s64 %rd5, %rd5, %lane64;\n"
         "st.global.v4.f32 [%rd5], {%f0,%f1,%f2,%f3};";
}
const char *const kFence = "wgmma.fence.sync.aligned;";
const char *const kWait0 = "wgmma.wait_group.sync.aligned 0;";

TEST(SimWgmma, Numbers) {
  Bench b = bench(128);
  b.expectClean(product(kFence, kWait0));
  for (uint32_t t = 0; t < 128; ++t)
    for (uint32_t j = 0; j < 4; ++j) {
      uint32_t n = 2 * (t % 4) + j % 2;
      EXPECT_EQ(value(b.out[4 * t + j]), 16.0f * float(n + 1) + (j == 3));
    }
}

TEST(SimWgmma, R6Registers) {
  Bench b = bench(128);
  b.expectRule(6, product("", kWait0));
  b.expectRule(6, product(kFence, ""));
  b.expectRule(6, product(kFence, "wgmma.wait_group.sync.aligned 1;"));
  b.expectRule(6, product(kFence, kWait0, "mov.u32 %r5, 0;\n"));
  b.expectRule(6, product(kFence, kWait0, "mov.u32 %r7, %r5;\n"),
               Severity::Warning);
  b.expectRule(5, product(kFence, kWait0, "", ""));
}

TEST(SimWgmma, R6FirstFence) {
  // No register was accessed before, but the first product needs a fence.
  auto body = [](const std::string &fence) {
    return "mov.u32 %r0, dyn;\nmov.u32 %r1, 0;\nshl.b32 %r2, %tid, 4;\n"
           "add.u32 %r2, %r2, %r0;\n"
           "st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\n"
           "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
           "shr.u32 %r4, %r0, 4;\ncvt.u64.u32 %rd0, %r4;\n"
           "or.b64 %rd1, %rd0, 0xC000001000000000;\n"
           "setp.ne.u32 %p1, 0, 0;\n" +
           fence +
           "\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
           "{%f0,%f1,%f2,%f3}, %rd1, %rd1, %p1, 1, 1, 0, 0;\n"
           "wgmma.commit_group.sync.aligned;\n"
           "wgmma.wait_group.sync.aligned 0;\nst.global.f32 [%my], %f3;";
  };
  Bench b = bench(128);
  b.expectClean(body(kFence));
  EXPECT_EQ(value(b.out[100]), 0.0f);
  b.expectRule(6, body(""));
}

TEST(SimWgmma, R4OverwriteInFlight) {
  Bench b = bench(128);
  // The tile is overwritten by generic stores before and after the wait.
  std::string overwrite = "@%p0 st.shared.b32 [%r3], %r5;\n";
  b.expectRule(4, product(kFence, kWait0, overwrite));
  std::string afterWait = std::string(kWait0) + "\nbar.sync 0;\n" + overwrite;
  b.expectClean(product(kFence, afterWait));
}

TEST(SimWgmma, R6Aligned) {
  Bench b = bench(128);
  // Warp 0 waits elsewhere, if with an equal count.
  b.expectRule(6, product(kFence, "setp.lt.u32 %p2, %tid, 32;\n@%p2 bra X;\n"
                                  "wgmma.wait_group.sync.aligned 0;\nbra Y;\n"
                                  "X:\nwgmma.wait_group.sync.aligned 0;\nY:"));
  b.expectRule(6, product("setp.lt.u32 %p2, %tid, 32;\n@%p2 bra X;\n"
                          "wgmma.fence.sync.aligned;\nbra Y;\n"
                          "X:\nwgmma.fence.sync.aligned;\nY:",
                          kWait0));
}

TEST(SimSetmaxnreg, R12Budget) {
  auto body = [](const std::string &inc, const std::string &dec) {
    return "setp.lt.u32 %p0, %tid, 128;\n@%p0 bra A;\n"
           "setmaxnreg.inc.sync.aligned.u32 " +
           inc + ";\nbra B;\nA:\nsetmaxnreg.dec.sync.aligned.u32 " + dec +
           ";\nB:";
  };
  Bench b = bench(384); // 168 registers a thread at entry
  b.expectClean(body("240", "24"));
  b.expectRule(12, body("248", "24"));
}

// Kernels of a list, of which all but the first are launched programmatically.
struct Chain {
  static constexpr const char *kAddress =
      "mov.u32 %r0, %ctaid.x;\nshl.b32 %r1, %r0, 7;\n"
      "cvt.u64.u32 %rd0, %r1;\nadd.s64 %rd1, %my, %rd0;\n";
  static std::string store(const std::string &value, unsigned at = 0) {
    return kAddress + ("st.global.u32 [%rd1+" + std::to_string(at)) + "], " +
           value + ";\n";
  }
  static std::string load(unsigned at = 0) {
    return kAddress + ("ld.global.u32 %r2, [%rd1+" + std::to_string(at)) +
           "];\n";
  }

  Result run(const std::vector<std::string> &bodies, uint64_t seed,
             bool programmatic = true) {
    bench.capability = 90;
    bench.threads = 32;
    bench.blocks = 4;
    std::vector<Launch> launches;
    for (const std::string &body : bodies) {
      launches.push_back(bench.launch(body));
      launches.back().programmatic = programmatic && launches.size() > 1;
    }
    Options o;
    o.capability = 90;
    o.seed = seed;
    o.residentBlocks = 16;
    return fa2::sim::run(
        launches,
        {regionOf("in", bench.in, false), regionOf("out", bench.out, true)}, o);
  }
  /// The same reports of rule 9 and of no other under every seed.
  void expect(const std::vector<std::string> &bodies, const char *text) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Result r = run(bodies, seed);
      EXPECT_EQ(r.error, "");
      ASSERT_FALSE(r.reports.empty()) << "seed " << seed;
      for (const Report &report : r.reports)
        EXPECT_EQ(report.rule, 9u) << toString(report);
      EXPECT_NE(toJson(r).find(text), std::string::npos) << toJson(r);
    }
  }
  void expectClean(const std::vector<std::string> &bodies) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Result r = run(bodies, seed);
      EXPECT_EQ(r.error, "");
      EXPECT_TRUE(r.reports.empty()) << toJson(r);
    }
  }
  Bench bench;
};
const std::string kLaunchNext = "griddepcontrol.launch_dependents;\n",
                  kGridWait = "griddepcontrol.wait;\n";

TEST(SimGrid, R9DependentLaunch) {
  Chain c;
  std::string copy = Chain::load() + Chain::store("%r2", 4096);
  c.expectClean({kLaunchNext + Chain::store("%tid"), kGridWait + copy});
  EXPECT_EQ(c.bench.out[1024 + 3 * 32 + 9], 9u);
  c.expectClean({Chain::store("%tid"), kGridWait + copy}); // as each block ends
  c.expect({kLaunchNext + Chain::store("%tid"), copy + kGridWait},
           "read of 'out' before griddepcontrol.wait, after a write by");
  // An ordinary launch has nothing to wait for.
  Result r = c.run({kLaunchNext + Chain::store("%tid"), copy}, 1, false);
  EXPECT_TRUE(r.reports.empty()) << toJson(r);
}

TEST(SimGrid, R9WritesBeforeTheWait) {
  Chain c;
  // What a kernel before reads, and what one before writes, weakly or not.
  c.expect({kLaunchNext + Chain::load() + Chain::store("%r2", 4096),
            Chain::store("%tid") + kGridWait},
           "write of 'out' ");
  std::string add =
      Chain::kAddress + std::string("red.relaxed.gpu.global.add.u32 [%rd1], "
                                    "1;\n");
  c.expectClean({kLaunchNext + add, kGridWait + add});
  c.expect({kLaunchNext + add, add + kGridWait}, "write of 'out' ");
}

TEST(SimGrid, R9EveryKernelOfAChainWaits) {
  Chain c;
  std::string third = Chain::load() + Chain::store("%r2", 4096);
  std::vector<std::string> good{
      kLaunchNext + Chain::store("%tid"),
      kLaunchNext + Chain::store("%tid", 2048) + kGridWait, kGridWait + third};
  c.expectClean(good);
  // Its own results depend on nothing, but the third kernel waits for it alone.
  c.expect({good[0], kLaunchNext + Chain::store("%tid", 2048), good[2]},
           "none of its threads has waited");
  // One thread's wait is the block's.
  c.expectClean({good[0],
                 kLaunchNext + Chain::store("%tid", 2048) +
                     "setp.eq.u32 %p0, %tid, 0;\n@%p0 griddepcontrol.wait;\n",
                 good[2]});
  // Nor is a read-only load behind the wait one of what that kernel wrote: the
  // line may have been cached before.
  std::string readOnly = third;
  readOnly.replace(readOnly.find("ld.global"), 9, "ld.global.nc");
  c.expect({good[0], good[1], kGridWait + readOnly}, "ld.global.nc of 'out'");
  Result ordinary = c.run({good[0], good[1], readOnly}, 1, false);
  EXPECT_TRUE(ordinary.reports.empty()) << toJson(ordinary);
  // What lies two kernels back is not over either.
  c.expect({good[0], good[1], third + kGridWait}, "before griddepcontrol.wait");
}

} // namespace
