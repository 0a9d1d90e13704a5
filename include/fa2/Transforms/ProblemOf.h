//===- ProblemOf.h - what an operation's schedule is chosen for -*- C++ -*-===//
#ifndef FA2_TRANSFORMS_PROBLEMOF_H
#define FA2_TRANSFORMS_PROBLEMOF_H

#include "fa2/Target/Problem.h"

namespace fa2 {

/// What of an attention, or of its gradient, its schedule depends on. Fails
/// after an error where its score program is none that kernels compute.
mlir::FailureOr<Problem> problemOf(AttentionOp op);
mlir::FailureOr<Problem> problemOf(AttentionGradOp op);

} // namespace fa2

#endif
