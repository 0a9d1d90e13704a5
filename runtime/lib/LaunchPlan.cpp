//===- LaunchPlan.cpp - from arguments to kernel launches -----------------===//

#include "LaunchPlan.h"

#include "Error.h"

#include <stdexcept>

namespace fa2rt {

namespace {

constexpr int64_t kMaxMapStride = int64_t(1) << 40;
constexpr int64_t kMaxGrid[3] = {(int64_t(1) << 31) - 1, 65535, 65535};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  fail(FA2RT_ERROR_ARGUMENT, format, std::forward<Args>(args)...);
}

int64_t evaluate(const Expression &expression, const Bindings &bindings) {
  try {
    return expression.evaluate(bindings.slots);
  } catch (const std::domain_error &error) {
    throw Error(FA2RT_ERROR_ARGUMENT, error.what());
  }
}

/// Extent and stride of a map's dimension, in elements.
struct MapDim {
  int64_t extent = 1, stride = 0;
};

/// Those of dimension `dim` of a tensor. The one element of a broadcast extent
/// is repeated as often as the launch's dimension says.
MapDim mapDim(const Argument &argument, const BoundTensor &tensor, uint32_t dim,
              const Bindings &bindings) {
  MapDim result{tensor.shape[dim], tensor.strides[dim]};
  bool named = argument.shape[dim].fixed < 0;
  if (argument.broadcast && named && result.extent == 1)
    if (auto value = bindings.slots[argument.shape[dim].dimension])
      result = {*value, 0};
  return result;
}

/// What the map describes, but for the tensor's address.
TensorMapRequest mapRequest(const Parameter &parameter,
                            const Argument &argument,
                            const Bindings &bindings) {
  const BoundTensor &tensor = bindings.tensors[parameter.argument];
  TensorMapRequest request;
  request.tensor = tensor.name;
  request.dtype = tensor.dtype;
  request.box = {parameter.boxCols, parameter.boxRows, parameter.boxHeads, 1};
  request.swizzle = parameter.swizzle;
  request.dims.fill(1);
  bool empty = tensor.empty || !tensor.present;
  int64_t size = dtypeBytes(tensor.dtype);
  for (size_t i = 0; i < request.dims.size(); ++i) {
    bool has = i < parameter.mapDims.size();
    uint32_t dim = has ? parameter.mapDims[i] : 0;
    MapDim of = has ? mapDim(argument, tensor, dim, bindings) : MapDim();
    request.dims[i] = of.extent == 0 ? 1 : uint64_t(of.extent);
    bool unused = empty || request.dims[i] == 1;
    if (i == 0) {
      if (!unused && of.stride != 1)
        refuse("{}: stride {} is {} elements; a tensor map takes neighbours",
               tensor.name, dim, of.stride);
      continue;
    }
    // Callers leave anything in a stride that is never used: it is encoded as
    // that of a row.
    if (unused) {
      request.strides[i - 1] =
          (request.dims[0] * uint64_t(size) + 15) / 16 * 16;
      continue;
    }
    // bytes within 2^62: Arguments.cpp
    if (of.stride < 0)
      refuse("{}: stride {} is {} elements; a tensor map takes no negative "
             "strides",
             tensor.name, dim, of.stride);
    int64_t bytes = of.stride * size;
    if (bytes % 16 || bytes >= kMaxMapStride)
      refuse("{}: stride {} is {} elements, {} bytes; a tensor map takes "
             "multiples of 16 bytes below 2^40",
             tensor.name, dim, of.stride, bytes);
    request.strides[i - 1] = uint64_t(bytes);
  }
  return request;
}

TensorMapRequest withAddress(TensorMapRequest request, void *data) {
  uint64_t address = reinterpret_cast<uint64_t>(data);
  if (address % 16)
    refuse("{}: the address {:#x} is not a multiple of the 16 bytes that a "
           "tensor map needs",
           request.tensor, address);
  request.data = data;
  return request;
}

/// The argument whose address a map of `argument` gets: its own, or, where it
/// has no elements, another's. Boxes outside of a tensor are filled with zeros,
/// but the copy engine translates its address all the same.
uint32_t addressSource(const Manifest &manifest, const Bindings &bindings,
                       uint32_t argument) {
  auto has = [&](uint32_t i) {
    return bindings.tensors[i].present && !bindings.tensors[i].empty;
  };
  for (uint32_t i = 0; !has(argument) && i < manifest.arguments.size(); ++i)
    if (has(i) && manifest.arguments[i].alignment % 16 == 0)
      return i;
  return argument;
}

void store(std::byte *to, uint64_t value) {
  std::memcpy(to, &value, sizeof value);
}

} // namespace

bool evaluateLaunch(const LaunchInfo &launch, const Bindings &bindings,
                    std::array<uint32_t, 3> &grid) {
  if (launch.when && !evaluate(*launch.when, bindings))
    return false;
  bool any = true;
  for (size_t d = 0; d < 3; ++d) {
    int64_t count = evaluate(launch.grid[d], bindings);
    if (count < 0 || count > kMaxGrid[d])
      refuse("kernel {}: grid {} = '{}' is {} blocks; a device takes 0 to {}",
             launch.kernel, "xyz"[d], launch.grid[d].text(), count,
             kMaxGrid[d]);
    if (count % launch.cluster[d])
      refuse("kernel {}: grid {} = '{}' is {} blocks, not a multiple of the "
             "cluster's {}",
             launch.kernel, "xyz"[d], launch.grid[d].text(), count,
             launch.cluster[d]);
    grid[d] = uint32_t(count);
    any &= count > 0;
  }
  return any;
}

