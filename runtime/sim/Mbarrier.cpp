//===- Mbarrier.cpp - mbarrier objects (PTX ISA 9.7.13.15) ----------------===//
//
// Rule 3. A phase ends when its pending arrivals and its transaction bytes
// are both zero; the bytes may be negative before that.
//
//===----------------------------------------------------------------------===//

#include "Mbarrier.h"

#include "Access.h"
#include "Lanes.h"

namespace fa2::sim {

void finishPhase(Mbarrier &m) {
  if (m.pending != 0 || m.bytes != 0)
    return;
  Block &block = *m.block;
  Machine &machine = *block.machine;
  if (machine.checks()) {
    m.completed.join(m.current);
    m.current.clear();
    // Completed async operations count in A too (rule 5).
    u32 agent = block.agents.mbarrier(m.index);
    m.completed.g.own[agent] = m.completed.a.own[agent] = m.phase;
  }
  ++m.phase;
  m.pending = m.expected;
  if (machine.checks())
    for (Warp &w : block.warps)
      if (w.mbarrierWait == m.index + 1 && m.phase >= w.waitPhase + 2)
        machine.report(Severity::Error, 3, &w, w.mbarrierInst, -1, "mbarrier",
                       m.address,
                       "the waiter is lapped: two phases ended while it "
                       "waits for one");
  machine.wakeMbarrier(block, m.index);
}

void completeBytes(Mbarrier &m, u32 bytes) {
  m.bytes -= bytes;
  finishPhase(m);
}

Mbarrier &liveMbarrierOf(Warp &w, const Inst &inst, int lane, Block &block,
                         u64 address) {
  boundShared(w, inst, lane, address, 8, &block);
  Mbarrier *m = block.mbarrierAt(u32(address));
  if (!m)
    w.machine->fatal(3, w, inst, lane, "mbarrier", address,
                     &block == w.block
                         ? "no initialised mbarrier is at this address"
                         : "no initialised mbarrier is at this address of the "
                           "cluster's block " +
                               std::to_string(block.rank));
  if (w.machine->checks() && m->initAgent != w.agent &&
      w.clocks.g.own[m->initAgent] < m->initEpoch &&
      (w.inits.empty() || w.inits[m->initAgent] < m->initEpoch))
    w.machine->error(3, w, inst, lane, "mbarrier", address,
                     "use is unordered with the mbarrier.init by " +
                         w.block->agents.describe(m->initAgent));
  return *m;
}

Mbarrier &liveMbarrier(Warp &w, const Inst &inst, int lane, u64 address,
                       Space space) {
  address = withoutWindow(address);
  Block *block = w.block;
  if (space == Space::Cluster)
    block = &ownerOf(w, inst, lane, address);
  else
    address = ownOffset(w, inst, lane, address);
  return liveMbarrierOf(w, inst, lane, *block, address);
}

namespace {

u64 addressOf(Warp &w, const Inst &inst, const Operand &op, unsigned lane) {
  return w.laneValue(op, lane) + u64(inst.offset);
}

// Operands: address, count.
Flow init(Warp &w, const Inst &inst, u32 mask) {
  Block &block = *w.block;
  Machine &m = *w.machine;
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 address = withoutWindow(addressOf(w, inst, inst.ops[0], l));
    address = ownOffset(w, inst, int(l), address);
    boundShared(w, inst, int(l), address, 8);
    u32 count = w.lanes32(inst.ops[1], l);
    if (address % 8)
      m.fatal(3, w, inst, int(l), "mbarrier", address,
              "an mbarrier's address is a multiple of 8");
    if (count == 0 || count >= 1u << 20)
      m.fatal(3, w, inst, int(l), "mbarrier", address,
              "arrival count " + std::to_string(count) +
                  " is not 1 to 2^20 - 1");
    if (m.checks() && block.mbarrierAt(u32(address)))
      m.error(3, w, inst, int(l), "mbarrier", address,
              "the mbarrier is initialised twice");
    // The words were someone's data before.
    u32 at = u32(address);
    AccessKind kind;
    kind.write = true;
    u32 addresses[kWarpSize];
    addresses[l] = at;
    for (Mbarrier &old : block.mbarriers)
      if (old.address == at)
        old.live = false;
    checkShared(w, inst, 1u << l, addresses, 8, kind);
    if (block.mbarriers.size() == kMaxMbarriers)
      m.fatal(3, w, inst, int(l), "mbarrier", address,
              "more than " + std::to_string(kMaxMbarriers) +
                  " mbarriers in a block are not simulated");
    Mbarrier fresh;
    fresh.block = &block;
    fresh.address = at;
    fresh.index = u32(block.mbarriers.size());
    fresh.live = true;
    fresh.expected = fresh.pending = count;
    fresh.initAgent = w.agent;
    fresh.initEpoch = w.epoch;
    fresh.current.resize(block.agents.count());
    fresh.completed.resize(block.agents.count());
    block.mbarriers.push_back(std::move(fresh));
    block.mbarriersFrom = std::min(block.mbarriersFrom, at);
    block.mbarriersEnd = std::max(block.mbarriersEnd, at + 8);
  }
  return Flow::Next;
}

Flow invalidate(Warp &w, const Inst &inst, u32 mask) {
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    liveMbarrier(w, inst, int(l), addressOf(w, inst, inst.ops[0], l)).live =
        false;
  }
  return Flow::Next;
}

