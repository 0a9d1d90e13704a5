//===- Registration.h - dialects and passes that the tools know -*- C++ -*-===//
#ifndef FA2_PIPELINES_REGISTRATION_H
#define FA2_PIPELINES_REGISTRATION_H

#include "mlir/IR/DialectRegistry.h"

namespace fa2 {

/// The fa2 dialects, the upstream dialects that their passes use, and the
/// interfaces that carry those to LLVM IR.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass of fa2, its pipelines, and the upstream passes they contain.
/// Safe to call more than once.
void registerPasses();

/// Makes --fa2-to-ptx, --fa2-to-llvmir and --fa2-manifest known to
/// mlirTranslateMain.
void registerTranslations();

} // namespace fa2

#endif
