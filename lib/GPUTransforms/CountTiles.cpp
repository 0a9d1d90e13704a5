//===- CountTiles.cpp - fa2gpu-count-tiles --------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2 {
#define GEN_PASS_DEF_COUNTTILES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

struct CountTilesPass : public fa2::impl::CountTilesBase<CountTilesPass> {
  void runOnOperation() override {
    getOperation().walk([](ForTilesOp loop) { count(loop); });
  }

  static void count(ForTilesOp loop) {
    Location loc = loop.getLoc();
    OpBuilder b(loop);
    Value from = arith::ConstantIndexOp::create(b, loc, loop.getFrom());
    Value end = TileCountOp::create(b, loc, loop.getRange());
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    auto places =
        scf::ForOp::create(b, loc, from, end, one, loop.getInitArgs());
    Block &body = *places.getBody(), &old = loop.getBody().front();
    if (!body.empty())
      body.getTerminator()->erase();
    b.setInsertionPointToStart(&body);
    Value place = places.getInductionVar();
    auto tile = TileAtOp::create(b, loc, loop.getRange(), place);
    SmallVector<Value> args{tile};
    llvm::append_range(args, places.getRegionIterArgs());
    for (auto [arg, value] : llvm::zip(old.getArguments(), args))
      arg.replaceAllUsesWith(value);
    body.getOperations().splice(body.end(), old.getOperations());
    Operation *yield = &body.back();
    b.setInsertionPoint(yield);
    scf::YieldOp::create(b, loc, yield->getOperands());
    yield->erase();
    loop.replaceAllUsesWith(places);
    loop.erase();
  }
};

} // namespace
