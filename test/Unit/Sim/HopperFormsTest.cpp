//===- HopperFormsTest.cpp - sm_90a instructions as the compiler writes them
//-===//
//
// The spellings that LLVM 22 prints for NVVM operations, and the uses that the
// persistent, warp-specialised kernels make of them.
//
//===----------------------------------------------------------------------===//

#include "SimTest.h"

#include <array>
#include <numeric>

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

Bench bench(uint32_t threads) {
  Bench b;
  b.capability = 90;
  b.threads = threads;
  b.dynamicShared = 8192;
  std::iota(b.in.begin(), b.in.end(), 1000u);
  return b;
}

// nvvm.mbarrier.try_wait.parity: a loop in inline assembly, whose labels and
// predicate are local to its braces.
std::string tryWait(const std::string &parity) {
  return "{\n\t.reg .pred       P1; \n\tLAB_WAIT: \n\t"
         "mbarrier.try_wait.parity.shared.b64 P1, [%r1], " +
         parity +
         ", 10000000; \n\t@P1 bra.uni DONE; \n\tbra.uni     LAB_WAIT; \n\t"
         "DONE: \n\t}\n";
}

// An elected lane loads twice through one mbarrier; all wait for both phases.
std::string twoPhases(const std::string &secondParity) {
  std::string arm =
      "not.pred %p2, %p1;\n@%p2 bra SKIP#;\n"
      "mbarrier.arrive.expect_tx.shared.b64 %rd4, [dyn+2048], %r4;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%rd7+512], [%rd8+-64], %r4, [dyn+2048];\nSKIP#:\n";
  auto numbered = [&](const char *n) {
    std::string s = arm;
    for (size_t at; (at = s.find('#')) != s.npos;)
      s.replace(at, 1, n);
    return s;
  };
  std::string read = "ld.shared.u32 %r6, [%r5+512];\n";
  return "mov.b64 %rd5, dyn;\nmov.u32 %r0, dyn;\nadd.u32 %r1, %r0, 2048;\n"
         "cvta.shared.u64 %rd6, %rd5;\ncvta.to.shared::cluster.u64 %rd7, "
         "%rd6;\n"
         "mov.b32 %r3, 1;\nmov.b32 %r4, 256;\nadd.u32 %r5, %r0, %lane;\n"
         "setp.eq.u32 %p0, %tid, 0;\n"
         "@%p0 mbarrier.init.shared.b64 [dyn+2048], %r3;\n"
         "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
         "elect.sync %r9|%p1, -1;\nsetp.lt.u32 %p3, %tid, 32;\n"
         "and.pred %p1, %p1, %p3;\nadd.s64 %rd8, %in, 64;\n" +
         numbered("1") + tryWait("0") + read +
         "st.global.u32 [%my], %r6;\nfence.proxy.async.shared::cta;\n"
         "bar.sync 0;\nadd.s64 %rd8, %in, 320;\n" +
         numbered("2") + tryWait(secondParity) + read +
         "st.global.u32 [%my+4096], %r6;";
}

TEST(SimForms, WaitsInInlineAssembly) {
  Bench b = bench(64);
  b.expectClean(twoPhases("1"));
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(b.out[t], 1000 + t);
    EXPECT_EQ(b.out[1024 + t], 1064 + t);
  }
  b.expectCaught(twoPhases("0")); // that phase is over: nothing is waited for
}

TEST(SimForms, TryWaitByState) {
  // nvvm.mbarrier.arrive gives the state that a wait takes.
  auto body = [](const std::string &wait) {
    return "mov.u32 %r0, dyn;\nmov.b32 %r3, 64;\nsetp.eq.u32 %p0, %tid, 0;\n"
           "@%p0 mbarrier.init.shared.b64 [dyn+2048], %r3;\nbar.sync 0;\n"
           "add.u32 %r5, %r0, %lane;\nst.shared.u32 [%r5], %tid;\n"
           "mbarrier.arrive.release.cta.shared::cta.b64 %rd0, [dyn+2048];\n" +
           wait +
           "xor.b32 %r6, %lane, 128;\nadd.u32 %r6, %r6, %r0;\n"
           "ld.shared.u32 %r7, [%r6];\nst.global.u32 [%my], %r7;";
  };
  Bench b = bench(64);
  for (const char *form : {"try_wait", "try_wait.acquire.cta", "test_wait"}) {
    std::string space = std::string(form).find("cta") == std::string::npos
                            ? ".shared.b64"
                            : ".shared::cta.b64";
    b.expectClean(body("W:\nmbarrier." + std::string(form) + space +
                       " %p5, [dyn+2048], %rd0;\n@!%p5 bra W;\n"));
    EXPECT_EQ(b.out[5], 37u);
    EXPECT_EQ(b.out[60], 28u);
  }
  b.expectCaught(body(""));
}

