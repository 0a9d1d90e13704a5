//===- Clocks.cpp - the clock that a GPU runs at --------------------------===//

#include "Clocks.h"

#include <dlfcn.h>

namespace fa2tune {

namespace {

// nvml.h: NVML_CLOCK_SM.
constexpr int kClockSM = 1;

struct Nvml {
  int (*handleByIndex)(unsigned, void **) = nullptr;
  int (*clockInfo)(void *, int, unsigned *) = nullptr;

  Nvml() {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return;
    auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    if (!init || init() != 0)
      return;
    handleByIndex = reinterpret_cast<int (*)(unsigned, void **)>(
        dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    clockInfo = reinterpret_cast<int (*)(void *, int, unsigned *)>(
        dlsym(library, "nvmlDeviceGetClockInfo"));
  }
};

} // namespace

int multiprocessorClock(int ordinal) {
  static const Nvml nvml;
  void *device = nullptr;
  unsigned megahertz = 0;
  if (ordinal < 0 || !nvml.handleByIndex || !nvml.clockInfo ||
      nvml.handleByIndex(unsigned(ordinal), &device) != 0 ||
      nvml.clockInfo(device, kClockSM, &megahertz) != 0)
    return 0;
  return int(megahertz);
}

} // namespace fa2tune
