//===- Ptxas.h - NVIDIA's offline assembler, where there is one -*- C++ -*-===//
#ifndef FA2_COMPILER_PTXAS_H
#define FA2_COMPILER_PTXAS_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace fa2 {

/// The path of ptxas: FA2_PTXAS, else on PATH, else in CUDA_HOME or
/// /usr/local/cuda.
std::optional<std::string> findPtxas();

struct Assembly {
  std::string cubin;
  /// What ptxas -v says of the kernels, the largest; -1 where it does not.
  int64_t registers = -1, spillStoreBytes = -1, spillLoadBytes = -1;
  int64_t stackBytes = -1;
};

/// Assembles PTX for `arch`. On failure returns nothing and says why in
/// `error`.
std::optional<Assembly> assemble(llvm::StringRef ptxas, llvm::StringRef ptx,
                                 llvm::StringRef arch, std::string &error);

} // namespace fa2

#endif
