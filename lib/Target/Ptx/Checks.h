//===- Checks.h - what code generation must not be given --------*- C++ -*-===//
#ifndef FA2_LIB_TARGET_PTX_CHECKS_H
#define FA2_LIB_TARGET_PTX_CHECKS_H

#include "fa2/Target/Target.h"
#include "llvm/IR/Module.h"

namespace fa2 {

/// LLVM's backend aborts the process on what it cannot select. This finds such
/// things first: an empty string, or what is wrong.
std::string checkForCodeGeneration(const llvm::Module &module,
                                   const Target &target);

} // namespace fa2

#endif
