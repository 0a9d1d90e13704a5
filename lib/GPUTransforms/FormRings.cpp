//===- FormRings.cpp - fa2gpu-form-rings ----------------------------------===//
//
// Refuses what no ring can carry; RingFormer makes the rings.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/Rings/Cursors.h"
#include "fa2/Rings/RingFormer.h"

#include "fa2/GPUTransforms/Passes.h"

#include "llvm/Support/FormatVariadic.h"

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
    FailureOr<PlanAttr> plan = planOf(kernel);
    if (failed(plan))
      return signalPassFailure();
    RingFormer former{kernel, *target, *plan};
    if (failed(checkLoads(former)) || failed(checkStores(former)) ||
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
      threadCursors(kernel.getBody().front(), ring, former.plan.hasRoles());
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

  /// Vectors and f32 go straight to memory, and what a schedule says: the parts
  /// of an output that are several roles' have no slot to go through.
  static bool isCopied(StoreOp op) {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    ScheduleAttr s = op->getParentOfType<KernelOp>().getSchedule();
    bool direct = isa_and_nonnull<AccAttr>(type.getEncoding()) &&
                  (s.getDirectOutput() || s.getFields().hasTwoPrograms());
    return type.getRank() == 2 && !type.getElementType().isF32() && !direct;
  }

  LogicalResult checkLoads(RingFormer &former) {
    WalkResult result = getOperation().walk([&](fa2::gpu::LoadOp op) {
      std::string wrong = former.isCopiedByEngine(op)
                              ? notOfEngine(former, op)
                              : notOfThreads(former, op);
      if (wrong.empty())
        return WalkResult::advance();
      op.emitOpError() << wrong;
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  static bool isVector(fa2::gpu::LoadOp op) {
    return cast<RankedTensorType>(op.getTile().getType()).getRank() == 1;
  }

  /// A vector is copied in bulk, all of it, so that the view must hold whole
  /// tiles.
  static std::string notOfEngine(RingFormer &former, fa2::gpu::LoadOp op) {
    return !isVector(op) || former.isWorkspace(op.getView())
               ? ""
               : "expected a view of the workspace, which holds whole tiles, "
                 "because the copy engine brings all of a vector's tile";
  }

  /// Threads copy whole rows, or unaligned tiles, of one head; of a vector
  /// whole tiles too.
  static std::string notOfThreads(RingFormer &former, fa2::gpu::LoadOp op) {
    auto tile = cast<RankedTensorType>(op.getTile().getType());
    if (op.getColumn() &&
        !(former.plan.hasRoles() &&
          cast<SharedAttr>(tile.getEncoding()).getUnaligned()))
      return "expected all columns of a view because threads copy whole rows; "
             "some of them the copy engine brings, where kernels have roles";
    if (op.getView().getType().getHeads() > 1)
      return "expected a view of one head because threads copy its rows; "
             "several the copy engine brings, where kernels have roles";
    if (former.plan.hasRoles() && isVector(op) &&
        !former.isWorkspace(op.getView()))
      return "expected a view of the workspace, which holds whole tiles, "
             "because threads copy all of a vector's tile";
    return "";
  }

  /// One warpgroup stores what stands in shared memory, by as many rows as it
  /// has; in kernels without roles all threads do.
  static std::string notOfStores(RingFormer &former, StoreOp op) {
    auto tile = cast<RankedTensorType>(op.getTile().getType());
    bool stands = isa_and_nonnull<SharedAttr>(tile.getEncoding());
    if (op.getColumn() && !stands)
      return "expected all columns of a view because threads store whole rows; "
             "some of them the copy engine stores, from shared memory";
    if (stands && former.plan.hasRoles() && tile.getDimSize(0) != kGroupRows)
      return llvm::formatv("expected {0} rows of a tile in shared memory that "
                           "the copy engine stores, got {1}",
                           kGroupRows, tile.getDimSize(0));
    return "";
  }

  /// A tensor map is that of a view's tensor.
  LogicalResult checkStores(RingFormer &former) {
    WalkResult result = getOperation().walk([&](StoreOp op) {
      auto made = op.getView().getDefiningOp<ViewOp>();
      if (std::string wrong = notOfStores(former, op); !wrong.empty()) {
        op.emitOpError() << wrong;
        return WalkResult::interrupt();
      }
      if (!former.plan.hasRoles() || !isCopied(op) ||
          (made && made.getFirstColumn() == 0))
        return WalkResult::advance();
      op.emitOpError() << "expected a view that fa2.view makes of a tensor, "
                          "from its first column on, which a tensor map shows";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// What blocks give each other the copy engine takes from shared memory.
  LogicalResult checkExchanges(RingFormer &former) {
    WalkResult result = getOperation().walk([&](fa2::gpu::ExchangeOp op) {
      if (former.plan.hasRoles() && op.getSource().getDefiningOp<ShareOp>())
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
        auto load = dyn_cast<fa2::gpu::LoadOp>(user);
        if (!view.getColumn() || isa<AccumulateOp>(user) ||
            (load && former.isCopiedByEngine(load)))
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
};

} // namespace
