//===- Budgets.h - what a kernel takes of a multiprocessor ------*- C++ -*-===//
#ifndef FA2_ANALYSIS_BUDGETS_H
#define FA2_ANALYSIS_BUDGETS_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Target/Target.h"

namespace fa2::gpu {

/// Whether shared memory, the threads and registers of its roles (null: it has
/// none) and named barriers are within what `target` has. Complains where not.
mlir::LogicalResult checkBudgets(KernelOp kernel, const Target &target,
                                 RolesOp roles);

} // namespace fa2::gpu

#endif