// At cta scope an arrival releases nothing to another block but that what was
// read has been read. (Of stores to that block the copy is known to be late.)
void arriveAtOther(Warp &w, const Inst &inst, int lane, Mbarrier &m) {
  Machine &machine = *w.machine;
  if (inst.c && !inst.ops[0].sink)
    machine.fatal(3, w, inst, lane, "mbarrier", m.address,
                  "an arrival at another block's mbarrier has no state; its "
                  "destination is _");
  noteVisit(*m.block, inst, w.agent, w.epoch);
  if (!machine.checks() || !inst.b)
    return;
  if (inst.hasCluster)
    w.storedToOthers = false;
  else if (w.storedToOthers)
    machine.error(3, w, inst, lane, "mbarrier", m.address,
                  "arrival at cta scope at another block's mbarrier, after "
                  "stores to another block's shared memory; .release.cluster "
                  "is missing");
}

// Operands: [state], address, [count or bytes]. Inst: a = 1 with expect_tx,
// b = arrives, c = has a state.
Flow arrive(Warp &w, const Inst &inst, u32 mask) {
  Machine &machine = *w.machine;
  unsigned first = inst.c ? 1 : 0;
  if (inst.b)
    checkRelease(w, inst, mask, false);
  for (u32 rest = mask; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    Mbarrier &m = liveMbarrier(
        w, inst, int(l), addressOf(w, inst, inst.ops[first], l), inst.space);
    if (m.block != w.block)
      arriveAtOther(w, inst, int(l), m);
    u32 value =
        inst.numOps > first + 1 ? u32(w.laneValue(inst.ops[first + 1], l)) : 1;
    if (inst.c && !inst.ops[0].sink)
      putLane<u64>(w.words(inst.ops[0]), l, m.phase);
    if (inst.a) {
      if (value >= 1u << 20)
        machine.fatal(3, w, inst, int(l), "mbarrier", m.address,
                      "expect_tx of " + std::to_string(value) +
                          " bytes; the limit is 2^20 - 1");
      m.bytes += value;
      m.lastExpect = &inst;
    }
    if (!inst.b)
      continue;
    u32 count = inst.a ? 1 : value;
    if (count > m.pending) {
      machine.error(3, w, inst, int(l), "mbarrier", m.address,
                    "excess arrival: the phase expects " +
                        std::to_string(m.expected) + " and " +
                        std::to_string(m.pending) + " are pending");
      count = m.pending;
    }
    if (machine.checks())
      m.current.join(w.clocks);
    m.pending -= count;
    finishPhase(m);
  }
  if (machine.checks() && inst.b)
    advanceEpoch(w);
  ++w.work;
  return Flow::Next;
}

