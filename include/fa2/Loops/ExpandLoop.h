//===- ExpandLoop.h - a loop cut apart by stages ----------------*- C++ -*-===//
#ifndef FA2_LOOPS_EXPANDLOOP_H
#define FA2_LOOPS_EXPANDLOOP_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fa2::gpu {

/// A loop's operations in a new order, each with how many iterations it is
/// behind the first ones.
using LoopStages = std::vector<std::pair<mlir::Operation *, unsigned>>;

/// Makes an operation do nothing unless a condition holds.
using Predicate = llvm::function_ref<mlir::Operation *(
    mlir::RewriterBase &, mlir::Operation *, mlir::Value)>;

/// Takes a loop apart, by upstream's scf pipeliner: what is not behind for the
/// first iterations, then a loop in which each iteration has all stages. With
/// `predicate` that loop runs as often as before, and what is ahead of its end
/// does nothing; without it, what is behind follows the loop, and there must be
/// enough iterations.
mlir::FailureOr<mlir::scf::ForOp> expandLoop(mlir::scf::ForOp loop,
                                             const LoopStages &stages,
                                             Predicate predicate = nullptr);

} // namespace fa2::gpu

#endif
