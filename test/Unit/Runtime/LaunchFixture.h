//===- LaunchFixture.h - the sample's program on a device that is none ----===//
#ifndef FA2_TEST_UNIT_RUNTIME_LAUNCHFIXTURE_H
#define FA2_TEST_UNIT_RUNTIME_LAUNCHFIXTURE_H

#include "Program.h"
#include "SampleCall.h"

namespace fa2rt::test {

class Launch : public ::testing::Test {
protected:
  FakeDevice device;
  Program program{device, samplePtx(), {}};
  SampleCall call;
  void *const workspace = reinterpret_cast<void *>(uintptr_t(0x40000));

  void launch() { program.launch(call.arguments, {workspace, 4096}, nullptr); }
  std::string refusal() {
    std::string text = errorOf(FA2RT_ERROR_ARGUMENT, [&] { launch(); });
    EXPECT_TRUE(device.takeLaunches().empty()) << "something was launched";
    EXPECT_EQ(device.scopes, 0);
    return text;
  }
};

} // namespace fa2rt::test

#endif
