//===- ScoreProgram.h - the score region on tiles ---------------*- C++ -*-===//
#ifndef FA2_TRANSFORMS_SCOREPROGRAM_H
#define FA2_TRANSFORMS_SCOREPROGRAM_H

#include "fa2/Dialect/FA2/FA2.h"

namespace fa2 {

/// Refuses, by name, what the score region may not hold: operations that are
/// not elementwise, 16-bit values, values from outside, extras.
mlir::LogicalResult checkScoreProgram(AttentionOp op);

/// Where a tile of scores is.
struct ScorePlace {
  mlir::Value batch, head, qBlock, kvBlock;
};

/// The region's operations on a tile of scores in natural units (scale * q.k):
/// the same operation on tiles for each; uniform values become splats.
mlir::Value tileScoreProgram(mlir::OpBuilder &b, AttentionOp op,
                             mlir::Value scores, ScorePlace place);

} // namespace fa2

#endif
