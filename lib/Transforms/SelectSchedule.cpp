//===- SelectSchedule.cpp - fa2-select-schedule ---------------------------===//

#include "fa2/Schedule/Model.h"
#include "fa2/Schedule/Selection.h"
#include "fa2/Target/Target.h"
#include "fa2/Transforms/Passes.h"
#include "fa2/Transforms/ProblemOf.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fa2 {
#define GEN_PASS_DEF_SELECTSCHEDULE
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {
struct SelectSchedule : fa2::impl::SelectScheduleBase<SelectSchedule> {
  using SelectScheduleBase::SelectScheduleBase;

  void runOnOperation() override {
    WalkResult result = getOperation().walk([&](Operation *op) {
      LogicalResult done = success();
      if (auto attention = dyn_cast<AttentionOp>(op))
        done = select(attention);
      else if (auto gradient = dyn_cast<AttentionGradOp>(op))
        done = select(gradient);
      return failed(done) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  template <typename Op> LogicalResult select(Op op) {
    std::string error;
    ScheduleAttr standing = op.getScheduleAttr();
    const Target *t = lookupTarget(
        standing ? standing.getTarget() : StringRef(target), error);
    if (!t)
      return op.emitOpError(error);
    FailureOr<Problem> described = problemOf(op);
    if (failed(described))
      return failure();
    const Problem &problem = *described;
    ScheduleOverrides asked;
    if (error = asked.setFields("schedule", schedule); !error.empty())
      return op.emitOpError(error);
    auto selection = standing ? checkSchedule(*t, problem, standing, error)
                              : choose(*t, problem, asked, error);
    if (failed(selection))
      return op.emitOpError(error);
    op.setScheduleAttr(selection->schedule);
    if (failed(selectVariantsOf(op, bool(standing), *t, problem, *selection)))
      return failure();
    if constexpr (std::is_same_v<Op, AttentionGradOp>)
      if (failed(selectForGradQ(op, *t, problem)))
        return failure();
    if (getContext().getRemarkEngine())
      explain(op, bool(standing), *t, problem, *selection);
    return success();
  }

  template <typename Op>
  void explain(Op op, bool standing, const Target &t, const Problem &problem,
               const Selection &selection) {
    if (standing)
      emit(op, {Decision::Kind::Passed,
                "operation",
                "schedule written on the operation",
                {},
                ""});
    for (const Decision &decision : selection.reasons)
      emit(op, decision);
    for (const Decision &term :
         estimate(t, ratesOf(t), problem, selection.schedule.getFields(),
                  Shape())
             .explain())
      emit(op, term);
    for (const std::string &warning : selection.warnings)
      emit(op, {Decision::Kind::Missed,
                "spills",
                warning,
                {},
                "lower block_q, block_kv or the rings' slots, or take more "
                "warps"});
  }

  static void emit(Operation *op, const Decision &decision) {
    auto function = op->getParentOfType<FunctionOpInterface>();
    auto opts = remark::RemarkOpts::name(decision.name)
                    .category("fa2-select-schedule")
                    .function(function ? function.getName() : "");
    auto remark = [&] {
      switch (decision.kind) {
      case Decision::Kind::Passed:
        return remark::passed(op->getLoc(), opts);
      case Decision::Kind::Missed:
        return remark::missed(op->getLoc(), opts);
      case Decision::Kind::Analysis:
        return remark::analysis(op->getLoc(), opts);
      }
      llvm_unreachable("a kind of decision");
    }();
    using Arg = remark::detail::Remark::Arg;
    remark << Arg("Reason", decision.reason);
    for (const auto &[name, value] : decision.metrics)
      remark << Arg(name, value);
    if (!decision.suggestion.empty())
      remark << Arg("Suggestion", decision.suggestion);
  }

  FailureOr<Selection> choose(const Target &t, const Problem &problem,
                              const ScheduleOverrides &asked,
                              std::string &error) {
    auto rows = ScheduleDatabase::open(database, problem, error);
    if (failed(rows))
      return failure();
    return selectSchedule(&getContext(), t, problem, asked, error,
                          rows->find(t, problem));
  }

  /// Beside a schedule that stood already, the variants that stand.
  template <typename Op>
  LogicalResult selectVariantsOf(Op op, bool standing, const Target &t,
                                 const Problem &problem, Selection &selection) {
    std::string error;
    if (standing) {
      SmallVector<VariantAttr> variants;
      if (ArrayAttr stand = op.getVariantsAttr())
        llvm::append_range(variants, stand.template getAsRange<VariantAttr>());
      if (failed(checkVariants(t, problem, variants, selection, error)))
        return op.emitOpError(error);
      return success();
    }
    auto chosen =
        selectVariants(&getContext(), t, problem, variants, selection, error);
    if (failed(chosen))
      return op.emitOpError(error);
    if (!chosen->empty())
      op.setVariantsAttr(
          ArrayAttr::get(&getContext(), SmallVector<Attribute>(chosen->begin(),
                                                               chosen->end())));
    return success();
  }

  /// With dq = recompute, dQ's own kernel has a schedule of its own.
  LogicalResult selectForGradQ(AttentionGradOp op, const Target &t,
                               const Problem &problem) {
    bool recomputes = op.getSchedule()->getDq() == GradQ::Recompute;
    if (ArrayAttr variants = op.getVariantsAttr())
      for (auto variant : variants.getAsRange<VariantAttr>())
        recomputes |= variant.getSchedule().getDq() == GradQ::Recompute;
    if (!recomputes || op.getDqScheduleAttr())
      return success();
    std::string error;
    auto schedule = gradQSchedule(&getContext(), t, problem, error);
    if (failed(schedule))
      return op.emitOpError(error);
    op.setDqScheduleAttr(*schedule);
    return success();
  }
};
} // namespace
