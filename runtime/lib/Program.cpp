//===- Program.cpp - a manifest, its kernels, and launching them ----------===//

#include "Program.h"

#include "Error.h"
#include "Record.h"
#include "Scratch.h"

#include <algorithm>
#include <optional>

namespace fa2rt {

namespace {

constexpr size_t kCachedMaps = 32;

/// "9.0" for 90.
std::string capabilityText(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::string driverText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void checkSharedBytes(const Manifest &manifest,
                      const DeviceProperties &device) {
  for (const LaunchInfo &launch : manifest.launches)
    if (launch.sharedBytes > device.sharedBytesPerBlock)
      fail(FA2RT_ERROR_DEVICE,
           "kernel {}: shared_bytes is {}; a block of {} gets at most {}",
           launch.kernel, launch.sharedBytes, device.name,
           device.sharedBytesPerBlock);
}

std::vector<void *> addressesOf(std::span<const fa2rtArgument> arguments) {
  std::vector<void *> addresses;
  for (const fa2rtArgument &argument : arguments)
    addresses.push_back(argument.is_tensor ? argument.data : nullptr);
  return addresses;
}

} // namespace

void checkTarget(const Manifest &manifest, const DeviceProperties &device,
                 bool hasImage) {
  const CodeTarget &target = manifest.target;
  int least = target.minComputeCapability;
  if (target.family && device.computeCapability != least)
    fail(FA2RT_ERROR_DEVICE,
         "the kernels are for {}, which runs on compute capability {} only; "
         "{} has {} (compile for another --arch, such as sm_80)",
         target.arch, capabilityText(least), device.name,
         capabilityText(device.computeCapability));
  if (device.computeCapability < least)
    fail(FA2RT_ERROR_DEVICE,
         "the kernels are for {} and need compute capability {} or later; {} "
         "has {}",
         target.arch, capabilityText(least), device.name,
         capabilityText(device.computeCapability));
  if (!device.simulated && !hasImage && device.driverVersion < target.minDriver)
    fail(FA2RT_ERROR_DEVICE,
         "PTX {} needs a driver for CUDA {} or later; this one is for CUDA {} "
         "(update the driver, or load a cubin from ptxas)",
         target.ptx, driverText(target.minDriver),
         driverText(device.driverVersion));
  checkSharedBytes(manifest, device);
}

Program::Program(Device &device, std::string_view text,
                 std::span<const std::byte> cubin)
    : target(device), ptx(text), image(cubin.begin(), cubin.end()),
      info(Manifest::parse(text)),
      recordHead(recordedAs(info, device.properties())) {
  checkTarget(info, device.properties(), !image.empty());
  for (const LaunchInfo &launch : info.launches) {
    std::vector<size_t> bytes;
    for (const Parameter &parameter : launch.parameters)
      bytes.push_back(parameter.bytes);
    kernels.push_back({launch.kernel, std::move(bytes),
                       launch.block[0] * launch.block[1] * launch.block[2],
                       launch.sharedBytes, launch.when.has_value()});
  }
  ContextScope scope(device);
  firstModule = &moduleFor(scope.key());
  firstContext = scope.key();
}

KernelAttributes Program::attributes(size_t kernel) const {
  return firstModule->attributes(kernel);
}

const Module &Program::moduleFor(uint64_t key) const {
  if (firstModule && key == firstContext)
    return *firstModule;
  {
    std::shared_lock lock(modulesMutex);
    if (auto found = modules.find(key); found != modules.end())
      return *found->second;
  }
  std::unique_lock lock(modulesMutex);
  std::unique_ptr<Module> &module = modules[key];
  if (!module) {
    try {
      module = target.load({ptx, image, kernels});
    } catch (...) {
      modules.erase(key);
      throw;
    }
  }
  return *module;
}

TensorMapImage Program::encode(const TensorMapRequest &request) const {
  {
    std::lock_guard lock(mapsMutex);
    for (const CachedMap &cached : maps)
      if (cached.request.data == request.data && cached.request == request)
        return cached.image;
  }
  TensorMapImage encoded = target.encodeTensorMap(request);
  std::lock_guard lock(mapsMutex);
  if (maps.size() < kCachedMaps) {
    maps.push_back({request, encoded});
  } else {
    maps[nextMap] = {request, encoded};
    nextMap = (nextMap + 1) % kCachedMaps;
  }
  return encoded;
}

bool Program::runs(size_t kernel,
                   std::span<const fa2rtArgument> arguments) const {
  return hasWork(info, info.launches[kernel],
                 bindArguments(info, target.properties(), arguments));
}

int64_t
Program::workspaceBytes(std::span<const fa2rtArgument> arguments) const {
  return bindArguments(info, target.properties(), arguments).workspaceBytes;
}

LaunchPlan Program::prepare(std::span<const fa2rtArgument> arguments) const {
  LaunchPlan plan(info, bindArguments(info, target.properties(), arguments));
  const Bindings &bindings = plan.bound();
  ContextScope scope(target);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BoundTensor &tensor = bindings.tensors[bindings.order[i]];
    if (tensor.present && !tensor.empty)
      checkReach(tensor.name, arguments[i].data);
  }
  const Module &module = moduleFor(scope.key());
  for (const KernelLaunch &launch : plan.work())
    module.require(launch.kernel);
  plan.count = countOf(recordHead, info, bindings);
  return plan;
}

void Program::checkReach(std::string_view name, const void *memory) const {
  if (memory && !target.reaches(memory))
    fail(FA2RT_ERROR_ARGUMENT,
         "{}: the address {:#x} is host memory that {} does not reach; copy it "
         "to the device, or to pinned or managed memory",
         name, reinterpret_cast<uint64_t>(memory), target.properties().name);
}

void Program::launch(std::span<const fa2rtArgument> arguments,
                     WorkspaceRegion workspace, void *stream) const {
  LaunchPlan plan = prepare(arguments);
  ContextScope scope(target);
  if (plan.bound().workspaceBytes)
    checkReach("the workspace", workspace.data);
  launchIn(scope.key(), plan, addressesOf(arguments), workspace, stream);
}

void Program::launch(const LaunchPlan &plan, std::span<void *const> addresses,
                     WorkspaceRegion workspace, void *stream) const {
  ContextScope scope(target);
  launchIn(scope.key(), plan, addresses, workspace, stream);
}

void Program::launchIn(uint64_t context, const LaunchPlan &plan,
                       std::span<void *const> given, WorkspaceRegion workspace,
                       void *stream) const {
  const Bindings &bindings = plan.bound();
  if (given.size() != bindings.order.size())
    fail(FA2RT_ERROR_ARGUMENT,
         "{} addresses are given; {} arguments were prepared", given.size(),
         bindings.order.size());
  Scratch scratch;
  std::pmr::vector<void *> addresses(scratch.get());
  addresses.resize(info.arguments.size());
  for (size_t i = 0; i < given.size(); ++i)
    addresses[bindings.order[i]] = given[i];
  std::optional<LaunchPlan> planned;
  if (std::optional<Bindings> here = bindAddresses(info, bindings, addresses))
    planned.emplace(info, std::move(*here));
  const LaunchPlan &used = planned ? *planned : plan;
  PlacedLaunch placed(
      used, addresses, workspace,
      [&](const TensorMapRequest &request) { return encode(request); });
  if (used.empty())
    return;
  workspace.bytes = size_t(used.bound().workspaceBytes);
  moduleFor(context).launch({placed.kernels(), stream, used.bound().tensors,
                             addresses, workspace, info.workspaceZeroed,
                             info.deterministic});
  if (plan.count)
    plan.count->add();
}

struct Program::Planned {
  LaunchPlan plan;
  std::vector<void *> addresses;
};

void Program::measure(std::span<const std::span<const fa2rtArgument>> sets,
                      WorkspaceRegion workspace, void *stream,
                      std::span<float> times) const {
  std::vector<Planned> planned;
  for (std::span<const fa2rtArgument> arguments : sets)
    planned.push_back({prepare(arguments), addressesOf(arguments)});
  ContextScope scope(target);
  for (const Planned &set : planned)
    if (set.plan.bound().workspaceBytes)
      checkReach("the workspace", workspace.data);
  // One launch first: whatever a device does once must not wait for the hold.
  const Planned &last = planned.back();
  launch(last.plan, last.addresses, workspace, stream);
  target.synchronize();
  // Few enough at a time for a driver's queue of pending work.
  size_t most = std::max<size_t>(1, 400 / (2 + info.launches.size()));
  for (size_t done = 0; done < times.size();) {
    size_t count = std::min(most, times.size() - done);
    measureHeld(planned, workspace, stream, times.subspan(done, count));
    done += count;
  }
}

void Program::measureHeld(const std::vector<Planned> &sets,
                          WorkspaceRegion workspace, void *stream,
                          std::span<float> times) const {
  std::vector<std::unique_ptr<Event>> events;
  for (size_t i = 0; i < 2 * times.size(); ++i)
    events.push_back(target.createEvent());
  {
    std::shared_ptr<void> held = target.hold(stream);
    for (size_t i = 0; i < times.size(); ++i) {
      const Planned &set = sets[i % sets.size()];
      events[2 * i]->record(stream);
      launch(set.plan, set.addresses, workspace, stream);
      events[2 * i + 1]->record(stream);
    }
  }
  for (size_t i = 0; i < times.size(); ++i)
    times[i] = events[2 * i + 1]->since(*events[2 * i]);
}

std::string Program::profile() const {
  return firstModule ? firstModule->profile() : std::string();
}

} // namespace fa2rt
