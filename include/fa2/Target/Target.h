//===- Target.h - the one interface to hardware -----------------*- C++ -*-===//
//
// A target is an architecture as the compiler sees it: its limits, the matmul
// instructions it has, and what its PTX asks of a driver. Nothing outside
// lib/Target compares architecture numbers.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TARGET_TARGET_H
#define FA2_TARGET_TARGET_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Target/Problem.h"

#include <vector>

namespace fa2 {

/// Limits of the hardware, in bytes, registers of 32 bits and threads.
struct TargetLimits {
  int64_t sharedBytesPerBlock;
  int64_t sharedBytesPerMultiprocessor;
  /// What the driver takes of a multiprocessor's shared memory for each block.
  int64_t sharedBytesReserved = 1024;
  int64_t registersPerMultiprocessor = 65536;
  int64_t registersPerThread = 255;
  int64_t threadsPerBlock = 1024;
  int64_t threadsPerMultiprocessor;
};

/// The PTX that a target's code is written in.
struct PtxRequirement {
  /// ISA version times ten: 70 is `.version 7.0`.
  int isaVersion;
  /// CUDA version of the oldest driver that takes it, as cuDriverGetVersion
  /// says it.
  int minDriver;
};

/// Registers a thread, by role. 0: no such role.
struct RoleRegisters {
  int64_t producer = 0, consumer = 0;
  int64_t sums = 0; // of those that sum dQ, where they are a role
};

class Target {
public:
  virtual ~Target() = default;

  /// "sm_80".
  virtual llvm::StringRef name() const = 0;
  /// 80 for compute capability 8.0.
  virtual int computeCapability() const = 0;
  /// True where only this very architecture runs the code (sm_90a).
  virtual bool isFamilySpecific() const = 0;
  virtual const TargetLimits &limits() const = 0;
  virtual PtxRequirement ptx() const = 0;
  virtual gpu::MatmulFamilyAttr
  matmulFamily(mlir::MLIRContext *context) const = 0;
  /// Whether a reduction in global memory may add four neighbours in f32.
  virtual bool hasVectorReductions() const { return false; }
  /// Warps a block that the rule may try, best first.
  virtual llvm::ArrayRef<int64_t> warpChoices() const = 0;

  /// Whether tensor maps bring tiles, so that one thread starts a copy.
  virtual bool copyEngine() const { return false; }
  /// Whether a kernel may start before the one in front of it has ended.
  virtual bool overlapsKernels() const { return false; }
  /// Whether four warps issue a matmul together, which runs while they go on.
  virtual bool asynchronousMatmul() const { return false; }
  /// Warps of a block beside those of its schedule, with a role of their own;
  /// 0: all do the same.
  virtual int64_t producerWarps() const { return 0; }
  /// Bytes of every panel of a tile in shared memory; 0: as fits the tile.
  virtual int64_t sharedPanelBytes() const { return 0; }
  /// Registers a thread of each role that the schedule asks for, where the
  /// producer starts copies, or where its threads copy by themselves.
  virtual RoleRegisters roleRegisters(const Schedule &schedule,
                                      bool threadsCopy = false) const {
    return {};
  }
  /// What a schedule found by rule has beyond tiles, warps and rings.
  virtual Schedule ruleBase(const Problem &problem) const {
    Schedule s;
    s.lazyRescale = problem.maxSlack;
    return s;
  }

  /// Registers a thread may have with `minBlocks` blocks a multiprocessor.
  int64_t registerBudget(int64_t threads, int64_t minBlocks) const;
};

/// The targets, oldest first.
llvm::ArrayRef<const Target *> allTargets();

/// Null for an unknown name; `error` then offers what there is.
const Target *lookupTarget(llvm::StringRef name, std::string &error);
/// That of a kernel's schedule; null after an error at the kernel.
const Target *targetOf(KernelOp kernel);

} // namespace fa2

#endif
