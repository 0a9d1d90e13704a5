//===- OpenDevice.cpp - devices by name -----------------------------------===//

#include "Cuda/CudaDevice.h"
#include "Device.h"
#include "Error.h"
#ifdef FA2RT_HAS_SIMULATOR
#include "SimDevice.h"
#endif

#include <charconv>

namespace fa2rt {

std::unique_ptr<Device> openDevice(std::string_view name) {
  auto refuse = [&]() {
    fail(FA2RT_ERROR_ARGUMENT,
         "no device is named '{}' (known: cuda, cuda:N, sim, sim:sm_80, "
         "sim:sm_90)",
         name);
  };
  size_t end = name.find_first_of(":?");
  std::string_view family = name.substr(0, end);
  bool colon = end != std::string_view::npos && name[end] == ':';
  std::string_view rest =
      end == std::string_view::npos ? "" : name.substr(end + colon);
  if (family == "cuda") {
    if (end == std::string_view::npos)
      return cuda::openCudaDevice(std::nullopt);
    int ordinal = 0;
    auto [last, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), ordinal);
    if (!colon || error != std::errc() || last != rest.data() + rest.size())
      refuse();
    return cuda::openCudaDevice(ordinal);
  }
  if (family == "sim") {
#ifdef FA2RT_HAS_SIMULATOR
    if (colon && rest.empty())
      refuse();
    return openSimDevice(rest);
#else
    fail(FA2RT_ERROR_DEVICE, "this build has no simulator");
#endif
  }
  refuse();
  return nullptr;
}

} // namespace fa2rt