TEST(SimForms, ElectsOneLane) {
  Bench b = bench(64);
  b.expectClean("elect.sync %r0|%p0, -1;\nselp.u32 %r1, 1, 0, %p0;\n"
                "st.global.u32 [%my], %r1;\nst.global.u32 [%my+1024], %r0;");
  for (uint32_t warp = 0; warp < 2; ++warp) {
    const uint32_t *elected = &b.out[warp * 32],
                   *leader = &b.out[256 + warp * 32];
    EXPECT_EQ(std::accumulate(elected, elected + 32, 0u), 1u);
    for (uint32_t l = 0; l < 32; ++l) {
      EXPECT_EQ(leader[l], leader[0]);
      EXPECT_EQ(elected[l], uint32_t(l == leader[0]));
    }
  }
  // The upper half of a warp, and without the lane's number.
  b.expectClean("and.b32 %r2, %tid, 16;\nsetp.ne.u32 %p1, %r2, 0;\n"
                "mov.u32 %r1, 0;\n@!%p1 bra END;\n"
                "elect.sync _|%p0, 0xffff0000;\nselp.u32 %r1, 1, 0, %p0;\n"
                "END:\nst.global.u32 [%my], %r1;");
  EXPECT_EQ(std::accumulate(&b.out[0], &b.out[16], 0u), 0u);
  EXPECT_EQ(std::accumulate(&b.out[16], &b.out[32], 0u), 1u);
}

TEST(SimForms, Stmatrix) {
  // Register i of lane l is the pair (100 i + 2 l, 100 i + 2 l + 1); rows of
  // 16 bytes lie 128 apart, so that matrix i is at columns 8 i.
  for (unsigned count : {1u, 2u, 4u})
    for (bool transposed : {false, true}) {
      Bench b = bench(32);
      std::string make, list;
      for (unsigned i = 0; i < count; ++i) {
        std::string r = "%r" + std::to_string(10 + i);
        make += "mad.lo.u32 " + r + ", %tid, 0x20002, " +
                std::to_string(0x10000 + 100 * i * 0x10001) + ";\n";
        list += (i ? ", " : "") + r;
      }
      b.expectClean(
          "mov.u32 %r0, dyn;\n"
          // zeros first: rows that are not stored are read too
          "mov.u32 %r9, 0;\nshl.b32 %r1, %tid, 5;\nadd.u32 %r1, %r1, %r0;\n"
          "st.shared.v4.u32 [%r1], {%r9, %r9, %r9, %r9};\n"
          "st.shared.v4.u32 [%r1+16], {%r9, %r9, %r9, %r9};\n"
          "bar.warp.sync -1;\n" +
          make +
          "and.b32 %r2, %tid, 7;\nshl.b32 %r2, %r2, 7;\nshr.u32 %r3, %tid, 3;\n"
          "shl.b32 %r3, %r3, 4;\nadd.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r0;"
          "\nstmatrix.sync.aligned.m8n8.x" +
          std::to_string(count) + (transposed ? ".trans" : "") +
          ".shared.b16 [%r2], {" + list +
          "};\nbar.warp.sync -1;\n"
          "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];\n"
          "mul.wide.u32 %rd0, %tid, 32;\nadd.s64 %rd1, %out, %rd0;\n"
          "st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};\n"
          "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1+16];\n"
          "st.global.v4.u32 [%rd1+16], {%r4, %r5, %r6, %r7};");
      for (unsigned row = 0; row < 8; ++row)
        for (unsigned column = 0; column < 64; ++column) {
          unsigned i = column / 8, c = column % 8;
          // Lane l holds row l / 4, columns 2 (l % 4) and the next.
          unsigned r = transposed ? c : row, k = transposed ? row : c;
          unsigned expected =
              i < count ? 100 * i + 2 * (4 * r + k / 2) + k % 2 : 0;
          EXPECT_EQ(b.out[row * 32 + column / 2] >> 16 * (column % 2) & 0xffff,
                    expected)
              << count << transposed << " row " << row << " column " << column;
        }
    }
}

