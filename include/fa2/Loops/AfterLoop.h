//===- AfterLoop.h - what follows a loop with products behind ---*- C++ -*-===//
#ifndef FA2_LOOPS_AFTERLOOP_H
#define FA2_LOOPS_AFTERLOOP_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2::gpu {

/// The last tile's products stand behind `loop`. What they do not read is
/// released before them, and what needs nothing of them runs beside them.
void hurryAfter(mlir::scf::ForOp loop);

} // namespace fa2::gpu

#endif
