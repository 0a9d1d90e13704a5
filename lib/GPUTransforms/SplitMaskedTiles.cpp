//===- SplitMaskedTiles.cpp - fa2gpu-split-masked-tiles -------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {
#define GEN_PASS_DEF_SPLITMASKEDTILES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// How many places ahead of the loop's counter the tile `at` stands.
std::optional<int64_t> placesAhead(TileAtOp at, scf::ForOp loop) {
  Value place = at ? at.getPlace() : Value();
  if (place == loop.getInductionVar())
    return 0;
  auto add = place ? place.getDefiningOp<arith::AddIOp>() : nullptr;
  llvm::APInt c;
  if (add && add.getLhs() == loop.getInductionVar() &&
      matchPattern(add.getRhs(), m_ConstantInt(&c)))
    return c.getSExtValue();
  return std::nullopt;
}

/// The tile behind a copy's first row, `tile * rows`.
TileAtOp tileOf(CopyOp copy) {
  auto mul = copy.getRow().getDefiningOp<arith::MulIOp>();
  return mul ? mul.getLhs().getDefiningOp<TileAtOp>() : nullptr;
}

struct SplitMaskedTilesPass
    : public fa2::impl::SplitMaskedTilesBase<SplitMaskedTilesPass> {
  void runOnOperation() override {
    llvm::SetVector<scf::ForOp> loops; // each once, whatever its masks
    getOperation().walk([&](ApplyMaskOp op) {
      if (auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
          loop && !isPeeled(op))
        loops.insert(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(split(loop)))
        return signalPassFailure();
  }

  static Value tileOf(ApplyMaskOp mask) {
    return mask.getTransposed() ? mask.getQBlock() : mask.getKvBlock();
  }

  /// The first tile stands before its loop, perhaps in another one.
  static bool isPeeled(ApplyMaskOp mask) {
    auto at = tileOf(mask).getDefiningOp<TileAtOp>();
    return at && matchPattern(at.getPlace(), m_Constant());
  }

  /// The loop over [lower, upper) in place of `loop`, started from `state`.
  static scf::ForOp cloneOver(OpBuilder &b, scf::ForOp loop, Value lower,
                              Value upper, ValueRange state) {
    auto copy = cast<scf::ForOp>(b.clone(*loop));
    copy.getLowerBoundMutable().assign(lower);
    copy.getUpperBoundMutable().assign(upper);
    copy.getInitArgsMutable().assign(state);
    return copy;
  }

  /// Of falling tiles only the first of the range may end past the sequence's
  /// end.
  static void boundCopies(scf::ForOp loop, bool full) {
    for (auto copy : loop.getBody()->getOps<CopyOp>()) {
      TileAtOp at = ::tileOf(copy);
      std::optional<int64_t> ahead = placesAhead(at, loop);
      if (ahead && at.getRange().getDefiningOp<RangeOfTiles>().falls() &&
          (*ahead > 0 || full))
        copy.setInBounds(true);
    }
  }

  static void dropMask(scf::ForOp loop) {
    for (auto mask :
         llvm::make_early_inc_range(loop.getBody()->getOps<ApplyMaskOp>())) {
      mask.replaceAllUsesWith(mask.getScores());
      mask.erase();
    }
  }

  /// Before the full tiles, the full ones, and behind them.
  LogicalResult split(scf::ForOp loop) {
    ApplyMaskOp mask = *loop.getBody()->getOps<ApplyMaskOp>().begin();
    auto at = tileOf(mask).getDefiningOp<TileAtOp>();
    std::optional<int64_t> ahead = placesAhead(at, loop);
    if (!ahead)
      return mask.emitError()
             << "expected the mask's "
             << (mask.getTransposed() ? "q_block" : "kv_block")
             << " to be the tile at the loop's place, or so many further on";
    OpBuilder b(loop);
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    auto full = FullPlacesOp::create(b, loop.getLoc(), at.getRange(), lower,
                                     upper, *ahead);
    decided(mask, "fa2gpu-split-masked-tiles", "split",
            "the loop falls into tiles before those that need no mask, those, "
            "and the rest; {0} of what it reads at the mask's tile is ahead",
            *ahead);
    Value bounds[] = {lower, full.getBegin(), full.getEnd(), upper};
    ValueRange state = loop.getInitArgs();
    for (int part : {0, 1, 2}) {
      scf::ForOp copy =
          cloneOver(b, loop, bounds[part], bounds[part + 1], state);
      boundCopies(copy, part == 1);
      if (part == 1)
        dropMask(copy);
      state = copy.getResults();
    }
    loop.replaceAllUsesWith(state);
    loop.erase();
    return success();
  }
};

} // namespace
