//===- PreparedTest.cpp - launches that are bound once --------------------===//

#include "Program.h"
#include "SampleCall.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <thread>

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

void *at(uintptr_t address) { return reinterpret_cast<void *>(address); }

class Prepared : public ::testing::Test {
protected:
  FakeDevice device;
  Program program{device, samplePtx(), {}};
  SampleCall call;
  std::vector<void *> addresses = {at(0x10000), at(0x20000), at(0x30000),
                                   nullptr};
  void *const workspace = at(0x40000);

  std::string refusal(const LaunchPlan &plan, size_t bytes = 4096) {
    std::string text = errorOf(FA2RT_ERROR_ARGUMENT, [&] {
      program.launch(plan, addresses, {workspace, bytes}, nullptr);
    });
    EXPECT_TRUE(device.takeLaunches().empty()) << "something was launched";
    EXPECT_EQ(device.scopes, 0);
    return text;
  }
};

/// What a kernel reads, but for the number of the map that a fake device made.
std::vector<std::vector<std::byte>> readBy(const RecordedLaunch &launch) {
  std::vector<std::vector<std::byte>> parameters = launch.parameters;
  if (launch.kernel == 0)
    parameters[9].clear();
  return parameters;
}

} // namespace

/// Random calls, prepared and not: the kernels cannot tell them apart.
TEST_F(Prepared, LaunchesWhatAnOrdinaryLaunchDoes) {
  std::mt19937_64 random(7);
  auto below = [&](uint64_t limit) { return int64_t(random() % limit); };
  for (int round = 0; round < 50; ++round) {
    call.reset();
    call.qShape = {1 + below(3), below(700), 4 * (1 + below(3)), 64};
    call.kShape = {call.qShape[0], 1 + below(700), 4, 64};
    for (const char *name : {"q", "k", "out"})
      call[name].strides = nullptr;
    call["offset"].integer = below(1000);
    call.arguments.push_back(fa2rtInteger("splits", 1 + 2 * below(3)));
    call.arguments.push_back(fa2rtReal("scale", 0.5 + double(below(9))));
    std::shuffle(call.arguments.begin(), call.arguments.end(), random);
    LaunchPlan plan = program.prepare(call.arguments);
    for (int again = 0; again < 3; ++again) {
      std::vector<void *> given;
      for (fa2rtArgument &argument : call.arguments) {
        if (argument.is_tensor)
          argument.data = at(uintptr_t(0x10000 + 16 * below(5000)));
        given.push_back(argument.data);
      }
      size_t bytes = size_t(plan.bound().workspaceBytes);
      program.launch(call.arguments, {workspace, bytes}, at(5));
      auto wanted = device.takeLaunches();
      size_t maps = device.maps.size();
      program.launch(plan, given, {workspace, bytes}, at(5));
      auto got = device.takeLaunches();
      EXPECT_EQ(device.maps.size(), maps) << "the map was not found again";
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].kernel, wanted[i].kernel);
        EXPECT_EQ(got[i].grid, wanted[i].grid);
        EXPECT_EQ(got[i].block, wanted[i].block);
        EXPECT_EQ(got[i].cluster, wanted[i].cluster);
        EXPECT_EQ(got[i].sharedBytes, wanted[i].sharedBytes);
        EXPECT_EQ(got[i].programmatic, wanted[i].programmatic);
        EXPECT_EQ(got[i].stream, wanted[i].stream);
        EXPECT_EQ(readBy(got[i]), readBy(wanted[i]));
      }
    }
  }
}

TEST_F(Prepared, NothingOfTheArgumentsIsNeededAfterwards) {
  std::optional<LaunchPlan> plan;
  {
    SampleCall gone;
    plan.emplace(program.prepare(gone.arguments));
    gone.qShape.fill(-1);
    gone.qStrides.fill(-1);
  }
  program.launch(*plan, addresses, {workspace, 4096}, nullptr);
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].parameter<int64_t>(1), 512);
  EXPECT_EQ(launches[0].parameter<int32_t>(2), 300);
  EXPECT_EQ(device.allocations, 0);
  EXPECT_EQ(device.synchronisations, 0);
}

