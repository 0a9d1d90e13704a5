//===- ExpandLoop.cpp - a loop cut apart by stages ------------------------===//

#include "fa2/Loops/ExpandLoop.h"

#include "mlir/Dialect/SCF/Transforms/Transforms.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

FailureOr<scf::ForOp> fa2::gpu::expandLoop(scf::ForOp loop,
                                           const LoopStages &stages,
                                           Predicate predicate) {
  Location loc = loop.getLoc();
  unsigned behind = 0;
  for (auto [op, stage] : stages)
    behind = std::max(behind, stage);
  scf::PipeliningOption options;
  options.getScheduleFn = [&](scf::ForOp, LoopStages &schedule) {
    schedule = stages;
  };
  options.supportDynamicLoops = true;
  options.peelEpilogue = !predicate;
  options.predicateFn = [&](RewriterBase &rewriter, Operation *op,
                            Value condition) {
    return predicate ? predicate(rewriter, op, condition) : op;
  };
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  bool modified = false;
  FailureOr<scf::ForOp> result =
      scf::pipelineForLoop(rewriter, loop, options, &modified);
  if (failed(result))
    emitError(loc, "expected a loop whose operations can be ")
        << behind << " iterations behind the first ones";
  return result;
}
