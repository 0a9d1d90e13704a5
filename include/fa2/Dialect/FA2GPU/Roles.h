//===- Roles.h - whose an operation is --------------------------*- C++ -*-===//
#ifndef FA2_DIALECT_FA2GPU_ROLES_H
#define FA2_DIALECT_FA2GPU_ROLES_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fa2::gpu {

/// A tile in registers, in flight or in shared memory.
inline bool isTile(mlir::Value v) {
  return mlir::isa<mlir::RankedTensorType, InFlightType>(v.getType());
}

/// What every role computes for itself: numbers, and tiles of numbers alone.
inline bool isEveryones(mlir::Operation *op) {
  return mlir::isMemoryEffectFree(op) &&
         llvm::none_of(op->getOperands(), isTile);
}

/// What one role does: all else that stands in the block's tiles but loops and
/// branches, which are those of what stands in them.
inline bool isOneRoles(mlir::Operation *op) {
  return op->getNumRegions() == 0 &&
         !op->hasTrait<mlir::OpTrait::IsTerminator>() && !isEveryones(op) &&
         (op->getParentOfType<ForEachTileOp>() ||
          op->getParentOfType<TileLoopOp>());
}

/// Blocks that take each tile of a loop over a kernel's tiles together: 1 of
/// any other operation.
inline int64_t clusterOf(mlir::Operation *op) {
  if (auto each = mlir::dyn_cast<ForEachTileOp>(op))
    return each.getCluster();
  auto loop = mlir::dyn_cast<TileLoopOp>(op);
  return loop ? int64_t(loop.getCluster()) : 1;
}

/// Whether blocks of a kernel take tiles together.
inline bool hasClusters(mlir::Operation *kernel) {
  auto found = kernel->walk([](mlir::Operation *op) {
    return clusterOf(op) > 1 ? mlir::WalkResult::interrupt()
                             : mlir::WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// The name of an operation's role; null where it has none.
inline mlir::StringAttr roleOf(mlir::Operation *op) {
  return op->getAttrOfType<mlir::StringAttr>(kRoleName);
}

/// A kernel's plan, complete; or an error.
mlir::FailureOr<PlanAttr> planOf(KernelOp kernel);

/// Whether an operation has to do with a copy into shared memory, by whomever.
inline bool isOfCopy(mlir::Operation *op) {
  return isOneThreads(op) || mlir::isa<RingAcquireOp, CopyOp, RingCommitOp>(op);
}

/// Whether a role does nothing else: it then runs ahead of the others by
/// itself.
bool onlyCopies(mlir::Region &program);

} // namespace fa2::gpu

#endif
