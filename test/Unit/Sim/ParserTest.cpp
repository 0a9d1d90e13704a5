//===- ParserTest.cpp - Malformed text, scopes, unknown instructions ------===//

#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

void expectError(const std::string &text, unsigned line,
                 const std::string &part) {
  ParseResult r = parse(text);
  ASSERT_FALSE(bool(r)) << text;
  EXPECT_EQ(r.error.line, line) << r.error.text;
  EXPECT_NE(r.error.text.find(part), std::string::npos) << r.error.text;
}

std::string kernel(const std::string &body) {
  return header(80) + ".visible .entry k()\n{\n" + body + "\nret;\n}\n";
}

TEST(SimParser, NamesUnknownInstructionAndLine) {
  expectError(kernel(".reg .b32 %r<4>;\nfrobnicate.b32 %r0, %r1;"), 7,
              "'frobnicate.b32': unknown instruction");
  expectError(kernel(".reg .b32 %r<4>;\nadd.wobble.s32 %r0, %r1, %r2;"), 7,
              "unknown modifier '.wobble'");
  expectError(kernel(".reg .f32 %f<4>;\nadd.rz.f32 %f0, %f1, %f2;"), 7, ".rn");
  expectError(kernel("call.uni (r), foo, (a);"), 6, "");
}

TEST(SimParser, RejectsMalformedText) {
  expectError("", 1, "no kernel");
  expectError(".version 7.0\n.target sm_80\n/* never closed", 3, "comment");
  expectError(kernel(".reg .b32 %r<4>;\nadd.s32 %r0, %r1;"), 7, "operands");
  expectError(kernel(".reg .b32 %r<4>;\nadd.s32 %r0, %r1, %r9;"), 7, "%r9");
  expectError(kernel(".reg .b32 %r<4>;\nadd.s32 %r0, %r1, %r2"), 8, "';'");
  expectError(kernel("bra nowhere;"), 6, "nowhere");
  expectError(kernel("x: x: ret;"), 6, "twice");
  expectError(kernel(".reg .b32 %r<4>;\nmov.b32 %r0, 99999999999999999999;"), 7,
              "number");
  expectError(header(80) + ".visible .entry k()\n{\nret;\n", 7, "never closed");
  expectError(".version 7.0\n.target sm_20\n.visible .entry k() { ret; }", 2,
              "sm_20");
  expectError(kernel(".reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
                     "add.s32 %r0, %r1, %rd1;"),
              8, "%rd1");
  expectError(kernel(".shared .align 4 .b8 big[999999999];"), 6, "2^28");
}

TEST(SimParser, CapabilityOfInstructions) {
  expectError(kernel("wgmma.fence.sync.aligned;"), 6, "sm_90a");
  expectError(kernel(".reg .b32 %r<4>;\n"
                     "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};"),
              7, "sm_90");
}

TEST(SimParser, Prefetches) {
  auto text = [](const char *spelling, int capability) {
    return header(capability) +
           ".visible .entry k(.param .align 64 .b8 map[128])\n{\n"
           ".reg .b64 %rd<2>;\nmov.b64 %rd0, map;\n"
           "cvta.param.u64 %rd1, %rd0;\n" +
           spelling + "\nret;\n}\n";
  };
  for (const char *good :
       {"prefetch.tensormap [%rd1];", "prefetch.param.tensormap [%rd0];",
        "prefetch.global.L2 [%rd1];", "prefetchu.L1 [%rd1];"})
    EXPECT_TRUE(bool(parse(text(good, 90)))) << good;
  for (const char *bad :
       {"prefetch.global.tensormap [%rd1];", "prefetch.param.L1 [%rd0];",
        "prefetchu.tensormap [%rd1];", "prefetch [%rd1];"})
    expectError(text(bad, 90), 9, "not known");
  expectError(text("prefetch.tensormap [%rd1];", 80), 9, "needs sm_90");
}

TEST(SimParser, NestedScopesRedeclareRegistersAndLabels) {
  Bench b;
  b.clean("mov.u32 %r10, 1;\n"
          "{ .reg .b32 t; .reg .pred P;\nmov.u32 t, 5;\n"
          "setp.eq.u32 P, t, 5;\n@P bra DONE;\nmov.u32 %r10, 100;\nDONE:\n"
          "add.u32 %r10, %r10, t;\n}\n"
          "{ .reg .b32 t; .reg .pred P;\nmov.u32 t, 7;\n"
          "setp.eq.u32 P, t, 5;\n@P bra DONE;\nadd.u32 %r10, %r10, t;\nDONE:\n"
          "}\nst.global.u32 [%my], %r10;");
  EXPECT_EQ(b.out[31], 13u);
}

TEST(SimParser, NumbersInAllForms) {
  Bench b;
  EXPECT_EQ(b.eval("mov.u32 %r10, 0xffU;"), 255u);
  EXPECT_EQ(b.eval("mov.u32 %r10, -1;"), 0xffffffffu);
  EXPECT_EQ(b.eval("mov.u32 %r10, 017;"), 15u);
  EXPECT_EQ(b.eval("mov.f32 %r10, 0f3F800000;"), 0x3f800000u);
  EXPECT_EQ(b.eval("mov.f32 %r10, 1.5;"), 0x3fc00000u);
  EXPECT_EQ(b.eval("mov.f32 %r10, -0f3F800000;"), 0xbf800000u);
}

TEST(SimParser, DebugSectionsAndLocations) {
  std::string text = header(80) +
                     ".visible .entry k()\n{\n.reg .b32 %r<4>;\n"
                     ".loc 1 42 7, function_name $L, inlined_at 1 3 3\n"
                     "add.s32 %r1, %r0, 1;\nret;\n}\n"
                     ".file 1 \"kernel.mlir\"\n"
                     ".section .debug_str {\n$L: .b8 1,2,3\n}\n";
  // .file stands before the kernel in what LLVM prints.
  text = text.substr(0, text.find(".visible")) + ".file 1 \"kernel.mlir\"\n" +
         text.substr(text.find(".visible"));
  auto program = parsed(text);
  ASSERT_TRUE(program);
  Launch l;
  l.program = program;
  l.kernel = "k";
  Result r = run({l}, {}, {});
  ASSERT_EQ(r.reports.size(), 1u); // %r0 is never written
  EXPECT_EQ(r.reports[0].rule, 11u);
  EXPECT_EQ(r.reports[0].line, 9u);
  EXPECT_EQ(r.reports[0].file, "kernel.mlir");
  EXPECT_EQ(r.reports[0].sourceLine, 42u);
  EXPECT_EQ(r.reports[0].sourceColumn, 7u);
}

TEST(SimParser, KernelInfo) {
  auto program =
      parsed(header(90) +
             ".visible .entry k(.param .align 64 .b8 map[128], .param .u32 n,\n"
             ".param .u64 .ptr .global .align 1 p)\n.maxntid 128, 2, 1\n{\n"
             ".shared .align 16 .b8 s[100];\nret;\n}\n");
  ASSERT_TRUE(program);
  KernelInfo info = kernels(*program).at(0);
  EXPECT_EQ(info.parameters.at(1).offset, 128u);
  EXPECT_EQ(info.parameters.at(2).offset, 136u);
  EXPECT_EQ(info.parameterBytes, 144u);
  EXPECT_EQ(info.maxThreads, 256u);
  EXPECT_EQ(info.staticSharedBytes, 100u);
  EXPECT_EQ(targetCapability(*program), 90u);
}

} // namespace