// Operands: p, address, parity or state, [hint]. Inst: a = by parity,
// b = try_wait. The wait blocks until the phase ends, as try_wait may; a
// test_wait that fails twice at one place does too (rule 10).
Flow wait(Warp &w, const Inst &inst, u32 mask) {
  Machine &machine = *w.machine;
  u32 done = 0;
  Mbarrier *first = nullptr;
  bool sameBarrier = true;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    Mbarrier &m =
        liveMbarrier(w, inst, int(l), addressOf(w, inst, inst.ops[1], l));
    sameBarrier &= !first || first == &m;
    first = &m;
    u64 value = w.laneValue(inst.ops[2], l);
    bool ended;
    if (inst.a) {
      if (value > 1)
        machine.error(3, w, inst, int(l), "mbarrier", m.address,
                      "parity " + std::to_string(value) + " is not 0 or 1");
      ended = ((m.phase - 1) & 1) != (value & 1);
    } else {
      ended = m.phase != value;
    }
    if (ended) {
      done |= 1u << l;
      if (machine.checks())
        w.clocks.join(m.completed);
    }
  }
  // A lane of this warp that arrived is ordered before all lanes that waited
  // (rule 7).
  if (machine.checks() && done == w.lanes && sameBarrier)
    w.syncEpoch = std::max(w.syncEpoch, first->completed.g.own[w.agent] + 1);
  u32 &p = w.predicates[inst.ops[0].slot];
  if (done == 0) {
    bool again = inst.b || w.pollPc == w.pc();
    if (w.mbarrierWait != first->index + 1) {
      w.mbarrierWait = first->index + 1;
      w.mbarrierInst = &inst;
      w.waitPhase = first->phase;
    }
    if (again) {
      machine.park(w, Wait::Mbarrier, first->index, inst);
      return Flow::Stay;
    }
    w.pollPc = w.pc();
  } else {
    w.mbarrierWait = 0;
    w.pollPc = kNone;
  }
  p = (p & ~mask) | done;
  return Flow::Next;
}

} // namespace

bool decodeMbarrier(Decoder &d) {
  Inst &inst = d.inst;
  int kind = d.eatAny(
      {"init", "inval", "arrive", "expect_tx", "try_wait", "test_wait"});
  if (kind < 0)
    return false;
  bool expects = kind == 3 || (kind == 2 && d.eat("expect_tx"));
  bool parity = kind >= 4 && d.eat("parity");
  // Orders and scopes: the defaults, release and acquire at cta scope.
  if (kind == 3)
    d.eat("relaxed");
  else if (kind == 2)
    d.eat("release");
  else if (kind >= 4)
    d.eat("acquire");
  if (kind >= 2 && d.eatAny({"cta", "cluster"}) == 1)
    inst.hasCluster = true;
  int space = d.eatAny({"shared", "shared::cta", "shared::cluster"});
  inst.space = Space::Shared;
  if (kind == 2 || kind == 3) {
    if (space < 0 || space == 2)
      inst.space = Space::Cluster;
  } else if (space == 2) {
    d.fail("only an arrival or expect_tx takes another block's mbarrier");
  }
  d.need("b64");
  Category c = Category::Synchronize;
  inst.sync = true;
  switch (kind) {
  case 0:
    d.operands(2);
    d.address(0);
    d.src(1, Type::U32);
    d.emit(init, c);
    return true;
  case 1:
    d.operands(1);
    d.address(0);
    d.emit(invalidate, c);
    return true;
  case 2:
  case 3: {
    size_t first = kind == 2 ? 1 : 0;
    d.operands(expects ? first + 2 : first + 1, first + 2);
    inst.a = expects;
    inst.b = kind == 2;
    inst.c = kind == 2;
    if (kind == 2)
      d.dst(0, Type::B64);
    d.address(first);
    if (d.raw.operands.size() == first + 2)
      d.src(first + 1, Type::U32);
    d.emit(arrive, c);
    return true;
  }
  default:
    d.operands(3, kind == 4 ? 4 : 3);
    inst.a = parity;
    inst.b = kind == 4;
    d.dst(0, Type::Pred);
    d.address(1);
    d.src(2, parity ? Type::U32 : Type::B64);
    if (d.raw.operands.size() == 4)
      d.src(3, Type::U32);
    d.emit(wait, c);
    return true;
  }
}

} // namespace fa2::sim
