//===- Runtime.h - owners of the runtime's handles --------------*- C++ -*-===//
#ifndef FA2RUN_RUNTIME_H
#define FA2RUN_RUNTIME_H

#include "Failure.h"
#include "fa2rt/fa2rt.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace fa2run {

/// Throws the error of a call before any launch as a Failure.
inline void check(fa2rtStatus status) {
  if (status != FA2RT_OK)
    throw Failure(status == FA2RT_ERROR_DEVICE ? kNotRun : kBadInput,
                  fa2rtLastError());
}

/// The same of a launch, or of a call that waits for one: reports of the
/// simulator and failed driver calls mean that the check failed.
inline void checkLaunch(fa2rtStatus status) {
  if (status == FA2RT_ERROR_SIMULATOR || status == FA2RT_ERROR_DRIVER ||
      status == FA2RT_ERROR_INTERNAL)
    throw Failure(kCheckFailed, fa2rtLastError());
  check(status);
}

template <auto Destroy> struct Destroyer {
  template <typename T> void operator()(T *handle) const { Destroy(handle); }
};
using DeviceHandle = std::unique_ptr<fa2rtDevice, Destroyer<fa2rtDeviceClose>>;
using ProgramHandle =
    std::unique_ptr<fa2rtProgram, Destroyer<fa2rtProgramUnload>>;

/// The name of a device with one more option, where it is a simulator.
inline std::string withOption(std::string name, const char *option) {
  bool simulator =
      name == "sim" || (name.size() > 4 &&
                        (name.starts_with("sim:") || name.starts_with("sim?")));
  if (!simulator)
    return name;
  size_t question = name.find('?');
  if (question == std::string::npos)
    name += "?";
  else if (question + 1 < name.size() && name.back() != '&')
    name += "&";
  return name + option;
}

/// A simulator refuses host memory, as a GPU does.
inline DeviceHandle openDevice(const std::string &name) {
  fa2rtDevice *device = nullptr;
  check(fa2rtDeviceOpen(withOption(name, "separate").c_str(), &device));
  return DeviceHandle(device);
}

/// Device memory.
class Buffer {
public:
  Buffer() = default;
  Buffer(fa2rtDevice *device, size_t bytes) : device(device) {
    check(fa2rtMemoryAllocate(device, bytes, &memory));
  }
  Buffer(Buffer &&other) noexcept
      : device(other.device), memory(std::exchange(other.memory, nullptr)) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    return *this;
  }
  ~Buffer() {
    if (memory)
      fa2rtMemoryFree(device, memory);
  }
  void *data() const { return memory; }

private:
  fa2rtDevice *device = nullptr;
  void *memory = nullptr;
};

} // namespace fa2run

#endif // FA2RUN_RUNTIME_H
