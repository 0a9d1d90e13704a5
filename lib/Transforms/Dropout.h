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

  /// Which elements of a tile stay, as i1. `head` is batch heads + head.
  mlir::Value keep(const ScorePlace &place, mlir::Value head,
                   mlir::Value columnBlock) {
    return keep(place, head, columnBlock, b.getI1Type());
  }
  /// A tile of 16 bits with zeros for those that do not.
  mlir::Value leftOf(mlir::Value tile, const ScorePlace &place,
                     mlir::Value head, mlir::Value columnBlock);

private:
  mlir::Value keep(const ScorePlace &place, mlir::Value head,
                   mlir::Value columnBlock, mlir::Type element);

  mlir::OpBuilder &b;
  mlir::Location loc;
  llvm::SmallVector<mlir::Value> words;
  mlir::Value threshold, kept;
};

} // namespace fa2

#endif
