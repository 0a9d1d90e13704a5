//===- ShareAccumulators.cpp - fa2gpu-share-accumulators ------------------===//

#include "Decided.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/GPUTransforms/Passes.h"

namespace fa2 {
#define GEN_PASS_DEF_SHAREACCUMULATORS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// What `piece` was waited for as, if nothing at `before` or behind it reads
/// that any more.
Value freeAt(DotStartOp piece, DotStartOp before) {
  if (!piece->hasOneUse())
    return {};
  auto wait = dyn_cast<DotWaitOp>(*piece->user_begin());
  if (!wait || wait->getBlock() != before->getBlock() ||
      !wait->isBeforeInBlock(before))
    return {};
  bool read = llvm::any_of(wait->getUsers(), [&](Operation *user) {
    Operation *at = before->getBlock()->findAncestorOpInBlock(*user);
    return !at || !at->isBeforeInBlock(before);
  });
  return read ? Value() : wait.getD();
}

struct ShareAccumulatorsPass
    : public fa2::impl::ShareAccumulatorsBase<ShareAccumulatorsPass> {
  void runOnOperation() override {
    getOperation().walk([](Block *block) {
      llvm::DenseMap<std::pair<Attribute, Type>, DotStartOp> last;
      for (auto dot : block->getOps<DotStartOp>()) {
        if (!dot.isAsynchronous() || !dot.getName())
          continue;
        // A product that goes on with a piece's sum has its registers.
        DotWaitOp begin =
            dot.getAcc() ? dot.getAcc().getDefiningOp<DotWaitOp>() : nullptr;
        auto before = begin ? begin.getSource().getDefiningOp<DotStartOp>()
                            : DotStartOp();
        for (auto &[key, piece] : last)
          if (before && piece == before)
            piece = dot;
        DotStartOp &piece = last[{dot.getNameAttr(), dot.getD().getType()}];
        if (piece && !dot.getAcc())
          share(dot, piece);
        piece = dot;
      }
    });
  }

  static void share(DotStartOp dot, DotStartOp piece) {
    Value registers = freeAt(piece, dot);
    if (!registers)
      return;
    dot.getAccMutable().assign(registers);
    dot.setClears(true);
    decided(dot, "fa2gpu-share-accumulators", "share",
            "a piece of {0} has the registers of the piece before it",
            *dot.getName());
  }
};

} // namespace
