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
#include "fa2/Transforms/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
      GradTiler(*func, op).run();
    }
  }

  static LogicalResult checkSchedules(AttentionGradOp op) {
    auto s = op.getScheduleAttr();
    if (!s)
      return op.emitOpError() << "expected a schedule; run fa2-select-schedule";
    if (s.getPartition() != Partition::Keys)
      return op.emitOpError() << "expected a schedule of partition keys, got "
                              << stringifyPartition(s.getPartition());
    if (s.getDq() == GradQ::Recompute && !op.getDqSchedule())
      return op.emitOpError() << "expected dq_schedule because dq = recompute "
                                 "gives dQ a kernel of its own; run "
                                 "fa2-select-schedule";
    return success();
  }
};

} // namespace
