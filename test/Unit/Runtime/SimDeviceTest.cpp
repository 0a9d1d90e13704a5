//===- SimDeviceTest.cpp - the simulator as the runtime's device ----------===//

#include "SimDevice.h"
#include "TmaCopy.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace fa2rt::test;

namespace {

std::string naivePtx() { return kernelText(KERNELS "/naive_forward.ptx"); }

/// The naive kernel on inputs of 1: 5 queries, 4 keys, 2 heads, 1 key head.
struct Case {
  fa2rtDevice *device = nullptr;
  fa2rtProgram *program = nullptr;
  std::vector<uint16_t> ones = std::vector<uint16_t>(1024, 0x3f80);
  std::vector<uint16_t> out = std::vector<uint16_t>(96, 0xffff);
  std::vector<float> lse = std::vector<float>(16, NAN);
  int64_t q[4] = {1, 5, 2, 16}, k[4] = {1, 4, 1, 16}, v[4] = {1, 4, 1, 8},
          o[4] = {1, 5, 2, 8}, l[3] = {1, 2, 5};

  explicit Case(const char *name, const std::string &ptx = naivePtx()) {
    EXPECT_EQ(fa2rtDeviceOpen(name, &device), FA2RT_OK) << fa2rtLastError();
    EXPECT_EQ(
        fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
        FA2RT_OK)
        << fa2rtLastError();
  }
  ~Case() {
    fa2rtProgramUnload(program);
    fa2rtDeviceClose(device);
  }
  fa2rtStatus launch() {
    fa2rtArgument arguments[] = {
        fa2rtTensor("q", ones.data(), FA2RT_BF16, 4, q, nullptr),
        fa2rtTensor("k", ones.data() + 256, FA2RT_BF16, 4, k, nullptr),
        fa2rtTensor("v", ones.data() + 512, FA2RT_BF16, 4, v, nullptr),
        fa2rtTensor("out", out.data(), FA2RT_BF16, 4, o, nullptr),
        fa2rtTensor("lse", lse.data(), FA2RT_F32, 3, l, nullptr)};
    return fa2rtLaunch(program, arguments, 5, nullptr, 0, nullptr);
  }
};

} // namespace

TEST(SimDevice, RunsTheKernel) {
  for (const char *name : {"sim", "sim:sm_80", "sim:sm_90", "sim?strict",
                           "sim:sm_90?seed=3&resident=2&completion=late"}) {
    Case c(name);
    ASSERT_EQ(c.launch(), FA2RT_OK) << fa2rtLastError();
    for (size_t i = 0; i < 80; ++i)
      EXPECT_EQ(c.out[i], i < 16 ? 0 : 0x3f80) << i; // row 0 sees no key
    for (size_t i = 80; i < 96; ++i)
      EXPECT_EQ(c.out[i], 0xffff) << i;
    for (size_t i = 0; i < 10; ++i)
      EXPECT_NEAR(std::exp(c.lse[i] - 4), double(i % 5), 1e-4) << i;
  }
}

TEST(SimDevice, Properties) {
  fa2rtDevice *device = nullptr;
  fa2rtDeviceProperties properties;
  ASSERT_EQ(fa2rtDeviceOpen("sim:sm_90?sms=4", &device), FA2RT_OK);
  ASSERT_EQ(fa2rtDeviceGetProperties(device, &properties), FA2RT_OK);
  EXPECT_EQ(properties.is_simulated, 1);
  EXPECT_EQ(properties.compute_capability, 90);
  EXPECT_EQ(properties.multiprocessors, 4);
  EXPECT_EQ(properties.shared_bytes_per_block, 232448);
  EXPECT_EQ(fa2rtHasSimulator(), 1);
  fa2rtDeviceClose(device);
}

TEST(SimDevice, RefusesNamesAndOptions) {
  for (const char *name :
       {"sim:", "sim:sm_70", "sim:sm_80?seed", "sim?seed=x", "sim?seed=-1",
        "sim?sms=0", "sim?sms=4294967297", "sim?resident=4294967297",
        "sim?completion=soon", "sim?strict=1", "sim?fast", "sim?seed=1&&strict",
        "simx", "sim:sm_80x"}) {
    fa2rtDevice *device = nullptr;
    EXPECT_EQ(fa2rtDeviceOpen(name, &device), FA2RT_ERROR_ARGUMENT) << name;
    EXPECT_EQ(device, nullptr);
  }
}

