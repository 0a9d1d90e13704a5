//===- LoopGraph.h - a loop's operations as a graph to schedule -*- C++ -*-===//
#ifndef FA2_LOOPS_LOOPGRAPH_H
#define FA2_LOOPS_LOOPGRAPH_H

#include "fa2/Loops/LoopOrders.h"
#include "fa2/Loops/RotateLoop.h"
#include "fa2/Schedule/Modulo.h"
#include "fa2/Target/Rates.h"

#include "llvm/ADT/StringMap.h"

namespace fa2::gpu {

/// What of a loop takes time, and its products among it.
struct LoopGraph {
  modulo::Graph graph;
  std::vector<mlir::Operation *> operations; // of each step
  int64_t groups = 1;                        // warpgroups that share the units
  int64_t matmulLatency = 0; // clocks from a product's end to its wait's

  /// Clocks of all warpgroups together on one resource.
  int64_t busy(modulo::Resource resource) const;
};

/// The graph of a loop in a role. A schedule may cut it before products alone,
/// as the rotation of the loop does. Values may take all of the role's
/// registers but those that `spare` says and what the loop only carries.
LoopGraph graphOf(mlir::scf::ForOp loop, const Rates &rates, int64_t spare);

/// Leaves the steps that take time.
void contract(LoopGraph &loop);

/// A loop's asynchronous products by name, in the order in which they are
/// written.
using Products = llvm::StringMap<llvm::SmallVector<DotStartOp>>;
Products productsOf(mlir::scf::ForOp loop);

/// What writes a product's accumulator before it starts, or null.
mlir::Operation *beginningOf(DotStartOp dot);

/// All of a loop's operations where its products start in that order. What goes
/// behind gets numbers of its own in the loop.
LoopStages stagesOf(mlir::scf::ForOp loop, const Order &order);

/// When the loop's steps run where its operations stand in that order.
modulo::Times timesOf(const LoopGraph &loop, const LoopStages &order);

/// Leaves the values that no assembler can put elsewhere: results of products
/// until they are read, and registers that products read.
void keepUnspillable(LoopGraph &loop);

/// The order of the products in a schedule, and how many are in flight.
Order orderOf(const LoopGraph &loop, const modulo::Times &times);

} // namespace fa2::gpu

#endif
