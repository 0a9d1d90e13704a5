//===- TileAttentionGrad.cpp - fa2-tile-grad ------------------------------===//
//
// A function that is one fa2.attention_grad becomes kernels over tiles: the
// statistics of each row; Algorithm 2 of FlashAttention-2 (arXiv:2307.08691),
// one block a tile of keys, whose dK and dV stay while the tiles of queries
// that see it go by; and dQ, from the sum of the key tiles' parts, or in a
// kernel of its own.
//
//===----------------------------------------------------------------------===//

#include "GradTiler.h"
#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Target.h"
#include "fa2/Transforms/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace fa2 {
#define GEN_PASS_DEF_TILEATTENTIONGRAD
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

struct TileAttentionGradPass
    : public fa2::impl::TileAttentionGradBase<TileAttentionGradPass> {
  void runOnOperation() override {
    SmallVector<AttentionGradOp> ops;
    getOperation().walk([&](AttentionGradOp op) { ops.push_back(op); });
    for (AttentionGradOp op : ops) {
      SmallVector<Value> inputs{op.getQ(),   op.getK(),   op.getV(),
                                op.getOut(), op.getLse(), op.getDout()};
      if (op.getDlse())
        inputs.push_back(op.getDlse());
      if (op.getScale())
        inputs.push_back(op.getScale());
      if (op.getSink())
        inputs.push_back(op.getSink());
      if (op.getDropout())
        inputs.append({op.getDropout(), op.getRng()});
      llvm::append_range(inputs, op.getExtras());
      auto func = functionOf(op, inputs, "q, k, v, out, lse, dout");
      if (failed(func) || failed(checkSchedules(op)))
        return signalPassFailure();
      if (!op.getScore().empty() && (failed(programOf(op).check()) ||
                                     failed(programOf(op).checkReadsScore())))
        return signalPassFailure();
      if (llvm::any_of(schedulesOf(op), [&](ScheduleAttr s) {
            return failed(checkWhole(op, s)) || failed(checkHidden(op, s));
          }))
        return signalPassFailure();
      GradTiler(*func, op).run();
    }
  }

  /// The operation's own, then those of its variants.
  static SmallVector<ScheduleAttr> schedulesOf(AttentionGradOp op) {
    SmallVector<ScheduleAttr> schedules{op.getScheduleAttr()};
    if (ArrayAttr variants = op.getVariantsAttr())
      for (VariantAttr variant : variants.getAsRange<VariantAttr>())
        schedules.push_back(variant.getSchedule());
    return schedules;
  }

  /// Zeros stand in for the tiles that a mask hides of a gradient.
  static LogicalResult checkHidden(AttentionGradOp op, ScheduleAttr s) {
    bool stores = llvm::any_of(op.getDextras().getTypes(), [](Type gradient) {
      return formOfGradient(gradient) == GradientForm::Whole;
    });
    if (!s.getStoresHidden() || (op.getMaskAttr() && stores))
      return success();
    return op.emitOpError()
           << "expected stores_hidden = false but with a mask and a gradient "
              "that stores tiles of dS, of which it hides some; got true";
  }

  /// Gradients that are stored, not summed, are tiles of dS on their way to the
  /// product with the keys.
  static LogicalResult checkWhole(AttentionGradOp op, ScheduleAttr s) {
    for (auto [number, i, gradient] : llvm::enumerate(
             op.getGrads().value_or(ArrayRef<int64_t>()), op.getDextras())) {
      GradientForm form = formOfGradient(gradient.getType());
      if (form == GradientForm::Sum)
        continue;
      ScoreProgram program = programOf(op);
      std::string name = program.extraName(size_t(i));
      if (form == GradientForm::Tiles) {
        auto type = cast<RankedTensorType>(gradient.getType());
        if (failed(checkTiles(op, s, number, type)))
          return failure();
        continue;
      }
      Type element =
               cast<RankedTensorType>(gradient.getType()).getElementType(),
           own = cast<RankedTensorType>(op.getQ().getType()).getElementType();
      if (element != own)
        return op.emitOpError()
               << "expected " << name << ", whose gradient is whole, to be of "
               << own << " as q is, got " << element
               << "; otherwise a gradient is summed in f32";
      if (!program.isWhole(size_t(i)) || !program.onlyAdds() ||
          !addsOnce(op, i) || op.getDropout())
        return op.emitOpError()
               << "expected " << name
               << ", whose gradient is whole, to be added once to the scores "
                  "without dropout, at its batch entry, head, query and key; "
                  "otherwise a gradient is summed in f32";
      if (!s.getDqByProducer() || s.getBlockQ() != kGroupRows ||
          s.warpsAlongKeys() != s.getWarps() || s.getCluster() > 1 ||
          s.getDq() == GradQ::Recompute)
        return op.emitOpError()
               << "expected a schedule of sm_90a with dq_by_producer, block_q "
                  "= "
               << kGroupRows
               << ", all warps along the keys and dq = atomic or ordered, as "
                  "up to head dim 128, because the gradient of "
               << name
               << " is whole; otherwise a gradient is summed in f32; got " << s;
      if (failed(checkKeyTiles(op, s, name)))
        return failure();
    }
    return success();
  }

  /// Kernels around that of keys know its tiles.
  static LogicalResult checkKeyTiles(AttentionGradOp op, ScheduleAttr s,
                                     StringRef name) {
    for (ScheduleAttr other : schedulesOf(op))
      if (s.differsAround(other).empty() &&
          other.getBlockKv() != s.getBlockKv())
        return op.emitOpError()
               << "expected variants with the schedule's block_kv = "
               << s.getBlockKv() << " because the gradient of " << name
               << " has a tile for each, got " << other.getBlockKv();
    return success();
  }

  /// Gradients that are summed over batch entries or heads in tiles of dS.
  static LogicalResult checkTiles(AttentionGradOp op, ScheduleAttr s,
                                  size_t number, RankedTensorType type) {
    ScoreProgram program = programOf(op);
    size_t extra = size_t((*op.getGrads())[number]);
    std::string name = program.extraName(extra);
    bool isWhole = program.isWhole(extra);
    for (auto [dim, extent] : llvm::enumerate(type.getShape()))
      isWhole &=
          ShapedType::isDynamic(extent) ||
          program.coordinateOf(extra, unsigned(dim)) <= ScoreProgram::Head;
    if (!isWhole)
      return op.emitOpError()
             << "expected " << name << ", whose gradient is " << type
             << ", to be read at its batch entry, head, query and key, and the "
                "gradient to be summed over batch entries or heads; otherwise "
                "a gradient is summed in f32";
    auto adds = [&](ContributeOp part) {
      return cast<BlockArgument>(part.getExtra()).getArgNumber() ==
             ScoreProgram::FirstExtra + extra;
    };
    if (llvm::none_of(op.getScore().getOps<ContributeOp>(), adds))
      return op.emitOpError()
             << "expected a gradient of " << name
             << " that is not summed by tiles, because the score program's "
                "derivative by it is 0 everywhere";
    if (sumsInOrder(s.getDq()) && isSummedOver(op, number, ScoreProgram::Head))
      return op.emitOpError()
             << "expected a gradient of " << name
             << " that is not summed over heads, because dq = "
             << stringifyGradQ(s.getDq())
             << " gives the same bits in each run; the sum may be taken over a "
                "gradient that is whole";
    std::string error;
    const Target *target = lookupTarget(s.getTarget(), error);
    if (!target || !target->sharedPanelBytes() || s.getCluster() > 1 ||
        s.warpsAlongKeys() != s.getWarps())
      return op.emitOpError()
             << "expected a schedule of sm_90a with all warps along the keys, "
                "as up to head dim 128, because the gradient of "
             << name
             << " is summed by tiles; otherwise a gradient is summed in f32; "
                "got "
             << s;
    return checkKeyTiles(op, s, name);
  }

  /// Whether there is one contribution to extra i, of slope 1.
  static bool addsOnce(AttentionGradOp op, int64_t i) {
    SmallVector<ContributeOp> parts;
    for (auto part : op.getScore().getOps<ContributeOp>())
      if (cast<BlockArgument>(part.getExtra()).getArgNumber() ==
          ScoreProgram::FirstExtra + i)
        parts.push_back(part);
    return parts.size() == 1 && matchPattern(parts[0].getSlope(), m_OneFloat());
  }

  static LogicalResult checkSchedules(AttentionGradOp op) {
    if (!op.getScheduleAttr())
      return op.emitOpError() << "expected a schedule; run fa2-select-schedule";
    for (ScheduleAttr s : schedulesOf(op))
      if (failed(checkSchedule(op, s)))
        return failure();
    return success();
  }

  static LogicalResult checkSchedule(AttentionGradOp op, ScheduleAttr s) {
    if (s.getPartition() != Partition::Keys)
      return op.emitOpError() << "expected a schedule of partition keys, got "
                              << stringifyPartition(s.getPartition());
    if (s.getDq() == GradQ::Recompute && !op.getDqSchedule())
      return op.emitOpError() << "expected dq_schedule because dq = recompute "
                                 "gives dQ a kernel of its own; run "
                                 "fa2-select-schedule";
    std::string error;
    const Target *target = lookupTarget(s.getTarget(), error);
    if (!target)
      return success(); // its tiles are in no panels
    auto q = cast<ShapedType>(op.getQ().getType());
    error = gradQColumnsError(*target, q.getDimSize(3), s.getFields());
    if (!error.empty())
      return op.emitOpError() << error;
    return success();
  }
};

} // namespace
