//===- OrderLoop.cpp - fa2gpu-order-loop ----------------------------------===//
//
// A schedule names a loop's products in the order in which they start. All else
// follows: what a product needs comes before it, and what needs a product that
// has not been asked for comes behind the last. So products are in flight while
// others' operands are computed.
//
//===----------------------------------------------------------------------===//

#include "AfterLoop.h"
#include "LoopBody.h"
#include "LoopOrders.h"

namespace fa2 {
#define GEN_PASS_DEF_ORDERLOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

using Named = llvm::StringMap<SmallVector<DotStartOp>>;

/// A loop's products by the names that `order` has.
Named productsOf(scf::ForOp loop, const Order &order) {
  Named named;
  for (auto dot : loop.getBody()->getOps<DotStartOp>())
    if (dot.isAsynchronous() && dot.getName() &&
        llvm::any_of(order.products, [&](const Product &product) {
          return product.name == *dot.getName();
        }))
      named[*dot.getName()].push_back(dot);
  return named;
}

/// What writes a product's accumulator before it starts, or null.
Operation *beginningOf(DotStartOp dot) {
  return dot.getAcc() ? dot.getAcc().getDefiningOp() : nullptr;
}

struct OrderLoopPass : public fa2::impl::OrderLoopBase<OrderLoopPass> {
  void runOnOperation() override {
    Order order = orderOf(getOperation().getSchedule());
    if (order.products.empty())
      return;
    SmallVector<scf::ForOp> loops;
    bool multiplies = false;
    getOperation().walk([&](scf::ForOp loop) {
      multiplies |= !loop.getBody()->getOps<DotStartOp>().empty();
      if (productsOf(loop, order).size() > 1)
        loops.push_back(loop);
    });
    if (loops.empty() && multiplies) {
      getOperation().emitError(
          "expected a loop with two of the products " + order.text() +
          " that the schedule's order names, and asynchronous ones");
      return signalPassFailure();
    }
    for (scf::ForOp loop : loops)
      if (failed(reorder(loop, order)))
        return signalPassFailure();
  }

  static LogicalResult reorder(scf::ForOp loop, const Order &order) {
    Named named = productsOf(loop, order);
    SmallVector<DotStartOp> late;
    for (const Product &product : order.products)
      if (product.behind)
        llvm::append_range(late, named.lookup(product.name));
    llvm::DenseSet<Operation *> behind = takeBehind(loop, late);
    LoopBody body(*loop.getBody(), behind);
    // What the next tile's first product follows as it is written, such as the
    // tile's number, is not for the threads to compute between two products.
    if (!behind.empty() && !order.products.front().behind)
      body.placeBefore(named.lookup(order.products.front().name).front());
    // Accumulators that begin with values are written before any matmul runs:
    // ptxas waits for what is in flight before it copies such registers
    // (C7517).
    for (const Product &product : order.products)
      for (DotStartOp dot : named.lookup(product.name))
        if (Operation *begin = beginningOf(dot); begin && !behind.contains(dot))
          body.place(begin);
    for (const Product &product : order.products)
      for (auto [i, dot] : llvm::enumerate(named.lookup(product.name))) {
        // Parts of a product have the same registers, one after the other.
        if (i > 0)
          body.placeUsers(named.lookup(product.name)[i - 1]);
        body.placeNeeds(dot);
        body.leaveInFlight(order.inFlight);
        body.place(dot);
      }
    body.placeRest();
    body.apply();
    if (behind.empty())
      return success();
    FailureOr<scf::ForOp> rotated = rotateLoop(loop, body.stages());
    if (succeeded(rotated))
      hurryAfter(*rotated);
    return rotated;
  }
};

} // namespace
