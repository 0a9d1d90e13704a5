//===- Cursors.h - the numbers of a ring's uses -----------------*- C++ -*-===//
//
// A ring has a cursor on each side: the number of the use that is filled next,
// and of the one that is waited for next. An operation that takes a use gives
// the number after it, and loops carry it.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RINGS_CURSORS_H
#define FA2_RINGS_CURSORS_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

namespace fa2::gpu {

/// Whether `op` takes the ring's next use: acquire on the side that fills, wait
/// on the one that reads.
inline bool takesUse(mlir::Operation *op) {
  return mlir::isa<RingAcquireOp, RingWaitOp>(op);
}

/// Threads the cursors of `ring` through the program in `block`, where uses of
/// one side are taken and given back in order. Where the numbers say no
/// more than which slot it is (without mbarriers), they begin again at 0 at
/// each loop over tiles.
void threadCursors(mlir::Block &block, mlir::Value ring, bool phases);

} // namespace fa2::gpu

#endif
