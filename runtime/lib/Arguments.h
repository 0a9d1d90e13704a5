//===- Arguments.h - a launch's arguments against the manifest --*- C++ -*-===//
#ifndef FA2RT_LIB_ARGUMENTS_H
#define FA2RT_LIB_ARGUMENTS_H

#include "Device.h"
#include "Manifest.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace fa2rt {

/// A launch's arguments after every check of docs/manifest.md, "What a
/// launcher does", step 3, save for addresses and the workspace.
struct Bindings {
  /// The manifest's index of each argument that the caller gave, in his order.
  std::vector<uint32_t> order;
  std::vector<BoundTensor> tensors; // one an argument; empty for scalars
  std::vector<std::array<std::byte, 8>> scalars; // bytes as the kernel reads
  std::vector<std::optional<int64_t>> slots;     // for expressions
  int64_t workspaceBytes = 0;
};

/// Binds and checks. Of base addresses only how they lie is looked at. Throws
/// Error(FA2RT_ERROR_ARGUMENT).
Bindings bindArguments(const Manifest &manifest, const DeviceProperties &device,
                       std::span<const fa2rtArgument> arguments);

/// The bindings of the same tensors at other addresses, one an argument of the
/// manifest; nothing where no expression tells them from the bound ones. Throws
/// Error(FA2RT_ERROR_ARGUMENT).
std::optional<Bindings> bindAddresses(const Manifest &manifest,
                                      const Bindings &bindings,
                                      std::span<void *const> addresses);

/// Refuses the addresses of tensors, one an argument of the manifest, that are
/// misaligned, or null where there are elements.
void checkAddresses(const Manifest &manifest, const Bindings &bindings,
                    std::span<void *const> addresses);

/// "[2, 64, 8, 128]"
std::string listText(std::span<const int64_t> values);

} // namespace fa2rt

#endif // FA2RT_LIB_ARGUMENTS_H
