//===- ClusterTest.cpp - Clusters and distributed shared memory -----------===//
//
// Rule 13, and rules 1 to 5 and 10 between blocks of a cluster.
//
//===----------------------------------------------------------------------===//

#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

Bench pair(uint32_t threads = 32, uint32_t blocks = 2) {
  Bench b;
  b.capability = 90;
  b.threads = threads;
  b.blocks = blocks;
  b.cluster = {2, 1, 1};
  b.dynamicShared = 4096;
  for (uint32_t k = 0; k < 256; ++k)
    b.in[k] = k;
  return b;
}

/// The text without, or with something else in place of, its only `part`.
std::string without(std::string text, const std::string &part,
                    const std::string &instead = "") {
  size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  text.replace(at, part.size(), instead);
  EXPECT_EQ(text.find(part, at + instead.size()), std::string::npos) << part;
  return text;
}

// %r0: own shared memory, %r1: own rank, %r2: the other's, %r3: its memory.
const std::string kPeer = "mov.u32 %r0, dyn;\nmov.u32 %r1, %cluster_ctarank;\n"
                          "xor.b32 %r2, %r1, 1;\n"
                          "mapa.shared::cluster.u32 %r3, %r0, %r2;\n";
const std::string kMeet = "barrier.cluster.arrive.release.aligned;\n"
                          "barrier.cluster.wait.acquire.aligned;\n";

//===----------------------------------------------------------------------===//
// Tiles that go from block to block
//===----------------------------------------------------------------------===//

// Warp 0 of each block writes 8 tiles of 64 words, one after the other, into
// two slots at 512 and copies them to the other block's slots at 0. Warp 1
// stores what comes to out[rank][tile]. `full` barriers at 1024, `empty` ones,
// at which the other block's warp 1 arrives, at 1040.
const std::string kExchange =
    kPeer +
    "setp.ne.u32 %p0, %tid, 0;\n@%p0 bra MEET;\n"
    "mbarrier.init.shared::cta.b64 [%r0+1024], 1;\n"
    "mbarrier.init.shared::cta.b64 [%r0+1032], 1;\n"
    "mbarrier.init.shared::cta.b64 [%r0+1040], 1;\n"
    "mbarrier.init.shared::cta.b64 [%r0+1048], 1;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "MEET:\n/*meet*/ barrier.cluster.arrive.relaxed.aligned;\n"
    "barrier.cluster.wait.acquire.aligned;\n"
    "and.b32 %r5, %tid, 31;\nshl.b32 %r14, %r5, 3;\n"
    "setp.ne.u32 %p4, %r5, 0;\nsetp.ge.u32 %p1, %tid, 32;\n"
    "mov.u32 %r6, 0;\nmov.u32 %r21, 256;\n"
    "LOOP:\nand.b32 %r7, %r6, 1;\nshl.b32 %r8, %r7, 8;\nshl.b32 %r9, %r7, 3;\n"
    "shr.u32 %r10, %r6, 1;\nadd.u32 %r13, %r0, %r8;\n"
    "add.u32 %r15, %r13, %r14;\nadd.u32 %r12, %r0, %r9;\n"
    "add.u32 %r20, %r3, %r9;\n@%p1 bra TAKE;\n"
    // Warp 0.
    "setp.eq.u32 %p2, %r10, 0;\n@%p2 bra FREE;\nsub.u32 %r11, %r10, 1;\n"
    "and.b32 %r11, %r11, 1;\n"
    "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r12+1040], "
    "%r11;\n@!%p3 bra EMPTY;\n"
    "FREE:\nmul.lo.u32 %r16, %r1, 1000;\nshl.b32 %r17, %r6, 6;\n"
    "add.u32 %r16, %r16, %r17;\nshl.b32 %r17, %r5, 1;\n"
    "add.u32 %r16, %r16, %r17;\nadd.u32 %r18, %r16, 1;\n"
    "st.shared.v2.u32 [%r15+512], {%r16, %r18};\n"
    "/*written*/ fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n"
    "@%p4 bra NEXT;\nadd.u32 %r19, %r3, %r8;\n"
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
    "[%r19], [%r13+512], %r21, [%r20+1024];\nbra NEXT;\n"
    // Warp 1.
    "TAKE:\nand.b32 %r11, %r10, 1;\n@%p4 bra FULL;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12+1024], %r21;\n"
    "FULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r12+1024], "
    "%r11;\n@!%p3 bra FULL;\n"
    "ld.shared.v2.u32 {%r23, %r24}, [%r15];\n"
    "shl.b32 %r25, %r1, 3;\nadd.u32 %r25, %r25, %r6;\nshl.b32 %r25, %r25, 8;\n"
    "add.u32 %r25, %r25, %r14;\ncvt.u64.u32 %rd0, %r25;\n"
    "add.s64 %rd1, %out, %rd0;\nst.global.v2.u32 [%rd1], {%r23, %r24};\n"
    "bar.warp.sync -1;\n"
    "@%p4 bra NEXT;\n"
    "mbarrier.arrive.shared::cluster.b64 _, [%r20+1040];\n"
    "NEXT:\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p5, %r6, 8;\n@%p5 bra LOOP;\n"
    "/*end*/ barrier.cluster.arrive.release.aligned;\n"
    "barrier.cluster.wait.acquire.aligned;\n";

