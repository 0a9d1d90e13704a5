//===- FlowTurns.cpp - warpgroups that take turns -------------------------===//
//
// Warpgroups pass turns around: turn t of one begins when the one before it has
// passed its own turn t. A warpgroup that waits for a slot of a ring in its
// turn holds up the others, so the slot must not wait for what one of them
// releases only in a turn that comes later. Uses and turns are counted from the
// first of a round: of the tile, or of an iteration of a loop around loops
// whose iterations are turns.
//
//===----------------------------------------------------------------------===//

#include "fa2/Analysis/Flow.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

bool Flow::isRound(scf::ForOp op) {
  WalkResult found = op.getBody()->walk([](scf::ForOp inner) {
    return inner.getBody()->getOps<TurnWaitOp>().empty()
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return found.wasInterrupted();
}

void Flow::beginRound(scf::ForOp op) {
  Round &round = rounds.emplace_back();
  round.loop = op;
  for (auto &[ring, next] : now.next[0])
    round.first[ring] = next;
}

void Flow::endRound() {
  expectEqualTurns();
  expectFreeSlots();
  rounds.pop_back();
}

void Flow::beginTurns(scf::ForOp op, const Linear &number,
                      const Linear &iterations) {
  Round &round = rounds.back();
  round.turn = number;
  round.turns = round.turns + iterations;
  round.turnLoop = op;
  // Only loops in a row add up.
  if (op->getParentOp() != (round.loop ? round.loop : tiles))
    expectEqualTurns();
}

void Flow::expectEqualTurns() {
  auto ofGroup = [](Value v) {
    return isa_and_nonnull<WarpgroupOp>(v.getDefiningOp());
  };
  Round &round = rounds.back();
  if (symbols.involves(round.turns, ofGroup))
    fail(round.turnLoop, "expected as many iterations in every warpgroup "
                         "because they take turns");
  round.turns = Linear();
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
  Round &round = rounds.back();
  // Between the loops of a round.
  if (op->getParentOp() == round.loop)
    round.turn = round.turns;
  for (auto &[ring, next] : now.next[0]) {
    // Uses are released in order, but for those that are held.
    Linear released = next;
    for (const Held &h : now.held)
      if (h.ring == ring && !h.toWrite && h.n) {
        Linear d = *h.n - released;
        if (d.isConstant() && d.constant < 0)
          released = *h.n;
      }
    Linear ahead = released - firstUse(ring) - round.turn;
    auto it =
        round.windows.insert({ring, {INT64_MAX, INT64_MIN, nullptr}}).first;
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
  Round &round = rounds.back();
  for (auto &[ring, next] : now.next[0]) {
    // With a slot for each of the round's uses, it waits for earlier rounds
    // alone, all of whose turns have been passed.
    Linear uses = next - firstUse(ring);
    if (uses.isConstant() &&
        uses.constant <= cast<RingType>(ring.getType()).getSlots())
      continue;
    Linear ahead = uses - round.turn;
    auto it =
        round.windows.insert({ring, {INT64_MAX, INT64_MIN, nullptr}}).first;
    int64_t most = ahead.isConstant() ? ahead.constant : INT64_MAX;
    if (most >= it->second.waited) {
      it->second.waited = most;
      it->second.at = op;
    }
  }
  if (op->getParentOp() == round.loop)
    round.turns = round.turns + Linear(1);
}

void Flow::addInTurn(AccumulateOp op) {
  if (!op.getTurn())
    return;
  if (op.getBegins() == now.adding)
    fail(op, now.adding ? "expected the turn before to end first"
                        : "expected an addition that begins the turn before");
  now.adding = !op.getEnds();
  if (op.getBegins() && now.owes)
    fail(op, "expected fa2gpu.change_turn to pass on the turn before first");
  now.owes |= op.getLater();
  if (!op.getGiven())
    return;
  // Lanes add while it is their turn, and have added when they say so.
  reads(op, op.getGiven(), /*byLanes=*/true);
  writes(op, op.getTold(), /*generic=*/false); // it carries nothing
}

Linear Flow::firstUse(Value ring) {
  auto found = rounds.back().first.find(ring);
  return found == rounds.back().first.end() ? cursors[0][ring].here
                                            : found->second;
}

void Flow::expectFreeSlots() {
  for (auto &[ring, window] : rounds.back().windows) {
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
  rounds.back().windows.clear();
}
