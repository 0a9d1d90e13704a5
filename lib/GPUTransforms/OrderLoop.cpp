//===- OrderLoop.cpp - fa2gpu-order-loop ----------------------------------===//
//
// A schedule names a loop's products in the order in which they start. All else
// follows: what a product needs comes before it, and what needs a product that
// has not been asked for comes behind the last. So products are in flight while
// others' operands are computed.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {
#define GEN_PASS_DEF_ORDERLOOP
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The products of each order, as fa2.dot names them.
ArrayRef<StringRef> productsOf(LoopOrder order) {
  // S and dP before either is used, as FlashAttention-3 (arXiv:2407.08608) has
  // it: dP is multiplied while P is computed, dV while dS is.
  static constexpr StringRef scoresFirst[] = {"s", "dp", "dv", "dk", "dq"};
  return order == LoopOrder::ScoresFirst ? ArrayRef(scoresFirst)
                                         : ArrayRef<StringRef>();
}

/// The operations of a loop's body and what must stand before each.
class Body {
public:
  explicit Body(Block &block) : block(block) {
    for (Operation &op : block.without_terminator())
      addNeeds(&op);
  }

  /// Takes `op` and all that it needs to the end of the new order.
  void place(Operation *op) {
    if (!needs.contains(op) || placed.contains(op))
      return;
    for (Operation *first : needs[op])
      place(first);
    if (auto wait = dyn_cast<DotWaitOp>(op))
      placeOlderWaits(wait);
    append(op);
  }

  /// What becomes of `op`, and all that it needs.
  void placeUsers(Operation *op) {
    for (Operation *user : op->getUsers())
      if (needs.contains(user)) {
        place(user);
        placeUsers(user);
      }
  }

  /// All that is left: matmuls are waited for in the order of their starts.
  void placeRest() {
    SmallVector<Operation *> started(placed.getArrayRef());
    for (Operation *op : started)
      if (auto dot = dyn_cast<DotStartOp>(op))
        for (Operation *wait : dot.getD().getUsers())
          if (ready(wait))
            append(wait);
    for (Operation &op : block.without_terminator())
      place(&op);
  }

  void apply() {
    for (Operation *op : placed)
      op->moveBefore(block.getTerminator());
  }

private:
  /// Matmuls complete in the order of their starts: with one, all before it.
  void placeOlderWaits(DotWaitOp wait) {
    SmallVector<Operation *> started(placed.getArrayRef());
    for (Operation *op : started) {
      if (op == wait.getSource().getDefiningOp())
        break;
      if (auto dot = dyn_cast<DotStartOp>(op))
        for (Operation *older : dot.getD().getUsers())
          if (ready(older))
            append(older);
    }
  }

  void addNeeds(Operation *op) {
    auto &all = needs[op];
    auto need = [&](Operation *other) {
      other = other ? block.findAncestorOpInBlock(*other) : nullptr;
      if (other && other != op && !other->hasTrait<OpTrait::IsTerminator>())
        all.insert(other);
    };
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        need(v.getDefiningOp());
    });
    if (auto release = dyn_cast<RingReleaseOp>(op))
      needReaders(release, need);
    else if (auto commit = dyn_cast<RingCommitOp>(op))
      needWriters(commit, need);
    else if (auto wait = dyn_cast<RingWaitOp>(op))
      // What the role fills itself.
      for (Operation *user : wait.getRing().getUsers())
        if (isa<RingCommitOp>(user) && user->getBlock() == &block)
          need(user);
  }

  /// A use is released when all that read it have: matmuls when they have been
  /// waited for.
  template <typename Need>
  static void needReaders(RingReleaseOp release, Need need) {
    for (Operation *user : release.getRing().getUsers()) {
      auto wait = dyn_cast<RingWaitOp>(user);
      if (!wait || wait.getUse() != release.getUse())
        continue;
      need(wait);
      for (Operation *reader : wait.getTile().getUsers()) {
        need(reader);
        if (auto dot = dyn_cast<DotStartOp>(reader))
          for (Operation *end : dot.getD().getUsers())
            need(end);
      }
    }
  }

  template <typename Need>
  static void needWriters(RingCommitOp commit, Need need) {
    for (Operation *user : commit.getRing().getUsers())
      if (auto acquire = dyn_cast<RingAcquireOp>(user);
          acquire && acquire.getUse() == commit.getUse())
        for (Operation *writer : acquire.getSlot().getUsers())
          need(writer);
  }

  bool ready(Operation *op) {
    return needs.contains(op) && !placed.contains(op) &&
           llvm::all_of(needs[op], [&](Operation *first) {
             return placed.contains(first);
           });
  }

  /// Slots are given back as soon as they can be.
  void append(Operation *op) {
    placed.insert(op);
    for (auto &[other, before] : needs)
      if (isa<RingReleaseOp>(other) && ready(other))
        placed.insert(other);
  }

  Block &block;
  llvm::MapVector<Operation *, llvm::SetVector<Operation *>> needs;
  llvm::SetVector<Operation *> placed;
};

struct OrderLoopPass : public fa2::impl::OrderLoopBase<OrderLoopPass> {
  void runOnOperation() override {
    LoopOrder order = getOperation().getSchedule().getLoopOrder();
    ArrayRef<StringRef> products = productsOf(order);
    if (products.empty())
      return;
    getOperation().walk([&](scf::ForOp loop) { reorder(loop, products); });
  }

  static void reorder(scf::ForOp loop, ArrayRef<StringRef> products) {
    llvm::StringMap<SmallVector<DotStartOp>> named;
    for (auto dot : loop.getBody()->getOps<DotStartOp>())
      if (dot.isAsynchronous() && dot.getName())
        named[*dot.getName()].push_back(dot);
    if (named.size() < 2)
      return;
    Body body(*loop.getBody());
    // Accumulators that begin with values are written before any matmul runs:
    // ptxas waits for what is in flight before it copies such registers
    // (C7517).
    for (StringRef name : products)
      for (DotStartOp dot : named.lookup(name))
        if (Value acc = dot.getAcc(); acc && acc.getDefiningOp())
          body.place(acc.getDefiningOp());
    for (StringRef name : products)
      for (auto [i, dot] : llvm::enumerate(named.lookup(name))) {
        // Parts of a product have the same registers, one after the other.
        if (i > 0)
          body.placeUsers(named.lookup(name)[i - 1]);
        body.place(dot);
      }
    body.placeRest();
    body.apply();
  }
};

} // namespace