// Two consumer warpgroups take turns: each waits at a barrier of its own
// number, kept in a register, and opens the other's.
TEST(SimForms, BarriersByRegister) {
  auto body = [](const std::string &open) {
    return "mov.u32 %r0, dyn;\nshr.u32 %r1, %tid, 7;\nadd.u32 %r2, %r1, 2;\n"
           "mov.u32 %r3, 5;\nsub.u32 %r3, %r3, %r2;\nmov.u32 %r4, 256;\n"
           "and.b32 %r5, %tid, 127;\nshl.b32 %r5, %r5, 2;\n"
           "add.u32 %r5, %r5, %r0;\nsetp.eq.u32 %p0, %r1, 0;\n"
           "mov.u32 %r7, 0;\n"
           // The first warpgroup begins.
           "@%p0 bra TURN;\nbar.arrive 2, 256;\nTURN:\nbar.sync %r2, %r4;\n"
           "setp.eq.u32 %p1, %r7, 0;\nand.pred %p1, %p1, %p0;\n"
           "mov.u32 %r8, 0;\n@%p1 bra WRITE;\nld.shared.u32 %r8, [%r5];\n"
           "WRITE:\nadd.u32 %r8, %r8, 1;\nst.shared.u32 [%r5], %r8;\n" +
           open +
           "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p2, %r7, 3;\n@%p2 bra TURN;\n"
           "st.global.u32 [%my], %r8;";
  };
  Bench b = bench(256);
  b.expectClean(body("bar.arrive %r3, %r4;\n"));
  for (uint32_t t = 0; t < 256; ++t)
    EXPECT_EQ(b.out[t], t < 128 ? 5u : 6u) << t;
  b.expectCaught(body("bar.arrive %r3, 128;\n"));
  b.expectCaught(body(""));
}

// A producer writes a tile's number with volatile accesses; the mbarrier, not
// their being volatile, is what orders them, for the producer's own warp too.
TEST(SimForms, VolatileSharedMemory) {
  auto body = [](const std::string &late, const std::string &wait) {
    return "mov.u32 %r0, dyn;\nadd.u32 %r1, %r0, 2048;\nmov.u32 %r3, 1;\n"
           "setp.eq.u32 %p0, %tid, 0;\n"
           "@%p0 mbarrier.init.shared.b64 [%r1], %r3;\nbar.sync 0;\n"
           "@!%p0 bra WAIT;\nmov.u32 %r2, 41;\n"
           "st.volatile.shared.b32 [dyn], %r2;\n"
           "mbarrier.arrive.shared.b64 _, [%r1];\n" +
           late + "WAIT:\n" + wait +
           "ld.volatile.shared.b32 %r4, [dyn];\nadd.u32 %r4, %r4, %tid;\n"
           "st.global.u32 [%my], %r4;";
  };
  Bench b = bench(64);
  b.expectClean(body("", tryWait("0")));
  EXPECT_EQ(b.out[63], 41u + 63);
  b.expectCaught(body("", ""));
  // What is written after the arrival is not ordered.
  Bench one = bench(32);
  one.expectClean(body("", tryWait("0")));
  one.expectRule(7, body("st.volatile.shared.b32 [dyn], %r2;\n", tryWait("0")),
                 Severity::Warning);
}

