//===- OrderLoop.cpp - fa2gpu-order-loop ----------------------------------===//
//
// A loop names its products in the order in which they start. All else follows:
// what a product needs comes before it, and what needs a product that has not
// been asked for comes behind the last. So products are in flight while others'
// operands are computed.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/Loops/AfterLoop.h"
#include "fa2/Loops/LoopGraph.h"
#include "fa2/Target/Target.h"

#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"

namespace fa2 {
#define GEN_PASS_DEF_ORDERLOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// How long an iteration takes with that order, and what bounds it.
static std::string explain(const LoopGraph &loop, const modulo::Times &times,
                           StringRef order) {
  std::string text = llvm::formatv(
      "order \"{0}\": a warpgroup alone takes {1} clocks an "
      "iteration; {2} of them keep the tensor cores busy for {3}, "
      "softmaxes the threads for {4}, other arithmetic for {5}, shared "
      "memory for {6}\n",
      order, times.interval, loop.groups, loop.busy(modulo::Resource::Tensor),
      loop.busy(modulo::Resource::Exponential),
      loop.busy(modulo::Resource::Arithmetic),
      loop.busy(modulo::Resource::Shared));
  return text + modulo::draw(loop.graph, times);
}

namespace {

struct OrderLoopPass : public fa2::impl::OrderLoopBase<OrderLoopPass> {
  void runOnOperation() override {
    std::string error;
    const Target *target =
        lookupTarget(getOperation().getSchedule().getTarget(), error);
    if (!target) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (loop->hasAttr(kOrderName))
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(reorder(loop, ratesOf(*target))))
        return signalPassFailure();
  }

  LogicalResult reorder(scf::ForOp loop, const Rates &rates) {
    auto attr = cast<OrderAttr>(loop->removeAttr(kOrderName));
    Order order = parseOrder(attr.getProducts(), attr.getInFlight());
    for (const Product &product : order.products)
      if (!productsOf(loop).contains(product.name))
        return loop.emitError("expected a product '" + product.name +
                              "' of the loop's order, and an asynchronous one");
    LoopGraph graph = graphOf(loop, rates, /*spare=*/0);
    keepUnspillable(graph);
    LoopStages stages = stagesOf(loop, order);
    // Whatever the order came from.
    if (failed(check(loop, graph, stages, attr)))
      return failure();
    for (auto [op, behind] : stages)
      op->moveBefore(loop.getBody()->getTerminator());
    if (llvm::none_of(stages, [](auto stage) { return stage.second > 0; }))
      return success();
    FailureOr<scf::ForOp> rotated = rotateLoop(loop, stages);
    if (succeeded(rotated))
      hurryAfter(*rotated);
    return rotated;
  }

  LogicalResult check(scf::ForOp loop, const LoopGraph &graph,
                      const LoopStages &stages, OrderAttr attr) {
    modulo::Times times = timesOf(graph, stages);
    std::string wrong = modulo::check(graph.graph, times);
    if (!wrong.empty())
      return loop.emitError("expected the order \"")
             << attr.getProducts()
             << "\" to keep what the loop's steps need: " << wrong;
    if (getContext().getRemarkEngine()) // drawing it takes a while
      decided(loop, "fa2gpu-order-loop", "time-line", "{0}",
              explain(graph, times, attr.getProducts()));
    return success();
  }
};

} // namespace
