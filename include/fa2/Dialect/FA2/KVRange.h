//===- KVRange.h - interval arithmetic on masks -----------------*- C++ -*-===//
#ifndef FA2_DIALECT_FA2_KVRANGE_H
#define FA2_DIALECT_FA2_KVRANGE_H

#include "fa2/Dialect/FA2/FA2.h"

namespace fa2 {
/// begin, end, full_begin, full_end of a fa2.kv_range as arithmetic.
llvm::SmallVector<mlir::Value, 4> expandKVRange(mlir::OpBuilder &b,
                                                KVRangeOp op);
/// The same of a fa2.q_range.
llvm::SmallVector<mlir::Value, 4> expandQRange(mlir::OpBuilder &b, QRangeOp op);
} // namespace fa2

#endif
