//===- Launch.cpp - what a case passes to the runtime ---------------------===//

#include "Launch.h"

#include <algorithm>

namespace fa2run {

Workspace::Workspace(fa2rtDevice *device, const fa2rtProgram *program,
                     const std::vector<fa2rtArgument> &arguments)
    : device(device), zeroed(fa2rtWorkspaceZeroed(program)) {
  check(fa2rtWorkspaceSize(program, arguments.data(), arguments.size(), &bytes,
                           &counters));
  counters = std::min(counters, bytes);
  if (!bytes)
    return;
  buffer = Buffer(device, bytes);
  check(fa2rtMemorySet(device, buffer.data(), 0xff, bytes));
  if (zeroed)
    check(fa2rtMemorySet(device, buffer.data(), 0, counters));
}

std::string Workspace::leftovers() const {
  if (!bytes || !zeroed)
    return "";
  std::vector<unsigned char> left(counters);
  checkLaunch(fa2rtMemoryCopyOut(device, left.data(), buffer.data(), counters));
  for (size_t i = 0; i < counters; ++i)
    if (left[i])
      return fmt::format("the workspace, whose first bytes every launch is to "
                         "leave zero, holds {} at byte {}",
                         left[i], i);
  return "";
}

std::vector<fa2rtArgument> makeArguments(const Kernel &kernel,
                                         const Configuration &configuration,
                                         const Tensors &t) {
  std::vector<fa2rtArgument> arguments;
  for (const auto &tensors : {inputsOf(kernel, t), outputsOf(kernel, t)})
    for (const Tensor *tensor : tensors)
      arguments.push_back(tensor->argument());
  for (const auto *extras : {&t.extras, &t.dextras})
    for (const Extra &extra : *extras)
      arguments.push_back(extra.argument());
  if (configuration.scale) {
    if (!kernel.hasScale)
      refuse("this kernel takes no scale: it was compiled in");
    arguments.push_back(fa2rtReal("scale", *configuration.scale));
  }
  return arguments;
}

} // namespace fa2run
