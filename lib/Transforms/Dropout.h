//===- Dropout.h - probabilities that are dropped ---------------*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_DROPOUT_H
#define FA2_LIB_TRANSFORMS_DROPOUT_H

#include "ProgramTiler.h"

namespace fa2 {

/// What a kernel knows of its dropout before any loop: fa2.attention says what
/// is kept.
class Dropout {
public:
  /// `p` and `rng` are the kernel's arguments.
  Dropout(mlir::OpBuilder &b, mlir::Location loc, mlir::Value p,
          mlir::Value rng);

  /// 1 - p, with p as it counts, and 1 / (1 - p).
  mlir::Value share() const { return kept; }
  mlir::Value factor();

  /// Which elements of a tile stay. `head` is batch heads + head.
  mlir::Value keep(const ScorePlace &place, mlir::Value head,
                   mlir::Value columnBlock);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
  llvm::SmallVector<mlir::Value> words;
  mlir::Value threshold, kept;
};

} // namespace fa2

#endif
