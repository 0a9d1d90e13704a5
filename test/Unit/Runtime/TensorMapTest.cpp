//===- TensorMapTest.cpp - tensor maps of arguments -----------------------===//

#include "LaunchFixture.h"

using namespace fa2rt;
using namespace fa2rt::test;

TEST_F(Launch, TensorMapValues) {
  launch();
  ASSERT_EQ(device.maps.size(), 1u);
  const TensorMapRequest &map = device.maps[0];
  EXPECT_EQ(map.dims, (std::array<uint64_t, 4>{64, 500, 4, 2}));
  EXPECT_EQ(map.strides, (std::array<uint64_t, 3>{512, 128, 256000}));
  EXPECT_EQ(map.box, (std::array<uint32_t, 4>{64, 32, 1, 1}));
  EXPECT_EQ(map.swizzle, 128);
  EXPECT_EQ(map.dtype, FA2RT_BF16);
  EXPECT_EQ(map.data, reinterpret_cast<void *>(uintptr_t(0x20000)));
}

TEST_F(Launch, TensorMapsAreCachedByTheirValues) {
  launch();
  launch();
  EXPECT_EQ(device.maps.size(), 1u);
  call["k"].data = reinterpret_cast<void *>(uintptr_t(0x28000));
  launch();
  EXPECT_EQ(device.maps.size(), 2u);
  auto launches = device.takeLaunches();
  EXPECT_EQ(launches[1].parameter<uint8_t>(9), 1u);
  EXPECT_EQ(launches[2].parameter<uint8_t>(9), 2u);
}

TEST_F(Launch, TensorMapOfNothingIsStillAMap) {
  call.kShape[1] = 0;
  call["k"].data = nullptr;
  call.kStrides = {0, 3, 8, 1};
  launch();
  ASSERT_EQ(device.maps.size(), 1u);
  EXPECT_EQ(device.maps[0].dims, (std::array<uint64_t, 4>{64, 1, 4, 2}));
  EXPECT_EQ(device.maps[0].data, call["q"].data); // one that can be translated
  EXPECT_EQ(device.maps[0].strides, (std::array<uint64_t, 3>{128, 128, 128}));
}

TEST_F(Launch, TensorMapIgnoresStridesOfSingleElements) {
  call.qShape[0] = call.kShape[0] = 1;
  call.qStrides[0] = call.kStrides[0] = 12345; // PyTorch leaves anything there
  launch();
  ASSERT_EQ(device.maps.size(), 1u);
  EXPECT_EQ(device.maps[0].strides[2], 128u); // that of a row
}

TEST_F(Launch, TensorMapStridesOutOfRange) {
  call.kStrides[0] = int64_t(1) << 39; // elements of 2 bytes
  EXPECT_CONTAINS(
      refusal(), "k: stride 0 is 549755813888 elements, 1099511627776 bytes; a "
                 "tensor map takes multiples of 16 bytes below 2^40");
  call.kStrides[0] = (int64_t(1) << 39) - 8;
  launch();
  EXPECT_EQ(device.maps.at(0).strides[2], (uint64_t(1) << 40) - 16);
  device.takeLaunches();
  call.kStrides[0] = -128000;
  EXPECT_CONTAINS(refusal(), "k: stride 0 is -128000 elements; a tensor map "
                             "takes no negative strides");
}

TEST_F(Launch, TensorMapOfAnExtentOutOfRange) {
  call.kShape[1] = int64_t(1) << 33;
  EXPECT_CONTAINS(refusal(), "k: extent 1 is 8589934592; extents are 0 to "
                             "2147483647");
}

// What the argument itself allows may be too little for a map.
TEST(TensorMap, NeedsAlignedAddressesAndStrides) {
  std::string json = sampleJson();
  size_t k = json.find("\"seqlen_k\", \"heads_kv\"");
  json = json.substr(0, k) +
         replaced(json.substr(k), "\"alignment\": 16, \"stride_multiple\": 8",
                  "\"alignment\": 2, \"stride_multiple\": 1");
  FakeDevice device;
  Program program(device, wrapManifest(json, sampleEntries()), {});
  SampleCall call;
  auto refusal = [&] {
    return errorOf(FA2RT_ERROR_ARGUMENT, [&] {
      program.launch(call.arguments,
                     {reinterpret_cast<void *>(uintptr_t(0x40000)), 4096},
                     nullptr);
    });
  };
  call["k"].data = reinterpret_cast<void *>(uintptr_t(0x20008));
  EXPECT_CONTAINS(refusal(), "k: the address 0x20008 is not a multiple of the "
                             "16 bytes that a tensor map needs");
  call.reset();
  call.kStrides[1] = 260;
  EXPECT_CONTAINS(refusal(), "k: stride 1 is 260 elements, 520 bytes; a tensor "
                             "map takes multiples of 16 bytes");
  EXPECT_TRUE(device.takeLaunches().empty());
  EXPECT_TRUE(device.maps.empty());
}

