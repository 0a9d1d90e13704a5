//===- Program.h - a manifest, its kernels, and launching them --*- C++ -*-===//
#ifndef FA2RT_LIB_PROGRAM_H
#define FA2RT_LIB_PROGRAM_H

#include "Device.h"
#include "LaunchPlan.h"
#include "Manifest.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

/// Refuses a device or driver that the target does not run on. With a cubin
/// the driver compiles nothing, and its age is the cubin's affair.
void checkTarget(const Manifest &manifest, const DeviceProperties &device,
                 bool hasImage);

class Program {
public:
  /// Parses, checks the device, and loads in the current context.
  Program(Device &device, std::string_view ptx,
          std::span<const std::byte> image);

  const Manifest &manifest() const { return info; }
  Device &device() const { return target; }
  KernelAttributes attributes(size_t kernel) const;

  /// Whether a launch with these arguments runs that kernel.
  bool runs(size_t kernel, std::span<const fa2rtArgument> arguments) const;
  int64_t workspaceBytes(std::span<const fa2rtArgument> arguments) const;
  void launch(std::span<const fa2rtArgument> arguments,
              WorkspaceRegion workspace, void *stream) const;
  /// What can be checked and evaluated without addresses, once. Those that the
  /// arguments have already are asked of the device.
  LaunchPlan prepare(std::span<const fa2rtArgument> arguments) const;
  /// `addresses`: of the arguments in the order they were prepared in.
  void launch(const LaunchPlan &plan, std::span<void *const> addresses,
              WorkspaceRegion workspace, void *stream) const;
  /// Milliseconds of each of `times.size()` launches, after one untimed. They
  /// take the sets of arguments in turn.
  void measure(std::span<const std::span<const fa2rtArgument>> sets,
               WorkspaceRegion workspace, void *stream,
               std::span<float> times) const;
  std::string profile() const;

private:
  void launchIn(uint64_t context, const LaunchPlan &plan,
                std::span<void *const> addresses, WorkspaceRegion workspace,
                void *stream) const;
  struct Planned;
  void measureHeld(const std::vector<Planned> &sets, WorkspaceRegion workspace,
                   void *stream, std::span<float> times) const;
  /// Refuses memory that the device does not reach; null is let through.
  void checkReach(std::string_view name, const void *memory) const;
  /// The kernels in the context of that key; loads them on first use there.
  const Module &moduleFor(uint64_t key) const;
  /// A tensor map, from the cache when the same one was encoded lately.
  TensorMapImage encode(const TensorMapRequest &request) const;

  Device &target;
  std::string ptx;
  std::vector<std::byte> image;
  Manifest info;
  std::vector<KernelRequest> kernels;
  std::string recordHead; // see Record.h

  mutable std::shared_mutex modulesMutex;
  mutable std::map<uint64_t, std::unique_ptr<Module>> modules;
  const Module *firstModule = nullptr; // which most launches are of
  uint64_t firstContext = 0;

  struct CachedMap {
    TensorMapRequest request;
    TensorMapImage image;
  };
  mutable std::mutex mapsMutex;
  mutable std::vector<CachedMap> maps; // a ring of the latest
  mutable size_t nextMap = 0;
};

} // namespace fa2rt

#endif // FA2RT_LIB_PROGRAM_H
