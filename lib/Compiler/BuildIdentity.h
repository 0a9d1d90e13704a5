//===- BuildIdentity.h - which compiler this is -----------------*- C++ -*-===//
#ifndef FA2_LIB_COMPILER_BUILDIDENTITY_H
#define FA2_LIB_COMPILER_BUILDIDENTITY_H

#include <string>

namespace fa2 {

/// What tells this compiler from every other one, builds of the same version
/// included: the build ids of the files that hold its code, MLIR's and LLVM's.
const std::string &buildIdentity();

} // namespace fa2

#endif
