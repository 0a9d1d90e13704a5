//===- SeedsPtx.cpp - kernels to begin with -------------------------------===//
//
// One for each family of instructions, and those that somebody might craft:
// entries in sections, parameters that are vectors, quotes in strings, forged
// tensor maps, boxes at the end of shared memory.
//
//===----------------------------------------------------------------------===//

#include "Targets.h"

#include "Simulator.h"

#include <cstring>

using fa2::sim::TensorMap;

namespace fa2::fuzz {

namespace {

constexpr uint64_t kIn = kAddressMark, kOut = kAddressMark | 0x8000;

template <class T> std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Text, launch and parameters, as runPtx takes them apart.
std::string input(const std::string &text, const std::string &parameters,
                  uint16_t sharedBytes = 4096, uint8_t flags = 0) {
  std::string choices = {char(flags), 1, 0, 1, 0};
  return text + '\0' + choices + bytesOf(sharedBytes) + parameters;
}

const char *const kHead = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                          ".extern .shared .align 1024 .b8 dyn[];\n";
const char *const kRegisters =
    "{\n.reg .b64 %rd<16>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n"
    ".reg .f64 %d<4>;\n.reg .b16 %h<16>;\n.reg .pred %p<8>;\n";

/// With %rd0 the input's address, %rd1 the output's, %rd2 this thread's word of
/// it; %r0 the dynamic shared memory, %r1 the thread, %r2 its offset of 16.
std::string ordinary(const std::string &body) {
  return input(std::string(kHead) +
                   ".visible .entry k(.param .u64 in, .param .u64 out)\n" +
                   kRegisters +
                   "ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\n"
                   "mov.u32 %r0, dyn;\nmov.u32 %r1, %tid.x;\n"
                   "shl.b32 %r2, %r1, 4;\nmul.wide.u32 %rd2, %r1, 4;\n"
                   "add.s64 %rd2, %rd2, %rd1;\nsetp.eq.u32 %p0, %r1, 0;\n" +
                   body + "\nret;\n}\n",
               bytesOf(kIn) + bytesOf(kOut));
}

/// Two blocks of a cluster: stores, copies and arrivals from each to the other.
std::string cluster(const std::string &body) {
  return input(std::string(kHead) +
                   ".visible .entry k(.param .u64 in, .param .u64 out)\n"
                   ".explicitcluster\n.reqnctapercluster 2, 1, 1\n" +
                   kRegisters +
                   "ld.param.u64 %rd0, [in];\nmov.u32 %r0, dyn;\n"
                   "mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\n"
                   "mapa.shared::cluster.u32 %r3, %r0, %r2;\n"
                   "mov.u32 %r4, %tid.x;\nsetp.eq.u32 %p0, %r4, 0;\n"
                   "@%p0 mbarrier.init.shared::cta.b64 [%r0], 1;\n"
                   "fence.mbarrier_init.release.cluster;\n"
                   "barrier.cluster.arrive.relaxed;\n"
                   "barrier.cluster.wait.acquire;\nmov.u32 %r5, 256;\n"
                   "@!%p0 bra E;\n" +
                   body +
                   "\nV:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], "
                   "0;\n@!%p1 bra V;\nE:\nbarrier.cluster.arrive;\n"
                   "barrier.cluster.wait;\nret;\n}\n",
               bytesOf(kIn) + bytesOf(kOut));
}

const char *const kClusterBodies[] = {
    "st.shared::cluster.v2.u32 [%r3+128], {%r1, %r2};\n"
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n"
    "ld.shared::cluster.u32 %r6, [%r3+128];\n"
    "getctarank.shared::cluster.u32 %r7, %r3;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], %r5;\n"
    "st.shared.u32 [%r0+1024], %r1;\nfence.proxy.async;\n"
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
    "[%r3+512], [%r0+1024], %r5, [%r3];",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 512;\n"
    "mov.b16 %h0, 3;\nshl.b32 %r6, %r1, 8;\nadd.u32 %r6, %r6, %r0;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
    "multicast::cluster [%r6+512], [%rd0], %r5, [%r0], %h0;",
};

const char *const kBodies[] = {
    "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd0+16];\nadd.u32 %r4, %r4, %r5;\n"
    "st.global.u32 [%rd2], %r4;",
    "mad.lo.s32 %r4, %r1, 7, -3;\ndiv.s32 %r5, %r4, 3;\nrem.u32 %r6, %r4, 0;\n"
    "shf.l.wrap.b32 %r7, %r4, %r5, 9;\nbfe.u32 %r8, %r4, 3, 5;\n"
    "lop3.b32 %r9, %r4, %r5, %r6, 0x96;\nprmt.b32 %r10, %r4, %r5, 0x5410;\n"
    "popc.b32 %r11, %r9;\nclz.b32 %r12, %r9;\nst.global.u32 [%rd2], %r12;",
    "cvt.rn.f32.u32 %f0, %r1;\nfma.rn.f32 %f1, %f0, 0f40000000, %f0;\n"
    "ex2.approx.ftz.f32 %f2, %f1;\nrcp.approx.f32 %f3, %f2;\n"
    "lg2.approx.f32 %f4, %f3;\nmax.f32 %f5, %f4, 0fFF800000;\n"
    "cvt.rn.bf16x2.f32 %r4, %f5, %f1;\nst.global.u32 [%rd2], %r4;",
    "add.u32 %r3, %r0, %r2;\nst.shared.v4.u32 [%r3], {%r1,%r1,%r1,%r1};\n"
    "bar.sync 0;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 "
    "{%r4,%r5,%r6,%r7}, [%r3];\nmma.sync.aligned.m16n8k16.row.col.f32.bf16."
    "bf16.f32 {%f0,%f1,%f2,%f3}, {%r4,%r5,%r6,%r7}, {%r4,%r5}, "
    "{0f00000000,0f00000000,0f00000000,0f00000000};\n"
    "st.global.f32 [%rd2], %f0;",
    "add.u32 %r3, %r0, %r2;\ncp.async.cg.shared.global [%r3], [%rd0], 16, 8;\n"
    "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\n"
    "ld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd2], %r4;",
    "shfl.sync.bfly.b32 %r4|%p1, %r1, 1, 0x1f, -1;\n"
    "vote.sync.ballot.b32 %r5, %p1, -1;\nredux.sync.add.s32 %r6, %r4, -1;\n"
    "elect.sync _|%p2, -1;\nactivemask.b32 %r7;\nst.global.u32 [%rd2], %r6;",
    "atom.global.add.u32 %r4, [%rd1], 1;\nred.global.add.f32 [%rd1+4], "
    "0f3F800000;\natom.shared.cas.b32 %r5, [%r0], 0, 1;\nfence.acq_rel.gpu;",
    "L:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 40;\n@%p1 bra L;\n"
    "selp.b32 %r4, %r1, 7, %p1;\nst.global.u32 [%rd2], %r4;",
    "@!%p0 bra W;\nmbarrier.init.shared::cta.b64 [%r0], 1;\n"
    "mov.u32 %r4, 256;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], "
    "%r4;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r0+128], [%rd0], %r4, [%r0];\nW:\nbar.sync 0;\nV:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 0;\n@!%p1 bra V;\n"
    "@!%p0 bra E;\nfence.proxy.async.shared::cta;\n"
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0+128], %r4;\n"
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nE:",
    "shr.u32 %r4, %r0, 4;\ncvt.u64.u32 %rd4, %r4;\n"
    "or.b64 %rd5, %rd4, 0xC000001000000000;\nsetp.eq.u32 %p1, 0, 0;\n"
    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32."
    "bf16.bf16 {%f0,%f1,%f2,%f3}, %rd5, %rd5, %p1, 1, 1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    "st.global.f32 [%rd2], %f0;",
    "griddepcontrol.wait;\nsetmaxnreg.dec.sync.aligned.u32 24;\n"
    "nanosleep.u32 20;\ngriddepcontrol.launch_dependents;\n@%p0 trap;",
    "createpolicy.fractional.L2::evict_last.b64 %rd4, 1.0;\n"
    "red.relaxed.gpu.global.add.L2::cache_hint.f32 [%rd2], %f0, %rd4;",
    ".shared .align 16 .b8 own[64];\n.local .align 8 .b8 mine[16];\n"
    "mov.u64 %rd4, mine;\nst.local.u32 [mine+4], %r1;\n"
    "ld.local.u32 %r4, [mine+4];\nmov.u32 %r5, own;\nst.shared.u32 [own+8], "
    "%r4;\n.loc 1 2 3\n.pragma \"nounroll\";",
};

/// A copy from or to a box of `map` at `at` in shared memory.
std::string boxCopy(const TensorMap &map, bool load, uint32_t at,
                    uint16_t sharedBytes, uint8_t flags = 0,
                    const char *place = "0") {
  std::string rank = std::to_string(map.rank) + "d", where = "{";
  for (unsigned k = 0; k < map.rank; ++k)
    where += (k ? ", " : "") + std::string(k == 1 ? place : "0");
  where += "}";
  uint64_t bytes = map.elementBytes;
  for (unsigned k = 0; k < map.rank; ++k)
    bytes *= map.box[k];
  std::string box = "[%r0+" + std::to_string(at) + "]", wait;
  std::string text =
      std::string(kHead) +
      ".visible .entry k(.param .align 64 .b8 map[128])\n" + kRegisters +
      "mov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\nmov.u32 %r0, dyn;\n"
      "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n@!%p0 bra E;\n";
  if (load)
    text += "mbarrier.init.shared::cta.b64 [%r0], 1;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], " +
            std::to_string(uint32_t(bytes)) + ";\ncp.async.bulk.tensor." +
            rank +
            ".shared::cluster.global.tile.mbarrier::complete_tx::bytes " + box +
            ", [%rd1, " + where +
            "], [%r0];\nW:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, "
            "[%r0], 0;\n@!%p1 bra W;\n";
  else
    text += "cp.async.bulk.tensor." + rank +
            ".global.shared::cta.tile.bulk_group [%rd1, " + where + "], " +
            box +
            ";\ncp.async.bulk.commit_group;\n"
            "cp.async.bulk.wait_group 0;\n";
  return input(text + "E:\nret;\n}\n", bytesOf(map), sharedBytes, flags);
}

TensorMap someMap(bool load) {
  TensorMap map;
  map.base = load ? kIn : kOut;
  map.rank = 2;
  map.elementBytes = 4;
  map.box[0] = 8;
  map.box[1] = 4;
  map.dims[0] = 64;
  map.dims[1] = 32;
  map.strides[0] = 256;
  return map;
}

void addBoxes(std::vector<std::string> &seeds) {
  for (bool load : {true, false}) {
    TensorMap map = someMap(load);
    seeds.push_back(boxCopy(map, load, 128, 4096));
    for (const char *place : {"-4", "30", "100", "-2147483648"})
      seeds.push_back(boxCopy(map, load, 128, 4096, 4, place));
    TensorMap empty = map;
    empty.dims[1] = 0;
    seeds.push_back(boxCopy(empty, load, 128, 4096));
    empty.base = 0;
    seeds.push_back(boxCopy(empty, load, 128, 4096, 0, "100"));
    // Chunks that the swizzle puts behind the end of the box, and of memory.
    for (uint16_t swizzle : {32, 64, 128}) {
      TensorMap narrow = map;
      narrow.swizzle = swizzle;
      narrow.box[0] = 4;
      narrow.box[1] = 1;
      for (uint32_t at : {128u, 384u, 896u})
        for (uint16_t more : {16, 64, 128})
          seeds.push_back(boxCopy(narrow, load, at, uint16_t(at + more),
                                  more == 16 ? 1 : 0));
      narrow.box[0] = swizzle / 4;
      narrow.box[1] = 7;
      seeds.push_back(boxCopy(narrow, load, 128, uint16_t(128 + 7 * swizzle)));
    }
    // 2^32 bytes and more.
    TensorMap huge = map;
    huge.rank = 5;
    huge.elementBytes = 1;
    for (unsigned k = 0; k < 5; ++k) {
      huge.box[k] = 256;
      huge.dims[k] = 1u << 31;
      if (k < 4)
        huge.strides[k] = 16;
    }
    seeds.push_back(boxCopy(huge, load, 128, 4096));
    huge.box[4] = 1;
    seeds.push_back(boxCopy(huge, load, 128, 4096, 1));
  }
}

} // namespace

std::vector<std::string> ptxSeeds() {
  std::vector<std::string> seeds;
  for (const char *body : kBodies)
    seeds.push_back(ordinary(body));
  for (const char *body : kClusterBodies)
    seeds.push_back(cluster(body));
  addBoxes(seeds);
  const std::string end = ".visible .entry k(.param .u64 a) { ret; }\n";
  for (const char *text :
       {".section .debug_x\n{ .b8 1, 2\n.entry k(.param .u64 p0) }\n",
        ".file 1 \"a\\\"b\"\n", ".file 1 \"a\" .entry x() { ret; }\n",
        ".visible .entry v(.param .v4 .u32 p, .param .align 64 .b8 m[2][64]) "
        "{ .reg .b32 %r<4>; ld.param.v4.u32 {%r0,%r1,%r2,%r3}, [p]; ret; }\n",
        ".pragma \"one; two\";\n/* .entry k() */ // .entry k()\n"})
    seeds.push_back(input(kHead + std::string(text) + end, bytesOf(kIn)));
  return seeds;
}

} // namespace fa2::fuzz
