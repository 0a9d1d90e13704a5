//===- LayoutAssignment.h - a layout for each tile in registers -*- C++ -*-===//
#ifndef FA2_ANALYSIS_LAYOUTASSIGNMENT_H
#define FA2_ANALYSIS_LAYOUTASSIGNMENT_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "llvm/ADT/MapVector.h"

namespace fa2::gpu {

/// Layouts spread from what says one, products and views of sums, to what is
/// computed from it or with it: elementwise operations and loops hand them on
/// in both directions, the softmax between a tile and the vectors of its rows.
/// What nothing reaches has rows over all warps.
class LayoutAssignment {
public:
  LayoutAssignment(KernelOp kernel, MatmulFamilyAttr family);

  /// Finds the layouts. Fails where two places want different ones of a tile.
  mlir::LogicalResult run();
  /// That of a tile or vector, or null where it stays in shared memory.
  mlir::Attribute of(mlir::Value value) const {
    return layouts.lookup(value).layout;
  }
  /// A tile that comes from shared memory into registers for arithmetic.
  OperandAttr loaded() const {
    return OperandAttr::get(byRows.getContext(), byRows);
  }

private:
  struct Choice {
    mlir::Attribute layout;
    mlir::Operation *by = nullptr;
  };

  /// The layout of a product that so many warps share, or null after an error.
  AccAttr accOf(mlir::Operation *op, WarpGridAttr warps);
  /// That of a value a row of a tile of layout `tile`.
  RowAttr rowsOf(mlir::Operation *op, mlir::Attribute tile, Partial partial);
  RowAttr rowsOfOneWarp();
  void set(mlir::Value value, mlir::Attribute layout, mlir::Operation *by);
  void anchor(mlir::Operation *op);
  void addDefaults();
  void spread();
  /// Hands on what `op` knows of its operands and results.
  void visit(mlir::Operation *op);
  void same(mlir::Operation *op, mlir::ValueRange values);
  void rows(mlir::Operation *op, mlir::Value tile, mlir::ValueRange vectors,
            Partial partial = Partial::None);
  /// The same where warps may share the rows: each has the values of all of
  /// its own.
  void sharedRows(mlir::Operation *op, mlir::Value tile,
                  mlir::ValueRange vectors, Partial partial = Partial::None);
  void scatter(ScatterOp op);

  KernelOp kernel;
  MatmulFamilyAttr family;
  AccAttr byRows;
  llvm::MapVector<mlir::Value, Choice> layouts;
  llvm::SmallVector<mlir::Value> changed;
  bool failed = false;
};

} // namespace fa2::gpu

#endif