TEST_F(Prepared, EncodesAMapWhereItsAddressIsNew) {
  LaunchPlan plan = program.prepare(call.arguments);
  EXPECT_TRUE(device.maps.empty()); // there is no address yet
  auto launchedWith = [&](uintptr_t k) {
    addresses[1] = at(k);
    program.launch(plan, addresses, {workspace, 4096}, nullptr);
    return device.takeLaunches().at(0).parameter<uint8_t>(9);
  };
  EXPECT_EQ(launchedWith(0x20000), 1);
  EXPECT_EQ(launchedWith(0x20000), 1);
  EXPECT_EQ(launchedWith(0x28000), 2);
  EXPECT_EQ(launchedWith(0x20000), 1);
  ASSERT_EQ(device.maps.size(), 2u);
  EXPECT_EQ(device.maps[1].data, at(0x28000));
  // The same address with another length is another map.
  call.kShape[1] = 499;
  LaunchPlan shorter = program.prepare(call.arguments);
  program.launch(shorter, addresses, {workspace, 4096}, nullptr);
  EXPECT_EQ(device.takeLaunches().at(0).parameter<uint8_t>(9), 3);
  EXPECT_EQ(device.maps.at(2).dims[1], 499u);
}

TEST_F(Prepared, RefusesWhatAnOrdinaryLaunchRefuses) {
  // At once, what depends on no address:
  auto unprepared = [&] {
    std::string text =
        errorOf(FA2RT_ERROR_ARGUMENT, [&] { program.prepare(call.arguments); });
    call.reset();
    return text;
  };
  call.kShape[0] = 3;
  EXPECT_CONTAINS(unprepared(), "k: extent 0 (batch) is 3, but q gives");
  call.qStrides[3] = 0;
  EXPECT_CONTAINS(unprepared(), "q: stride 3 (the innermost) is 0; it must be "
                                "1");
  call.kStrides[1] = -256;
  EXPECT_CONTAINS(unprepared(), "a tensor map takes no negative strides");
  call.qShape[2] = 6;
  EXPECT_CONTAINS(unprepared(), "heads must be a multiple of heads_kv");
  call.arguments.push_back(fa2rtReal("scale", 0));
  EXPECT_CONTAINS(unprepared(), "scale: 0 is not positive");
  call.arguments.push_back(fa2rtInteger("splits", 2));
  EXPECT_CONTAINS(unprepared(), "not a multiple of the cluster's 2");

  // With each launch, addresses and the workspace:
  LaunchPlan plan = program.prepare(call.arguments);
  addresses[0] = at(0x10008);
  EXPECT_CONTAINS(refusal(plan), "q: the address 0x10008 is not a multiple of "
                                 "16");
  addresses[0] = nullptr;
  EXPECT_CONTAINS(refusal(plan), "q: the address is null, but the shape [2, "
                                 "300, 8, 64] has elements");
  addresses[0] = at(0x10000);
  EXPECT_CONTAINS(refusal(plan, 1199),
                  "has 1199 bytes; this launch needs 1200");
  addresses.pop_back();
  EXPECT_CONTAINS(refusal(plan), "3 addresses are given; 4 arguments were "
                                 "prepared");
  EXPECT_TRUE(device.maps.empty());
}

TEST_F(Prepared, LoadsOnceForEachContext) {
  LaunchPlan plan = program.prepare(call.arguments);
  for (uint64_t context : {1, 2, 2, 1}) {
    device.currentContext = context;
    program.launch(plan, addresses, {workspace, 4096}, nullptr);
    EXPECT_EQ(device.takeLaunches().at(0).context, context);
  }
  EXPECT_EQ(device.loads, 2);
}

/// One plan, several threads, each with addresses of its own. Also run under
/// -fsanitize=thread (FA2RT_SANITIZE=thread).
TEST_F(Prepared, ServesSeveralThreads) {
  const LaunchPlan plan = program.prepare(call.arguments);
  constexpr int kThreads = 8, kLaunches = 200;
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<void *> mine = addresses;
      for (uintptr_t i = 0; i < kLaunches; ++i) {
        mine[0] = at(0x100000 * (t + 1) + 16 * i);
        mine[1] = at(0x20000 + 256 * t);
        program.launch(plan, mine, {at(0x1000 * (t + 1)), 4096}, at(t + 1));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  auto launches = device.takeLaunches();
  ASSERT_EQ(launches.size(), size_t(kThreads * kLaunches));
  std::map<uintptr_t, uintptr_t> next;
  for (const RecordedLaunch &launch : launches) {
    uintptr_t stream = reinterpret_cast<uintptr_t>(launch.stream);
    EXPECT_EQ(launch.parameter<uint64_t>(0),
              0x100000 * stream + 16 * next[stream]++);
    EXPECT_EQ(launch.parameter<uint64_t>(7), 0x1000 * stream + 16);
    uint8_t map = launch.parameter<uint8_t>(9);
    EXPECT_EQ(device.maps.at(map - 1u).data, at(0x20000 + 256 * (stream - 1)));
  }
  EXPECT_EQ(device.scopes, 0);
}
