//===- HoldBack.h - keeps a wait behind what stands before it ---*- C++ -*-===//
#ifndef FA2_LIB_GPUTRANSFORMS_HOLDBACK_H
#define FA2_LIB_GPUTRANSFORMS_HOLDBACK_H

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2::gpu {

/// What is built next waits until `condition`, which is seldom true, is known.
/// The assembler moves a wait for matmuls up through what does not depend on
/// it, but not across another wait, even one that is seldom taken.
inline void holdBack(mlir::OpBuilder &b, mlir::Location loc,
                     mlir::Value condition) {
  auto hold = mlir::scf::IfOp::create(b, loc, condition);
  mlir::OpBuilder inside = hold.getThenBodyBuilder();
  WarpBarrierOp::create(inside, loc);
}

} // namespace fa2::gpu

#endif
