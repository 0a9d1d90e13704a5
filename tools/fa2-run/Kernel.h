//===- Kernel.h - a program as fa2-run sees it ------------------*- C++ -*-===//
#ifndef FA2RUN_KERNEL_H
#define FA2RUN_KERNEL_H

#include "Reference/Attention.h"
#include "Reference/Program.h"
#include "Runtime.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fa2run {

/// A program: what its manifest says that a test of it needs.
struct Kernel {
  std::string arch, dtypeName, maskName, compiler;
  int computeCapability = 80; // the least that it runs on
  std::string pass;           // "forward" or "backward"
  bool deterministic = true;  // the same bits in every run
  Precision precision = Precision::BF16;
  Mask mask = Mask::None;
  int64_t headDim = 0, headDimV = 0;
  /// Queries and keys of a tile; 0 when the schedule has none.
  int64_t blockQ = 0, blockKv = 0;
  std::string order; // of its tiles; empty when the schedule has none
  /// Query heads of one key head that a tile holds: they divide heads /
  /// heads_kv.
  int64_t packedHeads = 1;
  bool hasScale = true; // a run-time argument
  double defaultScale = 0;
  bool hasLse = true;
  bool hasDlse = false; // backward is given a gradient of lse
  bool hasSink = false; // each row has a score without a value
  bool hasDropout = false;
  bool hasScoreProgram = false;
  /// It, unless the manifest is of version 1, which says no more.
  std::optional<ScoreProgram> program;
  bool guarded = false; // not every launch runs every kernel
  /// blockQ and blockKv of kernels that have a schedule of their own.
  std::map<std::string, std::array<int64_t, 2>> tiles;

  struct TensorRule {
    int64_t alignment = 16, strideMultiple = 1;
  };
  TensorRule q, k, v, out, lse;
  TensorRule dout, dlse, dq, dk, dv; // backward

  /// What the program reads, the sink, and dropout's probability and numbers.
  struct ExtraRule {
    std::string name;
    bool tensor = true;
    fa2rtDType dtype = FA2RT_F32;
    std::vector<std::string> shape; // names of dimensions
    bool broadcast = false;
    bool hasGradient = false; // the kernel computes d and its name
    /// Whether the gradient is of its own 16 bits: no extent may be 1 then, but
    /// those of dimensions that it is summed over, which are.
    bool wholeGradient = false;
    std::vector<bool> summed; // by dimensions
    enum class Draw { Numbers, Words, Probability } draw = Draw::Numbers;
  };
  std::vector<ExtraRule> extras;
};

/// What is dropped, if anything.
std::optional<Dropout> dropoutOf(const Kernel &kernel, const Operands &operands,
                                 int64_t heads);
/// That of a query head, -inf where there is none.
double sinkOf(const Kernel &kernel, const Operands &operands, int64_t head);

/// Reads what stands in the manifest's JSON text; refuses a pass that is
/// neither forward nor backward, by name.
Kernel describeKernel(const std::string &manifest);

/// The manifest's JSON of a PTX text, checked by the runtime. For use without
/// a device.
std::string manifestOf(const std::string &ptx);

/// What the driver said of each kernel after loading.
nlohmann::ordered_json kernelReport(const fa2rtProgram *program);

} // namespace fa2run

#endif // FA2RUN_KERNEL_H
