//===- CudaModule.cpp - kernels in a CUDA context -------------------------===//

#include "Cuda/CudaModule.h"

#include "Scratch.h"

#include <array>
#include <string>
#include <vector>

namespace fa2rt::cuda {

namespace {

class CudaModule : public Module {
public:
  CudaModule(const Driver &driver, Context context)
      : driver(driver), context(context) {}

  ~CudaModule() override {
    // The context may be gone with the process or by its owner's hand; then
    // so are the module and nothing is left to unload.
    if (!handle || driver.ctxPushCurrent(context) != 0)
      return;
    driver.moduleUnload(handle);
    Context popped;
    driver.ctxPopCurrent(&popped);
  }

  void load(const LoadRequest &request) {
    std::array<char, 8192> errorLog{};
    std::array<JitOption, 2> options = {kJitErrorLogBuffer,
                                        kJitErrorLogBufferSizeBytes};
    std::array<void *, 2> values = {errorLog.data(),
                                    reinterpret_cast<void *>(errorLog.size())};
    std::string text; // the driver wants a final 0
    const void *data = request.image.data();
    if (request.image.empty()) {
      text = std::string(request.ptx);
      data = text.c_str();
    }
    Result result = driver.moduleLoadDataEx(
        &handle, data, unsigned(options.size()), options.data(), values.data());
    if (result) {
      handle = nullptr;
      throw Error(Driver::statusOf(result),
                  fmt::format("cuModuleLoadDataEx of {} failed: {}{}{}",
                              request.image.empty() ? "the PTX" : "the cubin",
                              driver.describe(result), errorLog[0] ? "\n" : "",
                              errorLog.data()));
    }
    for (const KernelRequest &kernel : request.kernels)
      addKernel(kernel);
  }

  KernelAttributes attributes(size_t kernel) const override {
    return kernels[kernel].attributes;
  }

  void launch(const LaunchList &list) const override {
    for (const KernelLaunch &launch : list.kernels)
      launchOne(launch, static_cast<Stream>(list.stream));
  }

private:
  struct Kernel {
    std::string name;
    Function function = nullptr;
    KernelAttributes attributes;
  };

  void addKernel(const KernelRequest &request) {
    Kernel kernel;
    kernel.name = request.name;
    driver.check(driver.moduleGetFunction(&kernel.function, handle,
                                          request.name.c_str()),
                 "cuModuleGetFunction(\"{}\")", request.name);
    auto get = [&](FunctionAttribute attribute) {
      int value = 0;
      driver.check(driver.funcGetAttribute(&value, attribute, kernel.function),
                   "cuFuncGetAttribute({}, \"{}\")", int(attribute),
                   request.name);
      return value;
    };
    kernel.attributes.registers = get(kNumRegs);
    kernel.attributes.localBytes = get(kLocalSizeBytes);
    kernel.attributes.staticSharedBytes = get(kSharedSizeBytes);
    if (request.sharedBytes)
      driver.check(
          driver.funcSetAttribute(kernel.function, kMaxDynamicSharedSizeBytes,
                                  int(request.sharedBytes)),
          "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, \"{}\", {})",
          request.name, request.sharedBytes);
    // Without this a driver that loads lazily would load at the first launch,
    // which a graph capture or a held stream does not bear.
    if (driver.funcLoad)
      driver.check(driver.funcLoad(kernel.function), "cuFuncLoad(\"{}\")",
                   request.name);
    kernels.push_back(std::move(kernel));
  }

  void launchOne(const KernelLaunch &launch, Stream stream) const {
    const Kernel &kernel = kernels[launch.kernel];
    Scratch scratch;
    std::pmr::vector<void *> parameters(scratch.get());
    parameters.reserve(launch.parameterOffsets.size());
    for (size_t offset : launch.parameterOffsets)
      parameters.push_back(
          const_cast<std::byte *>(launch.parameters.data() + offset));
    const auto &[gx, gy, gz] = launch.grid;
    const auto &[bx, by, bz] = launch.block;
    const auto &[cx, cy, cz] = launch.cluster;
    Result result;
    if (cx * cy * cz == 1) {
      result = driver.launchKernel(kernel.function, gx, gy, gz, bx, by, bz,
                                   launch.sharedBytes, stream,
                                   parameters.data(), nullptr);
    } else {
      if (!driver.launchKernelEx)
        fail(FA2RT_ERROR_DEVICE,
             "kernel {}: clusters need a driver for CUDA 11.8 or later",
             kernel.name);
      LaunchAttribute attribute{};
      attribute.id = kLaunchAttributeClusterDimension;
      attribute.value.cluster = {cx, cy, cz};
      LaunchConfig config = {
          gx, gy, gz, bx, by, bz, launch.sharedBytes, stream, &attribute, 1};
      result = driver.launchKernelEx(&config, kernel.function,
                                     parameters.data(), nullptr);
    }
    driver.check(result,
                 "cuLaunchKernel(\"{}\", grid {}x{}x{}, block {}x{}x{}, "
                 "shared {})",
                 kernel.name, gx, gy, gz, bx, by, bz, launch.sharedBytes);
  }

  const Driver &driver;
  Context context;
  ModuleHandle handle = nullptr;
  std::vector<Kernel> kernels;
};

} // namespace

std::unique_ptr<Module> loadModule(const Driver &driver, Context context,
                                   const LoadRequest &request) {
  auto module = std::make_unique<CudaModule>(driver, context);
  module->load(request);
  return module;
}

} // namespace fa2rt::cuda
