//===- AllocationTest.cpp - a prepared launch asks for no memory ----------===//

#include "Prepared.h"
#include "SampleCall.h"

#include <cstdlib>
#include <new>

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

thread_local long asked = 0; // of the heap, by this thread

void *ask(size_t bytes, size_t alignment) {
  ++asked;
  size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void *memory = std::aligned_alloc(alignment, whole ? whole : alignment))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t bytes) { return ask(bytes, 16); }
void *operator new(size_t bytes, std::align_val_t alignment) {
  return ask(bytes, size_t(alignment));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

/// A device whose launches do nothing.
class QuietDevice : public FakeDevice {
  class QuietModule : public Module {
    KernelAttributes attributes(size_t) const override { return {}; }
    void launch(const LaunchList &) const override {}
  };
  std::unique_ptr<Module> load(const LoadRequest &) override {
    return std::make_unique<QuietModule>();
  }
};

} // namespace

TEST(Allocation, APreparedLaunchAsksForNoMemory) {
  QuietDevice device;
  Program program(device, samplePtx(), {});
  SampleCall call;
  call.arguments.push_back(fa2rtInteger("splits", 3)); // both kernels
  fa2rtPrepared prepared{program, program.prepare(call.arguments)};
  void *addresses[5] = {};
  for (size_t i = 0; i < 3; ++i)
    addresses[i] = call.arguments[i].data;
  alignas(256) static char workspace[4096];
  auto launch = [&] {
    long before = asked;
    EXPECT_EQ(fa2rtPreparedLaunch(&prepared, addresses, 5, workspace,
                                  sizeof workspace, nullptr),
              FA2RT_OK)
        << fa2rtLastError();
    return asked - before;
  };
  EXPECT_GT(launch(), 0) << "the tensor map is kept: nothing was counted";
  EXPECT_EQ(launch(), 0);
  EXPECT_EQ(launch(), 0);
}
