//===- SliceTest.cpp - launches for a part of a dimension -----------------===//

#include "Program.h"
#include "SampleCall.h"
#include "Support.h"

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

/// The sample, whose first kernel is launched for a part of `dimension`.
std::string sliced(const std::string &dimension, const std::string &from,
                   const std::string &count) {
  std::string text =
      replaced(samplePtx(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 4");
  return replaced(text, "\"kernel\": \"first\",",
                  fmt::format("\"kernel\": \"first\", \"slice\": "
                              "{{\"dimension\": \"{}\", \"from\": \"{}\", "
                              "\"count\": \"{}\"}},",
                              dimension, from, count));
}

class Slices : public ::testing::Test {
protected:
  std::vector<RecordedLaunch> launch(const std::string &ptx) {
    Program(device, ptx, {}).launch(call.arguments, {workspace, 4096}, nullptr);
    return device.takeLaunches();
  }
  std::string refusal(const std::string &ptx) {
    return errorOf(FA2RT_ERROR_ARGUMENT, [&] { launch(ptx); });
  }

  FakeDevice device;
  SampleCall call; // 300 queries whose rows are 512 elements apart
  void *const workspace = reinterpret_cast<void *>(uintptr_t(0x40000));
};

} // namespace

TEST_F(Slices, IsAllThatTheLaunchSees) {
  auto launches = launch(sliced("seqlen_q", "100", "seqlen_q - 100"));
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].grid, (std::array<uint32_t, 3>{2, 8, 2}));
  EXPECT_EQ(launches[0].parameter<uint64_t>(0), 0x10000u + 100 * 512 * 2);
  EXPECT_EQ(launches[0].parameter<int64_t>(1), 512); // strides stay
  EXPECT_EQ(launches[0].parameter<int32_t>(2), 200);
  // The keys are not sliced, nor is the workspace.
  ASSERT_EQ(device.maps.size(), 1u);
  EXPECT_EQ(uintptr_t(device.maps[0].data), 0x20000u);
  EXPECT_EQ(launches[0].parameter<uint64_t>(7), 0x40010u);
}

TEST_F(Slices, OfKeysMovesTheirTensorMap) {
  launch(samplePtx());
  launch(sliced("seqlen_k", "64", "32"));
  ASSERT_EQ(device.maps.size(), 2u);
  const TensorMapRequest &whole = device.maps[0], &part = device.maps[1];
  EXPECT_EQ(part.dims[1], 32u);
  EXPECT_EQ(part.strides, whole.strides);
  EXPECT_EQ(uintptr_t(part.data),
            uintptr_t(whole.data) + 64 * whole.strides[0]);
}

TEST_F(Slices, GuardsSeeTheWhole) {
  std::string text = replaced(sliced("seqlen_q", "100", "200"), "\"slice\"",
                              "\"when\": \"seqlen_q == 300\", \"slice\"");
  EXPECT_EQ(launch(text).size(), 1u);
}

TEST_F(Slices, OfNoRowsIsNotLaunched) {
  EXPECT_TRUE(launch(sliced("seqlen_q", "300", "0")).empty());
  std::string text = sliced("seqlen_q", "300", "0");
  EXPECT_FALSE(Program(device, text, {}).runs(0, call.arguments));
}

TEST_F(Slices, OutsideIsRefused) {
  EXPECT_CONTAINS(refusal(sliced("seqlen_q", "101", "200")),
                  "kernel first: its slice of seqlen_q is 200 from 101; there "
                  "are 300");
  EXPECT_CONTAINS(refusal(sliced("seqlen_q", "0 - 1", "200")), "from -1");
  EXPECT_CONTAINS(refusal(sliced("seqlen_q", "400", "0 - 100")), "is -100");
  EXPECT_TRUE(device.takeLaunches().empty());
}

TEST_F(Slices, BelongsToVersion4) {
  auto refused = [&](const std::string &text) {
    return errorOf(FA2RT_ERROR_MANIFEST, [&] { Program(device, text, {}); });
  };
  EXPECT_CONTAINS(
      refused(replaced(sliced("seqlen_q", "0", "1"), "\"fa2_manifest\": 4",
                       "\"fa2_manifest\": 3")),
      "the field 'slice' is unknown");
  EXPECT_CONTAINS(refused(sliced("rows", "0", "1")),
                  "no tensor has the dimension 'rows'");
}