TEST(SimDevice, ReportsBecomeErrors) {
  // The lse is stored one element too far: out of bounds on the last row.
  std::string ptx = naivePtx();
  size_t at = ptx.find("st.global.f32");
  ASSERT_NE(at, std::string::npos);
  Case c("sim", ptx.replace(ptx.find(']', at), 1, "+4]"));
  EXPECT_EQ(c.launch(), FA2RT_ERROR_SIMULATOR);
  EXPECT_CONTAINS(fa2rtLastError(), "the simulator reports");
  EXPECT_CONTAINS(fa2rtLastError(), "naive_forward");
}

TEST(SimDevice, ChecksTheElementsNotTheAllocation) {
  // The host's buffer goes on after the last key, but a fifth key is out of
  // bounds.
  std::string ptx = naivePtx();
  Case beyond("sim", replaced(ptx, "\"value\": \"seqlen_k\"",
                              "\"value\": \"seqlen_k + 1\""));
  EXPECT_EQ(beyond.launch(), FA2RT_ERROR_SIMULATOR);
  EXPECT_CONTAINS(fa2rtLastError(), "global");
}

TEST(SimDevice, WhatItCannotTakeIsRefusedAtLoad) {
  std::string ptx = replaced(naivePtx(), "st.global.f32", "st.global.f99");
  fa2rtDevice *device = nullptr;
  fa2rtProgram *program = nullptr;
  ASSERT_EQ(fa2rtDeviceOpen("sim", &device), FA2RT_OK);
  EXPECT_EQ(
      fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
      FA2RT_ERROR_SIMULATOR);
  EXPECT_CONTAINS(fa2rtLastError(), "line ");
  // The budget ends a run that takes too long.
  fa2rtDeviceClose(device);
  Case c("sim?budget=10");
  EXPECT_EQ(c.launch(), FA2RT_ERROR_SIMULATOR);
}

// The manifest says what stands in the parameters, the text where: a launch
// copies from one to the other.
TEST(SimDevice, RefusesParametersOfOtherSizes) {
  const std::string naive = naivePtx(),
                    last = ".param .f32 naive_forward_param_22";
  const std::string section =
      ".section .debug_x\n{\n" + naive.substr(naive.find(".visible .entry")) +
      "}\n.visible .entry naive_forward(.param .u64 a) { ret; }\n";
  for (const std::string &ptx :
       {replaced(naive, last, ".param .v4 .f32 naive_forward_param_22"),
        naive.substr(0, naive.find(".visible .entry")) + section}) {
    fa2rtDevice *device = nullptr;
    fa2rtProgram *program = nullptr;
    ASSERT_EQ(fa2rtDeviceOpen("sim", &device), FA2RT_OK);
    EXPECT_EQ(
        fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
        FA2RT_ERROR_MANIFEST);
    EXPECT_CONTAINS(fa2rtLastError(), "the manifest gives");
    fa2rtDeviceClose(device);
  }
  // Nor does the simulator count on the manifest's check.
  auto device = fa2rt::openSimDevice("");
  const std::string text =
      ".version 7.0\n.target sm_80\n.entry k(.param .u64 a) { ret; }";
  using Request = fa2rt::KernelRequest;
  for (const Request &wanted :
       {Request{"k", {8, 8}, 32, 0}, {"k", {4}, 32, 0}, {"k", {}, 32, 0}})
    EXPECT_CONTAINS(errorOf(FA2RT_ERROR_MANIFEST,
                            [&] {
                              device->load({text, {}, {&wanted, 1}});
                            }),
                    "in the simulator, the manifest gives");
  // Names of files with quotes in them are no reason.
  Case c("sim", replaced(naive, ".visible", ".file 1 \"a\\\"b\"\n.visible"));
  EXPECT_EQ(c.launch(), FA2RT_OK) << fa2rtLastError();
}

#ifndef __SANITIZE_ADDRESS__ // which ends the process instead
TEST(SimDevice, RunningOutOfMemoryIsNoReport) {
  // A byte an element of the output, 2^50 of them.
  Case c("sim");
  c.q[1] = c.o[1] = c.l[2] = INT32_MAX;
  c.q[2] = c.o[2] = c.l[1] = 65535;
  EXPECT_EQ(c.launch(), FA2RT_ERROR_MEMORY);
  EXPECT_CONTAINS(fa2rtLastError(), "not enough host memory");
}
#endif

