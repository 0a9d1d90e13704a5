//===- Sm80.h - targets programmed with mma.sync and cp.async ---*- C++ -*-===//
#ifndef FA2_LIB_TARGET_SM80_SM80_H
#define FA2_LIB_TARGET_SM80_SM80_H

#include "fa2/Target/Target.h"

namespace fa2::sm80 {

/// sm_80 and every later architecture, by what all of them have.
llvm::ArrayRef<const Target *> mmaSyncTargets();

} // namespace fa2::sm80

#endif
