//===- Barrier.cpp - bar, barrier (PTX ISA 9.7.13.1 to 9.7.13.4) ----------===//
//
// Rule 2. A barrier counts whole warps: every arriving warp adds 32 threads.
// That of a cluster counts the warps that have not exited.
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace fa2::sim {

void finishClusterPhase(Machine &m, Cluster &cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.warps)
    return;
  if (m.checks()) {
    cluster.completed.join(cluster.current);
    cluster.inits = cluster.currentInits;
  }
  cluster.arrived = 0;
  ++cluster.phase;
  for (Block *block : cluster.blocks)
    if (block)
      for (Warp &warp : block->warps)
        if (warp.wait == Wait::Cluster)
          m.wake(warp);
}

namespace {

enum Kind : s32 { Sync, Arrive, RedPopc, RedAnd, RedOr };

void complete(Block &block, NamedBarrier &barrier) {
  Machine &m = *block.machine;
  for (u32 id : barrier.waiters) {
    Warp &warp = block.warps[id];
    if (m.checks()) {
      warp.clocks.join(barrier.clocks);
      warpSynchronized(warp, kFullMask);
    }
    // The instruction runs once more and passes.
    warp.released = true;
    if (warp.wait == Wait::Barrier)
      m.wake(warp);
  }
}

// Operands: id, [count], for red: d, id, [count], p.
Flow bar(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  Block &block = *w.block;
  unsigned first = inst.a >= RedPopc ? 1 : 0;
  u32 lane = u32(std::countr_zero(mask));
  u64 id = w.laneValue(inst.ops[first], lane);
  if (id >= block.barriers.size())
    m.fatal(2, w, inst, -1, "barrier", id, "barrier number is above 15");
  NamedBarrier &barrier = block.barriers[id];
  if (w.released) {
    w.released = false;
    if (inst.a == RedPopc)
      forLanes(mask,
               [&](unsigned l) { w.words(inst.ops[0])[l] = u32(w.waitPhase); });
    else if (inst.a >= RedAnd) {
      u32 &d = w.predicates[inst.ops[0].slot];
      d = w.waitPhase ? d | mask : d & ~mask;
    }
    return Flow::Next;
  }
  auto error = [&](const std::string &text) {
    m.report(Severity::Error, 2, &w, &inst, -1, "barrier", id, text,
             barrier.first);
  };
  u32 all = u32(block.warps.size()) * kWarpSize;
  u32 expected = all;
  if (inst.b)
    expected = u32(w.laneValue(inst.ops[first + 1], lane));
  if (m.checks()) {
    if (mask != w.lanes)
      error("barrier by a partial warp: lanes " + std::to_string(mask) +
            " of " + std::to_string(w.lanes));
    for (u32 rest = mask; rest; rest &= rest - 1) {
      u32 l = u32(std::countr_zero(rest));
      if (w.laneValue(inst.ops[first], l) != id ||
          (inst.b && u32(w.laneValue(inst.ops[first + 1], l)) != expected)) {
        error("lanes of one warp name different barriers or counts");
        break;
      }
    }
  }
  if (expected == 0 || expected % kWarpSize || expected > all) {
    m.fatal(2, w, inst, -1, "barrier", id,
            "thread count " + std::to_string(expected) +
                " is not a multiple of 32 up to the block's " +
                std::to_string(all));
  }
  if (barrier.expected == 0) {
    barrier.expected = expected;
    barrier.first = &inst;
    barrier.reduceAnd = 1;
    barrier.reduceOr = barrier.reduceCount = 0;
    barrier.clocks.resize(block.agents.count());
  } else if (barrier.expected != expected && m.checks()) {
    error("thread count " + std::to_string(expected) + " differs from the " +
          std::to_string(barrier.expected) + " of other warps");
  }
  if (m.checks() && block.warps.size() <= 32 &&
      (barrier.arrivedWarps >> w.id & 1))
    error("the warp arrives twice at one generation of the barrier");
  barrier.arrivedWarps |= 1u << (w.id & 31);
  if (m.checks()) {
    if (inst.a == Arrive) {
      checkRelease(w, inst, mask, false);
    } else {
      w.unsyncedReads = w.unsyncedWrites = w.unsyncedGlobal = 0;
    }
    barrier.clocks.join(w.clocks);
    advanceEpoch(w);
    if (inst.a == Arrive && mask == w.lanes)
      w.unsyncedReads = w.unsyncedWrites = w.unsyncedGlobal = 0;
  }
  ++w.work;
  barrier.arrived += kWarpSize;
  if (inst.a >= RedPopc) {
    u32 p = w.predicate(inst.ops[inst.numOps - 1]) & mask;
    barrier.reduceCount += std::popcount(p);
    barrier.reduceAnd &= p == mask;
    barrier.reduceOr |= p != 0;
  }
  if (inst.a != Arrive)
    barrier.waiters.push_back(w.id);
  bool full = barrier.arrived >= barrier.expected;
  if (full) {
    if (barrier.arrived > barrier.expected && m.checks())
      error("more arrivals than the barrier's " +
            std::to_string(barrier.expected) + " threads");
    NamedBarrier done;
    std::swap(done, barrier);
    u64 value = inst.a == RedPopc  ? u64(done.reduceCount)
                : inst.a == RedAnd ? u64(done.reduceAnd)
                                   : u64(done.reduceOr);
    for (u32 waiter : done.waiters)
      block.warps[waiter].waitPhase = value;
    complete(block, done);
  }
  if (inst.a == Arrive)
    return Flow::Next;
  if (full) {
    // The last to arrive was among those released.
    return bar(w, inst, mask);
  }
  m.park(w, Wait::Barrier, id, inst);
  return Flow::Stay;
}

// barrier.cluster (9.7.13.4): each warp arrives, then waits. Inst: a =
// .relaxed, which publishes what fences have made releasable and no more.
Flow clusterArrive(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  Cluster &cluster = *w.block->cluster;
  if (mask != w.lanes)
    m.fatal(2, w, inst, std::countr_zero(w.lanes & ~mask), "cluster", 0,
            "barrier.cluster by a partial warp is not simulated");
  if (w.arrivedAtCluster)
    m.fatal(2, w, inst, -1, "cluster", 0,
            "the warp arrives twice at the cluster's barrier without a "
            "barrier.cluster.wait between");
  if (m.checks()) {
    if (cluster.completed.g.own.empty()) {
      u32 agents = w.block->agents.count();
      cluster.completed.resize(agents);
      cluster.current.resize(agents);
      cluster.currentInits.resize(agents);
    }
    if (!inst.a) {
      w.unsyncedReads = w.unsyncedWrites = w.unsyncedGlobal = 0;
      cluster.current.join(w.clocks);
      w.storedToOthers = false;
    } else if (w.hasFence) {
      cluster.current.g.join(w.fenced);
    }
    u32 &init = cluster.currentInits[w.agent];
    init = std::max(init, w.initFence);
    advanceEpoch(w);
  }
  ++w.work;
  w.arrivedAtCluster = true;
  w.clusterPhase = cluster.phase;
  ++cluster.arrived;
  finishClusterPhase(m, cluster);
  return Flow::Next;
}

Flow clusterWait(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  Cluster &cluster = *w.block->cluster;
  if (mask != w.lanes)
    m.fatal(2, w, inst, std::countr_zero(w.lanes & ~mask), "cluster", 0,
            "barrier.cluster by a partial warp is not simulated");
  if (!w.arrivedAtCluster)
    m.fatal(2, w, inst, -1, "cluster", 0,
            "the warp waits at the cluster's barrier and has not arrived");
  if (w.clusterPhase == cluster.phase) {
    m.park(w, Wait::Cluster, 0, inst);
    return Flow::Stay;
  }
  w.arrivedAtCluster = false;
  w.metCluster = true;
  if (m.checks()) {
    w.clocks.join(cluster.completed);
    w.inits = cluster.inits;
    warpSynchronized(w, kFullMask);
  }
  return Flow::Next;
}

bool decodeClusterBarrier(Decoder &d) {
  Inst &inst = d.inst;
  if (d.builder.program.capability < 90)
    d.fail("barrier.cluster needs sm_90");
  int kind = d.eatAny({"arrive", "wait"});
  if (kind < 0)
    return false;
  if (kind == 0) {
    inst.a = d.eat("relaxed");
    if (!inst.a)
      d.eat("release");
  } else {
    d.eat("acquire");
  }
  d.eat("aligned");
  d.operands(0);
  inst.sync = true;
  d.emit(kind == 0 ? clusterArrive : clusterWait, Category::Synchronize);
  return true;
}

// bar.warp.sync membermask (9.7.13.3)
Flow warpSync(Warp &w, const Inst &inst, u32 mask) {
  u32 members = u32(w.laneValue(inst.ops[0], u32(std::countr_zero(mask))));
  if ((members & w.lanes) & ~mask)
    w.machine->fatal(7, w, inst, std::countr_zero((members & w.lanes) & ~mask),
                     "warp", 0,
                     "bar.warp.sync waits for lanes that are elsewhere in a "
                     "divergent branch; this is not simulated");
  if (w.machine->checks()) {
    if (mask & ~members)
      w.machine->error(7, w, inst, std::countr_zero(mask & ~members), "warp", 0,
                       "a lane executes bar.warp.sync but is not in its "
                       "member mask");
    warpSynchronized(w, mask & members);
  }
  return Flow::Next;
}

} // namespace

