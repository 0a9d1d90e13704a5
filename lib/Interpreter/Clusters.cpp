//===- Clusters.cpp - blocks that take a tile together --------------------===//
//
// What they do with each other's rings is in Rings.cpp.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

void interpreter::run(Frame &f, ClusterRankOp op) {
  f.set(op.getRank(), f.block.rank);
}

/// Each gives its tile before it waits for the other's.
static void exchange(Frame &f, Operation *op) {
  ThreadBlock *peer = f.peer();
  if (!peer)
    return;
  f.block.given[op].push_back(f.tile(op->getOperand(0)));
  std::deque<TileRef> &theirs = peer->given[op];
  f.wait("the other block's tile", [&] { return !theirs.empty(); });
  if (f.halted())
    return;
  f.set(op->getResult(0), Datum(theirs.front()));
  theirs.pop_front();
}

void interpreter::run(Frame &f, fa2::ExchangeOp op) { exchange(f, op); }
void interpreter::run(Frame &f, fa2::gpu::ExchangeOp op) { exchange(f, op); }