TEST(SimDevice, Profile) {
  const char *json = nullptr;
  Case plain("sim");
  ASSERT_EQ(plain.launch(), FA2RT_OK);
  EXPECT_EQ(fa2rtProgramProfile(plain.program, &json), FA2RT_ERROR_ARGUMENT);
  Case c("sim?profile");
  EXPECT_EQ(fa2rtProgramProfile(c.program, &json), FA2RT_ERROR_ARGUMENT);
  ASSERT_EQ(c.launch(), FA2RT_OK);
  ASSERT_EQ(fa2rtProgramProfile(c.program, &json), FA2RT_OK);
  auto profile = nlohmann::json::parse(json)["profile"];
  EXPECT_EQ(profile["blocks"], 2);
  EXPECT_EQ(profile["global_store_bytes"], 80 * 2 + 10 * 4);
}

TEST(SimDevice, TensorMaps) {
  for (bool headsOutside : {false, true})
    for (const char *name :
         {"sim:sm_90?strict", "sim:sm_90a?sms=1", "sim:sm_90?sms=3&seed=5",
          "sim:sm_90?sms=4&seed=2&completion=late&resident=4"}) {
      TmaCopy c(name, {2, 50, 3, 72}, headsOutside);
      EXPECT_EQ(fa2rtWorkspaceZeroed(c.program), 1);
      // Launches of one stream share the workspace: it is left zeroed.
      for (int i = 0; i < 2; ++i) {
        c.out.assign(c.out.size(), 0xffff);
        ASSERT_EQ(c.launch(), FA2RT_OK) << name << fa2rtLastError();
        c.expectCopied();
        EXPECT_EQ(c.workspace[0], 0u);
        EXPECT_EQ(c.workspace[1], 0u);
      }
    }
}

TEST(SimDevice, Clusters) {
  auto ptx = [](const std::string &blocks) {
    return replaced(kernelText(KERNELS "/tma_copy.ptx"),
                    "\"cluster\": [1, 1, 1]",
                    "\"cluster\": [" + blocks + ", 1, 1]");
  };
  for (const char *name :
       {"sim:sm_90?strict", "sim:sm_90?strict&resident=1&seed=4",
        "sim:sm_90?strict&resident=2&completion=late"}) {
    TmaCopy c(name, {2, 50, 1, 72}, false, ptx("2")); // 6 blocks
    ASSERT_EQ(c.launch(), FA2RT_OK) << name << fa2rtLastError();
    c.expectCopied();
  }
  // The grid's blocks are whole clusters, and these are not too large.
  auto refusal = [&](const std::string &blocks, int64_t batch) {
    TmaCopy c("sim:sm_90", {batch, 50, 1, 72}, false, ptx(blocks));
    EXPECT_NE(c.launch(), FA2RT_OK);
    return std::string(fa2rtLastError());
  };
  EXPECT_CONTAINS(refusal("2", 1), "is 3 blocks, not a multiple of the "
                                   "cluster's 2");
  EXPECT_CONTAINS(refusal("12", 4), "cluster extent 12 is not 1 to 8");
}

TEST(SimDevice, TensorMapsOfOddExtents) {
  for (std::array<int64_t, 4> shape : {std::array<int64_t, 4>{1, 1, 1, 72},
                                       {1, 24, 1, 72},
                                       {3, 25, 1, 72},
                                       {1, 7, 5, 72},
                                       {0, 7, 5, 72},
                                       {2, 0, 5, 72},
                                       {2, 7, 0, 72}}) {
    TmaCopy c("sim:sm_90?sms=2&strict", shape, false);
    EXPECT_EQ(c.launch(), FA2RT_OK) << fa2rtLastError();
    c.expectCopied();
  }
}

