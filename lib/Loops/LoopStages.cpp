//===- LoopStages.cpp - the order of products as one of operations --------===//

#include "LoopBody.h"
#include "fa2/Loops/LoopGraph.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

Products fa2::gpu::productsOf(scf::ForOp loop) {
  Products named;
  for (auto dot : loop.getBody()->getOps<DotStartOp>())
    if (dot.isAsynchronous() && dot.getName())
      named[*dot.getName()].push_back(dot);
  return named;
}

Operation *fa2::gpu::beginningOf(DotStartOp dot) {
  return dot.getAcc() ? dot.getAcc().getDefiningOp() : nullptr;
}

static void place(LoopBody &body, const Order &order, Products &named,
                  const llvm::DenseSet<Operation *> &behind) {
  // What the next tile's first product follows as it is written, such as the
  // tile's number, is not for the threads to compute between two products.
  if (!behind.empty() && !order.products.front().behind)
    body.placeBefore(named.lookup(order.products.front().name).front());
  for (const std::string &name : order.begunEarly)
    for (DotStartOp dot : named.lookup(name))
      if (Operation *begin = beginningOf(dot); begin && !behind.contains(dot))
        body.place(begin);
  for (const Product &product : order.products)
    for (auto [i, dot] : llvm::enumerate(named.lookup(product.name))) {
      // Parts of a product have the same registers, one after the other.
      if (i > 0)
        body.placeUsers(named.lookup(product.name)[i - 1]);
      // What its accumulator begins with takes registers, which those that
      // are waited for may have had.
      body.placeNeeds(dot, beginningOf(dot));
      body.leaveInFlight(order.inFlight);
      if (product.addsAtOnce)
        body.addAtOnce(dot);
      body.place(dot);
    }
  body.placeRest();
}

LoopStages fa2::gpu::stagesOf(scf::ForOp loop, const Order &order) {
  Products named = productsOf(loop);
  SmallVector<Operation *> late;
  for (const Product &product : order.products)
    if (product.behind)
      for (DotStartOp dot : named.lookup(product.name))
        late.push_back(dot);
  llvm::DenseSet<Operation *> behind = takeBehind(loop, late);
  LoopBody body(*loop.getBody(), behind);
  place(body, order, named, behind);
  return body.stages();
}
