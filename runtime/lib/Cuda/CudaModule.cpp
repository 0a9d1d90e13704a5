//===- CudaModule.cpp - kernels in a CUDA context -------------------------===//

#include "Cuda/CudaModule.h"

#include "PtxEntries.h"
#include "Scratch.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace fa2rt::cuda {

namespace {

/// Lets the calling thread compile while it captures a graph: loading code is
/// no work on a stream.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const Driver &driver) : driver(driver) {
    driver.exchangeCaptureMode(&mode);
  }
  ~RelaxedCapture() { driver.exchangeCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
  const Driver &driver;
  CaptureMode mode = kCaptureRelaxed;
};

/// Kernels that every launch takes are compiled together at once; of those
/// that a guard chooses the driver compiles each when it is first required,
/// since most programs never take most of them.
class CudaModule : public Module {
public:
  CudaModule(const Driver &driver, Context context, const LoadRequest &request)
      : driver(driver), context(context), ptx(request.ptx),
        kernels(request.kernels.size()) {
    for (size_t i = 0; i < kernels.size(); ++i)
      kernels[i].request = &request.kernels[i];
  }

  ~CudaModule() override {
    // The context may be gone with the process or by its owner's hand; then
    // so are the modules and nothing is left to unload.
    if (handles.empty() || driver.ctxPushCurrent(context) != 0)
      return;
    for (ModuleHandle handle : handles)
      driver.moduleUnload(handle);
    Context popped;
    driver.ctxPopCurrent(&popped);
  }

  void load(std::span<const std::byte> image) {
    std::vector<size_t> now;
    for (size_t i = 0; i < kernels.size(); ++i)
      if (!image.empty() || !kernels[i].request->guarded)
        now.push_back(i);
    if (!now.empty())
      loadKernels(now, image);
  }

  void require(size_t index) const override {
    if (kernels[index].ready.load(std::memory_order_acquire))
      return;
    std::lock_guard lock(loading);
    if (kernels[index].ready.load(std::memory_order_relaxed))
      return;
    RelaxedCapture relaxed(driver);
    loadKernels({&index, 1}, {});
  }

  KernelAttributes attributes(size_t kernel) const override {
    if (!kernels[kernel].ready.load(std::memory_order_acquire))
      return {};
    return kernels[kernel].attributes;
  }

  void launch(const LaunchList &list) const override {
    for (const KernelLaunch &launch : list.kernels) {
      require(launch.kernel);
      launchOne(launch, static_cast<Stream>(list.stream));
    }
  }

private:
  struct Kernel {
    const KernelRequest *request = nullptr;
    Function function = nullptr;
    KernelAttributes attributes;
    std::atomic<bool> ready = false; // the rest is written before
  };

  void loadKernels(std::span<const size_t> indices,
                   std::span<const std::byte> image) const {
    std::string text; // the driver wants a final 0
    if (image.empty()) {
      std::vector<std::string> names;
      for (size_t i : indices)
        names.push_back(kernels[i].request->name);
      text = keepEntries(ptx, names);
    }
    ModuleHandle handle =
        loadImage(image.empty() ? text.data() : (const void *)image.data(),
                  image.empty() ? "the PTX" : "the cubin");
    handles.push_back(handle);
    for (size_t i : indices)
      findKernel(kernels[i], handle);
  }

  ModuleHandle loadImage(const void *image, const char *what) const {
    std::array<char, 8192> errorLog{};
    std::array<JitOption, 2> options = {kJitErrorLogBuffer,
                                        kJitErrorLogBufferSizeBytes};
    std::array<void *, 2> values = {errorLog.data(),
                                    reinterpret_cast<void *>(errorLog.size())};
    ModuleHandle handle = nullptr;
    Result result =
        driver.moduleLoadDataEx(&handle, image, unsigned(options.size()),
                                options.data(), values.data());
    if (result)
      throw Error(Driver::statusOf(result),
                  fmt::format("cuModuleLoadDataEx of {} failed: {}{}{}", what,
                              driver.describe(result), errorLog[0] ? "\n" : "",
                              errorLog.data()));
    return handle;
  }

  void findKernel(Kernel &kernel, ModuleHandle handle) const {
    const KernelRequest &request = *kernel.request;
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
    kernel.ready.store(true, std::memory_order_release);
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
    std::array<LaunchAttribute, 2> attributes{};
    unsigned count = 0;
    if (cx * cy * cz > 1) {
      if (!driver.launchKernelEx)
        fail(FA2RT_ERROR_DEVICE,
             "kernel {}: clusters need a driver for CUDA 11.8 or later",
             kernel.request->name);
      attributes[count].id = kLaunchAttributeClusterDimension;
      attributes[count++].value.cluster = {cx, cy, cz};
    }
    // Elsewhere it is an ordinary launch: the kernel's wait finds all done.
    if (launch.programmatic && driver.launchKernelEx &&
        driver.version >= kProgrammaticDriver) {
      attributes[count].id = kLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].value.programmaticStreamSerialization = 1;
    }
    Result result;
    if (count == 0) {
      result = driver.launchKernel(kernel.function, gx, gy, gz, bx, by, bz,
                                   launch.sharedBytes, stream,
                                   parameters.data(), nullptr);
    } else {
      LaunchConfig config = {gx,
                             gy,
                             gz,
                             bx,
                             by,
                             bz,
                             launch.sharedBytes,
                             stream,
                             attributes.data(),
                             count};
      result = driver.launchKernelEx(&config, kernel.function,
                                     parameters.data(), nullptr);
    }
    driver.check(result,
                 "cuLaunchKernel(\"{}\", grid {}x{}x{}, block {}x{}x{}, "
                 "shared {})",
                 kernel.request->name, gx, gy, gz, bx, by, bz,
                 launch.sharedBytes);
  }

  const Driver &driver;
  Context context;
  std::string_view ptx; // the program's
  // What is loaded when it is required; readers see it through Kernel::ready.
  mutable std::mutex loading;
  mutable std::vector<ModuleHandle> handles;
  mutable std::vector<Kernel> kernels;
};

} // namespace

std::unique_ptr<Module> loadModule(const Driver &driver, Context context,
                                   const LoadRequest &request) {
  auto module = std::make_unique<CudaModule>(driver, context, request);
  module->load(request.image);
  return module;
}

} // namespace fa2rt::cuda
