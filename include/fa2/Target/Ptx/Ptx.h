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

/// The launches of a compiled module, in order. Emits an error and fails unless
/// there are some, all of one program: one specification, one list of
/// arguments; each with a kernel that exists, a target that is known, and a
/// block and shared memory that the target allows.
mlir::FailureOr<llvm::SmallVector<gpu::LaunchOp>>
findLaunches(mlir::ModuleOp module);
/// The one whose schedule speaks for the program.
gpu::LaunchOp mainLaunch(llvm::ArrayRef<gpu::LaunchOp> launches);

/// LLVM IR for NVPTX, verified unless `compileToPtx` is to do so. Emits an
/// error at the module on failure.
std::unique_ptr<llvm::Module> translateToLLVMIR(mlir::ModuleOp module,
                                                llvm::LLVMContext &context,
                                                bool verify = true);

/// The manifest's JSON text, indented, without comment signs.
mlir::FailureOr<std::string> writeManifest(mlir::ModuleOp module);
/// The same of launches of one program, whose kernels need not be there.
mlir::FailureOr<std::string>
writeManifest(llvm::ArrayRef<gpu::LaunchOp> launches);

/// Verifies LLVM IR and assembles it to PTX for `target`. `error` says what
/// cannot be compiled.
mlir::FailureOr<std::string>
compileToPtx(llvm::Module &module, const Target &target, std::string &error);

/// PTX with its manifest: everything above in one step.
mlir::FailureOr<std::string> translateToPtx(mlir::ModuleOp module);

} // namespace fa2

#endif
