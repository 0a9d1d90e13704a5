//===- Interpreter.h - tile-level kernels on the CPU ------------*- C++ -*-===//
//
// Runs a fa2.kernel as its operations' descriptions say, tile by tile, after
// any stage from fa2-tile on that still has tiles. Nothing of a GPU is
// modelled: a tile is an array, blocks run one after the other, and roles, and
// the two blocks of a cluster, take turns where they wait for each other. So
// what two stages compute can be compared, and a wrong number be found between
// them.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_INTERPRETER_INTERPRETER_H
#define FA2_INTERPRETER_INTERPRETER_H

#include "fa2/Dialect/FA2/FA2.h"
#include "fa2/Interpreter/Values.h"

namespace fa2::interpreter {

/// Runs all blocks of a kernel. Emits an error at the operation that has no
/// meaning here, touches what it must not, or waits for ever. The kernel gains
/// the arithmetic of its ranges.
mlir::LogicalResult interpret(KernelOp kernel,
                              llvm::ArrayRef<Argument> arguments,
                              Observer observer = nullptr);

} // namespace fa2::interpreter

#endif