// A launch may pass the map of an empty tensor, which has another's address. A
// copy through it is an error where there is none, also of a box that is out
// of range.
TEST(SimDevice, TensorMapsOfEmptyTensors) {
  for (std::array<int64_t, 4> shape :
       {std::array<int64_t, 4>{0, 7, 5, 72}, {2, 0, 5, 72}, {2, 7, 0, 72}}) {
    TmaCopy legal("sim:sm_90?strict", shape, false, tmaCopyOfNothing("0"));
    EXPECT_EQ(legal.launch(), FA2RT_OK) << fa2rtLastError();
    TmaCopy copies("sim:sm_90", shape, false,
                   replaced(tmaCopyOfNothing("1"), "mul.lo.u32 %r12, %r12, 24;",
                            "mov.u32 %r12, 24;"));
    if (shape[2] == 0) // the kernel divides by the heads
      continue;
    EXPECT_EQ(copies.launch(), FA2RT_ERROR_SIMULATOR);
    EXPECT_CONTAINS(fa2rtLastError(), "a copy through a tensor map whose base "
                                      "address is null");
  }
}

TEST(SimDevice, AWorkspaceOfZerosIsWhatTheManifestSays) {
  TmaCopy c(
      "sim:sm_90", {1, 50, 1, 72}, false,
      replaced(kernelText(KERNELS "/tma_copy.ptx"), ", \"zeroed\": true", ""));
  EXPECT_EQ(fa2rtWorkspaceZeroed(c.program), 0);
  EXPECT_EQ(c.launch(), FA2RT_ERROR_SIMULATOR);
  EXPECT_CONTAINS(fa2rtLastError(), "rule 11");
}

TEST(SimDevice, RefusesKernelsOfAnotherFamily) {
  fa2rtDevice *device = nullptr;
  fa2rtProgram *program = nullptr;
  std::string ptx = kernelText(KERNELS "/tma_copy.ptx");
  ASSERT_EQ(fa2rtDeviceOpen("sim:sm_80", &device), FA2RT_OK);
  EXPECT_EQ(
      fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
      FA2RT_ERROR_DEVICE);
  EXPECT_CONTAINS(
      fa2rtLastError(),
      "the kernels are for sm_90a, which runs on compute capability "
      "9.0 only; simulated sm_80 has 8.0");
  fa2rtDeviceClose(device);
}

