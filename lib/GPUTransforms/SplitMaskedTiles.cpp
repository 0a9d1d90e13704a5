//===- SplitMaskedTiles.cpp - fa2gpu-split-masked-tiles -------------------===//

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

/// A tile number that falls with the loop: `last - (iv + ahead)`.
struct FallingIndex {
  Value last;
  int64_t ahead;
};

std::optional<FallingIndex> matchFalling(Value tile, Value iv) {
  auto sub = tile.getDefiningOp<arith::SubIOp>();
  if (!sub)
    return std::nullopt;
  if (sub.getRhs() == iv)
    return FallingIndex{sub.getLhs(), 0};
  auto add = sub.getRhs().getDefiningOp<arith::AddIOp>();
  llvm::APInt c;
  if (add && add.getLhs() == iv &&
      matchPattern(add.getRhs(), m_ConstantInt(&c)))
    return FallingIndex{sub.getLhs(), c.getSExtValue()};
  return std::nullopt;
}

/// The tile number behind a copy's first row, `tile * rows`.
std::optional<FallingIndex> matchCopy(CopyOp copy, Value iv) {
  auto mul = copy.getRow().getDefiningOp<arith::MulIOp>();
  return mul ? matchFalling(mul.getLhs(), iv) : std::nullopt;
}

struct SplitMaskedTilesPass
    : public fa2::impl::SplitMaskedTilesBase<SplitMaskedTilesPass> {
  void runOnOperation() override {
    llvm::SetVector<scf::ForOp> loops; // each once, whatever its masks
    getOperation().walk([&](ApplyMaskOp op) {
      if (auto loop = dyn_cast<scf::ForOp>(op->getParentOp()))
        loops.insert(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(split(loop)))
        return signalPassFailure();
  }

  /// The loop over [lower, upper) in place of `loop`, started from `state`.
  scf::ForOp cloneOver(OpBuilder &b, scf::ForOp loop, Value lower, Value upper,
                       ValueRange state) {
    auto copy = cast<scf::ForOp>(b.clone(*loop));
    copy.getLowerBoundMutable().assign(lower);
    copy.getUpperBoundMutable().assign(upper);
    copy.getInitArgsMutable().assign(state);
    return copy;
  }

  /// Tiles below the first of the range end before the sequence does: tile
  /// `last` begins inside of it.
  static void boundCopies(scf::ForOp loop, bool full) {
    for (auto copy : loop.getBody()->getOps<CopyOp>()) {
      auto index = matchCopy(copy, loop.getInductionVar());
      if (index && (index->ahead > 0 || full))
        copy.setInBounds(true);
    }
  }

  static void dropMask(scf::ForOp loop) {
    for (auto mask :
         llvm::make_early_inc_range(loop.getBody()->getOps<ApplyMaskOp>())) {
      for (Operation *user : mask.getResult().getUsers())
        if (auto step = dyn_cast<SoftmaxStepOp>(user))
          step.setMayBeEmpty(false);
      mask.replaceAllUsesWith(mask.getScores());
      mask.erase();
    }
  }

  LogicalResult split(scf::ForOp loop) {
    ApplyMaskOp mask = *loop.getBody()->getOps<ApplyMaskOp>().begin();
    auto index = matchFalling(mask.getKvBlock(), loop.getInductionVar());
    if (!index)
      return mask.emitOpError()
             << "expected kv_block to fall by one an iteration";
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    auto constant = [&](int64_t v) -> Value {
      return arith::ConstantIndexOp::create(b, loc, v);
    };
    // Tile last - i lies in [full_begin, full_end) for
    // last + 1 - full_end <= i < last + 1 - full_begin.
    Value end = b.createOrFold<arith::AddIOp>(loc, index->last,
                                              constant(1 - index->ahead));
    auto iteration = [&](Value tile) -> Value {
      Value i = b.createOrFold<arith::SubIOp>(loc, end, tile);
      i = b.createOrFold<arith::MaxSIOp>(loc, i, loop.getLowerBound());
      return b.createOrFold<arith::MinSIOp>(loc, i, loop.getUpperBound());
    };
    Value firstFull = iteration(mask.getFullEnd());
    // Tiles are not negative: from tile 0 on, no masked ones follow.
    bool maskedAfter = !matchPattern(mask.getFullBegin(), m_Zero());
    Value firstAfter =
        maskedAfter ? iteration(mask.getFullBegin()) : loop.getUpperBound();

    // Without a mask only the last tile, the sequence's end, is not full; where
    // the loop begins after it there is nothing before the full tiles.
    bool maskedBefore = mask.getMaskAttr() || index->ahead == 0;
    scf::ForOp before;
    if (maskedBefore)
      before = cloneOver(b, loop, loop.getLowerBound(), firstFull,
                         loop.getInitArgs());
    scf::ForOp full =
        before ? cloneOver(b, loop, firstFull, firstAfter, before.getResults())
               : cloneOver(b, loop, loop.getLowerBound(), firstAfter,
                           loop.getInitArgs());
    scf::ForOp last = full;
    if (maskedAfter)
      last = cloneOver(b, loop, firstAfter, loop.getUpperBound(),
                       full.getResults());
    if (before)
      boundCopies(before, false);
    if (maskedAfter)
      boundCopies(last, false);
    boundCopies(full, true);
    dropMask(full);
    loop.replaceAllUsesWith(last.getResults());
    loop.erase();
    return success();
  }
};

} // namespace
