//===- LoopBody.h - a loop's operations in a new order ----------*- C++ -*-===//
#ifndef FA2_LIB_LOOPS_LOOPBODY_H
#define FA2_LIB_LOOPS_LOOPBODY_H

#include "fa2/Loops/RotateLoop.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fa2::gpu {

/// The operations of a loop's body and what must stand before each. Those
/// behind need nothing of the others: it was computed in the iteration before.
class LoopBody {
public:
  LoopBody(mlir::Block &block, const llvm::DenseSet<mlir::Operation *> &behind);

  /// Takes `op` and all that it needs to the end of the new order.
  void place(mlir::Operation *op);
  /// All that `op` needs, but `last`.
  void placeNeeds(mlir::Operation *op, mlir::Operation *last = nullptr);
  /// What is written before `op`, of the same tile.
  void placeBefore(mlir::Operation *op);
  /// What becomes of `op`, and all that it needs.
  void placeUsers(mlir::Operation *op);
  /// What is added of `dot` to memory is, as soon as that has been waited for.
  void addAtOnce(DotStartOp dot) { atOnce.insert(dot); }
  /// Waits for the oldest matmuls until fewer than so many are in flight.
  void leaveInFlight(size_t limit);
  /// All that is left: first what need not wait for the matmuls that no other
  /// operation reads, then the waits, in the order of the starts.
  void placeRest();

  LoopStages stages() const;

private:
  void addNeeds(mlir::Operation *op);
  void needBefore(mlir::Operation *op, mlir::Value v);
  void needRegisters(DotStartOp dot);
  void needSlot(mlir::Operation *op);
  bool amidWrites();
  void placeOlderWaits(DotWaitOp wait);
  bool isRead(mlir::Operation *op);
  bool ready(mlir::Operation *op);
  bool nearlyReady(mlir::Operation *op);
  void append(mlir::Operation *op);

  mlir::Block &block;
  const llvm::DenseSet<mlir::Operation *> &behind;
  llvm::DenseSet<mlir::Operation *> atOnce;
  llvm::MapVector<mlir::Operation *, llvm::SetVector<mlir::Operation *>> needs;
  llvm::SetVector<mlir::Operation *> placed;
};

} // namespace fa2::gpu

#endif
