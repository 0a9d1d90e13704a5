//===- Ptx.h - from compiled modules to PTX text ----------------*- C++ -*-===//
//
// The last steps: a module that the pipeline has brought down to one gpu.module
// of LLVM and NVVM operations and its fa2gpu.launch becomes LLVM IR, then PTX
// with the manifest (docs/manifest.md) in its leading comment.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TARGET_PTX_PTX_H
#define FA2_TARGET_PTX_PTX_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Target/Target.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace fa2 {

/// The launch of a compiled module. Emits an error and fails unless there is
/// exactly one, whose kernel exists, whose target is known, and whose block and
/// shared memory the target allows.
mlir::FailureOr<gpu::LaunchOp> findLaunch(mlir::ModuleOp module);

/// LLVM IR for NVPTX. Emits an error at the module on failure.
std::unique_ptr<llvm::Module> translateToLLVMIR(mlir::ModuleOp module,
                                                llvm::LLVMContext &context);

/// The manifest's JSON text, indented, without comment signs.
mlir::FailureOr<std::string> writeManifest(mlir::ModuleOp module);

/// Assembles LLVM IR to PTX for `target`. `error` says what cannot be compiled.
mlir::FailureOr<std::string>
compileToPtx(llvm::Module &module, const Target &target, std::string &error);

/// PTX with its manifest: everything above in one step.
mlir::FailureOr<std::string> translateToPtx(mlir::ModuleOp module);

} // namespace fa2

#endif