/// The sample with a map of k that says its dimensions, in version 2.
static std::string mapDims(std::string_view dims, std::string_view more = "") {
  std::string json =
      replaced(sampleJson(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 2");
  json = replaced(json, "\"box_cols\": 64",
                  "\"box_cols\": 64, \"dims\": " + std::string(dims));
  // k alone has that length, as what programs read may.
  json =
      replaced(json, "\"shape\": [\"seqlen_k\"]", "\"shape\": [\"seqlen_q\"]");
  size_t k = json.find("\"seqlen_k\", \"heads_kv\"");
  return json.substr(0, k) +
         replaced(json.substr(k), "\"alignment\": 16, \"stride_multiple\": 8",
                  "\"alignment\": 2, \"stride_multiple\": 1" +
                      std::string(more));
}

TEST(TensorMap, DimensionsInAnyOrder) {
  FakeDevice device;
  Program program(device,
                  wrapManifest(mapDims("[3, 2, 1, 0]"), sampleEntries()), {});
  SampleCall call;
  program.launch(call.arguments,
                 {reinterpret_cast<void *>(uintptr_t(0x40000)), 4096}, nullptr);
  const TensorMapRequest &map = device.maps.at(0);
  EXPECT_EQ(map.dims, (std::array<uint64_t, 4>{64, 4, 500, 2}));
  EXPECT_EQ(map.strides, (std::array<uint64_t, 3>{128, 512, 256000}));
}

// One element stands for all of its dimension.
TEST(TensorMap, OfWhatAProgramReads) {
  FakeDevice device;
  Program program(device,
                  wrapManifest(mapDims("[3, 2, 1, 0]", ", \"broadcast\": true"),
                               sampleEntries()),
                  {});
  SampleCall call;
  call.kShape[0] = 1;
  call.kStrides[0] = 12345;
  auto launch = [&] {
    program.launch(call.arguments,
                   {reinterpret_cast<void *>(uintptr_t(0x40000)), 4096},
                   nullptr);
  };
  launch();
  const TensorMapRequest &map = device.maps.at(0);
  EXPECT_EQ(map.dims, (std::array<uint64_t, 4>{64, 4, 500, 2}));
  EXPECT_EQ(map.strides, (std::array<uint64_t, 3>{128, 512, 0}));
  call.kStrides[3] = 2;
  EXPECT_CONTAINS(errorOf(FA2RT_ERROR_ARGUMENT, launch),
                  "k: stride 3 is 2 elements; a tensor map takes neighbours");
  call.kStrides[3] = 1;
  call["k"].data = reinterpret_cast<void *>(uintptr_t(0x2000a));
  EXPECT_CONTAINS(errorOf(FA2RT_ERROR_ARGUMENT, launch),
                  "k: the address 0x2000a is not a multiple of the 16 bytes");
}

/// The sample, whose first kernel runs where k lies at a multiple of 16 bytes.
static std::string byAddress() {
  std::string json = mapDims("[3, 2, 1, 0]", ", \"broadcast\": true");
  json = replaced(json, "\"kernel\": \"first\",",
                  "\"kernel\": \"first\", \"when\": "
                  "\"k.misalignment == 0\",");
  return json;
}

TEST(TensorMap, KernelsAreChosenByAddresses) {
  FakeDevice device;
  Program program(device, wrapManifest(byAddress(), sampleEntries()), {});
  SampleCall call;
  WorkspaceRegion workspace{reinterpret_cast<void *>(uintptr_t(0x40000)), 4096};
  auto kernels = [&] {
    std::vector<size_t> ran;
    for (const RecordedLaunch &launch : device.takeLaunches())
      ran.push_back(launch.kernel);
    return ran;
  };
  program.launch(call.arguments, workspace, nullptr);
  std::vector<size_t> aligned = kernels(), other = aligned;
  ASSERT_EQ(aligned.at(0), 0u);
  other.erase(other.begin());
  call["k"].data = reinterpret_cast<void *>(uintptr_t(0x2000a));
  program.launch(call.arguments, workspace, nullptr);
  EXPECT_EQ(kernels(), other);
  EXPECT_FALSE(program.runs(0, call.arguments));

  // What was prepared serves any address.
  for (uintptr_t prepared : {0x20000, 0x2000a}) {
    call["k"].data = reinterpret_cast<void *>(prepared);
    LaunchPlan plan = program.prepare(call.arguments);
    for (uintptr_t launched : {0x20000, 0x2000a, 0x20010, 0x20002}) {
      std::vector<void *> addresses;
      for (const fa2rtArgument &argument : call.arguments)
        addresses.push_back(argument.data);
      for (size_t i = 0; i < addresses.size(); ++i)
        if (call.arguments[i].name == std::string("k"))
          addresses[i] = reinterpret_cast<void *>(launched);
      program.launch(plan, addresses, workspace, nullptr);
      EXPECT_EQ(kernels(), launched % 16 ? other : aligned)
          << prepared << " " << launched;
    }
  }
}

TEST(TensorMap, DimensionsThatAreNone) {
  auto refusal = [](std::string_view dims) {
    return errorOf(FA2RT_ERROR_MANIFEST, [&] {
      Manifest::parse(wrapManifest(mapDims(dims), sampleEntries()));
    });
  };
  EXPECT_CONTAINS(refusal("[3, 2, 1]"),
                  "expected the 4 dimensions of 'k', got 3");
  EXPECT_CONTAINS(refusal("[3, 2, 1, 1]"), "dimension 1 is given twice");
  EXPECT_CONTAINS(refusal("[3, 2, 1, 4]"), "from 0 to 3");
}

TEST_F(Launch, TensorMapCacheIsBounded) {
  // More maps than it holds, twice: every one is encoded again, none is mixed
  // up.
  for (int round = 0; round < 2; ++round)
    for (uintptr_t i = 0; i < 40; ++i) {
      call["k"].data = reinterpret_cast<void *>(0x20000 + 16 * i);
      launch();
      EXPECT_EQ(device.takeLaunches().at(0).parameter<uint8_t>(9),
                uint8_t(40 * unsigned(round) + i + 1));
    }
  launch();
  EXPECT_EQ(device.maps.size(), 80u);
}
