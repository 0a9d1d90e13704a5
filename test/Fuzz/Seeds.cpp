//===- Seeds.cpp - manifests, expressions and files to begin with ---------===//

#include "Targets.h"

#include "Files.h"
#include "Npy.h"
#include "Simulator.h"

#include <fmt/format.h>

#include <cstring>

namespace fa2::fuzz {

namespace {

std::string kernel(const char *name) {
  return fa2run::readFile(std::string(FUZZ_KERNELS) + "/" + name);
}

std::string withChoices(std::string text, std::string choices) {
  return std::move(text) + '\0' + std::move(choices);
}

/// A manifest of one kernel `k` with these parameters, and its PTX.
std::string program(const std::string &parameters, const std::string &ptx,
                    int sharedBytes = 4096) {
  return R"json(// fa2-manifest-begin
// {"fa2_manifest": 1, "compiler": "by hand", "schedule": {},
//  "specification": {"pass": "copy", "dtype": "bf16", "head_dim": 64, "head_dim_v": 64, "mask": "none"},
//  "target": {"arch": "sm_90a", "family": true, "min_compute_capability": 90, "ptx": "8.0", "min_driver": 12000},
//  "arguments": [
//   {"name": "v", "kind": "tensor", "direction": "in", "dtype": "bf16", "shape": ["b", "s", "h", 64], "alignment": 16, "stride_multiple": 8},
//   {"name": "o", "kind": "tensor", "direction": "out", "dtype": "bf16", "shape": ["b", "s", "h", 64], "alignment": 16, "stride_multiple": 8},
//   {"name": "n", "kind": "scalar", "dtype": "i64", "default": 1}],
//  "requires": [], "workspace": {"bytes": "64 * b", "alignment": 16},
//  "launches": [{"kernel": "k", "when": "b >= 0", "grid": [1, "max(h, 1)", 1], "block": [32, 1, 1], "cluster": [1, 1, 1],
//   "shared_bytes": )json" +
         std::to_string(sharedBytes) + ", \"parameters\": [" + parameters +
         "]}]}\n// fa2-manifest-end\n.version 8.0\n.target sm_90a\n"
         ".address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n" +
         ptx;
}

std::string loadInto(const char *box, int at, int bytes) {
  return std::string(".visible .entry k(.param .align 64 .b8 m[128]) {\n"
                     ".reg .b64 %a;\n.reg .pred %p;\nmov.b64 %a, m;\n"
                     "cvta.param.u64 %a, %a;\n"
                     "mbarrier.init.shared::cta.b64 [dyn], 32;\n"
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [dyn], ") +
         std::to_string(bytes) +
         ";\ncp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::"
         "complete_tx::bytes [dyn+" +
         std::to_string(at) + "], [%a, " + box + "], [dyn];\nret;\n}\n";
}

} // namespace

std::vector<std::string> manifestSeeds() {
  std::vector<std::string> seeds;
  for (const char *name : {"naive_forward.ptx", "tma_copy.ptx"}) {
    std::string text = kernel(name);
    // The entry's parameters are all that is read of the PTX.
    text.resize(text.find(")\n", text.find(".entry")) + 2);
    for (const char *choices : {"", "\1\1\1\1\1\1\1\1\1\1\1\1\1\1",
                                "\4\5\6\7\10\11\12\13\14\15\16\17\20"})
      seeds.push_back(withChoices(text, choices));
  }
  for (const std::string &text : programSeeds())
    seeds.push_back(text);
  return seeds;
}

std::vector<std::string> expressionSeeds() {
  std::vector<std::string> seeds;
  for (const char *text :
       {"a + b * (c - 3) / 2 % 5", "ceildiv(seqlen_q, 128)",
        "if(heads == 1, min(a, b), max(a, -b))", "pow2floor(q.stride[0])",
        "!(a <= b) && gone > 1 || device.l2_bytes != 0",
        "9223372036854775807 + 1", "-9223372036854775807 - 1", "a / 0",
        "((((((((a))))))))", "if(1, a, gone)", "- - ! ! a"})
    seeds.push_back(withChoices(text, "\1\2\3\4\5\6\7\21\22\23\24\25\20"));
  return seeds;
}

std::vector<std::string> programSeeds() {
  const char *map =
      R"({"kind": "tensor_map", "of": "v", "box_rows": 1, "box_cols": 8, "swizzle": 128})";
  std::vector<std::string> seeds = {
      withChoices(kernel("tma_copy.ptx"), std::string("\0\1\2\1", 4)),
      program(map, loadInto("{0, 0, 0, 0}", 896, 16), 912),
      program(map, loadInto("{0, 0, 0, 0}", 128, 16)),
      program(map, loadInto("{0, -100, 0, 0}", 128, 16)),
      program(
          R"({"kind": "pointer", "of": "v"}, {"kind": "i32", "value": "b"})",
          ".visible .entry k(.param .u64 a, .param .u32 b) {\n"
          ".reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [a];\n"
          "ld.global.u32 %r, [%a];\nst.shared.u32 [dyn], %r;\nret;\n}\n"),
      program(
          R"({"kind": "i64", "value": "n * 8"}, {"kind": "workspace", "offset": 16}, {"kind": "stride", "of": "o", "dim": 1})",
          ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) "
          "{ ret; }\n")};
  // Two readers of one text: sections, vectors, strings, lines of debugging.
  const std::string one = R"({"kind": "i64", "value": 4702111234474983745})";
  for (const char *before :
       {".section .debug_x\n{ .entry k(.param .u64 a, .param .u64 b) }\n",
        ".file 1 \"a\\\".entry k(.param .u64 a, .param .u64 b)\"\n",
        ".file 1 \"a\" .entry k(.param .u64 a, .param .u64 b)\n"})
    for (const std::string &parameters : {one, one + ", " + one})
      seeds.push_back(program(
          parameters,
          before + std::string(".visible .entry k(.param .u64 a) { ret; }\n")));
  seeds.push_back(program(R"({"kind": "i32", "value": 1})",
                          ".visible .entry k(.param .v4 .u32 a) { ret; }\n"));
  // A map of sixteen numbers: magic, base, rank 5, element 1, boxes of 256
  // (in the upper half of a word).
  const uint64_t box = uint64_t(256) << 32;
  std::string forged;
  for (uint64_t number :
       {fa2::sim::TensorMap::kMagic, uint64_t(4096), 5 + 256 + box, 256 + box,
        256 + (uint64_t(1) << 32), uint64_t(256), uint64_t(256), uint64_t(256),
        uint64_t(256), uint64_t(1), uint64_t(16), uint64_t(16), uint64_t(16),
        uint64_t(16), uint64_t(0), uint64_t(0)})
    forged += fmt::format("{}{{\"kind\": \"i64\", \"value\": {}}}",
                          forged.empty() ? "" : ", ", number);
  std::string entry = ".visible .entry k(";
  for (int i = 0; i < 16; ++i)
    entry += std::string(i ? ", " : "") +
             (i ? ".param .u64 p" : ".param .align 64 .u64 p") +
             std::to_string(i);
  std::string load = loadInto("{0, 0, 0, 0, 0}", 128, 16);
  load.replace(load.find("tensor.4d"), 9, "tensor.5d");
  load.replace(load.find("mov.b64 %a, m"), 13, "mov.b64 %a, p0");
  seeds.push_back(program(forged, entry + load.substr(load.find(") {"))));
  for (size_t i = 1; i < seeds.size(); ++i)
    seeds[i] = withChoices(seeds[i], std::string(1, char(i)) + "\2\3\2\1\2");
  return seeds;
}

std::vector<std::string> npySeeds() {
  std::vector<std::string> seeds;
  auto file = [&](const std::string &header, const std::string &data,
                  char major) {
    std::string bytes("\x93NUMPY", 6);
    bytes += {major, '\0', char(header.size() & 255), char(header.size() >> 8)};
    if (major > 1)
      bytes += std::string(2, '\0');
    seeds.push_back(bytes + header + data);
  };
  const std::string tail = "', 'fortran_order': False, 'shape': (2, 1, )}\n";
  const std::string data("\0\0\x80\x3f\0\0\0\x40\0\0\xc0\x7f\1\2\3\4", 16);
  file("{'descr': '<f4" + tail, data.substr(0, 8), 1);
  file("{'descr': '<f2" + tail, data.substr(0, 4), 2);
  file("{'descr': '|V2" + tail, data.substr(0, 4), 3);
  file("{'descr': '<f8" + tail, data, 1);
  file("{'descr': '<f4', 'fortran_order': True, 'shape': ()}", "abcd", 1);
  file("{'shape': (0, 9223372036854775807), 'fortran_order': False, "
       "'descr': '<f4'}",
       "", 1);
  seeds.push_back(fa2run::formatNpy({{2, 3}, {1, 2, 3, 4, 5, 6}}, true));
  return seeds;
}

std::vector<std::string> sweepSeeds() {
  return {
      R"({"batch":2,"heads":4,"heads_kv":2,"seqlen_q":33,"seqlen_k":0,"layout":"bhsd","row_padding":1,"tail_rows":3,"random_scale":6.5,"sign":true,"seed":18446744073709551615,"scale":0.25})",
      R"({"batch":2.9})",
      R"({"heads":1e40,"heads_kv":-0})",
      R"({"heads":55555555555555555555555555555555555555})",
      R"({"seed":-1})",
      R"({"random_scale":1e308,"scale":-0.0})",
      R"([1])",
      R"({"batch":"\u0000\ud800","":null})"};
}

} // namespace fa2::fuzz
