//===- PingPong.cpp - fa2gpu-ping-pong ------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2 {
#define GEN_PASS_DEF_PINGPONG
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct PingPongPass : public fa2::impl::PingPongBase<PingPongPass> {
  void runOnOperation() override {
    if (!getOperation().getSchedule().getPingPong())
      return;
    for (auto roles : getOperation().getOps<RolesOp>())
      for (auto [program, warps] :
           llvm::zip(roles.getPrograms(), roles.getWarps()))
        if (warps > kGroupWarps)
          takeTurns(program.front(), roles.getLoc(), warps / kGroupWarps);
  }

  /// The last of the products that start one behind the other, before threads
  /// compute with the result of any.
  static DotStartOp lastOfRun(Block &body) {
    DotStartOp last;
    for (Operation &op : body) {
      if (auto dot = dyn_cast<DotStartOp>(op))
        last = dot;
      auto wait = dyn_cast<DotWaitOp>(op);
      if (last && wait && llvm::any_of(wait->getUsers(), isComputed))
        break;
    }
    return last;
  }

  static bool isComputed(Operation *user) {
    return !isa<DotStartOp>(user) && !user->hasTrait<OpTrait::IsTerminator>();
  }

  static void takeTurns(Block &program, Location loc, int64_t groups) {
    bool any = false;
    program.walk([&](scf::ForOp loop) {
      SmallVector<DotStartOp> dots(loop.getBody()->getOps<DotStartOp>());
      if (dots.empty()) {
        // Tiles that a group does not see are turns all the same.
        if (!loop.getBody()->getOps<RingWaitOp>().empty()) {
          OpBuilder b = OpBuilder::atBlockBegin(loop.getBody());
          TurnWaitOp::create(b, loop.getLoc(), groups, false, IntegerAttr{});
          TurnPassOp::create(b, loop.getLoc(), groups, false, IntegerAttr{});
        }
        return;
      }
      any = true;
      OpBuilder b(dots.front());
      TurnWaitOp::create(b, loop.getLoc(), groups, false, IntegerAttr{});
      DotStartOp last = lastOfRun(*loop.getBody());
      decided(loop, "fa2gpu-ping-pong", "turn",
              "a turn of {0} warpgroups begins before {1} and ends behind {2}",
              groups, dots.front().getName().value_or("its first product"),
              last.getName().value_or("its last product"));
      b.setInsertionPointAfter(last);
      TurnPassOp::create(b, loop.getLoc(), groups, false, IntegerAttr{});
    });
    if (!any)
      return;
    // The first group's first turn is given by the last one, and what the
    // last one passes at the end is taken.
    OpBuilder b = OpBuilder::atBlockBegin(&program);
    TurnPassOp::create(b, loc, groups, true, IntegerAttr{});
    b.setInsertionPointToEnd(&program);
    TurnWaitOp::create(b, loc, groups, true, IntegerAttr{});
  }
};

} // namespace
