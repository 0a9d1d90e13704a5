//===- LoopBody.cpp - a loop's operations in a new order ------------------===//

#include "LoopBody.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

//===----------------------------------------------------------------------===//
// What an operation needs
//===----------------------------------------------------------------------===//

/// Registers that a product reads, which are renamed without a copy; or null.
static Value registersOf(DotStartOp dot) {
  if (isa<SharedAttr>(dot.getA().getType().getEncoding()))
    return {};
  if (auto renamed = dot.getA().getDefiningOp<ConvertLayoutOp>())
    return renamed.getSource();
  return dot.getA();
}

/// Registers that a matmul in flight reads are nobody else's to read: those
/// who do come before it.
template <typename Need>
static void needOtherReaders(DotStartOp dot, Need need) {
  if (Value registers = registersOf(dot))
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

/// A tile that was copied to another block has been read when that gives the
/// next slot.
template <typename Need>
static void needSent(RingAcquireOp acquire, Need need) {
  for (Value ring : sentInto(acquire.getRing()))
    for (Operation *user : ring.getUsers())
      if (isa<RingAcquireOp>(user))
        need(user);
}

LoopBody::LoopBody(Block &block, const llvm::DenseSet<Operation *> &behind)
    : block(block), behind(behind) {
  for (Operation &op : block.without_terminator())
    addNeeds(&op);
  for (auto dot : block.getOps<DotStartOp>())
    if (behind.contains(dot))
      needRegisters(dot);
  for (Operation &op : block.without_terminator())
    needSlot(&op);
}

void LoopBody::addNeeds(Operation *op) {
  auto &all = needs[op];
  auto need = [&](Operation *other) {
    other = other ? block.findAncestorOpInBlock(*other) : nullptr;
    if (other && other != op && !other->hasTrait<OpTrait::IsTerminator>() &&
        behind.contains(other) == behind.contains(op))
      all.insert(other);
  };
  op->walk([&](Operation *inner) {
    for (Value v : inner->getOperands()) {
      need(v.getDefiningOp());
      needBefore(op, v);
    }
  });
  if (auto dot = dyn_cast<DotStartOp>(op))
    needOtherReaders(dot, need);
  else if (auto release = dyn_cast<RingReleaseOp>(op))
    needReaders(release, need);
  else if (auto commit = dyn_cast<RingCommitOp>(op))
    needWriters(commit, need);
  else if (auto acquire = dyn_cast<RingAcquireOp>(op))
    needSent(acquire, need);
  else if (auto wait = dyn_cast<RingWaitOp>(op))
    // What the role fills itself.
    for (Operation *user : wait.getRing().getUsers())
      if (isa<RingCommitOp>(user) && user->getBlock() == &block)
        need(user);
}

/// What is not behind has the values of the tile before from what is.
void LoopBody::needBefore(Operation *op, Value v) {
  auto carried = dyn_cast<BlockArgument>(v);
  if (!carried || carried.getOwner() != &block || behind.contains(op))
    return;
  auto loop = cast<scf::ForOp>(block.getParentOp());
  OpOperand *yielded = loop.getTiedLoopYieldedValue(carried);
  if (yielded && behind.contains(yielded->get().getDefiningOp()))
    needs[op].insert(yielded->get().getDefiningOp());
}

/// Registers that a matmul in flight reads are written again when it is
/// complete: with the values of the next tile.
void LoopBody::needRegisters(DotStartOp dot) {
  Value registers = registersOf(dot);
  Operation *writer = registers ? registers.getDefiningOp() : nullptr;
  if (writer && needs.contains(writer) && !behind.contains(writer))
    for (Operation *end : dot.getD().getUsers())
      needs[writer].insert(end);
}

/// A ring's only slot is free, or filled again, when what is behind has
/// released it.
void LoopBody::needSlot(Operation *op) {
  if (!isa<RingAcquireOp, RingWaitOp>(op) || behind.contains(op))
    return;
  Value ring = op->getOperand(0);
  if (cast<RingType>(ring.getType()).getSlots() > 1 ||
      (isa<RingWaitOp>(op) && !isCopied(ring) && !isPeer(ring)))
    return;
  for (Operation *user : ring.getUsers())
    if (isa<RingReleaseOp>(user) && behind.contains(user))
      needs[op].insert(user);
}

//===----------------------------------------------------------------------===//
// The new order
//===----------------------------------------------------------------------===//

void LoopBody::place(Operation *op) {
  if (!needs.contains(op) || placed.contains(op))
    return;
  placeNeeds(op);
  if (auto wait = dyn_cast<DotWaitOp>(op))
    placeOlderWaits(wait);
  append(op);
}

void LoopBody::placeNeeds(Operation *op, Operation *last) {
  for (Operation *first : needs[op])
    if (first != last)
      place(first);
}

void LoopBody::placeBefore(Operation *op) {
  for (Operation &first : block.without_terminator()) {
    if (&first == op)
      return;
    if (behind.contains(&first) == behind.contains(op))
      place(&first);
  }
}

void LoopBody::placeUsers(Operation *op) {
  for (Operation *user : op->getUsers())
    if (needs.contains(user)) {
      place(user);
      placeUsers(user);
    }
}

void LoopBody::leaveInFlight(size_t limit) {
  SmallVector<DotWaitOp> waits;
  for (Operation *op : placed)
    if (auto dot = dyn_cast<DotStartOp>(op))
      for (Operation *user : dot.getD().getUsers())
        if (auto wait = dyn_cast<DotWaitOp>(user);
            wait && !placed.contains(wait))
          waits.push_back(wait);
  for (size_t i = 0; i + limit <= waits.size(); ++i) {
    place(waits[i]);
    if (atOnce.contains(waits[i].getSource().getDefiningOp()))
      for (Operation *user : waits[i]->getUsers())
        if (isa<AccumulateOp>(user))
          place(user);
  }
}

void LoopBody::placeRest() {
  for (Operation &op : block.without_terminator())
    if (!isa<RingReleaseOp>(op) && (!isa<DotWaitOp>(op) || isRead(&op)))
      place(&op);
  leaveInFlight(1);
  for (Operation &op : block.without_terminator())
    place(&op);
}

LoopStages LoopBody::stages() const {
  LoopStages order;
  for (Operation *op : placed)
    order.push_back({op, behind.contains(op)});
  return order;
}

bool LoopBody::isRead(Operation *op) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return needs.contains(block.findAncestorOpInBlock(*user));
  });
}

