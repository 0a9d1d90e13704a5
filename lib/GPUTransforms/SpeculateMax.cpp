//===- SpeculateMax.cpp - fa2gpu-speculate-max ----------------------------===//

#include "Decided.h"
#include "HoldBack.h"
#include "SoftmaxOfLoop.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <numbers>

namespace fa2 {
#define GEN_PASS_DEF_SPECULATEMAX
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

using Step = SoftmaxOfLoop;

/// Sums above this power of two may hold exponentials that f32 does not, and
/// factors below its inverse may vanish.
constexpr int64_t kLost = 100;

/// A tile's probabilities, their reference and sums, and what the rows' sums
/// and output so far are to be scaled by.
struct State {
  Value p, m, sum, alpha;
};

/// A tile's exponentials with the old maximum, and their sums.
struct Guess {
  Value p, sum;
};

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
    for (scf::ForOp loop : loops) {
      Step step = findSoftmax(loop);
      decided(loop, "fa2gpu-speculate-max", "speculation",
              step ? "exponentials take the old maximum, up to sums of 2^{0}"
                   : "the loop does not speculate: it has not the one product "
                     "of scores, softmax and output that are known here",
              slack);
      if (step)
        speculate(loop, step, slack);
    }
  }

  void speculate(scf::ForOp loop, Step step, int64_t slack) {
    SoftmaxStepOp softmax = step.softmax;
    Location loc = softmax.getLoc();
    OpBuilder b(softmax);
    Value m = softmax.getM(), l = softmax.getL();
    Guess guess = canSplit(step) ? guessInParts(b, step) : guessOf(b, step);
    Value grew = ExceedsOp::create(b, loc, guess.sum, slack);
    // One wait, which all warps of a warpgroup come to whichever arm they take.
    holdBack(b, loc, grew);
    step.output->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
    Value o = step.output;
    auto branch =
        scf::IfOp::create(b, loc, TypeRange(ValueRange{guess.p, m, l, o}), grew,
                          /*withElse=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    State known = scoreAgain(b, step, guess, m);
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
    Value longer = arith::AddFOp::create(b, loc, l, guess.sum);
    scf::YieldOp::create(b, loc, ValueRange{guess.p, m, longer, o});

    softmax.getP().replaceAllUsesWith(branch.getResult(0));
    softmax.getNewM().replaceAllUsesWith(branch.getResult(1));
    softmax.getNewL().replaceAllUsesWith(branch.getResult(2));
    step.rescaled.replaceAllUsesWith(branch.getResult(3));
    step.rescaled.erase();
    softmax.erase();
    // The cold arm reads the keys, and what the program has of them.
    llvm::SetVector<Value> read;
    addRing(read, step.scores.getB());
    for (const llvm::SetVector<Operation *> *part :
         {&step.start, &step.program})
      for (Operation *op : *part)
        for (Value v : op->getOperands())
          addRing(read, v);
    // Vectors' first: lanes read those, and meet before one lane releases.
    for (bool vectors : {false, true})
      for (auto release :
           llvm::make_early_inc_range(loop.getBody()->getOps<RingReleaseOp>()))
        if (read.contains(release.getRing()) &&
            isVector(release.getRing()) == vectors &&
            release->isBeforeInBlock(branch))
          release->moveAfter(branch);
    for (Operation *op : llvm::reverse(step.program.getArrayRef()))
      if (isOpTriviallyDead(op))
        op->erase();
    // The whole product, where its parts have taken its place.
    for (Operation *wait : llvm::make_early_inc_range(step.scores->getUsers()))
      if (wait->use_empty())
        wait->erase();
    if (step.scores->use_empty())
      step.scores->erase();
    for (Operation *op : llvm::reverse(step.start.getArrayRef()))
      if (isOpTriviallyDead(op))
        op->erase();
  }

  /// Whether the softmax takes the scores as they are multiplied, and their
  /// product begins with nothing or with a vector, of which halves are read.
  bool canSplit(Step step) {
    SoftmaxStepOp softmax = step.softmax;
    auto wait = softmax.getS().getDefiningOp<DotWaitOp>();
    int64_t columns =
        cast<RankedTensorType>(softmax.getS().getType()).getDimSize(1);
    Value acc = step.scores.getAcc();
    return getOperation().getSchedule().getSplitScores() && wait &&
           (!acc || isOfShared(acc.getDefiningOp<BroadcastOp>())) &&
           wait.getSource() == step.scores.getD() && step.scores->hasOneUse() &&
           columns % 16 == 0;
  }

  static bool isOfShared(BroadcastOp tile) {
    return tile && isa_and_nonnull<SharedAttr>(
                       cast<RankedTensorType>(tile.getVector().getType())
                           .getEncoding());
  }

  Guess guessOf(OpBuilder &b, Step step) {
    SoftmaxStepOp softmax = step.softmax;
    Value relative = lessReference(b, softmax);
    auto guess = SoftmaxSpeculateOp::create(
        b, softmax.getLoc(),
        TypeRange{softmax.getP().getType(), softmax.getL().getType()},
        relative ? relative : softmax.getS(),
        relative ? Value() : softmax.getM(), softmax.getScale(),
        softmax.getPolynomial());
    return {guess.getP(), guess.getSum()};
  }

  /// A product for each half of the columns. The first half's exponentials wait
  /// for that alone.
  static Guess guessInParts(OpBuilder &b, Step step) {
    SoftmaxStepOp softmax = step.softmax;
    DotStartOp dot = step.scores;
    Location loc = softmax.getLoc();
    auto whole = cast<RankedTensorType>(softmax.getS().getType());
    int64_t columns = whole.getDimSize(1) / 2;
    auto half =
        RankedTensorType::get({whole.getDimSize(0), columns},
                              whole.getElementType(), whole.getEncoding());
    OpBuilder before(dot);
    SmallVector<Value> started;
    for (int64_t first : {int64_t(0), columns}) {
      Value begins = dot.getAcc();
      if (begins) {
        auto whole = begins.getDefiningOp<BroadcastOp>();
        begins = BroadcastOp::create(before, dot.getLoc(), half,
                                     whole.getVector(), whole.getColumns(),
                                     whole.getDiagonals(), first);
      }
      started.push_back(DotStartOp::create(
          before, dot.getLoc(), InFlightType::get(b.getContext(), half),
          dot.getA(), dot.getB(), begins, dot.getTransposeB(),
          /*transpose_a=*/false, dot.getNameAttr(), first, /*first_row=*/0,
          /*clears=*/false, /*joins=*/first > 0 && !begins, /*column=*/Value(),
          /*held=*/Value()));
    }
    SmallVector<Value> p;
    for (Value product : started) {
      Value s = DotWaitOp::create(b, loc, half, product);
      auto guess = SoftmaxSpeculateOp::create(
          b, loc, half, Type(), s, softmax.getM(), softmax.getScale(),
          softmax.getPolynomial());
      p.push_back(guess.getP());
    }
    // The sums come last. Between the halves, compilers would have them wait
    // for both.
    Value joined = JoinOp::create(b, loc, whole, p[0], p[1]);
    return {joined,
            LaneSumsOp::create(b, loc, softmax.getL().getType(), joined)};
  }

  static bool isLoaded(Value tile) {
    if (auto widened = tile.getDefiningOp<arith::ExtFOp>())
      tile = widened.getIn();
    return isa_and_nonnull<LocalLoadOp, ReadOp>(tile.getDefiningOp());
  }

  /// Where a program ends in x y + t c of a tile t that is loaded: x y +
  /// (t c - m), which multiplies and subtracts the reference in one. Elements
  /// of other tiles may share their products. Null where it does not end so, or
  /// where scores are not in powers of two.
  static Value lessReference(OpBuilder &b, SoftmaxStepOp softmax) {
    FloatAttr scale;
    auto sum = softmax.getS().getDefiningOp<math::FmaOp>();
    auto product =
        sum ? sum.getC().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!product || !isLoaded(product.getLhs()) ||
        !matchPattern(softmax.getScale(), m_Constant(&scale)) ||
        scale.getValue() != APFloat(std::numbers::ln2_v<float>))
      return {};
    Location loc = softmax.getLoc();
    Value minus = arith::NegFOp::create(b, loc, softmax.getM());
    minus = BroadcastOp::create(b, loc, product.getType(), minus,
                                /*columns=*/false);
    Value added =
        math::FmaOp::create(b, loc, product.getLhs(), product.getRhs(), minus);
    return math::FmaOp::create(b, loc, sum.getA(), sum.getB(), added);
  }

  static void addRing(llvm::SetVector<Value> &rings, Value tile) {
    if (auto wait = tile.getDefiningOp<RingWaitOp>())
      rings.insert(wait.getRing());
  }

  static bool isVector(Value ring) {
    return cast<RingType>(ring.getType()).getTile().getRank() == 1;
  }

  static Value scaled(OpBuilder &b, Value v, Value alpha) {
    return ScaleRowsOp::create(b, v.getLoc(), v.getType(), v, alpha,
                               /*skip_unit=*/false);
  }

  /// Where exponentials have overflowed, the step once more, from the scores'
  /// own maximum.
  State scoreAgain(OpBuilder &b, Step step, Guess guess, Value m) {
    Location loc = step.softmax.getLoc();
    Value scale = step.softmax.getScale(), sum = guess.sum;
    auto rows = cast<RankedTensorType>(m.getType());
    Value one = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(rows, b.getF32FloatAttr(1.0f)));
    Value lost = ExceedsOp::create(b, loc, sum, kLost);
    SmallVector<Value> kept{guess.p, m, sum, one};
    auto branch = scf::IfOp::create(b, loc, TypeRange(ValueRange(kept)), lost,
                                    /*withElse=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value scores = scoresAgain(b, step);
    // Lanes read shared memory, which lane 0 releases to the copy engine.
    ProxyFenceOp::create(b, loc);
    WarpBarrierOp::create(b, loc);
    auto rebase = SoftmaxRebaseOp::create(b, loc, m, sum, scores, scale, kLost);
    auto again = SoftmaxSpeculateOp::create(
        b, loc, TypeRange{guess.p.getType(), sum.getType()}, scores,
        rebase.getNewM(), scale, step.softmax.getPolynomial());
    scf::YieldOp::create(b, loc,
                         ValueRange{again.getP(), rebase.getNewM(),
                                    again.getSum(), rebase.getAlpha()});
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, kept);
    ResultRange r = branch.getResults();
    return {r[0], r[1], r[2], r[3]};
  }

  /// The same product by matmuls of one warp, in the same fragments, and what
  /// the program makes of it.
  Value scoresAgain(OpBuilder &b, Step step) {
    DotStartOp dot = step.scores;
    Location loc = dot.getLoc();
    MLIRContext *ctx = b.getContext();
    RankedTensorType type = dot.getD().getType().getTile();
    auto acc = cast<AccAttr>(type.getEncoding());
    auto own = RankedTensorType::get(
        type.getShape(), type.getElementType(),
        AccAttr::get(ctx, MmaSyncAttr::get(ctx),
                     {acc.warpRows(), acc.warpCols()}, acc.getSplitK()));
    IRMapping map;
    for (Operation *op : step.start)
      b.clone(*op, map)->setAttr(kAgainName, b.getUnitAttr());
    Value begins = dot.getAcc();
    if (begins)
      begins =
          ConvertLayoutOp::create(b, loc, own, map.lookupOrDefault(begins));
    Value started = DotStartOp::create(
        b, loc, InFlightType::get(ctx, own), dot.getA(), dot.getB(), begins,
        dot.getTransposeB(),
        /*transpose_a=*/false, /*name=*/StringAttr(), /*first_column=*/0,
        /*first_row=*/0, /*clears=*/false, /*joins=*/false,
        /*column=*/Value(), /*held=*/Value());
    if (begins) // registers are few beside what products begin with
      started.getDefiningOp()->setAttr(kAgainName, b.getUnitAttr());
    Value scores = DotWaitOp::create(b, loc, own, started);
    scores = ConvertLayoutOp::create(b, loc, type, scores);
    for (Operation *user : dot.getD().getUsers())
      map.map(user->getResult(0), scores);
    for (Operation *op : step.program)
      b.clone(*op, map)->setAttr(kAgainName, b.getUnitAttr());
    return map.lookup(step.softmax.getS());
  }
};

} // namespace
