//===- Enums.h - the enumerations of the fa2 dialect ------------*- C++ -*-===//
#ifndef FA2_DIALECT_FA2_ENUMS_H
#define FA2_DIALECT_FA2_ENUMS_H

#include "mlir/IR/DialectImplementation.h"

#include "fa2/Dialect/FA2/FA2Enums.h.inc"

#endif