bool decodeBarrier(Decoder &d) {
  Inst &inst = d.inst;
  bool isBar = d.root == "bar";
  if (!isBar && d.eat("cluster"))
    return decodeClusterBarrier(d);
  d.eat("cta");
  if (isBar && d.eat("warp")) {
    d.need("sync");
    d.operands(1);
    d.src(0, Type::B32);
    d.emit(warpSync, Category::Synchronize);
    return true;
  }
  int kind = d.eatAny({"sync", "arrive", "red"});
  if (kind < 0)
    return false;
  d.eat("aligned");
  bool red = kind == 2;
  if (red) {
    int op = d.eatAny({"popc", "and", "or"});
    if (op < 0)
      return false;
    kind = RedPopc + op;
    d.need(op == 0 ? "u32" : "pred");
    d.operands(3, 4);
    d.dst(0, op == 0 ? Type::U32 : Type::Pred);
    inst.b = d.raw.operands.size() == 4;
    d.src(1, Type::U32);
    if (inst.b)
      d.src(2, Type::U32);
    d.src(inst.b ? 3 : 2, Type::Pred);
  } else {
    d.operands(kind == Arrive ? 2 : 1, 2);
    inst.b = d.raw.operands.size() == 2;
    d.src(0, Type::U32);
    if (inst.b)
      d.src(1, Type::U32);
  }
  inst.a = kind;
  inst.sync = true;
  d.emit(bar, Category::Synchronize);
  return true;
}

} // namespace fa2::sim
