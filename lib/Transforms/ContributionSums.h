//===- ContributionSums.h - gradients of what a program reads ---*- C++ -*-===//
#ifndef FA2_TRANSFORMS_CONTRIBUTIONSUMS_H
#define FA2_TRANSFORMS_CONTRIBUTIONSUMS_H

#include "ProgramTiler.h"

namespace fa2 {

/// Sums what tiles of scores contribute to the gradients of what the program
/// reads, by the same axes that say how it is read: what goes to places that
/// stay while the loop runs is summed in registers and added once after it;
/// other tiles are added one by one, summed over what their places lack.
class ContributionSums {
public:
  /// A block's turn to add a tile to a sum that blocks of several batch entries
  /// share, and where the last one stores it, rounded.
  struct SumTurn {
    mlir::Value counters; // null: tiles are added in any order, to zeros
    mlir::Value number, row, first, last, opens, closes, into, intoRow,
        intoColumn;
    bool anyOrder = false; // between the first and the last
  };

  /// `sums` are the kernel's arguments, one for each of the extras `grads`, or
  /// views with an order, to which tiles are added as they are; `words` where
  /// exact sums are kept for them (null: none).
  ContributionSums(mlir::OpBuilder &b, mlir::Location loc,
                   ProgramTiler &program, llvm::ArrayRef<int64_t> grads,
                   mlir::ValueRange sums, llvm::ArrayRef<mlir::Value> words);

  /// Before the loop: views of gradients of which each place is one score's.
  /// A tile of dS is stored there as it is.
  llvm::SmallVector<mlir::Value> wholes();
  /// What the sums of the others begin with.
  llvm::SmallVector<mlir::Value> zeros();
  /// In it, after `atScores`: the slopes of all parts, as tiles.
  llvm::SmallVector<mlir::Value> slopes();
  /// In it: the sums with a tile's parts. `row` is where the tile has its place
  /// in views; `turns` are of the gradients, in their order.
  llvm::SmallVector<mlir::Value> add(mlir::ValueRange before,
                                     mlir::ValueRange values, mlir::Value row,
                                     llvm::ArrayRef<SumTurn> turns);
  /// After it.
  void finish(mlir::ValueRange totals);

private:
  struct Part {
    ContributeOp op;
    mlir::Value sum; // the argument, or the view
    mlir::Value words;
    ProgramTiler::Axes place;
    size_t gradient;
    bool stays() const { return !(place & ProgramTiler::Columns); }
    bool isView() const { return mlir::isa<ViewType>(sum.getType()); }
  };
  void scatter(const Part &part, mlir::Value values);

  mlir::OpBuilder &b;
  mlir::Location loc;
  ProgramTiler &program;
  llvm::SmallVector<Part> parts, whole;
};

} // namespace fa2

#endif
