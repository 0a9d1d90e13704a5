//===- FlowTurns.cpp - warpgroups that take turns -------------------------===//
//
// Warpgroups pass turns around: turn t of one begins when the one before it has
// passed its own turn t. A warpgroup that waits for a slot of a ring in its
// turn holds up the others, so the slot must not wait for what one of them
// releases only in a turn that comes later. Uses and turns are counted from the
// tile's first.
//
//===----------------------------------------------------------------------===//

#include "fa2/Analysis/Flow.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

void Flow::beginTurns(scf::ForOp op, const Linear &number,
                      const Linear &iterations) {
  turn = number;
  turns = turns + iterations;
  turnLoop = op;
  // Only loops in a row add up.
  if (op->getParentOp() != tiles)
    expectEqualTurns();
}

void Flow::expectEqualTurns() {
  auto ofGroup = [](Value v) {
    return isa_and_nonnull<WarpgroupOp>(v.getDefiningOp());
  };
  if (symbols.involves(turns, ofGroup))
    fail(turnLoop, "expected as many iterations in every warpgroup because "
                   "they take turns");
  turns = Linear();
}

void Flow::waitTurn(TurnWaitOp op) {
  bool &flag = op.getFirst() ? now.given : now.turn;
  if (flag != op.getFirst() || !now.given)
    fail(op, op.getFirst() ? "expected a first turn to take back"
             : now.given   ? "expected fa2gpu.turn_pass since the last turn"
                           : "expected the last warpgroup to give the "
                             "first turn before");
  flag = !op.getFirst();
  if (op.getFirst() || quiet > 0)
    return;
  for (auto &[ring, next] : now.next[0]) {
    // Uses are released in order, but for those that are held.
    Linear released = next;
    for (const Held &h : now.held)
      if (h.ring == ring && !h.toWrite && h.n) {
        Linear d = *h.n - released;
        if (d.isConstant() && d.constant < 0)
          released = *h.n;
      }
    Linear ahead = released - cursors[0][ring].here - turn;
    auto it = windows.insert({ring, {INT64_MAX, INT64_MIN, nullptr}}).first;
    int64_t least = ahead.isConstant() ? ahead.constant : INT64_MIN;
    it->second.released = std::min(it->second.released, least);
  }
}

void Flow::passTurn(TurnPassOp op) {
  bool &flag = op.getFirst() ? now.given : now.turn;
  if (flag == op.getFirst())
    fail(op, op.getFirst()
                 ? "expected one first turn"
                 : "expected fa2gpu.turn_wait before this turn is passed");
  flag = op.getFirst();
  if (op.getFirst() || quiet > 0)
    return;
  for (auto &[ring, next] : now.next[0]) {
    Linear ahead = next - cursors[0][ring].here - turn;
    auto it = windows.insert({ring, {INT64_MAX, INT64_MIN, nullptr}}).first;
    int64_t most = ahead.isConstant() ? ahead.constant : INT64_MAX;
    if (most >= it->second.waited) {
      it->second.waited = most;
      it->second.at = op;
    }
  }
}

void Flow::expectFreeSlots() {
  for (auto &[ring, window] : windows) {
    auto type = cast<RingType>(ring.getType());
    // Parts are each warpgroup's own.
    if (type.getParts() > 1 || !window.at)
      continue;
    bool known = window.released != INT64_MIN && window.waited != INT64_MAX;
    // Use t + waited - 1 takes the slot of use t + waited - 1 - slots.
    if (known && window.waited - window.released <= type.getSlots())
      continue;
    fail(window.at,
         "expected " +
             (known ? "at least " + Twine(window.waited - window.released)
                    : Twine("more")) +
             " slots of ring '" + nameOf(ring) + "', got " +
             Twine(type.getSlots()) +
             ": before this turn is passed a slot is waited for that another "
             "warpgroup releases in a later turn");
  }
  windows.clear();
}
