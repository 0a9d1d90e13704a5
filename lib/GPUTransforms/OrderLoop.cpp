//===- OrderLoop.cpp - fa2gpu-order-loop ----------------------------------===//
//
// A schedule names a loop's products in the order in which they start. All else
// follows: what a product needs comes before it, and what needs a product that
// has not been asked for comes behind the last. So products are in flight while
// others' operands are computed.
//
//===----------------------------------------------------------------------===//

#include "RotateLoop.h"

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

/// A product as fa2.dot names it, of this tile or of the one before.
struct Product {
  StringRef name;
  bool behind = false;
};

/// The products of a loop as they start, so many of them in flight at most.
struct Order {
  ArrayRef<Product> products;
  size_t inFlight;
};

Order orderOf(LoopOrder order) {
  // S and dP before either is used, as FlashAttention-3 (arXiv:2407.08608) has
  // it: dP is multiplied while P is computed, dV while dS is.
  static constexpr Product scoresFirst[] = {
      {"s"}, {"dp"}, {"dv"}, {"dk"}, {"dq"}};
  // What dS is multiplied with, a tile behind: while the next scores are.
  static constexpr Product keysBehind[] = {
      {"dq", true}, {"dk", true}, {"s"}, {"dp"}, {"dv"}};
  // All that P and dS are multiplied with while the next ones are computed.
  static constexpr Product gradientsBehind[] = {
      {"s"}, {"dp"}, {"dv", true}, {"dk", true}, {"dq", true}};
  switch (order) {
  case LoopOrder::Written:
    return {};
  case LoopOrder::ScoresFirst:
    return {scoresFirst, 2};
  case LoopOrder::KeysBehind:
    return {keysBehind, 2};
  case LoopOrder::GradientsBehind:
    return {gradientsBehind, std::size(gradientsBehind)};
  }
  llvm_unreachable("an order that the switch does not name");
}

/// The operations of a loop's body and what must stand before each. Those
/// behind need nothing of the others: it was computed in the iteration before.
class Body {
public:
  Body(Block &block, const llvm::DenseSet<Operation *> &behind)
      : block(block), behind(behind) {
    for (Operation &op : block.without_terminator())
      addNeeds(&op);
  }

  /// Takes `op` and all that it needs to the end of the new order.
  void place(Operation *op) {
    if (!needs.contains(op) || placed.contains(op))
      return;
    placeNeeds(op);
    if (auto wait = dyn_cast<DotWaitOp>(op))
      placeOlderWaits(wait);
    append(op);
  }

  void placeNeeds(Operation *op) {
    for (Operation *first : needs[op])
      place(first);
  }

  /// Waits for the oldest matmuls until fewer than so many are in flight.
  void leaveInFlight(size_t limit) {
    SmallVector<DotWaitOp> waits;
    for (Operation *op : placed)
      if (auto dot = dyn_cast<DotStartOp>(op))
        for (Operation *user : dot.getD().getUsers())
          if (auto wait = dyn_cast<DotWaitOp>(user);
              wait && !placed.contains(wait))
            waits.push_back(wait);
    for (size_t i = 0; i + limit <= waits.size(); ++i)
      place(waits[i]);
  }

  /// What becomes of `op`, and all that it needs.
  void placeUsers(Operation *op) {
    for (Operation *user : op->getUsers())
      if (needs.contains(user)) {
        place(user);
        placeUsers(user);
      }
  }

  /// All that is left: first what need not wait for the matmuls that no other
  /// operation reads, then the waits, in the order of the starts.
  void placeRest() {
    for (Operation &op : block.without_terminator())
      if (!isa<DotWaitOp, RingReleaseOp>(op))
        place(&op);
    leaveInFlight(1);
    for (Operation &op : block.without_terminator())
      place(&op);
  }

  void apply() {
    for (Operation *op : placed)
      op->moveBefore(block.getTerminator());
  }

  LoopStages stages() const {
    LoopStages order;
    for (Operation *op : placed)
      order.push_back({op, behind.contains(op)});
    return order;
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
      if (other && other != op && !other->hasTrait<OpTrait::IsTerminator>() &&
          behind.contains(other) == behind.contains(op))
        all.insert(other);
    };
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        need(v.getDefiningOp());
    });
    if (auto dot = dyn_cast<DotStartOp>(op))
      needOtherReaders(dot, need);
    else if (auto release = dyn_cast<RingReleaseOp>(op))
      needReaders(release, need);
    else if (auto commit = dyn_cast<RingCommitOp>(op))
      needWriters(commit, need);
    else if (auto wait = dyn_cast<RingWaitOp>(op))
      // What the role fills itself.
      for (Operation *user : wait.getRing().getUsers())
        if (isa<RingCommitOp>(user) && user->getBlock() == &block)
          need(user);
  }

  /// Registers that a matmul in flight reads are nobody else's to read: those
  /// who do come before it.
  template <typename Need>
  static void needOtherReaders(DotStartOp dot, Need need) {
    Value registers = dot.getA();
    if (isa<SharedAttr>(dot.getA().getType().getEncoding()))
      return;
    if (auto renamed = registers.getDefiningOp<ConvertLayoutOp>())
      registers = renamed.getSource();
    for (Operation *reader : registers.getUsers())
      if (!isa<DotStartOp, DotWaitOp>(reader))
        need(reader);
  }

  /// A use is released when all that read it have: matmuls when they have been
  /// waited for.
  template <typename Need>
  static void needReaders(RingReleaseOp release, Need need) {
    for (Operation *user : release.getRing().getUsers()) {
      if (!isa<RingWaitOp, RingSlotOp>(user) ||
          user->getOperand(1) != release.getUse())
        continue;
      need(user);
      for (Operation *reader : user->getResult(0).getUsers()) {
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
  const llvm::DenseSet<Operation *> &behind;
  llvm::MapVector<Operation *, llvm::SetVector<Operation *>> needs;
  llvm::SetVector<Operation *> placed;
};

struct OrderLoopPass : public fa2::impl::OrderLoopBase<OrderLoopPass> {
  void runOnOperation() override {
    Order order = orderOf(getOperation().getSchedule().getLoopOrder());
    if (order.products.empty())
      return;
    SmallVector<scf::ForOp> loops; // without those around what is peeled
    getOperation().walk([&](scf::ForOp loop) {
      if (!loop.getBody()->getOps<DotStartOp>().empty())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      if (failed(reorder(loop, order)))
        return signalPassFailure();
  }

  static LogicalResult reorder(scf::ForOp loop, Order order) {
    llvm::StringMap<SmallVector<DotStartOp>> named;
    for (auto dot : loop.getBody()->getOps<DotStartOp>())
      if (dot.isAsynchronous() && dot.getName())
        named[*dot.getName()].push_back(dot);
    if (named.size() < 2)
      return success();
    SmallVector<DotStartOp> late;
    for (Product product : order.products)
      if (product.behind)
        llvm::append_range(late, named.lookup(product.name));
    llvm::DenseSet<Operation *> behind = takeBehind(loop, late);
    Body body(*loop.getBody(), behind);
    // Accumulators that begin with values are written before any matmul runs:
    // ptxas waits for what is in flight before it copies such registers
    // (C7517).
    for (Product product : order.products)
      for (DotStartOp dot : named.lookup(product.name))
        if (Value acc = dot.getAcc(); acc && acc.getDefiningOp())
          body.place(acc.getDefiningOp());
    for (Product product : order.products)
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
    return behind.empty() ? success()
                          : success(succeeded(rotateLoop(loop, body.stages())));
  }
};

} // namespace
