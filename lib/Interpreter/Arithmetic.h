//===- Arithmetic.h - what arith and math do to numbers ---------*- C++ -*-===//
#ifndef FA2_LIB_INTERPRETER_ARITHMETIC_H
#define FA2_LIB_INTERPRETER_ARITHMETIC_H

#include "mlir/IR/Operation.h"

namespace fa2::interpreter {

/// What an operation makes of its operands' elements, in order; null where it
/// is of another kind.
using OnReals = float (*)(const float *);
using OnWholes = int64_t (*)(const int64_t *);
/// Of integers without their sign, of the operands' width.
using OnNaturals = uint64_t (*)(const uint64_t *);

OnReals onReals(mlir::Operation *op);
OnWholes onWholes(mlir::Operation *op);
OnNaturals onNaturals(mlir::Operation *op);

} // namespace fa2::interpreter

#endif