TEST(SimCluster, ExchangeOfTiles) {
  Bench b = pair(64);
  for (unsigned resident : {0u, 1u, 3u}) {
    b.options.residentBlocks = resident;
    std::fill(b.out.begin(), b.out.end(), 0xdeadbeef);
    b.expectClean(kExchange);
    for (uint32_t rank = 0; rank < 2; ++rank)
      for (uint32_t word = 0; word < 8 * 64; ++word)
        ASSERT_EQ(b.out[rank * 512 + word], (1 - rank) * 1000 + word);
  }
}

TEST(SimCluster, ExchangeBroken) {
  Bench b = pair(64);
  auto wait = [](const std::string &label, const std::string &address) {
    return "\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [" + address +
           "], %r11;\n@!%p3 bra " + label + ";";
  };
  // Nothing waits for the tile, or for the slot.
  b.expectRule(4, without(kExchange, wait("FULL", "%r12+1024")));
  b.expectRule(4, without(kExchange, wait("EMPTY", "%r12+1040")));
  b.expectRule(5, without(kExchange, "/*written*/ fence.proxy.async."
                                     "shared::cta;\n"));
  // The first blocks to end leave others that still arrive at their barriers.
  b.expectRule(13, kExchange.substr(0, kExchange.find("/*end*/")));
  b.expectRule(13, without(kExchange, "/*end*/ barrier.cluster.arrive.release",
                           "barrier.cluster.arrive.relaxed"));
  // Nothing says that the other block has made its mbarriers.
  b.expectRule(3, without(kExchange, "fence.mbarrier_init.release.cluster;\n"));
  b.expectCaught(without(kExchange,
                         "/*meet*/ barrier.cluster.arrive.relaxed.aligned;\n"
                         "barrier.cluster.wait.acquire.aligned;\n",
                         "bar.sync 0;\n"));
  // Arrivals at the own block's barriers say nothing of the other's slots.
  b.expectCaught(without(kExchange, "_, [%r20+1040]", "_, [%r12+1040]"));
  // A tile that nobody expects.
  b.expectRule(10, without(kExchange, "[%r20+1024]", "[%r20+1040]"));
}

//===----------------------------------------------------------------------===//
// Loads, stores and arrivals
//===----------------------------------------------------------------------===//

const std::string kWait =
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, "
    "[%r0+2048], 0;\n@!%p1 bra W;\n";

