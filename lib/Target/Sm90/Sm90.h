//===- Sm90.h - wgmma and tensor maps ---------------------------*- C++ -*-===//
#ifndef FA2_LIB_TARGET_SM90_SM90_H
#define FA2_LIB_TARGET_SM90_SM90_H

#include "fa2/Target/Target.h"

namespace fa2::sm90 {

/// sm_90a, which no other architecture runs.
const Target *target();

} // namespace fa2::sm90

#endif
