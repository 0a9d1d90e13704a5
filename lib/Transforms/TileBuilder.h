//===- TileBuilder.h - shared by what tiles attention -----------*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_TILEBUILDER_H
#define FA2_LIB_TRANSFORMS_TILEBUILDER_H

#include "ScoreProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fa2 {

/// A few letters for programs over tiles.
class TileBuilder {
protected:
  TileBuilder(mlir::Operation *at) : b(at), loc(at->getLoc()) {}

  /// memref<?x...xDxT, strided<[?, ..., 1]>> for a tensor.
  static mlir::MemRefType globalType(mlir::RankedTensorType tensor);

  /// An argument's description: `names` of its extents, then the last one where
  /// it is fixed.
  ArgumentAttr describe(llvm::StringRef name, llvm::StringRef direction,
                        mlir::Type dtype, llvm::ArrayRef<llvm::StringRef> names,
                        std::optional<int64_t> last = {});
  /// f32 [heads], a value of each, and its description.
  mlir::Type typeOfHeads() {
    return mlir::MemRefType::get(
        {mlir::ShapedType::kDynamic}, b.getF32Type(),
        mlir::StridedLayoutAttr::get(b.getContext(), 0,
                                     {mlir::ShapedType::kDynamic}));
  }
  ArgumentAttr describeHeads(llvm::StringRef name, llvm::StringRef direction) {
    return describe(name, direction, b.getF32Type(), {"heads"});
  }
  /// The kernel's arguments for dropout: its probability and where its numbers
  /// come from.
  void addDropout(llvm::SmallVectorImpl<mlir::Type> &types,
                  llvm::SmallVectorImpl<mlir::Attribute> &args);
  /// The run-time scale of the scores, 1 / sqrt(headDim) by default; `divides`:
  /// the kernels divide by it.
  ArgumentAttr describeScale(int64_t headDim, bool divides = false);

  /// The kernel's arguments for what a score program reads.
  void addExtras(const ScoreProgram &program,
                 llvm::SmallVectorImpl<mlir::Type> &types,
                 llvm::SmallVectorImpl<mlir::Attribute> &args);

  /// And for the gradients of the extras `grads`: d and the extra's name.
  void addExtraGradients(const ScoreProgram &program,
                         llvm::ArrayRef<int64_t> grads, mlir::TypeRange results,
                         llvm::SmallVectorImpl<mlir::Type> &types,
                         llvm::SmallVectorImpl<mlir::Attribute> &args);

  mlir::Value constant(int64_t v) {
    return mlir::arith::ConstantIndexOp::create(b, loc, v);
  }
  /// Warps that share a product.
  WarpGridAttr warps(int64_t down, int64_t across, int64_t sums = 1) {
    return WarpGridAttr::get(b.getContext(), down, across, sums);
  }
  mlir::Value splat(llvm::ArrayRef<int64_t> shape, float v);
  mlir::RankedTensorType tile(int64_t rows, int64_t cols, mlir::Type element) {
    return mlir::RankedTensorType::get({rows, cols}, element);
  }
  /// A view whose accesses carry a hint.
  static mlir::Value hinted(mlir::Value view, CacheHint hint) {
    if (hint != CacheHint::None)
      view.getDefiningOp<ViewOp>().setCache(hint);
    return view;
  }
  /// The rows of a batch entry and head in an argument.
  mlir::Value view(mlir::Value source, mlir::Value batch, mlir::Value head,
                   mlir::Value offset, mlir::Value length, int64_t heads = 1,
                   SumOrderAttr order = {});
  mlir::Value view(mlir::Value source, mlir::Value batch, mlir::Value head,
                   SequenceOp sequence, int64_t heads = 1) {
    return view(source, batch, head, sequence.getOffset(), sequence.getLength(),
                heads);
  }

  mlir::OpBuilder b;
  mlir::Location loc;
};

/// When the kernels of a schedule and of its variants are launched: variant n
/// where the guards before it do not hold and its own does, the schedule's
/// kernel where none does.
struct GuardedVariants {
  explicit GuardedVariants(llvm::ArrayRef<VariantAttr> variants);
  llvm::SmallVector<std::string> when;
  std::string otherwise; // empty: always
};

/// The function that `op` is all of, with these arguments; else an error.
mlir::FailureOr<mlir::func::FuncOp>
functionOf(mlir::Operation *op, llvm::ArrayRef<mlir::Value> inputs,
           llvm::StringRef inputNames);

} // namespace fa2

#endif
