//===- OtherTarget.h - the target that a user may have meant ----*- C++ -*-===//
#ifndef FA2_TARGET_OTHERTARGET_H
#define FA2_TARGET_OTHERTARGET_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace fa2 {

/// Where another target of the same GPUs has instructions that this one does
/// not use, a sentence that says so; else an empty string.
std::string otherTargetNote(llvm::StringRef arch);

} // namespace fa2

#endif
