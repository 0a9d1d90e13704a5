//===- KeyFlags.h - a specification from the command line -------*- C++ -*-===//
#ifndef FA2_TOOLS_COMPILE_KEYFLAGS_H
#define FA2_TOOLS_COMPILE_KEYFLAGS_H

#include "fa2/Compiler/Specification.h"

#include "llvm/Support/CommandLine.h"

#include <memory>

namespace fa2 {

/// One flag a key of the specification: --head-dim for head_dim.
class KeyFlags {
public:
  KeyFlags(llvm::cl::OptionCategory &kernel, llvm::cl::OptionCategory &schedule,
           llvm::cl::OptionCategory &output);
  /// What is wrong, or an empty string. Beside a file, flags that say what the
  /// operation says itself are.
  std::string apply(Specification &spec, bool file) const;

private:
  std::vector<std::unique_ptr<std::string>> names;
  std::vector<std::unique_ptr<llvm::cl::opt<std::string>>> flags;
};

} // namespace fa2

#endif
