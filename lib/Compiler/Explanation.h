//===- Explanation.h - remarks as a compilation's reasons -------*- C++ -*-===//
#ifndef FA2_LIB_COMPILER_EXPLANATION_H
#define FA2_LIB_COMPILER_EXPLANATION_H

#include "fa2/Compiler/Compiler.h"

namespace fa2 {

/// Makes the remarks of fa2's passes, from here on, reasons of `result`; that
/// registers spill, a warning.
mlir::LogicalResult collectRemarks(mlir::MLIRContext &context,
                                   Compilation &result);

} // namespace fa2

#endif