/// Matmuls complete in the order of their starts: with one, all before it.
void LoopBody::placeOlderWaits(DotWaitOp wait) {
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

bool LoopBody::ready(Operation *op) {
  return needs.contains(op) && !placed.contains(op) &&
         llvm::all_of(needs[op],
                      [&](Operation *first) { return placed.contains(first); });
}

/// But for numbers, which are computed where they are asked for.
bool LoopBody::nearlyReady(Operation *op) {
  return llvm::all_of(needs[op], [&](Operation *first) {
    return placed.contains(first) || (isEveryones(first) && nearlyReady(first));
  });
}

/// Whether a tile is written and not yet committed. One lane commits it for its
/// warp; no lane says anything else for all in between.
bool LoopBody::amidWrites() {
  return llvm::any_of(placed, [&](Operation *op) {
    auto store = dyn_cast<LocalStoreOp>(op);
    auto acquire =
        store ? store.getSlot().getDefiningOp<RingAcquireOp>() : nullptr;
    return acquire &&
           llvm::any_of(acquire.getRing().getUsers(), [&](Operation *user) {
             return isa<RingCommitOp>(user) && needs.contains(user) &&
                    !placed.contains(user) &&
                    user->getOperand(1) == acquire.getUse();
           });
  });
}

/// Slots are given back as soon as they can be, and other blocks get as soon
/// what they wait for.
void LoopBody::append(Operation *op) {
  placed.insert(op);
  for (auto &[other, before] : needs)
    if (isa<RingReleaseOp, PeerCopyOp>(other) && !placed.contains(other) &&
        nearlyReady(other) && !(isa<RingReleaseOp>(other) && amidWrites())) {
      for (Operation *number : before)
        place(number);
      placed.insert(other);
    }
}
