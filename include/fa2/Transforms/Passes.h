//===- Passes.h - see Passes.td ---------------------------------*- C++ -*-===//
#ifndef FA2_TRANSFORMS_PASSES_H
#define FA2_TRANSFORMS_PASSES_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fa2 {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

#endif
