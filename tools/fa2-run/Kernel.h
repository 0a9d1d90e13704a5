//===- Kernel.h - a forward program as fa2-run sees it ----------*- C++ -*-===//
#ifndef FA2RUN_KERNEL_H
#define FA2RUN_KERNEL_H

#include "Reference/Attention.h"
#include "Runtime.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2run {

/// A forward program: what its manifest says that a test of it needs.
struct Kernel {
  std::string arch, dtypeName, maskName, compiler;
  int computeCapability = 80; // the least that it runs on
  Precision precision = Precision::BF16;
  Mask mask = Mask::None;
  int64_t headDim = 0, headDimV = 0;
  /// Rows of a tile of queries and of keys; 0 when the schedule has none.
  int64_t blockQ = 0, blockKv = 0;
  bool hasScale = true; // a run-time argument
  double defaultScale = 0;
  bool hasLse = true;
  bool hasScoreProgram = false; // of which the manifest says no more

  struct TensorRule {
    int64_t alignment = 16, strideMultiple = 1;
  };
  TensorRule q, k, v, out, lse;
};

/// Reads what stands in the manifest's JSON text; refuses a pass that is not
/// forward, by name.
Kernel describeKernel(const std::string &manifest);

/// The manifest's JSON of a PTX text, checked by the runtime. For use without
/// a device.
std::string manifestOf(const std::string &ptx);

/// What the driver said of each kernel after loading.
nlohmann::ordered_json kernelReport(const fa2rtProgram *program);

} // namespace fa2run

#endif // FA2RUN_KERNEL_H
