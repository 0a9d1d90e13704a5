//===- LaunchPlan.h - from arguments to kernel launches ---------*- C++ -*-===//
#ifndef FA2RT_LIB_LAUNCHPLAN_H
#define FA2RT_LIB_LAUNCHPLAN_H

#include "Arguments.h"
#include "Device.h"
#include "Manifest.h"

#include <functional>
#include <vector>

namespace fa2rt {

using TensorMapEncoder =
    std::function<TensorMapImage(const TensorMapRequest &)>;

/// Whether the kernel runs: its guard holds and its grid, which is put into
/// `grid`, has blocks. Throws Error(FA2RT_ERROR_ARGUMENT).
bool evaluateLaunch(const LaunchInfo &launch, const Bindings &bindings,
                    std::array<uint32_t, 3> &grid);

/// The kernels of one launch that have work, with their parameters' bytes.
class LaunchPlan {
public:
  /// Evaluates guards, grids and parameters; launches whose guard does not hold
  /// or whose grid is empty are left out.
  /// Throws Error(FA2RT_ERROR_ARGUMENT); nothing has been launched then.
  LaunchPlan(const Manifest &manifest, const Bindings &bindings,
             WorkspaceRegion workspace, const TensorMapEncoder &encode);
  LaunchPlan(const LaunchPlan &) = delete;
  LaunchPlan &operator=(const LaunchPlan &) = delete;

  const std::vector<KernelLaunch> &kernels() const { return launches; }

private:
  struct alignas(64) Chunk {
    std::byte bytes[64];
  };
  std::vector<KernelLaunch> launches;
  std::vector<std::vector<Chunk>> storage; // one a launch
};

/// Refuses a workspace that is too small or misaligned.
void checkWorkspace(const Manifest &manifest, const Bindings &bindings,
                    WorkspaceRegion workspace);

} // namespace fa2rt

#endif // FA2RT_LIB_LAUNCHPLAN_H