// The last block to arrive at a counter reads what the others wrote.
TEST(SimForms, LastBlockAcquires) {
  auto run = [](const std::string &atom, bool good) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Bench b = bench(32);
      b.blocks = 4;
      b.options.seed = seed;
      std::fill(b.out.begin(), b.out.end(), 0);
      Result r = b.run(
          "mov.u32 %r0, %ctaid.x;\nshl.b32 %r1, %r0, 7;\ncvt.u64.u32 %rd0, %r1;"
          "\nadd.s64 %rd1, %my, %rd0;\nadd.u32 %r2, %r0, %tid;\n"
          "st.global.u32 [%rd1+1024], %r2;\nbar.sync 0;\nmov.u32 %r3, 0;\n"
          "setp.eq.u32 %p0, %tid, 0;\nmov.u32 %r9, dyn;\n@!%p0 bra ALL;\n" +
          atom +
          "st.shared.u32 [%r9], %r3;\nALL:\nbar.sync 0;\n"
          "ld.shared.u32 %r3, [%r9];\nsetp.ne.u32 %p1, %r3, 3;\n"
          "@%p1 bra END;\nld.global.u32 %r4, [%my+1024];\n"
          "ld.global.u32 %r5, [%my+1152];\nld.global.u32 %r6, [%my+1280];\n"
          "ld.global.u32 %r7, [%my+1408];\nadd.u32 %r4, %r4, %r5;\n"
          "add.u32 %r4, %r4, %r6;\nadd.u32 %r4, %r4, %r7;\n"
          "st.global.u32 [%my+2048], %r4;\nmov.u32 %r8, 0;\n"
          "@%p0 st.relaxed.gpu.global.u32 [%out], %r8;\nEND:");
      EXPECT_EQ(r.error, "");
      bool found = false;
      for (const Report &report : r.reports)
        found |= report.rule == 8;
      EXPECT_EQ(found, !good) << atom << toJson(r);
      EXPECT_EQ(b.out[0], 0u); // reset by the last
      EXPECT_EQ(b.out[512 + 9], 4 * 9u + 6);
    }
  };
  run("atom.acq_rel.gpu.global.add.u32 %r3, [%out], 1;\n", true);
  run("fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %r3, [%out], 1;\n"
      "fence.acq_rel.gpu;\n",
      true);
  // What LLVM 22 prints for an acq_rel atomicrmw: relaxed.
  run("atom.global.add.u32 %r3, [%out], 1;\n", false);
  run("atom.release.gpu.global.add.u32 %r3, [%out], 1;\n", false);
  run("atom.acquire.gpu.global.add.u32 %r3, [%out], 1;\n", false);
}

