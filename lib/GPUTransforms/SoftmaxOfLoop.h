//===- SoftmaxOfLoop.h - a softmax with the matmuls around it ---*- C++ -*-===//
#ifndef FA2_LIB_GPUTRANSFORMS_SOFTMAXOFLOOP_H
#define FA2_LIB_GPUTRANSFORMS_SOFTMAXOFLOOP_H

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace fa2::gpu {

/// The softmax of a loop's body with the matmuls around it.
struct SoftmaxOfLoop {
  DotStartOp scores;
  llvm::SetVector<mlir::Operation *> start;   // what the product begins with
  llvm::SetVector<mlir::Operation *> program; // from the product to the softmax
  SoftmaxStepOp softmax;
  DotWaitOp output;     // in flight during the softmax
  ScaleRowsOp rescaled; // what it becomes
  explicit operator bool() { return scores && softmax && output && rescaled; }
};

/// That of the loop's body, or one without operations where it has none of this
/// form.
SoftmaxOfLoop findSoftmax(mlir::scf::ForOp loop);

} // namespace fa2::gpu

#endif // FA2_LIB_GPUTRANSFORMS_SOFTMAXOFLOOP_H
