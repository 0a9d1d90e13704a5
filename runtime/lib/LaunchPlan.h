//===- LaunchPlan.h - from arguments to kernel launches ---------*- C++ -*-===//
#ifndef FA2RT_LIB_LAUNCHPLAN_H
#define FA2RT_LIB_LAUNCHPLAN_H

#include "Arguments.h"
#include "Device.h"
#include "Manifest.h"
#include "Scratch.h"

#include <functional>
#include <vector>

namespace fa2rt {

class LaunchCount;

using TensorMapEncoder =
    std::function<TensorMapImage(const TensorMapRequest &)>;

/// Whether the kernel runs: its guard holds and its grid has blocks. Throws
/// Error(FA2RT_ERROR_ARGUMENT).
bool hasWork(const Manifest &manifest, const LaunchInfo &launch,
             Bindings bindings);

/// A launch's parameters in 64 bytes each, as tensor maps want to lie.
struct alignas(64) ParameterChunk {
  std::byte bytes[64];
};

/// The kernels of a launch that have work, with everything that depends on no
/// address: evaluated once, it serves any number of launches and threads.
class LaunchPlan {
public:
  /// Evaluates guards, grids and parameters; launches whose guard does not hold
  /// or whose grid is empty are left out. The manifest outlives the plan.
  /// Throws Error(FA2RT_ERROR_ARGUMENT).
  LaunchPlan(const Manifest &manifest, Bindings bindings);

  const Bindings &bound() const { return bindings; }
  bool empty() const { return launches.empty(); }
  /// Where launches of it are counted, or null.
  LaunchCount *count = nullptr;
  /// The launches, without parameters.
  std::span<const KernelLaunch> work() const { return launches; }

private:
  friend class PlacedLaunch;
  using Chunk = ParameterChunk;
  // What a launch puts into the parameters: each at a byte of `storage`.
  struct Pointer {
    size_t at;
    uint32_t argument;
    int64_t offset; // bytes from the tensor's address: a slice's
  };
  struct Offset {
    size_t at;
    uint64_t offset; // from the workspace's address
  };
  struct Map {
    size_t at;
    uint32_t argument;
    int64_t offset;           // as a pointer's
    TensorMapRequest request; // without an address
  };

  /// `offsetOf` says the bytes in front of what a launch gets of a tensor.
  template <typename OffsetOf>
  void addParameter(const Parameter &parameter, size_t at, OffsetOf offsetOf);

  const Manifest &manifest;
  Bindings bindings;
  std::vector<KernelLaunch> launches; // without parameters
  std::vector<size_t> begins;         // of each launch in `storage`, bytes
  std::vector<Chunk> storage;
  std::vector<Pointer> pointers;
  std::vector<Offset> workspaces;
  std::vector<Map> maps;
};

/// One launch of a plan: its kernels' parameters with addresses in them.
class PlacedLaunch {
public:
  /// `addresses`: of the tensors, one an argument of the manifest. Checks them
  /// and the workspace; throws Error(FA2RT_ERROR_ARGUMENT), and nothing has
  /// been launched then.
  PlacedLaunch(const LaunchPlan &plan, std::span<void *const> addresses,
               WorkspaceRegion workspace, const TensorMapEncoder &encode);
  PlacedLaunch(const PlacedLaunch &) = delete;
  PlacedLaunch &operator=(const PlacedLaunch &) = delete;

  std::span<const KernelLaunch> kernels() const { return launches; }

private:
  Scratch memory;
  std::pmr::vector<ParameterChunk> storage;
  std::pmr::vector<KernelLaunch> launches;
};

/// Refuses a workspace that is too small or misaligned.
void checkWorkspace(const Manifest &manifest, const Bindings &bindings,
                    WorkspaceRegion workspace);

} // namespace fa2rt

#endif // FA2RT_LIB_LAUNCHPLAN_H
