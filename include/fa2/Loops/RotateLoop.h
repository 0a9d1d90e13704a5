//===- RotateLoop.h - parts of a loop one tile behind -----------*- C++ -*-===//
#ifndef FA2_LOOPS_ROTATELOOP_H
#define FA2_LOOPS_ROTATELOOP_H

#include "fa2/Loops/ExpandLoop.h"

#include "llvm/ADT/DenseSet.h"

namespace fa2::gpu {

/// Takes the loop over the places of a range apart, with stages 0 and 1: what
/// is not behind for the first tile, then a loop of both, then what is behind
/// for the last. The range must have a tile always.
mlir::FailureOr<mlir::scf::ForOp> rotateLoop(mlir::scf::ForOp loop,
                                             const LoopStages &stages);

/// All that goes one tile behind if the operations `first` do: what becomes of
/// them, the uses of rings that only they read, and the releases of what they
/// read.
/// These get numbers of their own, and slots of what was waited for before are
/// named again, so that nothing of shared memory is carried around the loop.
llvm::DenseSet<mlir::Operation *>
takeBehind(mlir::scf::ForOp loop, llvm::ArrayRef<mlir::Operation *> first);

} // namespace fa2::gpu

#endif
