//===- RingFormer.h - makes rings for what crosses shared memory *- C++ -*-===//
#ifndef FA2_RINGS_RINGFORMER_H
#define FA2_RINGS_RINGFORMER_H

#include "fa2/Dialect/FA2GPU/Roles.h"

#include "fa2/Target/Target.h"

namespace fa2::gpu {

/// What is created for an operation is part of that one's role.
template <typename Op, typename... Args>
Op createFor(mlir::StringAttr role, mlir::OpBuilder &b, mlir::Location loc,
             Args &&...args) {
  auto op = Op::create(b, loc, std::forward<Args>(args)...);
  if (role)
    op->setAttr(kRoleName, role);
  return op;
}

/// The argument that a view shows part of; null where it shows none.
ArgumentAttr argumentOf(KernelOp kernel, mlir::Value view);
/// Its name, which a ring has too.
llvm::StringRef nameOf(KernelOp kernel, mlir::Value view);

/// A kernel whose loads, shares and stores become uses of rings.
struct RingFormer {
  KernelOp kernel;
  const Target &target;
  PlanAttr plan;

  bool isWorkspace(mlir::Value view);
  /// A ring at the kernel's start.
  mlir::Value createRing(mlir::Location loc, llvm::StringRef name,
                         mlir::RankedTensorType tile, int64_t slots,
                         int64_t parts = 1);
  /// The map of a view's tensor, in boxes of `rows` rows, asked for at once.
  mlir::Value tensorMap(ViewOp view, int64_t rows);

  /// Whether the copy engine brings a tile: a tensor map shows its view, or it
  /// is a vector. Else threads of the role copy it.
  bool isCopiedByEngine(LoadOp op);
  void formLoad(LoadOp op);
  void formExchange(fa2::gpu::ExchangeOp op);
  void formShare(ShareOp op);
  /// In StoreRings.cpp.
  void formStore(StoreOp op);
};

} // namespace fa2::gpu

#endif
