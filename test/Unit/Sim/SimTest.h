//===- SimTest.h - Helpers of the simulator's unit tests -------*- C++ -*-===//
#ifndef FA2_TEST_UNIT_SIM_SIMTEST_H
#define FA2_TEST_UNIT_SIM_SIMTEST_H

#include "Simulator.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace fa2::sim::test {

inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float value(uint32_t x) { return std::bit_cast<float>(x); }

/// A contiguous region over a vector.
template <class T>
Region regionOf(const char *name, std::vector<T> &data, bool writable) {
  Region r;
  r.name = name;
  r.base = reinterpret_cast<uint64_t>(data.data());
  r.elementBytes = sizeof(T);
  r.shape = {int64_t(data.size())};
  r.strides = {1};
  r.writable = writable;
  return r;
}

inline std::string header(unsigned capability) {
  return ".version 8.0\n.target sm_" + std::to_string(capability) +
         (capability == 90 ? "a" : "") + "\n.address_size 64\n";
}

/// Parses, fails the test with the parser's message otherwise.
inline std::shared_ptr<const Module> parsed(const std::string &text) {
  ParseResult r = parse(text);
  EXPECT_TRUE(bool(r)) << "line " << r.error.line << ": " << r.error.text;
  return r.program;
}

/// A kernel "k" with pointers `in` and `out` whose body is `body`. %in and
/// %out are its u64 parameters, %tid the thread, %lane = tid * 4.
struct Bench {
  unsigned capability = 80;
  uint32_t threads = 32, blocks = 1, dynamicShared = 0;
  std::array<uint32_t, 3> cluster{1, 1, 1};
  std::string declarations;
  std::vector<uint32_t> in = std::vector<uint32_t>(256);
  std::vector<uint32_t> out = std::vector<uint32_t>(4096, 0xdeadbeef);
  Options options;

  std::string text(const std::string &body) const {
    return header(capability) + ".extern .shared .align 1024 .b8 dyn[];\n" +
           declarations +
           ".visible .entry k(.param .u64 pin, .param .u64 pout)\n"
           ".maxntid " +
           std::to_string(threads) +
           "\n{\n"
           ".reg .b64 %in, %out, %my, %rd<64>;\n"
           ".reg .b32 %tid, %lane, %r<128>;\n"
           ".reg .f32 %f<64>;\n.reg .b16 %h<32>;\n.reg .pred %p<16>;\n"
           ".reg .b64 %lane64;\n"
           "ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\n"
           "mov.u32 %tid, %tid.x;\nshl.b32 %lane, %tid, 2;\n"
           "cvt.u64.u32 %lane64, %lane;\nadd.s64 %my, %out, %lane64;\n" +
           body + "\nret;\n}\n";
  }
  Launch launch(const std::string &body) {
    Launch l;
    l.program = parsed(text(body));
    l.kernel = "k";
    l.grid = {blocks, 1, 1};
    l.block = {threads, 1, 1};
    l.cluster = cluster;
    l.dynamicSharedBytes = dynamicShared;
    l.parameters.resize(16);
    uint64_t pointers[2] = {reinterpret_cast<uint64_t>(in.data()),
                            reinterpret_cast<uint64_t>(out.data())};
    std::memcpy(l.parameters.data(), pointers, 16);
    return l;
  }
  Result run(const std::string &body) {
    Launch l = launch(body);
    if (!l.program)
      return {};
    options.capability = capability;
    return sim::run(
        {l}, {regionOf("in", in, false), regionOf("out", out, true)}, options);
  }
  /// Runs and expects no report at all but deviations.
  void clean(const std::string &body) {
    Result r = run(body);
    EXPECT_EQ(r.error, "");
    for (const Report &report : r.reports)
      if (report.severity != Severity::Deviation)
        ADD_FAILURE() << toString(report);
  }
  /// Runs under several seeds and completions and expects a report of a rule
  /// each time.
  void expectRule(unsigned rule, const std::string &body,
                  Severity severity = Severity::Error) {
    for (uint64_t seed = 0; seed < 4; ++seed)
      for (Completion c :
           {Completion::Early, Completion::Late, Completion::Random}) {
        options.seed = seed;
        options.completion = c;
        Result r = run(body);
        bool found = false;
        std::string all = r.error;
        for (const Report &report : r.reports) {
          found |= report.rule == rule && report.severity == severity;
          all += "\n" + toString(report);
        }
        EXPECT_TRUE(found) << "no report of rule " << rule << ", seed " << seed
                           << ", got: " << all;
      }
  }
  /// Under every seed some error is reported; which one depends on the order.
  void expectCaught(const std::string &body) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      options.seed = seed;
      EXPECT_FALSE(run(body).ok()) << "nothing reported with seed " << seed;
    }
  }
  /// Runs under several seeds and completions without any report.
  void expectClean(const std::string &body) {
    for (uint64_t seed = 0; seed < 4; ++seed)
      for (Completion c :
           {Completion::Early, Completion::Late, Completion::Random}) {
        options.seed = seed;
        options.completion = c;
        clean(body);
      }
  }

  // One instruction on up to three 32-bit inputs %r0, %r1, %r2; the result is
  // %r10.
  uint32_t eval(const std::string &instruction, uint32_t a = 0, uint32_t b = 0,
                uint32_t c = 0) {
    in[0] = a;
    in[1] = b;
    in[2] = c;
    clean("ld.global.b32 %r0, [%in];\nld.global.b32 %r1, [%in+4];\n"
          "ld.global.b32 %r2, [%in+8];\n" +
          instruction + "\nst.global.b32 [%my], %r10;");
    return out[0];
  }
  uint64_t eval64(const std::string &instruction, uint64_t a = 0,
                  uint64_t b = 0, uint64_t c = 0) {
    uint64_t values[3] = {a, b, c};
    std::memcpy(in.data(), values, 24);
    clean("ld.global.b64 %rd0, [%in];\nld.global.b64 %rd1, [%in+8];\n"
          "ld.global.b64 %rd2, [%in+16];\nadd.s64 %rd20, %my, %lane64;\n" +
          instruction + "\nst.global.b64 [%rd20], %rd10;");
    uint64_t result;
    std::memcpy(&result, out.data(), 8);
    return result;
  }
};

} // namespace fa2::sim::test

#endif // FA2_TEST_UNIT_SIM_SIMTEST_H
