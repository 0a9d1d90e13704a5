//===- Driver.cpp - the CUDA driver's functions ---------------------------===//

#include "Cuda/Driver.h"

#include <dlfcn.h>

#include <memory>
#include <mutex>

namespace fa2rt::cuda {

namespace {

constexpr const char *kLibrary = "libcuda.so.1";

std::unique_ptr<Driver> openDriver() {
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(FA2RT_ERROR_DEVICE, "no CUDA driver: {}", dlerror());
  auto driver = std::make_unique<Driver>();
#define FA2RT_SYMBOL(member, name, parameters)                                 \
  driver->member =                                                             \
      reinterpret_cast<decltype(driver->member)>(dlsym(library, name));        \
  if (!driver->member) {                                                       \
    dlclose(library);                                                          \
    fail(FA2RT_ERROR_DEVICE,                                                   \
         "the CUDA driver {} has no function {}; a driver for CUDA 11.0 or "   \
         "later is needed",                                                    \
         kLibrary, name);                                                      \
  }
#define FA2RT_OPTIONAL(member, name, parameters)                               \
  driver->member =                                                             \
      reinterpret_cast<decltype(driver->member)>(dlsym(library, name));
#include "Cuda/Symbols.def"
  if (Result result = driver->init(0)) {
    std::string text = driver->describe(result);
    dlclose(library);
    fail(FA2RT_ERROR_DEVICE, "the CUDA driver does not start: cuInit(0): {}",
         text);
  }
  driver->check(driver->driverGetVersion(&driver->version),
                "cuDriverGetVersion");
  return driver; // the library stays open as long as the process
}

} // namespace

const Driver &Driver::get() {
  static std::mutex mutex;
  static Driver *driver = nullptr;
  std::lock_guard lock(mutex);
  if (!driver)
    driver = openDriver().release();
  return *driver;
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) != 0 || !name)
    return fmt::format("error {}", result);
  if (getErrorString(result, &text) != 0 || !text)
    return name;
  return fmt::format("{} ({})", text, name);
}

} // namespace fa2rt::cuda
