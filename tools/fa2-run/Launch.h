//===- Launch.h - what a case passes to the runtime -------------*- C++ -*-===//
#ifndef FA2RUN_LAUNCH_H
#define FA2RUN_LAUNCH_H

#include "Runtime.h"
#include "Tensors.h"

#include <string>
#include <vector>

namespace fa2run {

/// A launch's workspace: poisoned, but for the zeros that kernels count on, its
/// first bytes, as many as it is aligned to.
class Workspace {
public:
  Workspace(fa2rtDevice *device, const fa2rtProgram *program,
            const std::vector<fa2rtArgument> &arguments);
  void *data() const { return buffer.data(); }
  /// What a launch was to leave zeroed and did not, or "".
  std::string leftovers() const;
  size_t bytes = 0, counters = 0;

private:
  fa2rtDevice *device;
  bool zeroed;
  Buffer buffer;
};

std::vector<fa2rtArgument> makeArguments(const Kernel &kernel,
                                         const Configuration &configuration,
                                         const Tensors &tensors);

} // namespace fa2run

#endif // FA2RUN_LAUNCH_H
