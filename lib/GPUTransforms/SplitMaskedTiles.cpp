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

/// A tile number that falls with the loop, `last - (iv + ahead)`.
struct FallingIndex {
  Value last;
  int64_t ahead;
};

/// A tile number that rises with the loop, `first + iv`; null for 0.
std::optional<Value> matchRising(Value tile, Value iv) {
  if (tile == iv)
    return Value();
  auto add = tile.getDefiningOp<arith::AddIOp>();
  if (!add || (add.getLhs() == iv) == (add.getRhs() == iv))
    return std::nullopt;
  return add.getLhs() == iv ? add.getRhs() : add.getLhs();
}

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
      mask.replaceAllUsesWith(mask.getScores());
      mask.erase();
    }
  }

  /// Iterations [begin, end) of the full tiles, each within the loop's bounds.
  struct FullIterations {
    Value begin, end;
    bool maskedBefore, maskedAfter;
  };

  /// Tile last - i lies in [full_begin, full_end) for
  /// last + 1 - full_end <= i < last + 1 - full_begin.
  static FullIterations falling(OpBuilder &b, scf::ForOp loop, ApplyMaskOp mask,
                                FallingIndex index) {
    Location loc = loop.getLoc();
    Value one = arith::ConstantIndexOp::create(b, loc, 1 - index.ahead);
    Value end = b.createOrFold<arith::AddIOp>(loc, index.last, one);
    auto iteration = [&](Value tile) {
      return clamp(b, loop, b.createOrFold<arith::SubIOp>(loc, end, tile));
    };
    Value begin = iteration(mask.getFullEnd());
    // Tiles are not negative: from tile 0 on, no masked ones follow.
    bool after = !matchPattern(mask.getFullBegin(), m_Zero());
    // Without a mask only the last tile, the sequence's end, is not full; where
    // the loop begins after it there is nothing before the full tiles.
    bool before = mask.getMaskAttr() || index.ahead == 0;
    return {begin,
            after ? iteration(mask.getFullBegin()) : loop.getUpperBound(),
            before, after};
  }

  /// Tile first + i, where `first` is null for 0.
  static FullIterations rising(OpBuilder &b, scf::ForOp loop, ApplyMaskOp mask,
                               Value first) {
    Location loc = loop.getLoc();
    auto iteration = [&](Value tile) {
      return clamp(b, loop,
                   first ? b.createOrFold<arith::SubIOp>(loc, tile, first)
                         : tile);
    };
    Value begin = iteration(mask.getFullBegin());
    // Where the loop runs up to full_end, no masked ones follow.
    auto count = loop.getUpperBound().getDefiningOp<arith::SubIOp>();
    bool after = loop.getUpperBound() != mask.getFullEnd() &&
                 !(count && count.getLhs() == mask.getFullEnd());
    return {begin, after ? iteration(mask.getFullEnd()) : loop.getUpperBound(),
            /*maskedBefore=*/true, after};
  }

  static Value clamp(OpBuilder &b, scf::ForOp loop, Value i) {
    i = b.createOrFold<arith::MaxSIOp>(loop.getLoc(), i, loop.getLowerBound());
    return b.createOrFold<arith::MinSIOp>(loop.getLoc(), i,
                                          loop.getUpperBound());
  }

  LogicalResult split(scf::ForOp loop) {
    ApplyMaskOp mask = *loop.getBody()->getOps<ApplyMaskOp>().begin();
    Value iv = loop.getInductionVar();
    Value tile = mask.getTransposed() ? mask.getQBlock() : mask.getKvBlock();
    OpBuilder b(loop);
    FullIterations iterations;
    if (auto index = matchFalling(tile, iv))
      iterations = falling(b, loop, mask, *index);
    else if (auto first = matchRising(tile, iv))
      iterations = rising(b, loop, mask, *first);
    else
      return mask.emitOpError()
             << "expected " << (mask.getTransposed() ? "q_block" : "kv_block")
             << " to fall or rise by one an iteration";
    auto [firstFull, firstAfter, maskedBefore, maskedAfter] = iterations;

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
