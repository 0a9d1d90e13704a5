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

/// Memory that a map of a tensor without any points to: boxes outside of a
/// tensor are filled with zeros, but the copy engine translates its address all
/// the same. Null where no tensor has elements: then no kernel copies.
void *anyAddress(const Bindings &bindings) {
  for (const BoundTensor &tensor : bindings.tensors) {
    bool empty = false;
    for (int64_t extent : tensor.shape)
      empty |= extent == 0;
    if (tensor.data && !empty &&
        reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0)
      return tensor.data;
  }
  return nullptr;
}

TensorMapRequest mapRequest(const Parameter &parameter,
                            const Bindings &bindings) {
  const BoundTensor &tensor = bindings.tensors[parameter.argument];
  // [batch, seq, heads, d] from the innermost: d, seq, heads, batch.
  constexpr std::array<size_t, 4> order = {3, 1, 2, 0};
  TensorMapRequest request;
  request.tensor = tensor.name;
  request.data = tensor.data;
  request.dtype = tensor.dtype;
  request.box = {parameter.boxCols, parameter.boxRows, parameter.boxHeads, 1};
  request.swizzle = parameter.swizzle;
  bool empty = !tensor.data;
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t extent = tensor.shape[order[i]];
    empty |= extent == 0;
    request.dims[i] = extent == 0 ? 1 : uint64_t(extent);
  }
  int64_t size = dtypeBytes(tensor.dtype);
  for (size_t i = 0; i < request.strides.size(); ++i) {
    size_t dim = order[i + 1];
    // Callers leave anything in a stride that is never used: it is encoded as
    // that of a row.
    if (empty || request.dims[i + 1] == 1) {
      request.strides[i] = (request.dims[0] * uint64_t(size) + 15) / 16 * 16;
      continue;
    }
    int64_t stride = tensor.strides[dim]; // bytes within 2^62: Arguments.cpp
    if (stride < 0)
      refuse("{}: stride {} is {} elements; a tensor map takes no negative "
             "strides",
             tensor.name, dim, stride);
    int64_t bytes = stride * size;
    if (bytes % 16 || bytes >= kMaxMapStride)
      refuse("{}: stride {} is {} elements, {} bytes; a tensor map takes "
             "multiples of 16 bytes below 2^40",
             tensor.name, dim, stride, bytes);
    request.strides[i] = uint64_t(bytes);
  }
  if (empty)
    request.data = anyAddress(bindings);
  uint64_t address = reinterpret_cast<uint64_t>(request.data);
  if (address % 16)
    refuse("{}: the address {:#x} is not a multiple of the 16 bytes that a "
           "tensor map needs",
           tensor.name, address);
  return request;
}

void store(std::byte *to, uint64_t value) {
  std::memcpy(to, &value, sizeof value);
}

void fillParameter(const Parameter &parameter, const Bindings &bindings,
                   WorkspaceRegion workspace, const TensorMapEncoder &encode,
                   std::byte *to) {
  switch (parameter.kind) {
  case Parameter::Kind::Pointer:
    store(to, reinterpret_cast<uint64_t>(
                  bindings.tensors[parameter.argument].data));
    return;
  case Parameter::Kind::Stride:
    store(to, uint64_t(
                  bindings.tensors[parameter.argument].strides[parameter.dim]));
    return;
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
    std::memcpy(to, bindings.scalars[parameter.argument].data(),
                parameter.bytes);
    return;
  case Parameter::Kind::Workspace: {
    int64_t offset = evaluate(parameter.value, bindings);
    if (offset < 0 || offset > bindings.workspaceBytes)
      refuse("the workspace offset '{}' is {}; the workspace has {} bytes",
             parameter.value.text(), offset, bindings.workspaceBytes);
    uint64_t base = reinterpret_cast<uint64_t>(workspace.data);
    store(to, base ? base + uint64_t(offset) : 0);
    return;
  }
  case Parameter::Kind::TensorMap: {
    TensorMapImage image = encode(mapRequest(parameter, bindings));
    std::memcpy(to, image.data(), image.size());
    return;
  }
  }
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

LaunchPlan::LaunchPlan(const Manifest &manifest, const Bindings &bindings,
                       WorkspaceRegion workspace,
                       const TensorMapEncoder &encode) {
  for (size_t index = 0; index < manifest.launches.size(); ++index) {
    const LaunchInfo &info = manifest.launches[index];
    KernelLaunch launch;
    if (!evaluateLaunch(info, bindings, launch.grid))
      continue;
    launch.kernel = index;
    launch.block = info.block;
    launch.cluster = info.cluster;
    launch.sharedBytes = info.sharedBytes;
    std::vector<Chunk> &chunks = storage.emplace_back(
        (info.parameterBytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    std::byte *bytes = reinterpret_cast<std::byte *>(chunks.data());
    for (size_t i = 0; i < info.parameters.size(); ++i)
      fillParameter(info.parameters[i], bindings, workspace, encode,
                    bytes + info.parameterOffsets[i]);
    // The chunks stay where they are when `storage` grows.
    launch.parameters = {bytes, info.parameterBytes};
    launch.parameterOffsets = info.parameterOffsets;
    launches.push_back(launch);
  }
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