// Each thread stores four words to the other block's memory, an arrival says
// so, and the other reads them where they are.
std::string stores(const std::string &arrive = "arrive.release.cluster",
                   const std::string &end = kMeet) {
  return kPeer +
         "setp.ne.u32 %p0, %tid, 0;\n"
         "@!%p0 mbarrier.init.shared::cta.b64 [%r0+2048], 32;\n" +
         kMeet +
         "shl.b32 %r4, %tid, 4;\nadd.u32 %r5, %r3, %r4;\n"
         "add.u32 %r6, %r0, %r4;\nmul.lo.u32 %r7, %r1, 100;\n"
         "add.u32 %r7, %r7, %tid;\nadd.u32 %r8, %r7, 1;\n"
         "st.shared::cluster.v4.u32 [%r5], {%r7, %r8, %r7, %r8};\n"
         "mbarrier." +
         arrive +
         ".shared::cluster.b64 _, [%r3+2048];\n"
         "W:\n" +
         kWait +
         "ld.shared.v2.u32 {%r10, %r11}, [%r6+8];\n"
         "shl.b32 %r12, %r1, 7;\ncvt.u64.u32 %rd0, %r12;\n"
         "add.s64 %rd1, %my, %rd0;\nst.global.u32 [%rd1], %r11;\n" +
         end;
}

TEST(SimCluster, StoresToTheOtherBlock) {
  Bench b = pair();
  b.expectClean(stores());
  for (uint32_t rank = 0; rank < 2; ++rank)
    for (uint32_t t = 0; t < 32; ++t)
      EXPECT_EQ(b.out[rank * 32 + t], (1 - rank) * 100 + t + 1);
  b.expectRule(3, stores("arrive"));
  b.expectClean(without(stores("arrive"), "mbarrier.arrive.",
                        "fence.acq_rel.cluster;\nmbarrier.arrive."));
  b.expectRule(1, without(stores(), kWait));
  // With nothing but execution between the last arrival and the exit.
  b.expectClean(stores("arrive.release.cluster", ""));
}

// Each block reads the other's words.
std::string loads(const std::string &first = kMeet,
                  const std::string &end = kMeet) {
  return kPeer +
         "add.u32 %r4, %r0, %lane;\nadd.u32 %r5, %tid, %r1;\n"
         "st.shared.u32 [%r4], %r5;\n" +
         first +
         "add.u32 %r6, %r3, %lane;\nld.shared::cluster.u32 %r7, [%r6];\n"
         "shl.b32 %r12, %r1, 7;\ncvt.u64.u32 %rd0, %r12;\n"
         "add.s64 %rd1, %my, %rd0;\nst.global.u32 [%rd1], %r7;\n" +
         end;
}

