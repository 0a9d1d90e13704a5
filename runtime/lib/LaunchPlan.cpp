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

/// While it lives, the bindings are those of a launch's slice, where it has
/// one: as if the caller had passed that part of the tensors.
class SliceScope {
public:
  SliceScope(const Manifest &manifest, const LaunchInfo &launch,
             Bindings &bindings)
      : manifest(manifest), slice(launch.slice), bindings(bindings) {
    if (!slice)
      return;
    whole = bindings.slots[slice->dimension].value_or(0);
    from = evaluate(slice->from, bindings);
    int64_t count = evaluate(slice->count, bindings);
    if (from < 0 || count < 0 || from > whole - count)
      refuse("kernel {}: its slice of {} is {} from {}; there are {}",
             launch.kernel, manifest.dimensions[slice->dimension], count, from,
             whole);
    setExtent(count);
  }
  ~SliceScope() {
    if (slice)
      setExtent(whole);
  }
  SliceScope(const SliceScope &) = delete;
  SliceScope &operator=(const SliceScope &) = delete;

  /// Bytes in front of the part that a launch gets of a tensor.
  int64_t offset(uint32_t argument) const {
    int64_t elements = 0;
    if (slice)
      forEachDim([&](uint32_t i, size_t d) {
        if (i == argument)
          elements += from * bindings.tensors[i].strides[d];
      });
    return elements * dtypeBytes(manifest.arguments[argument].dtype);
  }

private:
  /// The one element of a broadcast extent is no part of it.
  template <typename Body> void forEachDim(Body body) const {
    for (uint32_t i = 0; i < manifest.arguments.size(); ++i) {
      const Argument &argument = manifest.arguments[i];
      if (!argument.tensor || !bindings.tensors[i].present)
        continue;
      for (size_t d = 0; d < argument.shape.size(); ++d)
        if (argument.shape[d].fixed < 0 &&
            argument.shape[d].dimension == slice->dimension &&
            (!argument.broadcast || bindings.tensors[i].shape[d] != 1))
          body(i, d);
    }
  }

  void setExtent(int64_t extent) {
    forEachDim(
        [&](uint32_t i, size_t d) { bindings.tensors[i].shape[d] = extent; });
    bindings.slots[slice->dimension] = extent;
  }

  const Manifest &manifest;
  const std::optional<Slice> &slice;
  Bindings &bindings;
  int64_t whole = 0, from = 0;
};

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

/// The address behind `bytes` of a tensor that has one.
uint64_t placeIn(void *data, int64_t bytes) {
  return data ? reinterpret_cast<uint64_t>(data) + uint64_t(bytes) : 0;
}

TensorMapRequest withAddress(TensorMapRequest request, uint64_t address) {
  if (address % 16)
    refuse("{}: the address {:#x} is not a multiple of the 16 bytes that a "
           "tensor map needs",
           request.tensor, address);
  request.data = reinterpret_cast<void *>(address);
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

static bool takesLaunch(const LaunchInfo &launch, const Bindings &bindings) {
  return !launch.when || evaluate(*launch.when, bindings);
}

static bool evaluateGrid(const LaunchInfo &launch, const Bindings &bindings,
                         std::array<uint32_t, 3> &grid) {
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

bool hasWork(const Manifest &manifest, const LaunchInfo &launch,
             Bindings bindings) {
  std::array<uint32_t, 3> grid;
  if (!takesLaunch(launch, bindings))
    return false;
  SliceScope slice(manifest, launch, bindings);
  return evaluateGrid(launch, bindings, grid);
}

LaunchPlan::LaunchPlan(const Manifest &manifest, Bindings bound)
    : manifest(manifest), bindings(std::move(bound)) {
  for (size_t index = 0; index < manifest.launches.size(); ++index) {
    const LaunchInfo &info = manifest.launches[index];
    KernelLaunch launch;
    if (!takesLaunch(info, bindings))
      continue;
    SliceScope slice(manifest, info, bindings);
    if (!evaluateGrid(info, bindings, launch.grid))
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
      addParameter(info.parameters[i], begin + info.parameterOffsets[i],
                   [&](uint32_t of) { return slice.offset(of); });
    launches.push_back(launch);
  }
}

template <typename OffsetOf>
void LaunchPlan::addParameter(const Parameter &parameter, size_t at,
                              OffsetOf offsetOf) {
  std::byte *to = reinterpret_cast<std::byte *>(storage.data()) + at;
  const uint32_t argument = parameter.argument;
  switch (parameter.kind) {
  case Parameter::Kind::Pointer:
    pointers.push_back({at, argument, offsetOf(argument)});
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
  case Parameter::Kind::TensorMap: {
    uint32_t source = addressSource(manifest, bindings, argument);
    maps.push_back(
        {at, source, offsetOf(source),
         mapRequest(parameter, manifest.arguments[argument], bindings)});
    return;
  }
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
          placeIn(addresses[pointer.argument], pointer.offset));
  uint64_t base = reinterpret_cast<uint64_t>(workspace.data);
  for (const LaunchPlan::Offset &offset : plan.workspaces)
    store(bytes + offset.at, base ? base + offset.offset : 0);
  for (const LaunchPlan::Map &map : plan.maps) {
    TensorMapImage image = encode(
        withAddress(map.request, placeIn(addresses[map.argument], map.offset)));
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
