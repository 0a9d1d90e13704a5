//===- Passes.h - see Passes.td ---------------------------------*- C++ -*-===//
#ifndef FA2_NVVMTRANSFORMS_PASSES_H
#define FA2_NVVMTRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fa2 {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

#endif