// A rank-4 store of a box of 4 rows by 64 columns at column 64 of 72, of 3
// rows: 3 rows of 16 bytes are in the tensor, in chunks that the swizzle moves.
// The rest of the box is not used: it may be unwritten, or written meanwhile.
TEST(SimForms, TensorStoreUsesWhatIsInside) {
  auto kernel = [](unsigned writers, const std::string &meanwhile) {
    return parsed(
        header(90) +
        ".extern .shared .align 1024 .b8 dyn[];\n"
        ".visible .entry k(.param .align 64 .b8 map[128])\n{\n"
        ".reg .b64 %rd<4>;\n.reg .b32 %r<16>;\n.reg .pred %p<4>;\n"
        "mov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\nmov.u32 %r0, dyn;\n"
        "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n"
        "setp.lt.u32 %p1, %r1, " +
        std::to_string(writers) +
        // word t % 4 of chunk t / 4 of row t / 4
        ";\nshr.u32 %r2, %r1, 2;\nand.b32 %r3, %r1, 3;\n"
        "mul.lo.u32 %r2, %r2, 144;\nmad.lo.u32 %r2, %r3, 4, %r2;\n"
        "add.u32 %r2, %r2, %r0;\nadd.u32 %r4, %r1, 100;\n"
        "@%p1 st.shared.u32 [%r2], %r4;\nfence.proxy.async.shared::cta;\n"
        "bar.warp.sync -1;\n@!%p0 bra END;\nmov.u32 %r5, 64;\n"
        "mov.u32 %r6, 0;\n"
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
        "[%rd1, {%r5, %r6, %r6, %r6}], [%r0];\n"
        "cp.async.bulk.commit_group;\n" +
        meanwhile + "cp.async.bulk.wait_group 0;\nEND:\nret;\n}\n");
  };
  alignas(16) static uint32_t out[4 * 36];
  TensorMap map;
  map.base = reinterpret_cast<uint64_t>(out);
  map.rank = 4;
  map.elementBytes = 2;
  map.swizzle = 128;
  std::copy_n(std::array<uint32_t, 4>{64, 4, 1, 1}.begin(), 4, map.box);
  std::copy_n(std::array<uint64_t, 4>{72, 3, 1, 1}.begin(), 4, map.dims);
  std::fill_n(map.strides, 3, 144);
  auto go = [&](unsigned writers, const std::string &meanwhile) {
    std::fill(std::begin(out), std::end(out), 7u);
    Launch l;
    l.program = kernel(writers, meanwhile);
    l.kernel = "k";
    l.block = {32, 1, 1};
    l.dynamicSharedBytes = 1024;
    l.parameters.resize(128);
    std::memcpy(l.parameters.data(), &map, 128);
    Region r;
    r.base = map.base;
    r.elementBytes = 4;
    r.shape = {3 * 36};
    r.strides = {1};
    r.writable = true;
    Options o;
    o.capability = 90;
    o.completion = Completion::Late;
    return run({l}, {r}, o);
  };
  for (const char *meanwhile : {"", "st.shared.u32 [%r0+128], %r4;\n",
                                "st.shared.u32 [%r0+432], %r4;\n"}) {
    Result r = go(12, meanwhile);
    EXPECT_TRUE(r.error.empty() && r.reports.empty()) << toJson(r);
    for (uint32_t word = 0; word < 4 * 36; ++word) {
      uint32_t row = word / 36, column = word % 36;
      EXPECT_EQ(out[word],
                row < 3 && column >= 32 ? 100 + 4 * row + column - 32 : 7u);
    }
  }
  auto rule = [](const Result &r) {
    return r.reports.empty() ? 0u : r.reports[0].rule;
  };
  EXPECT_EQ(rule(go(11, "")), 11u);
  EXPECT_EQ(rule(go(12, "st.shared.u32 [%r0+144], %r4;\n")), 4u);
}

TEST(SimForms, CachePolicies) {
  Bench b = bench(32);
  std::string add =
      "mov.f32 %f0, 0f3f800000;\nmul.wide.u32 %rd2, %tid, 16;\n"
      "add.s64 %rd3, %out, %rd2;\nst.global.u32 [%rd3], 0;\n"
      "st.global.u32 [%rd3+4], 0;\nst.global.u32 [%rd3+8], 0;\n"
      "st.global.u32 [%rd3+12], 0;\n"
      "red.relaxed.gpu.global.add.L2::cache_hint.v4.f32 [%rd3], "
      "{%f0, %f0, %f0, %f0}, %rd1;\n"
      "red.relaxed.gpu.global.add.L2::cache_hint.f32 [%rd3+4], %f0, %rd1;\n";
  for (const char *policy :
       {"createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;\n",
        "createpolicy.fractional.L2::evict_first.b64 %rd1;\n",
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd1, "
        "0.5;\n"}) {
    b.expectClean(policy + add);
    EXPECT_EQ(b.out[4 * 31], bits(1));
    EXPECT_EQ(b.out[4 * 31 + 1], bits(2));
  }
  // The register is read, though no result depends on it.
  b.expectRule(11, add);
  for (const char *unknown :
       {"createpolicy.fractional.L1::evict_last.b64 %rd1, 1.0;",
        "createpolicy.fractional.b64 %rd1;",
        "createpolicy.range.L2::evict_last.b64 %rd1, [%rd3], 128, 256;",
        "createpolicy.fractional.L2::evict_last.b64 %r1, 1.0;"})
    EXPECT_FALSE(parse(b.text(unknown))) << unknown;
}

TEST(SimForms, DependencyControlOfAnOrdinaryLaunch) {
  Bench b = bench(32);
  b.expectClean("griddepcontrol.wait;\nst.global.u32 [%my], %tid;\n"
                "griddepcontrol.launch_dependents;");
  EXPECT_EQ(b.out[31], 31u);
}

} // namespace