// Where CUDA gives a status.
TEST(SimDevice, MemoryIsBounded) {
  fa2rtDevice *device = nullptr;
  ASSERT_EQ(fa2rtDeviceOpen("sim", &device), FA2RT_OK);
  void *memory = nullptr;
  ASSERT_EQ(fa2rtMemoryAllocate(device, 4096, &memory), FA2RT_OK);
  char host[64] = {}, *at = static_cast<char *>(memory);
  struct Range {
    void *memory;
    size_t bytes;
    const char *says;
  };
  for (auto [where, bytes, says] :
       {Range{nullptr, 1, "the device address is null"},
        {at, 4097, "4097 bytes at"},
        {at + 4090, 7, "beyond the end of their allocation of 4096 bytes"},
        {at + 1, SIZE_MAX, "beyond the end"},
        {at - 8, 16, "reach into an allocation that begins at"}}) {
    EXPECT_EQ(fa2rtMemoryCopyIn(device, where, host, bytes),
              FA2RT_ERROR_ARGUMENT);
    EXPECT_CONTAINS(fa2rtLastError(), says);
    EXPECT_EQ(fa2rtMemoryCopyOut(device, host, where, bytes),
              FA2RT_ERROR_ARGUMENT);
    EXPECT_EQ(fa2rtMemorySet(device, where, 0, bytes), FA2RT_ERROR_ARGUMENT);
  }
  EXPECT_EQ(fa2rtMemoryCopyIn(device, at, nullptr, 1), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(fa2rtLastError(), "'from_host' is null");
  EXPECT_EQ(fa2rtMemoryCopyOut(device, nullptr, at, 1), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtMemoryCopyIn(device, nullptr, nullptr, 0), FA2RT_OK);
  EXPECT_EQ(fa2rtMemorySet(device, at, 7, 4096), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryCopyOut(device, host, at + 4032, 64), FA2RT_OK);
  EXPECT_EQ(host[63], 7);
  // Memory of the host is device memory too.
  EXPECT_EQ(fa2rtMemorySet(device, host, 1, 64), FA2RT_OK);
  fa2rtDeviceClose(device);
}

// As on a GPU, on request.
TEST(SimDevice, SeparateMemoryIsWhatWasAllocated) {
  EXPECT_EQ(Case("sim").launch(), FA2RT_OK) << fa2rtLastError();
  Case c("sim:sm_80?separate");
  EXPECT_EQ(c.launch(), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(fa2rtLastError(), "q: the address");
  EXPECT_CONTAINS(fa2rtLastError(),
                  "is host memory that simulated sm_80 does not reach");
  void *memory = nullptr;
  ASSERT_EQ(fa2rtMemoryAllocate(c.device, 8192, &memory), FA2RT_OK);
  auto *at = static_cast<char *>(memory);
  ASSERT_EQ(fa2rtMemoryCopyIn(c.device, at, c.ones.data(), 2048), FA2RT_OK);
  auto launch = [&](void *lse) {
    fa2rtArgument arguments[] = {
        fa2rtTensor("q", at, FA2RT_BF16, 4, c.q, nullptr),
        fa2rtTensor("k", at + 512, FA2RT_BF16, 4, c.k, nullptr),
        fa2rtTensor("v", at + 1024, FA2RT_BF16, 4, c.v, nullptr),
        fa2rtTensor("out", at + 4096, FA2RT_BF16, 4, c.o, nullptr),
        fa2rtTensor("lse", lse, FA2RT_F32, 3, c.l, nullptr)};
    return fa2rtLaunch(c.program, arguments, 5, nullptr, 0, nullptr);
  };
  EXPECT_EQ(launch(at + 6144), FA2RT_OK) << fa2rtLastError();
  for (void *lse :
       {static_cast<void *>(c.lse.data()), static_cast<void *>(at + 8192)}) {
    EXPECT_EQ(launch(lse), FA2RT_ERROR_ARGUMENT);
    EXPECT_CONTAINS(fa2rtLastError(), "lse: the address");
  }
  EXPECT_EQ(fa2rtMemoryFree(c.device, memory), FA2RT_OK);
  EXPECT_EQ(launch(at + 6144), FA2RT_ERROR_ARGUMENT);
}

TEST(SimDevice, ProgramsAndEventsOutliveTheHandle) {
  fa2rtDevice *device = nullptr;
  fa2rtProgram *program = nullptr;
  fa2rtEvent *start = nullptr, *stop = nullptr;
  std::string ptx = naivePtx();
  ASSERT_EQ(fa2rtDeviceOpen("sim", &device), FA2RT_OK);
  ASSERT_EQ(fa2rtEventCreate(device, &start), FA2RT_OK);
  ASSERT_EQ(fa2rtEventCreate(device, &stop), FA2RT_OK);
  ASSERT_EQ(
      fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
      FA2RT_OK);
  fa2rtDeviceClose(device);
  float milliseconds = -1;
  EXPECT_EQ(fa2rtEventRecord(start, nullptr), FA2RT_OK);
  EXPECT_EQ(fa2rtEventRecord(stop, nullptr), FA2RT_OK);
  EXPECT_EQ(fa2rtEventElapsed(start, stop, &milliseconds), FA2RT_OK);
  EXPECT_GE(milliseconds, 0);
  fa2rtKernelInfo info;
  EXPECT_EQ(fa2rtProgramGetKernel(program, 0, &info), FA2RT_OK);
  fa2rtProgramUnload(program);
  fa2rtEventDestroy(start);
  fa2rtEventDestroy(stop);
}

TEST(SimDevice, MemoryOfHugeExtentCostsWhatItTouches) {
  fa2rtDevice *device = nullptr;
  ASSERT_EQ(fa2rtDeviceOpen("sim", &device), FA2RT_OK);
  void *memory = nullptr;
  size_t bytes = size_t(1) << 40;
  ASSERT_EQ(fa2rtMemoryAllocate(device, bytes, &memory), FA2RT_OK)
      << fa2rtLastError();
  int value = 42, back = 0;
  char *last = static_cast<char *>(memory) + bytes - sizeof value;
  EXPECT_EQ(fa2rtMemoryCopyIn(device, last, &value, sizeof value), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryCopyOut(device, &back, last, sizeof value), FA2RT_OK);
  EXPECT_EQ(back, 42);
  EXPECT_EQ(fa2rtMemoryFree(device, memory), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryFree(device, &back), FA2RT_ERROR_ARGUMENT);
  fa2rtDeviceClose(device);
}
