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

/// The kernels of one launch that have work, with their parameters' bytes.
class LaunchPlan {
public:
  /// Evaluates grids and parameters; launches with an empty grid are left out.
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
