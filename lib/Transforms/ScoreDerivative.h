//===- ScoreDerivative.h - a score program's derivative ---------*- C++ -*-===//
#ifndef FA2_TRANSFORMS_SCOREDERIVATIVE_H
#define FA2_TRANSFORMS_SCOREDERIVATIVE_H

#include "fa2/Dialect/FA2/FA2.h"

namespace fa2 {

/// Makes a score region that yields the new score yield its derivative by the
/// old one too, and contribute to the gradients of the extras `grads`. Fails,
/// by name, where an operation between them has none.
mlir::LogicalResult addDerivative(mlir::Region &score,
                                  llvm::ArrayRef<int64_t> grads);

} // namespace fa2

#endif
