//===- SpeculateMax.cpp - fa2gpu-speculate-max ----------------------------===//

#include "HoldBack.h"

namespace fa2 {
#define GEN_PASS_DEF_SPECULATEMAX
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The softmax of a loop's body with the matmuls around it.
struct Step {
  DotStartOp scores;
  SoftmaxStepOp softmax;
  DotWaitOp output;     // in flight during the softmax
  ScaleRowsOp rescaled; // what it becomes
  explicit operator bool() { return scores && softmax && output && rescaled; }
};

/// Sums above this power of two may hold exponentials that f32 does not, and
/// factors below its inverse may vanish.
constexpr int64_t kLost = 100;

/// A tile's probabilities, their reference and sums, and what the rows' sums
/// and output so far are to be scaled by.
struct State {
  Value p, m, sum, alpha;
};

Step findStep(scf::ForOp loop) {
  Step s;
  for (auto step : loop.getBody()->getOps<SoftmaxStepOp>())
    if (auto wait = step.getS().getDefiningOp<DotWaitOp>()) {
      s.softmax = step;
      s.scores = wait.getSource().getDefiningOp<DotStartOp>();
    }
  if (!s.softmax)
    return s;
  for (Operation *user : s.softmax.getAlpha().getUsers())
    if (auto scale = dyn_cast<ScaleRowsOp>(user)) {
      s.rescaled = scale;
      s.output = scale.getTile().getDefiningOp<DotWaitOp>();
    }
  return s;
}

struct SpeculateMaxPass : public fa2::impl::SpeculateMaxBase<SpeculateMaxPass> {
  void runOnOperation() override {
    int64_t slack = getOperation().getSchedule().getSpeculateMax();
    if (slack == 0)
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (!loop.getBody()->getOps<DotStartOp>().empty() &&
          loop.getBody()->getOps<ApplyMaskOp>().empty())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      if (Step step = findStep(loop))
        speculate(loop, step, slack);
  }

  void speculate(scf::ForOp loop, Step step, int64_t slack) {
    SoftmaxStepOp softmax = step.softmax;
    Location loc = softmax.getLoc();
    OpBuilder b(softmax);
    Value m = softmax.getM(), l = softmax.getL();
    auto guess = SoftmaxSpeculateOp::create(
        b, loc, TypeRange{softmax.getP().getType(), l.getType()},
        softmax.getS(), m, softmax.getScale());
    Value grew = ExceedsOp::create(b, loc, guess.getSum(), slack);
    // One wait, which all warps of a warpgroup come to whichever arm they take.
    holdBack(b, loc, grew);
    step.output->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    Value o = step.output;
    auto branch = scf::IfOp::create(
        b, loc, TypeRange(ValueRange{guess.getP(), m, l, o}), grew,
        /*withElse=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    State known = scoreAgain(b, step, guess);
    // Then all that depends on the old reference is scaled.
    auto rebase =
        SoftmaxRebaseOp::create(b, loc, known.m, known.sum, Value(),
                                softmax.getScale(), slack, softmax.getStart());
    Value alpha = rebase.getAlpha(), before = scaled(b, known.alpha, alpha);
    // One after the other: compilers differ in the order of arguments.
    Value more = scaled(b, known.sum, alpha), kept = scaled(b, l, before);
    Value newL = arith::AddFOp::create(b, loc, kept, more);
    scf::YieldOp::create(b, loc,
                         ValueRange{scaled(b, known.p, alpha), rebase.getNewM(),
                                    newL, scaled(b, o, before)});
    b.setInsertionPointToStart(branch.elseBlock());
    Value longer = arith::AddFOp::create(b, loc, l, guess.getSum());
    scf::YieldOp::create(b, loc, ValueRange{guess.getP(), m, longer, o});

    softmax.getP().replaceAllUsesWith(branch.getResult(0));
    softmax.getNewM().replaceAllUsesWith(branch.getResult(1));
    softmax.getNewL().replaceAllUsesWith(branch.getResult(2));
    step.rescaled.replaceAllUsesWith(branch.getResult(3));
    step.rescaled.erase();
    softmax.erase();
    // The cold arm reads the keys.
    auto keys = step.scores.getB().getDefiningOp<RingWaitOp>();
    for (auto release :
         llvm::make_early_inc_range(loop.getBody()->getOps<RingReleaseOp>()))
      if (keys && release.getRing() == keys.getRing())
        release->moveAfter(branch);
  }

  static Value scaled(OpBuilder &b, Value v, Value alpha) {
    return ScaleRowsOp::create(b, v.getLoc(), v.getType(), v, alpha,
                               /*skip_unit=*/false);
  }

  /// Where exponentials have overflowed, the step once more, from the scores'
  /// own maximum.
  State scoreAgain(OpBuilder &b, Step step, SoftmaxSpeculateOp guess) {
    Location loc = guess.getLoc();
    Value scale = guess.getScale(), sum = guess.getSum(), m = guess.getM();
    auto rows = cast<RankedTensorType>(m.getType());
    Value one = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(rows, b.getF32FloatAttr(1.0f)));
    Value lost = ExceedsOp::create(b, loc, sum, kLost);
    SmallVector<Value> kept{guess.getP(), m, sum, one};
    auto branch = scf::IfOp::create(b, loc, TypeRange(ValueRange(kept)), lost,
                                    /*withElse=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value scores = scoresAgain(b, step.scores);
    // Lanes read shared memory, which lane 0 releases to the copy engine.
    ProxyFenceOp::create(b, loc);
    WarpBarrierOp::create(b, loc);
    auto rebase = SoftmaxRebaseOp::create(b, loc, m, sum, scores, scale, kLost);
    auto again = SoftmaxSpeculateOp::create(b, loc, guess.getResultTypes(),
                                            scores, rebase.getNewM(), scale);
    scf::YieldOp::create(b, loc,
                         ValueRange{again.getP(), rebase.getNewM(),
                                    again.getSum(), rebase.getAlpha()});
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, kept);
    ResultRange r = branch.getResults();
    return {r[0], r[1], r[2], r[3]};
  }

  /// The same product by matmuls of one warp, in the same fragments.
  Value scoresAgain(OpBuilder &b, DotStartOp dot) {
    Location loc = dot.getLoc();
    MLIRContext *ctx = b.getContext();
    RankedTensorType type = dot.getD().getType().getTile();
    auto acc = cast<AccAttr>(type.getEncoding());
    auto own = RankedTensorType::get(
        type.getShape(), type.getElementType(),
        AccAttr::get(ctx, MmaSyncAttr::get(ctx),
                     {acc.warpRows(), acc.warpCols()}, acc.getSplitK()));
    Value started = DotStartOp::create(
        b, loc, InFlightType::get(ctx, own), dot.getA(), dot.getB(), Value(),
        dot.getTransposeB(),
        /*transpose_a=*/false, /*name=*/StringAttr(), /*first_column=*/0);
    Value scores = DotWaitOp::create(b, loc, own, started);
    return ConvertLayoutOp::create(b, loc, type, scores);
  }
};

} // namespace
