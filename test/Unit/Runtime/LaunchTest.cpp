//===- LaunchTest.cpp - arguments, plans and programs ---------------------===//

#include "Arguments.h"
#include "LaunchFixture.h"

#include <cmath>
#include <limits>
#include <map>
#include <thread>

using namespace fa2rt;
using namespace fa2rt::test;

TEST_F(Launch, FillsParametersInOrder) {
  call.arguments.push_back(fa2rtReal("scale", 0.5));
  program.launch(call.arguments, {workspace, 4096},
                 reinterpret_cast<void *>(uintptr_t(77)));
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), 1u); // splits is 1: the second grid is empty
  const RecordedLaunch &first = launches[0];
  EXPECT_EQ(first.kernel, 0u);
  EXPECT_EQ(first.grid, (std::array<uint32_t, 3>{3, 8, 2}));
  EXPECT_EQ(first.block, (std::array<uint32_t, 3>{128, 1, 1}));
  EXPECT_EQ(first.sharedBytes, 65536u);
  EXPECT_EQ(first.stream, reinterpret_cast<void *>(uintptr_t(77)));
  EXPECT_EQ(first.parameter<uint64_t>(0), 0x10000u);
  EXPECT_EQ(first.parameter<int64_t>(1), 512);
  EXPECT_EQ(first.parameter<int32_t>(2), 300);
  EXPECT_EQ(first.parameter<int64_t>(3), 42);
  EXPECT_EQ(first.parameter<float>(4), 0.5f);
  EXPECT_EQ(first.parameter<int32_t>(5), 1);
  EXPECT_EQ(first.parameter<int64_t>(6), 21);
  EXPECT_EQ(first.parameter<uint64_t>(7), 0x40010u);
  EXPECT_EQ(first.parameter<uint64_t>(8), 0u); // bias was left out
  EXPECT_EQ(first.parameter<uint8_t>(9), 1u);  // the first map encoded
  EXPECT_EQ(device.scopes, 0);
  EXPECT_EQ(device.allocations, 0);
  EXPECT_EQ(device.synchronisations, 0);
}

