//===- OutputFile.h - writing a file whole or not at all --------*- C++ -*-===//
#ifndef FA2_COMPILER_OUTPUTFILE_H
#define FA2_COMPILER_OUTPUTFILE_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace fa2 {

/// Writes all of `text` to `path` (-: standard output), or leaves what was
/// there and returns why. A regular file is written beside its place, then
/// moved there with the owner and mode of the one before; symbolic links stay
/// and their target is written. Devices, pipes and what lies in /proc are
/// written where they are.
std::string writeFile(llvm::StringRef path, llvm::StringRef text);

/// The same for a file that nobody else names, in a library: links are
/// replaced, and no signal is handled, so that a process that is killed leaves
/// a ".fa2-*.tmp" beside it.
std::string writeOwnFile(llvm::StringRef path, llvm::StringRef text);

} // namespace fa2

#endif