LaunchPlan::LaunchPlan(const Manifest &manifest, Bindings bound)
    : manifest(manifest), bindings(std::move(bound)) {
  for (size_t index = 0; index < manifest.launches.size(); ++index) {
    const LaunchInfo &info = manifest.launches[index];
    KernelLaunch launch;
    if (!evaluateLaunch(info, bindings, launch.grid))
      continue;
    launch.kernel = index;
    launch.block = info.block;
    launch.cluster = info.cluster;
    launch.sharedBytes = info.sharedBytes;
    // What is in front of the first one is somebody else's.
    launch.programmatic = info.programmatic && !launches.empty();
    launch.parameterOffsets = info.parameterOffsets;
    size_t begin = storage.size() * sizeof(Chunk);
    storage.resize(storage.size() +
                   (info.parameterBytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    begins.push_back(begin);
    for (size_t i = 0; i < info.parameters.size(); ++i)
      addParameter(info.parameters[i], begin + info.parameterOffsets[i]);
    launches.push_back(launch);
  }
}

void LaunchPlan::addParameter(const Parameter &parameter, size_t at) {
  std::byte *to = reinterpret_cast<std::byte *>(storage.data()) + at;
  const uint32_t argument = parameter.argument;
  switch (parameter.kind) {
  case Parameter::Kind::Pointer:
    pointers.push_back({at, argument});
    return;
  case Parameter::Kind::Stride: {
    const BoundTensor &tensor = bindings.tensors[argument];
    // The one element of a broadcast extent stands for all.
    bool repeats = manifest.arguments[argument].broadcast &&
                   tensor.shape[parameter.dim] == 1;
    // Nothing but that is said by a 0 of what is written.
    bool none = tensor.sums && tensor.shape[parameter.dim] == 0;
    store(to, repeats ? 0 : none ? 1 : uint64_t(tensor.strides[parameter.dim]));
    return;
  }
  case Parameter::Kind::I32: {
    int64_t value = evaluate(parameter.value, bindings);
    if (value != int64_t(int32_t(value)))
      refuse("the parameter '{}' is {}, not within i32", parameter.value.text(),
             value);
    int32_t narrow = int32_t(value);
    std::memcpy(to, &narrow, sizeof narrow);
    return;
  }
  case Parameter::Kind::I64:
    store(to, uint64_t(evaluate(parameter.value, bindings)));
    return;
  case Parameter::Kind::Scalar:
    std::memcpy(to, bindings.scalars[argument].data(), parameter.bytes);
    return;
  case Parameter::Kind::Workspace: {
    int64_t offset = evaluate(parameter.value, bindings);
    if (offset < 0 || offset > bindings.workspaceBytes)
      refuse("the workspace offset '{}' is {}; the workspace has {} bytes",
             parameter.value.text(), offset, bindings.workspaceBytes);
    workspaces.push_back({at, uint64_t(offset)});
    return;
  }
  case Parameter::Kind::TensorMap:
    maps.push_back(
        {at, addressSource(manifest, bindings, argument),
         mapRequest(parameter, manifest.arguments[argument], bindings)});
    return;
  }
}

PlacedLaunch::PlacedLaunch(const LaunchPlan &plan,
                           std::span<void *const> addresses,
                           WorkspaceRegion workspace,
                           const TensorMapEncoder &encode)
    : storage(plan.storage.begin(), plan.storage.end(), memory.get()),
      launches(plan.launches.begin(), plan.launches.end(), memory.get()) {
  checkAddresses(plan.manifest, plan.bindings, addresses);
  checkWorkspace(plan.manifest, plan.bindings, workspace);
  std::byte *bytes = reinterpret_cast<std::byte *>(storage.data());
  for (const LaunchPlan::Pointer &pointer : plan.pointers)
    store(bytes + pointer.at,
          reinterpret_cast<uint64_t>(addresses[pointer.argument]));
  uint64_t base = reinterpret_cast<uint64_t>(workspace.data);
  for (const LaunchPlan::Offset &offset : plan.workspaces)
    store(bytes + offset.at, base ? base + offset.offset : 0);
  for (const LaunchPlan::Map &map : plan.maps) {
    TensorMapImage image =
        encode(withAddress(map.request, addresses[map.argument]));
    std::memcpy(bytes + map.at, image.data(), image.size());
  }
  for (size_t i = 0; i < launches.size(); ++i)
    launches[i].parameters = {
        bytes + plan.begins[i],
        plan.manifest.launches[launches[i].kernel].parameterBytes};
}

void checkWorkspace(const Manifest &manifest, const Bindings &bindings,
                    WorkspaceRegion workspace) {
  if (bindings.workspaceBytes == 0)
    return;
  if (!workspace.data)
    refuse("the workspace is null; this launch needs {} bytes",
           bindings.workspaceBytes);
  if (workspace.bytes < size_t(bindings.workspaceBytes))
    refuse("the workspace has {} bytes; this launch needs {}", workspace.bytes,
           bindings.workspaceBytes);
  uint64_t address = reinterpret_cast<uint64_t>(workspace.data);
  if (address % uint64_t(manifest.workspaceAlignment))
    refuse("the workspace's address {:#x} is not a multiple of {} bytes",
           address, manifest.workspaceAlignment);
}

} // namespace fa2rt