TEST_F(Launch, RunsEveryKernelWithWork) {
  call.arguments.push_back(fa2rtInteger("splits", 3));
  launch();
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[1].grid, (std::array<uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(launches[1].cluster, (std::array<uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(launches[1].parameter<uint64_t>(0), 0x30000u);
}

TEST_F(Launch, AListsFirstKernelIsNeverProgrammatic) {
  std::string text =
      replaced(samplePtx(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 3");
  for (const char *bytes : {"65536", "0"})
    text = replaced(text, fmt::format("\"shared_bytes\": {},", bytes),
                    fmt::format("\"shared_bytes\": {}, \"programmatic\": "
                                "true,",
                                bytes));
  text = replaced(text, "\"kernel\": \"first\",",
                  "\"kernel\": \"first\", \"when\": \"seqlen_k <= 500\",");
  Program chained(device, text, {});
  call.arguments.push_back(fa2rtInteger("splits", 3));
  call.kShape[1] = 500;
  chained.launch(call.arguments, {workspace, 4096}, nullptr);
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_FALSE(launches[0].programmatic);
  EXPECT_TRUE(launches[1].programmatic);
  // Where the first is left out, what is before the second is not the list's.
  call.kShape[1] = 501;
  chained.launch(call.arguments, {workspace, 4096}, nullptr);
  launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_FALSE(launches[0].programmatic);
}

TEST_F(Launch, RunsTheKernelsWhoseGuardHolds) {
  // "first" for short sequences, "second" for the others.
  std::string text =
      replaced(samplePtx(), "\"kernel\": \"first\",",
               "\"kernel\": \"first\", \"when\": \"seqlen_k <= 500\",");
  text = replaced(text, "\"kernel\": \"second\",",
                  "\"kernel\": \"second\", \"when\": \"!(seqlen_k <= 500)\", "
                  "\"schedule\": {\"block_q\": 64},");
  Program guarded(device, text, {});
  call.arguments.push_back(fa2rtInteger("splits", 3));
  for (auto [seqlenK, kernel] : {std::pair{500, 0u}, {501, 1u}}) {
    call.kShape[1] = seqlenK;
    guarded.launch(call.arguments, {workspace, 4096}, nullptr);
    auto launches = device.takeLaunches();
    ASSERT_EQ(launches.size(), 1u) << seqlenK;
    EXPECT_EQ(launches[0].kernel, kernel) << seqlenK;
    for (uint32_t k : {0u, 1u})
      EXPECT_EQ(guarded.runs(k, call.arguments), k == kernel) << seqlenK;
  }
  // What a launch that is left out would be refused for does not matter.
  call.arguments.back() = fa2rtInteger("splits", 2); // half a cluster
  call.kShape[1] = 500;
  guarded.launch(call.arguments, {workspace, 4096}, nullptr);
  EXPECT_EQ(device.takeLaunches().size(), 1u);
  call.kShape[1] = 501;
  EXPECT_CONTAINS(
      errorOf(FA2RT_ERROR_ARGUMENT,
              [&] {
                guarded.launch(call.arguments, {workspace, 4096}, nullptr);
              }),
      "not a multiple of the cluster's 2");
}

TEST_F(Launch, BroadcastsAnExtentOf1ByAStrideOf0) {
  std::string text =
      replaced(samplePtx(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 2");
  text = replaced(text, "\"optional\": true}", "\"broadcast\": true}");
  text = replaced(text, "{\"kind\": \"stride\", \"of\": \"q\", \"dim\": 1}",
                  "{\"kind\": \"stride\", \"of\": \"bias\", \"dim\": 0}");
  Program broadcasts(device, text, {});
  int64_t extent = 0, stride = 0;
  call.arguments.push_back(
      fa2rtTensor("bias", reinterpret_cast<void *>(uintptr_t(0x50000)),
                  FA2RT_F32, 1, &extent, &stride));
  auto launched = [&](int64_t e, int64_t s) {
    extent = e;
    stride = s;
    broadcasts.launch(call.arguments, {workspace, 4096}, nullptr);
    return device.takeLaunches().at(0).parameter<int64_t>(1);
  };
  EXPECT_EQ(launched(1, 7), 0);
  EXPECT_EQ(launched(call.kShape[1], 7), 7); // any stride, the innermost too
  EXPECT_EQ(launched(call.kShape[1], 0), 0);
  extent = 2;
  EXPECT_CONTAINS(
      errorOf(FA2RT_ERROR_ARGUMENT,
              [&] {
                broadcasts.launch(call.arguments, {workspace, 4096}, nullptr);
              }),
      "bias: extent 0 (seqlen_k) is 2");
}

TEST_F(Launch, AnOutputThatIsSummedHasAStrideOf0ForOneElementAlone) {
  std::string text =
      replaced(samplePtx(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 2");
  text = replaced(text, "\"optional\": true}", "\"broadcast\": true}");
  text = replaced(text, "\"bias\", \"kind\": \"tensor\", \"direction\": \"in\"",
                  "\"bias\", \"kind\": \"tensor\", \"direction\": \"out\"");
  text = replaced(text, "{\"kind\": \"stride\", \"of\": \"q\", \"dim\": 1}",
                  "{\"kind\": \"stride\", \"of\": \"bias\", \"dim\": 0}");
  Program sums(device, text, {});
  int64_t extent = 0, stride = 0;
  call.arguments.push_back(
      fa2rtTensor("bias", reinterpret_cast<void *>(uintptr_t(0x50000)),
                  FA2RT_F32, 1, &extent, &stride));
  auto launched = [&](int64_t e, int64_t s) {
    extent = e;
    stride = s;
    sums.launch(call.arguments, {workspace, 4096}, nullptr);
    return device.takeLaunches().at(0).parameter<int64_t>(1);
  };
  EXPECT_EQ(launched(1, 7), 0);
  EXPECT_EQ(launched(call.kShape[1], 7), 7);
  EXPECT_CONTAINS(
      errorOf(FA2RT_ERROR_ARGUMENT, [&] { launched(call.kShape[1], 0); }),
      "bias: stride 0 is 0 over an extent of");
  call.kShape[1] = 0;
  EXPECT_EQ(launched(0, 0), 1); // nothing to write
}

TEST_F(Launch, AGuardThatCannotBeEvaluatedIsRefused) {
  Program guarded(
      device,
      replaced(
          samplePtx(), "\"kernel\": \"first\",",
          "\"kernel\": \"first\", \"when\": \"heads / (seqlen_k - 500)\","),
      {});
  EXPECT_CONTAINS(
      errorOf(FA2RT_ERROR_ARGUMENT,
              [&] {
                guarded.launch(call.arguments, {workspace, 4096}, nullptr);
              }),
      "heads / (seqlen_k - 500)");
  EXPECT_TRUE(device.takeLaunches().empty());
}

TEST_F(Launch, ClusterMustDivideTheGrid) {
  call.arguments.push_back(fa2rtInteger("splits", 2));
  EXPECT_CONTAINS(refusal(), "not a multiple of the cluster's 2");
}

TEST_F(Launch, EmptyGridsAreSkipped) {
  call.qShape[1] = 0;
  call.arguments[0].data = call.arguments[2].data = nullptr; // no elements
  launch();
  EXPECT_TRUE(device.takeLaunches().empty());
  call.qShape = {0, 300, 8, 64};
  call.kShape = {0, 500, 4, 64};
  launch();
  EXPECT_TRUE(device.takeLaunches().empty());
}

TEST_F(Launch, StridesMayBeLeftOut) {
  call["k"].strides = nullptr;
  launch();
  EXPECT_EQ(device.maps.at(0).strides,
            (std::array<uint64_t, 3>{512, 128, 256000}));
}

TEST_F(Launch, RefusesNamesThatDoNotMatch) {
  call.arguments.push_back(fa2rtReal("scal", 1));
  EXPECT_CONTAINS(refusal(), "no argument 'scal' (it takes: q, k, out, bias");
  call.arguments.back() = call["q"];
  EXPECT_CONTAINS(refusal(), "'q' is given twice");
  call.arguments.back().name = nullptr;
  EXPECT_CONTAINS(refusal(), "argument 4 of the call has no name");
  call.arguments.pop_back();
  call.arguments.erase(call.arguments.begin());
  EXPECT_CONTAINS(refusal(), "'q' is missing");
  call.reset();
  call.arguments.pop_back();
  EXPECT_CONTAINS(refusal(), "'offset' is missing");
}

TEST_F(Launch, RefusesTheWrongKind) {
  call.arguments[0] = fa2rtReal("q", 1);
  EXPECT_CONTAINS(refusal(), "'q' is a tensor, not a scalar");
  call.reset();
  call["offset"] = call["q"];
  call.arguments.back().name = "offset";
  EXPECT_CONTAINS(refusal(), "'offset' is a scalar, not a tensor");
}

TEST_F(Launch, RefusesShapes) {
  call["q"].dtype = FA2RT_F16;
  EXPECT_CONTAINS(refusal(),
                  "q: dtype is f16, the kernel was compiled for bf16");
  call.reset();
  call["q"].dtype = fa2rtDType(99);
  EXPECT_CONTAINS(refusal(), "q: dtype is unknown");
  call.reset();
  call["q"].rank = 3;
  EXPECT_CONTAINS(refusal(), "q: rank is 3, the kernel takes 4");
  call.reset();
  call["q"].shape = nullptr;
  EXPECT_CONTAINS(refusal(), "q: no shape");
  call.reset();
  call.qShape[3] = 72;
  EXPECT_CONTAINS(refusal(),
                  "q: extent 3 is 72, the kernel was compiled for 64");
  call.reset();
  call.kShape[0] = 3;
  EXPECT_CONTAINS(refusal(), "k: extent 0 (batch) is 3, but q gives batch = 2");
  call.reset();
  call.qShape[1] = -1;
  EXPECT_CONTAINS(refusal(), "q: extent 1 is -1");
  call.reset();
  call.kShape[1] = int64_t(1) << 31;
  EXPECT_CONTAINS(refusal(), "extents are 0 to 2147483647");
}

TEST_F(Launch, RefusesStridesAndAddresses) {
  call.qStrides[3] = 2;
  EXPECT_CONTAINS(refusal(), "q: stride 3 (the innermost) is 2; it must be 1");
  call.reset();
  call.qStrides[1] = 516;
  EXPECT_CONTAINS(refusal(),
                  "q: stride 1 is 516 elements; it must be a multiple of 8");
  call.reset();
  call["q"].data = reinterpret_cast<void *>(uintptr_t(0x10008));
  EXPECT_CONTAINS(refusal(), "q: the address 0x10008 is not a multiple of 16");
  call.reset();
  call["q"].data = nullptr;
  EXPECT_CONTAINS(refusal(), "q: the address is null");
  call.reset();
  call.qStrides[0] = std::numeric_limits<int64_t>::max() - 7;
  EXPECT_CONTAINS(refusal(), "spans more than 2^62 bytes");
  call.qStrides[0] = std::numeric_limits<int64_t>::min();
  EXPECT_CONTAINS(refusal(), "spans more than 2^62 bytes");
}

TEST_F(Launch, OutputsDoNotOverlapThemselves) {
  call.arguments[2].strides = call.kStrides.data();
  call.kStrides = {0, 512, 64, 1};
  EXPECT_CONTAINS(refusal(), "out: stride 0 is 0 over an extent of 2");
  // An input may be broadcast.
  call.reset();
  call.arguments[0].strides = call.kStrides.data();
  call.kStrides = {0, 512, 64, 1};
  call.arguments[1].strides = nullptr;
  launch();
  EXPECT_EQ(device.takeLaunches().size(), 1u);
}

TEST_F(Launch, StridesOfSingleElementsAreFree) {
  call.qShape[0] = call.kShape[0] = 1;
  call.qStrides[0] = call.kStrides[0] = 3;
  launch();
  EXPECT_EQ(device.takeLaunches().size(), 1u);
}

TEST_F(Launch, RefusesScalars) {
  call.arguments.push_back(fa2rtReal("scale", 0));
  double inf = std::numeric_limits<double>::infinity();
  for (double bad : {0.0, -1.0, inf, -inf, std::nan(""), 1e300, 1e-60}) {
    call.arguments.back() = fa2rtReal("scale", bad);
    EXPECT_CONTAINS(refusal(), "scale: ");
  }
  call.arguments.back() = fa2rtInteger("scale", 2); // a whole number is fine
  launch();
  EXPECT_EQ(device.takeLaunches().at(0).parameter<float>(4), 2.0f);
  call.arguments.back() = fa2rtReal("splits", 1);
  EXPECT_CONTAINS(refusal(), "splits: expected an integer");
  call.arguments.back() = fa2rtInteger("splits", int64_t(1) << 31);
  EXPECT_CONTAINS(refusal(), "splits: 2147483648 is not within i32");
}

TEST_F(Launch, RefusesWhatTheManifestForbids) {
  call.qShape[2] = 6;
  std::string text = refusal();
  EXPECT_CONTAINS(text, "heads must be a multiple of heads_kv");
  EXPECT_CONTAINS(text, "heads_kv = 4, heads = 6");
}

TEST_F(Launch, RefusesOverflowByName) {
  call["offset"] = fa2rtInteger("offset", std::numeric_limits<int64_t>::max());
  EXPECT_CONTAINS(refusal(), "'offset * 2'");
}

TEST_F(Launch, RefusesGridsThatNoDeviceTakes) {
  call.qShape[0] = call.kShape[0] = 70000; // grid z
  call.qStrides[0] = call.kStrides[0] = 8;
  call["k"].strides = nullptr;
  call["q"].strides = call["out"].strides = nullptr;
  EXPECT_CONTAINS(refusal(), "grid z = 'batch' is 70000 blocks");
}

TEST_F(Launch, ChecksTheWorkspace) {
  EXPECT_EQ(program.workspaceBytes(call.arguments), 1200);
  auto refused = [&](WorkspaceRegion region) {
    return errorOf(FA2RT_ERROR_ARGUMENT,
                   [&] { program.launch(call.arguments, region, nullptr); });
  };
  EXPECT_CONTAINS(refused({nullptr, 0}),
                  "workspace is null; this launch needs 1200");
  EXPECT_CONTAINS(refused({workspace, 1199}),
                  "has 1199 bytes; this launch needs 1200");
  EXPECT_CONTAINS(refused({reinterpret_cast<void *>(uintptr_t(0x40010)), 4096}),
                  "not a multiple of 256");
  EXPECT_TRUE(device.takeLaunches().empty());
}

TEST_F(Launch, WorkspaceQueryLooksAtNoPointer) {
  for (fa2rtArgument &argument : call.arguments)
    argument.data = nullptr;
  EXPECT_EQ(program.workspaceBytes(call.arguments), 1200);
  call.arguments.push_back(fa2rtInteger("splits", -1));
  EXPECT_CONTAINS(errorOf(FA2RT_ERROR_ARGUMENT,
                          [&] { program.workspaceBytes(call.arguments); }),
                  "gives -1200 bytes");
}

TEST_F(Launch, LoadsOnceForEachContext) {
  EXPECT_EQ(device.loads, 1);
  launch();
  EXPECT_EQ(device.loads, 1);
  device.currentContext = 2;
  launch();
  launch();
  EXPECT_EQ(device.loads, 2);
  auto launches = device.takeLaunches();
  EXPECT_EQ(launches[0].context, 1u);
  EXPECT_EQ(launches[1].context, 2u);
}

TEST_F(Launch, MeasuresEachLaunch) {
  std::vector<float> times(7);
  std::span<const fa2rtArgument> arguments = call.arguments;
  program.measure({&arguments, 1}, {workspace, 4096}, nullptr, times);
  EXPECT_EQ(device.takeLaunches().size(), 8u); // one is untimed
  for (float time : times)
    EXPECT_EQ(time, 1.5f);
}

TEST_F(Launch, MeasuredLaunchesTakeSetsInTurn) {
  SampleCall other;
  other.arguments[0].data = reinterpret_cast<void *>(uintptr_t(0x90000));
  std::span<const fa2rtArgument> sets[] = {call.arguments, other.arguments};
  std::vector<float> times(4);
  program.measure(sets, {workspace, 4096}, nullptr, times);
  std::vector<uint64_t> addresses;
  for (const RecordedLaunch &launch : device.takeLaunches())
    addresses.push_back(launch.parameter<uint64_t>(0));
  // The untimed one leaves the last set in the cache, not the first.
  EXPECT_EQ(addresses, (std::vector<uint64_t>{0x90000, 0x10000, 0x90000,
                                              0x10000, 0x90000}));
}

TEST(Load, RefusesDevicesThatDoNotFit) {
  FakeDevice device;
  auto refused = [&](const std::string &ptx) {
    return errorOf(FA2RT_ERROR_DEVICE, [&] { Program(device, ptx, {}); });
  };
  device.info.computeCapability = 75;
  EXPECT_CONTAINS(refused(samplePtx()),
                  "need compute capability 8.0 or later; fake has 7.5");
  device.info.computeCapability = 100;
  std::string family =
      replaced(samplePtx(), "\"family\": false", "\"family\": true");
  EXPECT_CONTAINS(refused(family), "runs on compute capability 8.0 only");
  device.info.computeCapability = 80;
  device.info.driverVersion = 10020;
  EXPECT_CONTAINS(refused(samplePtx()),
                  "driver for CUDA 11.0 or later; this one is for CUDA 10.2");
  // A cubin needs no compilation by the driver.
  std::byte cubin[4] = {};
  EXPECT_NO_THROW(Program(device, samplePtx(), cubin));
  device.info.driverVersion = 13000;
  device.info.sharedBytesPerBlock = 49152;
  EXPECT_CONTAINS(refused(samplePtx()),
                  "shared_bytes is 65536; a block of fake gets at most 49152");
  EXPECT_EQ(device.loads, 1);
}

/// Several threads, each with sizes of its own, on one program. Also run
/// under -fsanitize=thread (FA2RT_SANITIZE=thread).
TEST(Threads, LaunchTogether) {
  FakeDevice device;
  Program program(device, samplePtx(), {});
  constexpr int kThreads = 8, kLaunches = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      SampleCall call;
      call.qShape[1] = 1000 + t;
      call["q"].strides = call["out"].strides = nullptr;
      call["k"].data = reinterpret_cast<void *>(uintptr_t(0x20000 + 256 * t));
      for (int i = 0; i < kLaunches; ++i) {
        call["offset"] = fa2rtInteger("offset", i);
        program.launch(call.arguments,
                       {reinterpret_cast<void *>(uintptr_t(0x40000)), 8192},
                       reinterpret_cast<void *>(uintptr_t(t + 1)));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), size_t(kThreads * kLaunches));
  std::map<uintptr_t, int64_t> next;
  std::map<uintptr_t, int> mapOf;
  for (const RecordedLaunch &launch : launches) {
    uintptr_t stream = reinterpret_cast<uintptr_t>(launch.stream);
    EXPECT_EQ(launch.parameter<int32_t>(2), int32_t(1000 + stream - 1));
    EXPECT_EQ(launch.parameter<int64_t>(6), next[stream]++);
  }
  EXPECT_EQ(device.loads, 1);
  EXPECT_EQ(device.scopes, 0);
}

TEST(Threads, FirstUseOfAContextLoadsOnce) {
  FakeDevice device;
  Program program(device, samplePtx(), {});
  device.currentContext = 2;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      SampleCall call;
      program.launch(call.arguments,
                     {reinterpret_cast<void *>(uintptr_t(0x40000)), 8192},
                     nullptr);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(device.loads, 2);
}
