//===- Budgets.cpp - what a kernel takes of a multiprocessor --------------===//

#include "fa2/Analysis/Budgets.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

// PTX ISA, bar: barriers 0 to 15 of each block, on every target.
constexpr int64_t kNamedBarriers = 16;
// PTX ISA, setmaxnreg: a multiple of 8 in [24, 256].
constexpr int64_t kMinRegisters = 24, kMaxRegisters = 256;

/// Bytes of shared memory that have one owner.
struct Bytes {
  int64_t begin, size;
  RingCreateOp ring;
};

LogicalResult checkMemory(KernelOp kernel, const Target &target,
                          RolesOp roles) {
  if (!kernel.getSharedBytes())
    return kernel.emitOpError() << "expected fa2gpu-allocate to have set "
                                   "'shared_bytes'";
  int64_t bytes = *kernel.getSharedBytes();
  int64_t limit = target.limits().sharedBytesPerBlock;
  if (bytes > limit)
    return kernel.emitOpError()
           << "expected at most " << limit << " bytes of shared memory on "
           << target.name() << ", got " << bytes;
  SmallVector<Bytes> places;
  for (auto ring : kernel.getOps<RingCreateOp>()) {
    if (ring.getOffset())
      places.push_back({int64_t(*ring.getOffset()), ringBytes(ring), ring});
    if (ring.getBarriers() && !ring.getShares())
      places.push_back(
          {int64_t(*ring.getBarriers()), barrierBytes(ring), ring});
  }
  llvm::stable_sort(
      places, [](const Bytes &a, const Bytes &b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Bytes &b : places) {
    RingCreateOp ring = b.ring;
    if (b.begin + b.size > bytes)
      return ring.emitOpError() << "expected ring '" << ring.getName()
                                << "' to end within the block's " << bytes
                                << " bytes, got " << b.begin + b.size;
    // Without roles, lives that do not meet share bytes.
    if (roles && b.begin < end)
      return ring.emitOpError()
             << "expected ring '" << ring.getName()
             << "' to have bytes of its own because roles run side by side: "
                "those before end at "
             << end << ", got " << b.begin;
    end = std::max(end, b.begin + b.size);
  }
  return success();
}

/// setmaxnreg.inc waits until the registers are there: what all warpgroups
/// ask for must not exceed what the block has at entry.
LogicalResult checkRegisters(const Target &target, RolesOp roles,
                             int64_t blocks) {
  int64_t warps = roles.getTotalWarps(), threads = warps * kWarpLanes;
  if (threads > target.limits().threadsPerBlock)
    return roles.emitOpError()
           << "expected at most " << target.limits().threadsPerBlock
           << " threads on " << target.name() << ", got " << threads;
  int64_t entry = target.registerBudget(threads, blocks) / 8 * 8, sum = 0;
  for (int64_t n : roles.getGroupRegisters()) {
    if (n % 8 != 0 || n < kMinRegisters || n > kMaxRegisters)
      return roles.emitOpError()
             << "expected registers of a role to be a multiple of 8 from "
             << kMinRegisters << " to " << kMaxRegisters << ", got " << n;
    sum += n;
  }
  int64_t groups = warps / kGroupWarps, limit = entry * groups;
  if (sum > limit)
    return roles.emitOpError() << "expected registers of the roles' " << groups
                               << " warpgroups to sum to at most " << limit
                               << " (" << entry << " each at entry), got "
                               << sum << ": the increase would wait for ever";
  return success();
}

LogicalResult checkNamedBarriers(RolesOp roles) {
  constexpr int64_t limit = kNamedBarriers;
  SmallVector<Operation *> owner(limit); // of each number's kind
  // Whether two operations have a barrier's number for the same use.
  auto alike = [&](Operation *a, Operation *b) {
    auto kind = [](Operation *op) {
      return isa<GroupBarrierOp>(op) ? 0 : isa<RoleBarrierOp>(op) ? 1 : 2;
    };
    return kind(a) == kind(b) && roles.getRoleOf(a) == roles.getRoleOf(b);
  };
  WalkResult result =
      roles.walk([&](Operation *op) {
        if (!isa<TurnWaitOp, TurnPassOp, GroupBarrierOp, RoleBarrierOp>(op))
          return WalkResult::advance();
        int64_t groups = roles.getWarps()[roles.getRoleOf(op)] / kGroupWarps;
        if (isa<RoleBarrierOp>(op))
          groups = 1;
        std::optional<int64_t> id;
        if (auto number = op->getAttrOfType<IntegerAttr>("id"))
          id = number.getInt();
        if (!id || *id < 1 || *id + groups > limit) {
          auto error = op->emitOpError()
                       << "expected named barriers from 1 to " << limit - 1
                       << " (0 is the block's), got ";
          id ? (error << *id << " to " << *id + groups - 1) : (error << "none");
          return WalkResult::interrupt();
        }
        for (int64_t n = *id; n < *id + groups; ++n) {
          Operation *&first = owner[n];
          if (first && !alike(first, op)) {
            op->emitOpError()
                << "expected named barrier " << n
                << " to be for turns, for warpgroups or for all warps of one "
                   "role, not two of them";
            return WalkResult::interrupt();
          }
          first = op;
        }
        return WalkResult::advance();
      });
  return failure(result.wasInterrupted());
}

} // namespace

LogicalResult fa2::gpu::checkBudgets(KernelOp kernel, const Target &target,
                                     RolesOp roles) {
  return success(
      succeeded(checkMemory(kernel, target, roles)) &&
      (!roles || (succeeded(checkRegisters(
                      target, roles, kernel.getSchedule().getMinBlocks())) &&
                  succeeded(checkNamedBarriers(roles)))));
}
