//===- Sink.h - a score of each row that has no value -----------*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_SINK_H
#define FA2_LIB_TRANSFORMS_SINK_H

#include "ProgramTiler.h"

namespace fa2 {

/// Of each row at `place` its head's value: `source` is [heads], f32.
mlir::Value readByHead(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value source, const ScorePlace &place);

/// The output and lse of rows that have one score more, `sink`, and no value
/// for it: lse becomes log(exp(lse) + exp(sink)), and the output keeps its
/// share of that sum.
std::pair<mlir::Value, mlir::Value> addSink(mlir::OpBuilder &b,
                                            mlir::Location loc,
                                            mlir::Value sink, mlir::Value out,
                                            mlir::Value lse);

} // namespace fa2

#endif
