//===- SimDevice.cpp - the simulator as a device --------------------------===//

#include "SimDevice.h"

#include "Arguments.h"
#include "Error.h"
#include "sim/Simulator.h"

#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

namespace fa2rt {

namespace sim = fa2::sim;

namespace {

struct Settings {
  sim::Options options;
  bool separate = false; // kernels reach what was allocated here alone
  DeviceProperties properties;
};

uint64_t parseNumber(std::string_view name, std::string_view value,
                     uint64_t least = 0,
                     uint64_t most = std::numeric_limits<uint64_t>::max()) {
  uint64_t number = 0;
  auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size())
    fail(FA2RT_ERROR_ARGUMENT,
         "the simulator's option {}={} is not a whole number of at least 0",
         name, value);
  if (number < least || number > most)
    fail(FA2RT_ERROR_ARGUMENT,
         "the simulator's option {}={} is not within {} to {}", name, number,
         least, most);
  return number;
}

void applyOption(Settings &settings, std::string_view option) {
  size_t equals = option.find('=');
  std::string_view name = option.substr(0, equals);
  bool hasValue = equals != std::string_view::npos;
  std::string_view value = hasValue ? option.substr(equals + 1) : "";
  sim::Options &options = settings.options;
  if (name == "seed" && hasValue) {
    options.seed = parseNumber(name, value);
  } else if (name == "resident" && hasValue) {
    options.residentBlocks = unsigned(
        parseNumber(name, value, 0, std::numeric_limits<unsigned>::max()));
  } else if (name == "budget" && hasValue) {
    options.instructionBudget = parseNumber(name, value);
  } else if (name == "perturb" && hasValue) {
    options.perturbApproximations = parseNumber(name, value);
  } else if (name == "sms" && hasValue) {
    settings.properties.multiprocessors =
        int(parseNumber(name, value, 1, 100000));
  } else if (name == "completion" && hasValue) {
    if (value == "random")
      options.completion = sim::Completion::Random;
    else if (value == "early")
      options.completion = sim::Completion::Early;
    else if (value == "late")
      options.completion = sim::Completion::Late;
    else
      fail(FA2RT_ERROR_ARGUMENT,
           "the simulator's option completion={} is unknown (known: random, "
           "early, late)",
           value);
  } else if (name == "strict" && !hasValue) {
    options.strict = true;
  } else if (name == "separate" && !hasValue) {
    settings.separate = true;
  } else if (name == "nochecks" && !hasValue) {
    options.checks = false;
  } else if (name == "profile" && !hasValue) {
    options.profile = true;
  } else {
    fail(FA2RT_ERROR_ARGUMENT,
         "the simulator has no option '{}' (known: seed=N, resident=N, "
         "completion=random|early|late, budget=N, sms=N, perturb=N, strict, "
         "separate, nochecks, profile)",
         option);
  }
}

/// "sm_80?seed=3&strict"
Settings parseSettings(std::string_view text) {
  size_t question = text.find('?');
  std::string_view arch = text.substr(0, question);
  Settings settings;
  DeviceProperties &properties = settings.properties;
  properties.simulated = true;
  // A100 and H100 SXM, from NVIDIA's tuning guides.
  if (arch.empty() || arch == "sm_80") {
    settings.options.capability = 80;
    properties.name = "simulated sm_80";
    properties.multiprocessors = 108;
    properties.l2Bytes = int64_t(40) << 20;
    properties.sharedBytesPerBlock = 163 << 10;
  } else if (arch == "sm_90" || arch == "sm_90a") {
    settings.options.capability = 90;
    properties.name = "simulated sm_90";
    properties.multiprocessors = 132;
    properties.l2Bytes = int64_t(50) << 20;
    properties.sharedBytesPerBlock = 227 << 10;
  } else {
    fail(FA2RT_ERROR_ARGUMENT,
         "the simulator knows no device '{}' (known: sm_80, sm_90)", arch);
  }
  properties.computeCapability = int(settings.options.capability);
  if (question == std::string_view::npos)
    return settings;
  std::string_view rest = text.substr(question + 1);
  while (!rest.empty()) {
    size_t end = rest.find('&');
    applyOption(settings, rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return settings;
}

sim::Region tensorRegion(const BoundTensor &tensor, const void *data) {
  sim::Region region;
  region.name = std::string(tensor.name);
  region.base = reinterpret_cast<uint64_t>(data);
  region.elementBytes = uint32_t(dtypeBytes(tensor.dtype));
  region.shape = tensor.shape;
  region.strides = tensor.strides;
  if (int64_t multiple = tensor.rowMultiple; multiple > 1 && !tensor.empty) {
    int64_t &columns = region.shape.back();
    region.paddedBy = (multiple - columns % multiple) % multiple;
    columns += region.paddedBy;
  }
  region.readable = tensor.direction != FA2RT_OUT || tensor.sums;
  region.writable = tensor.direction != FA2RT_IN;
  region.storedOnce = tensor.direction == FA2RT_OUT && !tensor.sums;
  region.initialised = tensor.direction != FA2RT_OUT;
  return region;
}

/// Launches copy parameters from one layout into the other, so both have the
/// same, whatever the manifest's check has seen in the text.
void checkParameters(const KernelRequest &wanted, const sim::KernelInfo &info) {
  size_t given = wanted.parameterBytes.size();
  if (info.parameters.size() != given)
    fail(FA2RT_ERROR_MANIFEST,
         "the entry '{}' takes {} parameters in the simulator, the manifest "
         "gives {}",
         info.name, info.parameters.size(), given);
  for (size_t i = 0; i < given; ++i)
    if (info.parameters[i].bytes != wanted.parameterBytes[i])
      fail(FA2RT_ERROR_MANIFEST,
           "parameter {} of the entry '{}' has {} bytes in the simulator, the "
           "manifest gives {}",
           i, info.name, info.parameters[i].bytes, wanted.parameterBytes[i]);
}

class SimModule : public Module {
public:
  SimModule(const Settings &settings, const LoadRequest &request)
      : settings(settings) {
    sim::ParseResult parsed = sim::parse(request.ptx);
    if (!parsed)
      fail(FA2RT_ERROR_SIMULATOR,
           "the simulator cannot take the PTX: line {}: {}", parsed.error.line,
           parsed.error.text);
    program = parsed.program;
    std::vector<sim::KernelInfo> known = sim::kernels(*program);
    for (const KernelRequest &wanted : request.kernels) {
      const sim::KernelInfo *found = nullptr;
      for (const sim::KernelInfo &kernel : known)
        if (kernel.name == wanted.name)
          found = &kernel;
      if (!found)
        fail(FA2RT_ERROR_MANIFEST, "the PTX has no entry '{}'", wanted.name);
      checkParameters(wanted, *found);
      kernels.push_back(*found);
    }
  }

  KernelAttributes attributes(size_t kernel) const override {
    return {-1, -1, kernels[kernel].staticSharedBytes};
  }

  void launch(const LaunchList &list) const override {
    std::vector<sim::Region> regions;
    for (size_t i = 0; i < list.tensors.size(); ++i)
      if (list.tensors[i].present)
        regions.push_back(tensorRegion(list.tensors[i], list.addresses[i]));
    if (list.workspace.bytes) {
      sim::Region workspace;
      workspace.name = "workspace";
      workspace.base = reinterpret_cast<uint64_t>(list.workspace.data);
      workspace.shape = {int64_t(list.workspace.bytes)};
      workspace.strides = {1};
      workspace.writable = true;
      workspace.initialised = list.workspaceZeroed;
      workspace.deterministic = list.deterministic;
      regions.push_back(std::move(workspace));
    }
    std::vector<sim::Launch> launches;
    for (const KernelLaunch &kernel : list.kernels)
      launches.push_back(convert(kernel));
    sim::Result result = sim::run(launches, regions, settings.options);
    if (settings.options.profile) {
      std::lock_guard lock(mutex);
      lastProfile = sim::toJson(result);
    }
    if (result.ok())
      return;
    std::string text = "the simulator reports:";
    if (!result.error.empty())
      text += fmt::format("\n{}", result.error);
    for (const sim::Report &report : result.reports)
      text += fmt::format("\n{}", sim::toString(report));
    if (result.suppressedReports)
      text += fmt::format("\n{} more reports", result.suppressedReports);
    throw Error(result.outOfMemory ? FA2RT_ERROR_MEMORY : FA2RT_ERROR_SIMULATOR,
                text);
  }

  std::string profile() const override {
    std::lock_guard lock(mutex);
    return lastProfile;
  }

private:
  sim::Launch convert(const KernelLaunch &kernel) const {
    const sim::KernelInfo &info = kernels[kernel.kernel];
    sim::Launch launch;
    launch.program = program;
    launch.kernel = info.name;
    launch.grid = kernel.grid;
    launch.block = kernel.block;
    launch.cluster = kernel.cluster;
    launch.dynamicSharedBytes = kernel.sharedBytes;
    launch.programmatic = kernel.programmatic;
    launch.parameters.resize(info.parameterBytes);
    for (size_t i = 0; i < kernel.parameterOffsets.size(); ++i)
      std::memcpy(launch.parameters.data() + info.parameters[i].offset,
                  kernel.parameters.data() + kernel.parameterOffsets[i],
                  info.parameters[i].bytes);
    return launch;
  }

  const Settings &settings;
  std::shared_ptr<const sim::Module> program;
  std::vector<sim::KernelInfo> kernels; // of the load request, in its order
  mutable std::mutex mutex;
  mutable std::string lastProfile;
};

class SimEvent : public Event {
public:
  void record(void *) override { at = std::chrono::steady_clock::now(); }
  float since(const Event &start) override {
    return std::chrono::duration<float, std::milli>(
               at - static_cast<const SimEvent &>(start).at)
        .count();
  }

private:
  std::chrono::steady_clock::time_point at;
};

class SimDevice : public Device {
public:
  explicit SimDevice(std::string_view text) : settings(parseSettings(text)) {}

  ~SimDevice() override {
    for (auto [memory, bytes] : allocations)
      munmap(memory, bytes);
  }

  const DeviceProperties &properties() const override {
    return settings.properties;
  }
  Entry enter() override { return {}; }
  void leave(Entry) noexcept override {}

  std::unique_ptr<Module> load(const LoadRequest &request) override {
    return std::make_unique<SimModule>(settings, request);
  }

  TensorMapImage encodeTensorMap(const TensorMapRequest &request) override {
    sim::TensorMap map;
    map.base = reinterpret_cast<uint64_t>(request.data);
    map.rank = uint8_t(request.dims.size());
    map.elementBytes = uint8_t(dtypeBytes(request.dtype));
    map.swizzle = uint16_t(request.swizzle);
    for (size_t i = 0; i < request.dims.size(); ++i) {
      map.dims[i] = request.dims[i];
      map.box[i] = request.box[i];
    }
    for (size_t i = 0; i < request.strides.size(); ++i)
      map.strides[i] = request.strides[i];
    TensorMapImage image;
    std::memcpy(image.data(), &map, sizeof map);
    return image;
  }

  bool reaches(const void *memory) const override {
    if (!settings.separate)
      return true;
    auto *at = static_cast<std::byte *>(const_cast<void *>(memory));
    std::lock_guard lock(mutex);
    auto behind = allocations.upper_bound(at);
    if (behind == allocations.begin())
      return false;
    const auto &[base, size] = *std::prev(behind);
    return size_t(at - base) < size;
  }

  /// Mapped, not committed: tensors with huge strides cost what they touch.
  void *allocate(size_t bytes) override {
    bytes = bytes ? bytes : 1;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      fail(FA2RT_ERROR_MEMORY, "mapping {} bytes of host memory failed: {}",
           bytes, std::strerror(errno));
    std::lock_guard lock(mutex);
    allocations[static_cast<std::byte *>(memory)] = bytes;
    return memory;
  }
  void release(void *memory) override {
    std::lock_guard lock(mutex);
    auto found = allocations.find(static_cast<std::byte *>(memory));
    if (found == allocations.end())
      fail(FA2RT_ERROR_ARGUMENT, "{} was not allocated on this device", memory);
    munmap(memory, found->second);
    allocations.erase(found);
  }
  void copyIn(void *to, const void *from, size_t bytes) override {
    checkRange(to, bytes);
    if (bytes)
      std::memcpy(to, from, bytes);
  }
  void copyOut(void *to, const void *from, size_t bytes) override {
    checkRange(from, bytes);
    if (bytes)
      std::memcpy(to, from, bytes);
  }
  void set(void *memory, int value, size_t bytes) override {
    checkRange(memory, bytes);
    if (bytes)
      std::memset(memory, value, bytes);
  }
  void synchronize() override {}
  std::unique_ptr<Event> createEvent() override {
    return std::make_unique<SimEvent>();
  }
  std::shared_ptr<void> hold(void *) override { return nullptr; }

private:
  /// Any host memory serves as device memory, unless they are to be separate,
  /// so that only the bounds of what was allocated here are known.
  void checkRange(const void *memory, size_t bytes) {
    if (!bytes)
      return;
    if (!memory)
      fail(FA2RT_ERROR_ARGUMENT,
           "the device address is null, where {} bytes are to be", bytes);
    auto *at = static_cast<std::byte *>(const_cast<void *>(memory));
    std::lock_guard lock(mutex);
    auto behind = allocations.upper_bound(at);
    if (behind != allocations.end() && size_t(behind->first - at) < bytes)
      fail(FA2RT_ERROR_ARGUMENT,
           "{} bytes at {} reach into an allocation that begins at {}", bytes,
           memory, static_cast<void *>(behind->first));
    if (behind == allocations.begin())
      return;
    const auto &[base, size] = *std::prev(behind);
    size_t offset = size_t(at - base);
    if (offset < size && bytes > size - offset)
      fail(FA2RT_ERROR_ARGUMENT,
           "{} bytes at {} reach beyond the end of their allocation of {} "
           "bytes at {}",
           bytes, memory, size, static_cast<void *>(base));
  }

  Settings settings;
  mutable std::mutex mutex;
  std::map<std::byte *, size_t> allocations; // their bytes
};

} // namespace

std::unique_ptr<Device> openSimDevice(std::string_view specification) {
  return std::make_unique<SimDevice>(specification);
}

} // namespace fa2rt
