//===- Explanation.cpp - remarks as a compilation's reasons ---------------===//

#include "Explanation.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fa2;
using remark::detail::Remark;

namespace {
class Collector : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit Collector(Compilation &result) : result(result) {}

  void streamOptimizationRemark(const Remark &remark) override {
    std::string reason, suggestion;
    for (const Remark::Arg &arg : remark.getArgs())
      if (arg.key == "Reason")
        reason = arg.val;
      else if (arg.key == "Suggestion")
        suggestion = "; " + arg.val;
    bool spills = remark.getRemarkName() == "spills";
    (spills ? result.warnings : result.reasons).push_back(reason + suggestion);
  }

private:
  Compilation &result;
};
} // namespace

LogicalResult fa2::collectRemarks(MLIRContext &context, Compilation &result) {
  // What other passes say is for who debugs them.
  remark::RemarkCategories ours;
  ours.passed = ours.missed = ours.analysis = ours.failed =
      "fa2-select-schedule|fa2gpu-order-loop";
  return remark::enableOptimizationRemarks(
      context, std::make_unique<Collector>(result),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), ours);
}
