//===- KernelTest.cpp - A whole kernel: numbers, seeds, profile -----------===//

#include "Numerics.h"
#include "SimTest.h"

#include <chrono>
#include <fstream>
#include <random>
#include <sstream>

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

std::string fileText(const std::string &name) {
  std::ifstream file(std::string(FA2SIM_PTX_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One head of attention, head dim 64, on ptx/flash.ptx.
struct Flash {
  int s;
  std::vector<u16> q, k, v, o;
  std::vector<float> lse;
  explicit Flash(int s, float scaleUp = 1, bool oneSided = false)
      : s(s), q(size_t(s) * 64), k(q.size()), v(q.size()), o(q.size(), 0x7fff),
        lse(size_t(s), NAN) {
    std::mt19937 g(5);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < q.size(); ++i) {
      float x = normal(g), y = normal(g);
      if (oneSided) {
        x = std::fabs(x);
        y = -std::fabs(y);
      }
      q[i] = floatToBfloat(scaleUp * x);
      k[i] = floatToBfloat(y);
      v[i] = floatToBfloat(normal(g));
    }
  }
  Result run(const std::string &text, const Options &options) {
    Launch l;
    l.program = parsed(text);
    if (!l.program)
      return {};
    l.kernel = "flash";
    l.grid = {unsigned(s + 63) / 64, 1, 1};
    l.block = {128, 1, 1};
    l.dynamicSharedBytes = (64 + 4 * 32) * 128;
    KernelInfo info = kernels(*l.program).at(0);
    l.parameters.resize(info.parameterBytes);
    unsigned next = 0;
    auto put = [&](auto x) {
      std::memcpy(l.parameters.data() + info.parameters.at(next++).offset, &x,
                  sizeof x);
    };
    put(q.data());
    put(k.data());
    put(v.data());
    put(o.data());
    put(lse.data());
    put(s);
    put(1);
    for (int64_t stride : {int64_t(s) * 64, int64_t(s) * 64, int64_t(64)})
      put(stride);
    put(1.44269504f / 8);
    auto tensor = [&](const char *name, std::vector<u16> &data, bool out) {
      Region r = regionOf(name, data, out);
      r.storedOnce = out;
      r.initialised = !out;
      return r;
    };
    Region l2 = regionOf("lse", lse, true);
    l2.storedOnce = true;
    l2.initialised = false;
    return fa2::sim::run({l},
                         {tensor("q", q, false), tensor("k", k, false),
                          tensor("v", v, false), tensor("o", o, true), l2},
                         options);
  }
  /// Largest errors against float64.
  std::pair<double, double> errors() const {
    double worst = 0, worstLse = 0;
    for (int i = 0; i < s; ++i) {
      std::vector<double> p(static_cast<size_t>(s));
      double most = -INFINITY, sum = 0;
      for (int j = 0; j < s; ++j) {
        double x = 0;
        for (int d = 0; d < 64; ++d)
          x += double(bfloatToFloat(q[size_t(i * 64 + d)])) *
               bfloatToFloat(k[size_t(j * 64 + d)]);
        p[size_t(j)] = x / 8;
        most = std::max(most, x / 8);
      }
      for (double &x : p)
        sum += x = std::exp(x - most);
      for (int d = 0; d < 64; ++d) {
        double x = 0;
        for (int j = 0; j < s; ++j)
          x += p[size_t(j)] * bfloatToFloat(v[size_t(j * 64 + d)]);
        double e = std::fabs(x / sum - bfloatToFloat(o[size_t(i * 64 + d)]));
        worst = e <= worst ? worst : e;
      }
      double e = std::fabs(most + std::log(sum) - lse[size_t(i)]) /
                 (1 + std::fabs(lse[size_t(i)]));
      worstLse = e <= worstLse ? worstLse : e;
    }
    return {worst, worstLse};
  }
};

TEST(SimKernel, RightAndSilentUnderSeeds) {
  std::string text = fileText("flash.ptx");
  for (int s : {1, 31, 64, 77, 130}) {
    std::vector<u16> first;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Flash flash(s);
      Options options;
      options.seed = seed;
      options.completion = Completion(seed % 3);
      options.residentBlocks = unsigned(seed % 3);
      options.strict = true;
      Result r = flash.run(text, options);
      EXPECT_TRUE(r.ok()) << toJson(r);
      EXPECT_TRUE(r.reports.empty());
      auto [error, lse] = flash.errors();
      EXPECT_LT(error, 0.02) << s;
      EXPECT_LT(lse, 1e-5) << s;
      if (first.empty())
        first = flash.o;
      EXPECT_EQ(first, flash.o) << "the result depends on the seed";
    }
  }
}

TEST(SimKernel, OneSidedScoresAndLargeOnes) {
  std::string text = fileText("flash.ptx");
  Flash oneSided(77, 1, true), large(77, 60, false);
  Options options;
  EXPECT_TRUE(oneSided.run(text, options).ok());
  EXPECT_TRUE(large.run(text, options).ok());
  EXPECT_LT(oneSided.errors().second, 1e-5);
  EXPECT_LT(large.errors().second, 1e-5);
}

TEST(SimKernel, Profile) {
  Flash flash(128);
  Options options;
  options.profile = true;
  Result r = flash.run(fileText("flash.ptx"), options);
  const Profile &p = r.profile;
  // Two products of 128 x 128 x 64.
  EXPECT_EQ(p.tensorOperations, 2u * 2 * 128 * 128 * 64);
  EXPECT_EQ(p.blocks, 2u);
  // Q once, K and V once a block.
  EXPECT_EQ(p.globalLoadBytes, 128u * 128 + 2 * 2 * 128 * 128);
  EXPECT_EQ(p.globalStoreBytes, 128u * 128 + 128 * 4);
  EXPECT_EQ(p.bankConflicts, 0u);
  EXPECT_EQ(p.instructions.at("tensor_core"), 2u * 4 * 4 * (4 * 4 + 2 * 8));
  uint64_t executions = 0;
  for (const LineProfile &line : p.lines)
    executions += line.executions;
  EXPECT_EQ(executions, p.warpInstructions);
  EXPECT_EQ(executions, r.warpInstructions);
  std::string json = toJson(r);
  EXPECT_NE(json.find("\"tensor_operations\":4194304"), std::string::npos);
}

// The swizzle removed from an address makes eight-way conflicts: the meter
// sees them.
TEST(SimKernel, BankConflicts) {
  Bench b;
  b.dynamicShared = 8192;
  b.options.profile = true;
  Result r = b.run("mov.u32 %r0, dyn;\nshl.b32 %r1, %tid, 7;\n"
                   "add.u32 %r0, %r0, %r1;\nst.shared.u32 [%r0], %tid;");
  EXPECT_EQ(r.profile.bankConflicts, 31u);
  r = b.run("mov.u32 %r0, dyn;\nshl.b32 %r1, %tid, 4;\nadd.u32 %r0, %r0, %r1;\n"
            "st.shared.v4.u32 [%r0], {%tid,%tid,%tid,%tid};");
  EXPECT_EQ(r.profile.bankConflicts, 0u);
}

} // namespace
