//===- ScoreProgram.h - a region of a score program -------------*- C++ -*-===//
#ifndef FA2_TRANSFORMS_SCOREPROGRAM_H
#define FA2_TRANSFORMS_SCOREPROGRAM_H

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {

/// How fa2.attention_grad gives the gradient of what a program reads, by its
/// type: a sum in f32; of 16 bits, a place for each score, to which tiles are
/// stored; or, of 16 bits with extents of 1, the sum over entries of the batch
/// or heads, taken in the workspace tile by tile in the order of registers.
enum class GradientForm { Sum, Whole, Tiles };
inline GradientForm formOfGradient(mlir::Type gradient) {
  auto type = mlir::cast<mlir::RankedTensorType>(gradient);
  if (type.getElementType().isF32())
    return GradientForm::Sum;
  return int64_t(type.getNumDynamicDims()) == type.getRank()
             ? GradientForm::Whole
             : GradientForm::Tiles;
}

/// A region of fa2.attention or of its gradient that maps scores to numbers,
/// and what it reads.
class ScoreProgram {
public:
  /// The region's arguments, before the extras.
  enum Argument : unsigned { Score, Batch, Head, Row, Column, FirstExtra };

  ScoreProgram(mlir::Operation *op, mlir::Region &region,
               mlir::ValueRange extras, mlir::ArrayAttr names)
      : op(op), region(&region), extras(extras), names(names) {}

  bool empty() const { return region->empty(); }
  mlir::Block &block() const { return region->front(); }
  /// The new score; of a gradient's region also its derivative, 1.
  mlir::Value result(unsigned i = 0) const {
    return block().getTerminator()->getOperand(i);
  }

  /// Of a gradient's region, whether its derivative is 1 everywhere.
  bool onlyAdds() const;
  /// Whether the result is the score plus, or less, what does not depend on
  /// it.
  bool addsToScore() const;
  /// Whether a step of each score takes the unit of exponentials.
  bool isTranscendental() const;
  /// Whether a step is how far the column lies behind the row, or before it.
  bool usesDistance() const;

  /// Whether a row past the end, whose score is 0 and whose reads are 0 where a
  /// row's place is asked for, has a new score that is neither NaN nor inf
  /// where other rows have none: then exp(new - inf) is 0 there.
  bool allowsRowsPastEnd() const;

  /// Refuses, by name, what the region may not hold: operations that are not
  /// elementwise, values of 16 bits but for reads, values from outside.
  mlir::LogicalResult check() const;
  /// Refuses a result that has nothing to do with the score.
  mlir::LogicalResult checkReadsScore() const;

  /// For the manifest; null without a program.
  ProgramAttr describe() const;

  /// The steps that a value is computed by.
  static llvm::SetVector<mlir::Operation *> neededBy(mlir::Value v);
  bool dependsOn(mlir::Value v, Argument argument) const;

  /// The reads that tiles of memory serve: of 16 bits, at the score's row and,
  /// in the last dimension, its column, and at one place in the others.
  llvm::SmallVector<mlir::tensor::ExtractOp> tileReads() const;
  /// Those among them whose elements have 32 bits.
  llvm::SmallVector<mlir::tensor::ExtractOp> wideReads() const;
  /// Whether some other read differs from score to score.
  bool readsElements() const;
  /// Whether all such are of places that the distance of row and column alone
  /// chooses.
  bool readsByDistance() const;
  /// Whether a step is the distance from row to column (true) or back; none
  /// otherwise.
  std::optional<bool> distance(mlir::Operation *step) const;
  /// Whether nothing of the score, row and column but their distance decides.
  bool byDistance(mlir::ValueRange values) const;
  static mlir::Value withoutCasts(mlir::Value x);
  /// Whether extra i has a place of its own for each score, keys side by side.
  bool isWhole(size_t i) const;
  /// A guard: where the copy engine can bring them, or, with rows that are
  /// `unaligned`, threads. Empty where there are none.
  std::string loadsTiles(bool unaligned = false) const;
  /// The extra that a read is of.
  static size_t extraOf(mlir::tensor::ExtractOp read) {
    return llvm::cast<mlir::BlockArgument>(read.getTensor()).getArgNumber() -
           FirstExtra;
  }
  /// Of an extra that tiles are read of, the dimension of its rows.
  unsigned rowDimension(size_t i) const;

  size_t numExtras() const { return extras.size(); }
  mlir::Type extraType(size_t i) const { return extras[i].getType(); }
  std::string extraName(size_t i) const;
  /// How extra i is passed.
  ArgumentAttr describeExtra(size_t i) const;
  /// The coordinate that alone indexes dimension `dim` of extra i, which then
  /// has the extent of batch, heads, seqlen_q or seqlen_k (or 1); else Score.
  Argument coordinateOf(size_t i, unsigned dim) const;

private:
  mlir::LogicalResult checkStep(mlir::Operation &inner) const;
  mlir::LogicalResult checkRead(mlir::tensor::ExtractOp read) const;
  mlir::LogicalResult checkExtras() const;
  bool readsTile(mlir::tensor::ExtractOp read) const;
  llvm::SmallVector<mlir::tensor::ExtractOp> elementReads() const;

  mlir::Operation *op;
  mlir::Region *region;
  mlir::ValueRange extras;
  mlir::ArrayAttr names;
};

inline ScoreProgram programOf(AttentionOp op) {
  return {op, op.getScore(), op.getExtras(), op.getExtraNamesAttr()};
}
inline ScoreProgram programOf(AttentionGradOp op) {
  return {op, op.getScore(), op.getExtras(), op.getExtraNamesAttr()};
}
/// Whether gradient i of what the program reads is summed over a coordinate of
/// the scores, where its extent is 1 whatever the operand's is.
bool isSummedOver(AttentionGradOp op, size_t i,
                  ScoreProgram::Argument coordinate);
/// Whether it is summed over the batch and not over heads: its entries can add
/// in turns.
bool isSummedOverBatchAlone(AttentionGradOp op, size_t i);

} // namespace fa2

#endif
