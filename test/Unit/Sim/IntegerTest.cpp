//===- IntegerTest.cpp - Integer, logic, shift, comparison ----------------===//
//
// Values from the definitions in PTX ISA 9.7.1, 9.7.5, 9.7.6 and 9.7.8.
//
//===----------------------------------------------------------------------===//

#include "SimTest.h"

using namespace fa2::sim::test;

namespace {

TEST(SimInteger, Arithmetic) {
  Bench b;
  EXPECT_EQ(b.eval("add.s32 %r10, %r0, %r1;", 0x7fffffff, 1), 0x80000000u);
  EXPECT_EQ(b.eval("add.sat.s32 %r10, %r0, %r1;", 0x7fffffff, 1), 0x7fffffffu);
  EXPECT_EQ(b.eval("sub.u32 %r10, %r0, %r1;", 1, 2), 0xffffffffu);
  EXPECT_EQ(b.eval("mul.lo.s32 %r10, %r0, %r1;", 0x10001, 0x10001), 0x20001u);
  EXPECT_EQ(b.eval("mul.hi.u32 %r10, %r0, %r1;", 0xffffffff, 0xffffffff),
            0xfffffffeu);
  EXPECT_EQ(b.eval("mul.hi.s32 %r10, %r0, %r1;", 0xffffffff, 0xffffffff), 0u);
  EXPECT_EQ(b.eval("mad.lo.s32 %r10, %r0, %r1, %r2;", 3, 4, 5), 17u);
  EXPECT_EQ(b.eval("div.s32 %r10, %r0, %r1;", uint32_t(-7), 2), uint32_t(-3));
  EXPECT_EQ(b.eval("rem.s32 %r10, %r0, %r1;", uint32_t(-7), 2), uint32_t(-1));
  EXPECT_EQ(b.eval("div.s32 %r10, %r0, %r1;", 0x80000000, uint32_t(-1)),
            0x80000000u);
  EXPECT_EQ(b.eval("abs.s32 %r10, %r0;", uint32_t(-5)), 5u);
  EXPECT_EQ(b.eval("neg.s32 %r10, %r0;", 5), uint32_t(-5));
  EXPECT_EQ(b.eval("min.s32 %r10, %r0, %r1;", uint32_t(-1), 1), uint32_t(-1));
  EXPECT_EQ(b.eval("min.relu.s32 %r10, %r0, %r1;", uint32_t(-1), 1), 0u);
  EXPECT_EQ(b.eval("min.relu.s32 %r10, %r0, %r1;", 7, 5), 5u);
  EXPECT_EQ(b.eval("max.relu.s32 %r10, %r0, %r1;", uint32_t(-1), uint32_t(-3)),
            0u);
  EXPECT_EQ(b.eval("min.u32 %r10, %r0, %r1;", uint32_t(-1), 1), 1u);
}

TEST(SimInteger, Wide) {
  Bench b;
  EXPECT_EQ(b.eval64("mov.u32 %r3, -2;\nmov.u32 %r4, 3;\n"
                     "mul.wide.s32 %rd10, %r3, %r4;"),
            uint64_t(-6));
  EXPECT_EQ(b.eval64("mov.u32 %r3, -2;\nmov.u32 %r4, 3;\n"
                     "mul.wide.u32 %rd10, %r3, %r4;"),
            0x2fffffffaull);
  EXPECT_EQ(b.eval64("mov.u32 %r3, -2;\n"
                     "mad.wide.s32 %rd10, %r3, 3, %rd0;",
                     10),
            4u);
  EXPECT_EQ(b.eval64("mul.hi.u64 %rd10, %rd0, %rd1;", ~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(b.eval64("div.s64 %rd10, %rd0, %rd1;", uint64_t(-9), 4),
            uint64_t(-2));
}

TEST(SimInteger, Bits) {
  Bench b;
  EXPECT_EQ(b.eval("shl.b32 %r10, %r0, %r1;", 1, 31), 0x80000000u);
  EXPECT_EQ(b.eval("shl.b32 %r10, %r0, %r1;", 1, 32), 0u); // clamped
  EXPECT_EQ(b.eval("shr.u32 %r10, %r0, %r1;", 0x80000000, 40), 0u);
  EXPECT_EQ(b.eval("shr.s32 %r10, %r0, %r1;", 0x80000000, 40), 0xffffffffu);
  EXPECT_EQ(b.eval("shf.l.wrap.b32 %r10, %r0, %r1, %r2;", 0x80000000, 1, 33),
            3u);
  EXPECT_EQ(b.eval("shf.r.clamp.b32 %r10, %r0, %r1, %r2;", 5, 6, 32), 6u);
  EXPECT_EQ(b.eval("bfe.u32 %r10, %r0, %r1, %r2;", 0xabcd1234, 8, 8), 0x12u);
  EXPECT_EQ(b.eval("bfe.s32 %r10, %r0, %r1, %r2;", 0x00008000, 8, 8),
            0xffffff80u);
  EXPECT_EQ(b.eval("bfe.s32 %r10, %r0, %r1, %r2;", 0x80000000, 28, 8),
            0xfffffff8u);
  EXPECT_EQ(b.eval("bfe.u32 %r10, %r0, %r1, %r2;", 0xffffffff, 0, 0), 0u);
  EXPECT_EQ(b.eval("bfi.b32 %r10, %r0, %r1, 8, 8;", 0xff, 0x11111111),
            0x1111ff11u);
  EXPECT_EQ(b.eval("bfind.u32 %r10, %r0;", 0x00010000), 16u);
  EXPECT_EQ(b.eval("bfind.s32 %r10, %r0;", 0xffffffff), 0xffffffffu);
  EXPECT_EQ(b.eval("clz.b32 %r10, %r0;", 1), 31u);
  EXPECT_EQ(b.eval("popc.b32 %r10, %r0;", 0xf0f0), 8u);
  EXPECT_EQ(b.eval("brev.b32 %r10, %r0;", 1), 0x80000000u);
  EXPECT_EQ(
      b.eval("prmt.b32 %r10, %r0, %r1, %r2;", 0x03020100, 0x07060504, 0x5410),
      0x05040100u);
  EXPECT_EQ(b.eval("prmt.b32 %r10, %r0, %r1, %r2;", 0x80, 0, 0x8888),
            0xffffffffu); // sign replicated
  // (a & b) ^ c: table 0xf0 & 0xcc ^ 0xaa = 0x6a
  EXPECT_EQ(
      b.eval("lop3.b32 %r10, %r0, %r1, %r2, 0x6a;", 0xff00, 0x0ff0, 0xffff),
      0xf0ffu);
  EXPECT_EQ(b.eval("cnot.b32 %r10, %r0;", 0), 1u);
}

TEST(SimInteger, CompareAndSelect) {
  Bench b;
  auto test = [&](const std::string &cmp, uint32_t x, uint32_t y) {
    return b.eval("setp." + cmp + " %p0, %r0, %r1;\nselp.b32 %r10, 1, 0, %p0;",
                  x, y);
  };
  EXPECT_EQ(test("lt.s32", uint32_t(-1), 0), 1u);
  EXPECT_EQ(test("lt.u32", uint32_t(-1), 0), 0u);
  EXPECT_EQ(test("hs.u32", 3, 3), 1u);
  uint32_t nan = 0x7fc00000, one = bits(1.0f);
  EXPECT_EQ(test("ne.f32", nan, one), 0u); // ordered
  EXPECT_EQ(test("neu.f32", nan, one), 1u);
  EXPECT_EQ(test("ltu.f32", nan, one), 1u);
  EXPECT_EQ(test("num.f32", nan, one), 0u);
  EXPECT_EQ(test("nan.f32", nan, one), 1u);
  EXPECT_EQ(test("eq.f32", bits(-0.0f), bits(0.0f)), 1u);
  EXPECT_EQ(test("eq.ftz.f32", 1, 0), 1u); // subnormal flushed
  EXPECT_EQ(b.eval("setp.lt.s32 %p1, %r2, 9;\n"
                   "setp.lt.and.s32 %p0|%p2, %r0, %r1, !%p1;\n"
                   "selp.b32 %r3, 1, 0, %p0;\nselp.b32 %r4, 2, 0, %p2;\n"
                   "add.s32 %r10, %r3, %r4;",
                   1, 2, 10),
            1u);
}

TEST(SimInteger, PackAndUnpack) {
  Bench b;
  EXPECT_EQ(
      b.eval("mov.b32 {%h0, %h1}, %r0;\nmov.b32 %r10, {%h1, %h0};", 0x12345678),
      0x56781234u);
  EXPECT_EQ(b.eval64("mov.b64 {%r3, %r4}, %rd0;\nmov.b64 %rd10, {%r4, %r3};",
                     0x1122334455667788ull),
            0x5566778811223344ull);
}

TEST(SimInteger, Warp) {
  Bench b;
  b.clean(
      "shfl.sync.bfly.b32 %r0, %tid, 3, 31, -1;\nst.global.u32 [%my], %r0;");
  EXPECT_EQ(b.out[5], 6u);
  b.clean("shfl.sync.up.b32 %r0|%p0, %tid, 4, 0, -1;\n"
          "selp.b32 %r1, %r0, 99, %p0;\nst.global.u32 [%my], %r1;");
  EXPECT_EQ(b.out[3], 99u);
  EXPECT_EQ(b.out[4], 0u);
  // Segments of eight lanes: c = (24 << 8) | 31.
  b.clean(
      "shfl.sync.idx.b32 %r0, %tid, 2, 6175, -1;\nst.global.u32 [%my], %r0;");
  EXPECT_EQ(b.out[13], 10u);
  b.clean("setp.gt.u32 %p0, %tid, 29;\nvote.sync.ballot.b32 %r0, %p0, -1;\n"
          "st.global.u32 [%my], %r0;");
  EXPECT_EQ(b.out[0], 0xc0000000u);
  b.clean("redux.sync.max.u32 %r0, %tid, -1;\nst.global.u32 [%my], %r0;");
  EXPECT_EQ(b.out[7], 31u);
}

TEST(SimInteger, DivergenceReconverges) {
  Bench b;
  // Odd lanes take one side, lanes loop tid times, all meet at the shuffle.
  b.options.seed = 3;
  b.clean("and.b32 %r0, %tid, 1;\nsetp.eq.u32 %p0, %r0, 0;\n"
          "@%p0 bra EVEN;\nmov.u32 %r1, 100;\nbra JOIN;\nEVEN:\n"
          "mov.u32 %r1, 200;\nJOIN:\nmov.u32 %r2, 0;\nLOOP:\n"
          "setp.ge.u32 %p1, %r2, %tid;\n@%p1 bra OUT;\n"
          "add.u32 %r1, %r1, 1;\nadd.u32 %r2, %r2, 1;\nbra LOOP;\nOUT:\n"
          "shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nst.global.u32 [%my], %r3;");
  for (uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(b.out[lane], ((lane ^ 1) & 1 ? 100u : 200u) + (lane ^ 1));
}

} // namespace
