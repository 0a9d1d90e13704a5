//===- Sm90.cpp - the target programmed with wgmma and tensor maps --------===//
//
// Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability". setmaxnreg: PTX ISA, "Miscellaneous Instructions".
//
//===----------------------------------------------------------------------===//

#include "Sm90.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fa2;

namespace {
class Sm90Target : public Target {
public:
  Sm90Target() {
    lim.sharedBytesPerBlock = 227 * 1024;
    lim.sharedBytesPerMultiprocessor = 228 * 1024;
    lim.threadsPerMultiprocessor = 2048;
  }

  llvm::StringRef name() const override { return "sm_90a"; }
  int computeCapability() const override { return 90; }
  bool isFamilySpecific() const override { return true; }
  const TargetLimits &limits() const override { return lim; }
  // Reductions of four neighbours came with 8.1.
  PtxRequirement ptx() const override { return {81, 12010}; }
  bool hasVectorReductions() const override { return true; }
  gpu::MatmulFamilyAttr
  matmulFamily(mlir::MLIRContext *context) const override {
    return gpu::WgmmaAttr::get(context);
  }
  llvm::ArrayRef<int64_t> warpChoices() const override {
    static constexpr int64_t choices[] = {8, 12, 4};
    return choices;
  }

  bool copyEngine() const override { return true; }
  bool overlapsKernels() const override { return true; }
  bool asynchronousMatmul() const override { return true; }
  int64_t producerWarps() const override { return kProducerWarps; }
  int64_t sharedPanelBytes() const override { return 128; }
  /// The budgets, summed over warpgroups, must not exceed what the block has at
  /// entry, or setmaxnreg.inc waits for ever. A consumer never gets fewer than
  /// at entry: setmaxnreg.inc does not give back.
  RoleRegisters roleRegisters(const Schedule &s,
                              bool threadsCopy) const override {
    int64_t groups = s.warps / 4;
    int64_t threads = (s.warps + s.otherWarps()) * gpu::kWarpLanes;
    int64_t entry = registerBudget(threads, s.minBlocks) / 8 * 8;
    // Beside what copying takes, 64 rows of dQ over a warpgroup.
    int64_t withSum = std::clamp<int64_t>(40 + s.dqColumns / 2, 56, entry);
    if (s.producerRegisters)
      withSum = s.producerRegisters;
    // Roles that see to turns have as many as the one that copies: where others
    // have room, what keeps all of theirs in registers. So has one that draws
    // tiles for another block too.
    bool more = s.turns == TurnChange::ByRoles && s.dqRole;
    bool draws = s.persistent && s.cluster > 1 && s.dqRole;
    int64_t copies = threadsCopy ? 56 : groups > 2 || more || draws ? 32 : 24;
    RoleRegisters r;
    if (s.dqRole) {
      r.sums = more && !s.producerRegisters ? withSum - 8 : withSum;
      r.producer = copies;
    } else {
      r.producer = s.dqByProducer || s.producerRegisters ? withSum : copies;
    }
    int64_t all = entry * (threads / gpu::kWarpLanes / 4);
    int64_t share = (all - r.producer - r.sums) / groups / 8 * 8;
    r.consumer = std::max(entry, std::min<int64_t>(240, share));
    return r;
  }
  Schedule ruleBase(const Problem &problem) const override {
    Schedule s;
    if (problem.backward) {
      s.dq = GradQ::AtomicV4;
      return s;
    }
    s.lazyRescale = problem.maxSlack;
    s.overlap = s.persistent = true;
    return s;
  }

private:
  TargetLimits lim;
};
} // namespace

const Target *sm90::target() {
  static const Sm90Target target;
  return &target;
}