TEST(SimCluster, LoadsFromTheOtherBlock) {
  Bench b = pair();
  b.expectClean(loads());
  for (uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(b.out[rank * 32 + 7], 7 + 1 - rank);
  b.expectRule(13, loads("")); // it may not have started
  b.expectRule(1, without(loads(), kMeet + "add",
                          "barrier.cluster.arrive.relaxed.aligned;\n"
                          "barrier.cluster.wait.aligned;\nadd"));
  b.expectRule(13, loads(kMeet, ""));
  // A generic address does the same; its own block's is as good as any.
  std::string generic = loads();
  generic = without(generic, "ld.shared::cluster.u32 %r7, [%r6];",
                    "cvt.u64.u32 %rd2, %r4;\ncvta.shared::cluster.u64 %rd2, "
                    "%rd2;\nmapa.u64 %rd3, %rd2, %r2;\nld.u32 %r7, [%rd3];\n"
                    "ld.u32 %r8, [%rd2];\nsub.u32 %r9, %r8, %r5;\n"
                    "add.u32 %r7, %r7, %r9;");
  b.expectClean(generic);
  EXPECT_EQ(b.out[7], 8u);
  EXPECT_EQ(b.out[39], 7u);
}

// All blocks of the largest cluster read the words of all, then overwrite
// their own.
TEST(SimCluster, EightBlocks) {
  auto body = [](const std::string &between) {
    return "mov.u32 %r0, dyn;\nadd.u32 %r1, %r0, %lane;\n"
           "mov.u32 %r2, %cluster_ctarank;\nmad.lo.u32 %r3, %r2, 1000, %tid;\n"
           "st.shared.u32 [%r1], %r3;\n" +
           kMeet +
           "mov.u32 %r4, 0;\nmov.u32 %r5, 0;\n"
           "L:\nmapa.shared::cluster.u32 %r6, %r1, %r4;\n"
           "ld.shared::cluster.u32 %r7, [%r6];\nadd.u32 %r5, %r5, %r7;\n"
           "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, 8;\n@%p0 bra L;\n" +
           between +
           "st.shared.u32 [%r1], %r5;\nld.shared.u32 %r5, [%r1];\n"
           "shl.b32 %r8, %r2, 11;\ncvt.u64.u32 %rd0, %r8;\n"
           "add.s64 %rd1, %my, %rd0;\nst.global.u32 [%rd1], %r5;\n" +
           kMeet;
  };
  Bench b = pair(512, 8);
  b.cluster = {8, 1, 1};
  b.expectClean(body(kMeet));
  for (uint32_t k = 0; k < 4096; ++k)
    ASSERT_EQ(b.out[k], 28000 + 8 * (k % 512));
  b.expectRule(1, body(""));
  EXPECT_NE(toJson(b.run(body(""))).find("of the cluster's block "),
            std::string::npos);
}

TEST(SimCluster, Addresses) {
  Bench b = pair();
  auto refused = [&](const std::string &body, const std::string &part) {
    Result r = b.run(kPeer + body);
    EXPECT_NE(r.error.find(part), std::string::npos) << r.error;
    ASSERT_FALSE(r.reports.empty());
    EXPECT_EQ(r.reports.back().rule, 13u) << toString(r.reports.back());
  };
  refused("mapa.shared::cluster.u32 %r4, %r0, 2;", "rank 2 is not");
  refused(kMeet + "st.shared.u32 [%r3], %tid;", "its own block's only");
  refused(kMeet + "st.shared::cluster.u32 [%r3+33554432], %tid;",
          "the cluster has 2 blocks");
  refused("setp.eq.u32 %p0, %r1, 0;\n" + kMeet +
              "@%p0 bra END;\nW:\nld.shared::cluster.u32 %r7, [%r3];\nbra W;\n"
              "END:",
          "which has exited");
  // Bits 24 and up are the rank; getctarank reads them.
  b.expectClean(kPeer + "getctarank.shared::cluster.u32 %r4, %r3;\n"
                        "getctarank.shared::cluster.u32 %r5, %r0;\n"
                        "shr.u32 %r6, %r0, 24;\nshl.b32 %r7, %r5, 4;\n"
                        "or.b32 %r4, %r4, %r7;\nshl.b32 %r6, %r6, 8;\n"
                        "or.b32 %r4, %r4, %r6;\nshl.b32 %r12, %r1, 7;\n"
                        "cvt.u64.u32 %rd0, %r12;\nadd.s64 %rd1, %my, %rd0;\n"
                        "st.global.u32 [%rd1], %r4;");
  EXPECT_EQ(b.out[0], 0x001u);
  EXPECT_EQ(b.out[32], 0x110u);
  for (const char *text :
       {"mbarrier.try_wait.parity.shared::cluster.b64 %p0, [%r0], 0;",
        "mbarrier.init.shared::cluster.b64 [%r0], 1;"}) {
    ParseResult r = parse(b.text(text));
    EXPECT_FALSE(r);
    EXPECT_NE(r.error.text.find("another block's mbarrier"), std::string::npos)
        << r.error.text;
  }
}

//===----------------------------------------------------------------------===//
// The cluster's barrier
//===----------------------------------------------------------------------===//

TEST(SimCluster, Barrier) {
  Bench b = pair(64, 4);
  b.expectClean(kMeet + kMeet);
  b.cluster = {1, 1, 1}; // the block alone
  b.expectClean(kMeet + kMeet);
  b.cluster = {2, 1, 1};
  b.expectRule(2, "barrier.cluster.arrive;\n" + kMeet);
  b.expectRule(2, "barrier.cluster.wait;");
  b.expectRule(2, "and.b32 %r0, %tid, 1;\nsetp.eq.u32 %p0, %r0, 0;\n"
                  "@%p0 barrier.cluster.arrive;\n@%p0 barrier.cluster.wait;");
  // Warps that have exited are not waited for.
  b.expectClean("setp.ge.u32 %p0, %tid, 32;\n@%p0 bra END;\n" + kMeet + "END:");
  // Others are: the blocks of rank 1 never come.
  std::string stuck =
      kPeer +
      "setp.eq.u32 %p0, %r1, 0;\nsetp.eq.u32 %p2, %tid, 0;\n"
      "@%p2 mbarrier.init.shared::cta.b64 [%r0], 1;\nbar.sync 0;\n"
      "@%p0 bra MEET;\nW:\nmbarrier.try_wait.parity.shared::cta.b64 "
      "%p1, [%r0], 0;\n@!%p1 bra W;\nMEET:\n" +
      kMeet;
  b.expectRule(10, stuck);
  EXPECT_NE(b.run(stuck).error.find("the cluster's barrier, to which 2 of 4 "
                                    "warps have come"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Multicast
//===----------------------------------------------------------------------===//

// Block 0 loads 256 bytes, for all blocks of the mask.
std::string multicast(const std::string &mask,
                      const std::string &wait = kWait) {
  return "mov.u32 %r0, dyn;\nmov.u32 %r1, %cluster_ctarank;\n"
         "mov.u32 %r4, 256;\nmov.b16 %h0, " +
         mask +
         ";\nsetp.ne.u32 %p0, %tid, 0;\n@%p0 bra MEET;\n"
         "mbarrier.init.shared::cta.b64 [%r0+2048], 1;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0+2048], %r4;\n"
         "MEET:\n" +
         kMeet +
         "or.b32 %r2, %r1, %tid;\nsetp.ne.u32 %p0, %r2, 0;\n@%p0 bra W;\n"
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
         "multicast::cluster [%r0+512], [%in], %r4, [%r0+2048], %h0;\n"
         "W:\n" +
         wait +
         "add.u32 %r5, %r0, %lane;\nld.shared.u32 %r6, [%r5+512];\n"
         "shl.b32 %r12, %r1, 7;\ncvt.u64.u32 %rd0, %r12;\n"
         "add.s64 %rd1, %my, %rd0;\nst.global.u32 [%rd1], %r6;\n" +
         kMeet;
}

TEST(SimCluster, Multicast) {
  Bench b = pair(32, 4);
  b.cluster = {4, 1, 1};
  b.expectClean(multicast("15"));
  for (uint32_t k = 0; k < 128; ++k)
    EXPECT_EQ(b.out[k], k % 32);
  b.expectRule(4, multicast("15", ""));
  // Block 0 may be gone before its copies are.
  std::string text = multicast("15");
  b.expectRule(13, text.substr(0, text.rfind(kMeet)));
  b.expectRule(10, multicast("11")); // block 2 gets nothing
  b.expectRule(13, multicast("31"));
  b.expectRule(13, multicast("0"));
}

// Two boxes of a tensor, one loaded by each block for both.
TEST(SimCluster, TensorMulticast) {
  Bench b = pair();
  std::string text =
      header(90) +
      ".extern .shared .align 1024 .b8 dyn[];\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 pout)\n"
      ".explicitcluster\n.reqnctapercluster 2, 1, 1\n"
      "{\n.reg .b64 %rd<8>;\n.reg .b32 %r<16>;\n.reg .b16 %h<2>;\n"
      ".reg .pred %p<4>;\nmov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\n"
      "ld.param.u64 %rd2, [pout];\nmov.u32 %r0, dyn;\n"
      "mov.u32 %r1, %cluster_ctarank;\nmov.u32 %r9, %tid.x;\n"
      "setp.ne.u32 %p0, %r9, 0;\n@%p0 bra MEET;\nmov.u32 %r4, 256;\n"
      "mbarrier.init.shared::cta.b64 [%r0+1024], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0+1024], %r4;\nMEET:\n" +
      kMeet +
      "@%p0 bra W;\nshl.b32 %r5, %r1, 7;\nadd.u32 %r6, %r0, %r5;\n"
      "shl.b32 %r7, %r1, 2;\nmov.u32 %r8, 0;\nmov.b16 %h0, 3;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes.multicast::cluster [%r6], [%rd1, {%r8, %r7}], "
      "[%r0+1024], %h0;\n"
      "W:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0+1024], 0;\n"
      "@!%p1 bra W;\nshl.b32 %r10, %r9, 3;\nadd.u32 %r11, %r0, %r10;\n"
      "ld.shared.v2.u32 {%r12, %r13}, [%r11];\nshl.b32 %r14, %r1, 8;\n"
      "add.u32 %r14, %r14, %r10;\ncvt.u64.u32 %rd3, %r14;\n"
      "add.s64 %rd4, %rd2, %rd3;\nst.global.v2.u32 [%rd4], {%r12, %r13};\n" +
      kMeet + "ret;\n}\n";
  alignas(16) static uint32_t data[64];
  for (uint32_t k = 0; k < 64; ++k)
    data[k] = 1000 + k;
  TensorMap map;
  map.base = reinterpret_cast<uint64_t>(data);
  map.rank = 2;
  map.elementBytes = 4;
  map.box[0] = 8;
  map.box[1] = 4;
  map.dims[0] = map.dims[1] = 8;
  map.strides[0] = 32;
  Launch l;
  l.program = parsed(text);
  ASSERT_TRUE(l.program);
  l.kernel = "k";
  l.grid = {2, 1, 1};
  l.block = {32, 1, 1};
  l.cluster = {2, 1, 1};
  l.dynamicSharedBytes = 2048;
  uint64_t out = reinterpret_cast<uint64_t>(b.out.data());
  l.parameters.resize(136);
  std::memcpy(l.parameters.data(), &map, 128);
  std::memcpy(l.parameters.data() + 128, &out, 8);
  Region in;
  in.name = "in";
  in.base = map.base;
  in.elementBytes = 4;
  in.shape = {64};
  in.strides = {1};
  Options o;
  o.capability = 90;
  for (o.seed = 0; o.seed < 8; ++o.seed) {
    Result r = run({l}, {in, regionOf("out", b.out, true)}, o);
    EXPECT_EQ(r.error, "");
    EXPECT_TRUE(r.reports.empty()) << toJson(r);
    for (uint32_t k = 0; k < 128; ++k)
      EXPECT_EQ(b.out[k], 1000 + k % 64);
  }
  l.cluster = {1, 1, 1};
  Result r = run({l}, {in, regionOf("out", b.out, true)}, o);
  EXPECT_NE(r.error.find(".reqnctapercluster"), std::string::npos) << r.error;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

TEST(SimCluster, SpecialRegisters) {
  Bench b;
  b.capability = 90;
  std::string body = "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ctaid.y;\n"
                     "mov.u32 %r2, %ctaid.z;\nmad.lo.u32 %r3, %r2, 6, %r1;\n"
                     "mad.lo.u32 %r3, %r3, 4, %r0;\nshl.b32 %r3, %r3, 6;\n"
                     "cvt.u64.u32 %rd0, %r3;\nadd.s64 %rd1, %out, %rd0;\n"
                     "setp.ne.u32 %p0, %tid, 0;\n@%p0 bra END;\n";
  const char *const names[] = {
      "clusterid.x",      "clusterid.y",      "clusterid.z",
      "nclusterid.x",     "nclusterid.y",     "nclusterid.z",
      "cluster_ctaid.x",  "cluster_ctaid.y",  "cluster_ctaid.z",
      "cluster_nctaid.x", "cluster_nctaid.y", "cluster_nctaid.z",
      "cluster_ctarank",  "cluster_nctarank"};
  for (uint32_t k = 0; k < 14; ++k)
    body += std::string("mov.u32 %r4, %") + names[k] +
            ";\nst.global.u32 [%rd1+" + std::to_string(4 * k) + "], %r4;\n";
  Launch l = b.launch(body + "END:");
  l.grid = {4, 6, 2};
  l.cluster = {2, 3, 1};
  Options o;
  o.capability = 90;
  for (o.seed = 0; o.seed < 3; ++o.seed) {
    Result r = run({l}, {regionOf("out", b.out, true)}, o);
    EXPECT_TRUE(r.ok()) << toJson(r);
    for (uint32_t z = 0; z < 2; ++z)
      for (uint32_t y = 0; y < 6; ++y)
        for (uint32_t x = 0; x < 4; ++x) {
          const uint32_t *at = &b.out[((z * 6 + y) * 4 + x) * 16];
          const uint32_t wanted[] = {x / 2,
                                     y / 3,
                                     z,
                                     2,
                                     2,
                                     2,
                                     x % 2,
                                     y % 3,
                                     0,
                                     2,
                                     3,
                                     1,
                                     x % 2 + 2 * (y % 3),
                                     6};
          for (uint32_t k = 0; k < 14; ++k)
            EXPECT_EQ(at[k], wanted[k]) << names[k];
        }
  }
}

TEST(SimCluster, RefusesBadLaunches) {
  Bench b = pair();
  auto refused = [&](std::array<uint32_t, 3> grid,
                     std::array<uint32_t, 3> cluster, const std::string &part,
                     unsigned capability = 90) {
    Launch l = b.launch("");
    l.grid = grid;
    l.cluster = cluster;
    Options o;
    o.capability = capability;
    Result r = run({l}, {}, o);
    EXPECT_NE(r.error.find(part), std::string::npos) << r.error;
  };
  refused({3, 1, 1}, {2, 1, 1},
          "grid extent 3 is not a multiple of the "
          "cluster's 2");
  refused({16, 1, 1}, {16, 1, 1}, "cluster extent 16 is not 1 to 8");
  refused({4, 4, 1}, {4, 4, 1}, "16 blocks a cluster; the limit is 8");
  b.capability = 80;
  refused({2, 1, 1}, {2, 1, 1}, "clusters need sm_90", 80);
}

// B from shared memory with an address that still has the rank in it.
TEST(SimCluster, DescriptorOfAnUnmaskedAddress) {
  auto body = [](const std::string &mask) {
    return "mov.u32 %r0, dyn;\nmov.u32 %r1, 0;\nshl.b32 %r2, %tid, 4;\n"
           "add.u32 %r2, %r2, %r0;\n"
           "st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\n"
           "fence.proxy.async.shared::cta;\nbar.sync 0;\n" +
           mask +
           "shr.u32 %r4, %r0, 4;\ncvt.u64.u32 %rd0, %r4;\n"
           "or.b64 %rd1, %rd0, 0xC000001000010000;\n"
           "setp.ne.u32 %p1, 0, 0;\nwgmma.fence.sync.aligned;\n"
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
           "{%f0,%f1,%f2,%f3}, %rd1, %rd1, %p1, 1, 1, 0, 0;\n"
           "wgmma.commit_group.sync.aligned;\n"
           "wgmma.wait_group.sync.aligned 0;\nst.global.f32 [%my], %f3;";
  };
  Bench b = pair(128);
  b.dynamicShared = 32768;
  b.expectRule(13, body(""));
  Result r = b.run(body("and.b32 %r0, %r0, 0x3ffff;\n"));
  EXPECT_EQ(r.error, "");
}

} // namespace
