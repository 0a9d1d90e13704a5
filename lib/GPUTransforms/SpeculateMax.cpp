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
        b, loc, TypeRange{softmax.getS().getType(), l.getType(), b.getI1Type()},
        softmax.getS(), m, l, softmax.getScale(), slack);
    // One wait, which all warps of a warpgroup come to whichever arm they take.
    holdBack(b, loc, guess.getGrew());
    step.output->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    Value o = step.output;
    SmallVector<Type> types{softmax.getP().getType(), m.getType(), l.getType(),
                            o.getType()};
    auto branch =
        scf::IfOp::create(b, loc, types, guess.getGrew(), /*withElse=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    Value scores = scoresAgain(b, step.scores);
    // Lanes read shared memory, which lane 0 releases to the copy engine.
    ProxyFenceOp::create(b, loc);
    WarpBarrierOp::create(b, loc);
    auto exact = SoftmaxStepOp::create(
        b, loc, softmax.getResultTypes(), scores, m, l, softmax.getScale(),
        b.getF32FloatAttr(0.0f), softmax.getWideAttr());
    Value scaled = ScaleRowsOp::create(b, loc, o.getType(), o, exact.getAlpha(),
                                       /*skip_unit=*/false);
    scf::YieldOp::create(
        b, loc,
        ValueRange{exact.getP(), exact.getNewM(), exact.getNewL(), scaled});
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc,
                         ValueRange{guess.getP(), m, guess.getNewL(), o});

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

  /// The same product by matmuls of one warp, in the same fragments.
  Value scoresAgain(OpBuilder &b, DotStartOp dot) {
    Location loc = dot.getLoc();
    MLIRContext *ctx = b.getContext();
    RankedTensorType type = dot.getD().getType().getTile();
    auto acc = cast<AccAttr>(type.getEncoding());
    auto own =
        RankedTensorType::get(type.getShape(), type.getElementType(),
                              AccAttr::get(ctx, MmaSyncAttr::get(ctx),
                                           acc.getWarps(), acc.getSplitK()));
    Value started =
        DotStartOp::create(b, loc, InFlightType::get(ctx, own), dot.getA(),
                           dot.getB(), Value(), dot.getTransposeB());
    Value scores = DotWaitOp::create(b, loc, own, started);
    return ConvertLayoutOp::create(b, loc, type, scores);
  }
};

} // namespace
