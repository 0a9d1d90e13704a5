//===- FormRings.cpp - fa2gpu-form-rings ----------------------------------===//
//
// Refuses what no ring can carry; RingFormer makes the rings.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/Rings/Cursors.h"
#include "fa2/Rings/RingFormer.h"

#include "fa2/GPUTransforms/Passes.h"

namespace fa2 {
#define GEN_PASS_DEF_FORMRINGS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct FormRingsPass : public fa2::impl::FormRingsBase<FormRingsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    RingFormer former{kernel, *target, kernel->hasAttr(kPlanName)};
    if (failed(former.roles ? checkViews(former) : checkColumns()) ||
        failed(checkFirstColumns(former)))
      return signalPassFailure();
    kernel.walk([&](fa2::gpu::LoadOp op) { former.formLoad(op); });
    if (failed(checkExchanges(former)))
      return signalPassFailure();
    kernel.walk([&](fa2::gpu::ExchangeOp op) { former.formExchange(op); });
    kernel.walk([&](ShareOp op) { former.formShare(op); });
    for (StoreOp op : copiedStores())
      former.formStore(op);
    for (auto ring : kernel.getOps<RingCreateOp>())
      decided(ring, "fa2gpu-form-rings", "ring", "{0}: slots of {1}: {2}",
              ring.getName(), ring.getRing().getType().getTile(),
              ring.getRing().getType().getSlots());
    for (auto ring : llvm::to_vector(kernel.getOps<RingCreateOp>()))
      threadCursors(kernel.getBody().front(), ring, former.roles);
  }

  /// The widest first: fewer tiles have room for it.
  SmallVector<StoreOp> copiedStores() {
    SmallVector<StoreOp> stores;
    getOperation().walk([&](StoreOp op) {
      if (isCopied(op))
        stores.push_back(op);
    });
    llvm::stable_sort(stores, [](StoreOp a, StoreOp b) {
      auto width = [](StoreOp op) {
        return cast<RankedTensorType>(op.getTile().getType()).getDimSize(1);
      };
      return width(a) > width(b);
    });
    return stores;
  }

  /// Vectors and f32 go straight to memory.
  static bool isCopied(StoreOp op) {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    return type.getRank() == 2 && !type.getElementType().isF32();
  }

  /// A tensor map is that of a view's tensor; a vector is copied in bulk, all
  /// of it, so that the view must hold whole tiles.
  LogicalResult checkViews(RingFormer &former) {
    WalkResult result = getOperation().walk([&](Operation *op) {
      Value view;
      bool vector = false;
      if (auto load = dyn_cast<fa2::gpu::LoadOp>(op)) {
        view = load.getView();
        vector =
            cast<RankedTensorType>(load.getTile().getType()).getRank() == 1;
      } else if (auto store = dyn_cast<StoreOp>(op); store && isCopied(store)) {
        view = store.getView();
      }
      if (vector && !former.isWorkspace(view)) {
        op->emitOpError() << "expected a view of the workspace, which holds "
                             "whole tiles, because the copy engine brings all "
                             "of a vector's tile";
        return WalkResult::interrupt();
      }
      auto made = view ? view.getDefiningOp<ViewOp>() : nullptr;
      if (!view || (made && made.getFirstColumn() == 0))
        return WalkResult::advance();
      op->emitOpError() << "expected a view that fa2.view makes of a tensor, "
                           "from its first column on, which a tensor map shows";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// What blocks give each other the copy engine takes from shared memory.
  LogicalResult checkExchanges(RingFormer &former) {
    WalkResult result = getOperation().walk([&](fa2::gpu::ExchangeOp op) {
      if (former.roles && op.getSource().getDefiningOp<ShareOp>())
        return WalkResult::advance();
      op.emitOpError() << "expected roles, and a tile that fa2gpu.share gives, "
                          "because the copy engine brings it to the other "
                          "block";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Tensor maps and additions know columns that begin where only the program
  /// says so; threads that copy, load or store do not.
  LogicalResult checkFirstColumns(RingFormer &former) {
    WalkResult result = getOperation().walk([&](ViewOp view) {
      for (Operation *user : view->getUsers()) {
        if (!view.getColumn() || isa<AccumulateOp>(user) ||
            (former.roles && isa<fa2::gpu::LoadOp>(user)))
          continue;
        user->emitOpError() << "expected a view without 'from' because only "
                               "the copy engine and fa2.accumulate begin at a "
                               "column that is not a constant";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Threads copy whole rows.
  LogicalResult checkColumns() {
    WalkResult result = getOperation().walk([&](fa2::gpu::LoadOp op) {
      if (!op.getColumn())
        return WalkResult::advance();
      op.emitOpError() << "expected roles, because only the copy engine brings "
                          "some columns of a view (fa2gpu-assign-roles)";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }
};

} // namespace
