//===- Order.cpp - Release, acquire and polling (rules 7, 8, 10) ----------===//

#include "Order.h"

namespace fa2::sim {

void advanceEpoch(Warp &w) { w.clocks.g.own[w.agent] = ++w.epoch; }

void warpSynchronized(Warp &w, u32 mask) {
  w.unsyncedWrites &= ~mask;
  w.unsyncedGlobal &= ~mask;
  w.unsyncedReads &= ~mask;
  if ((mask & w.lanes) == w.lanes) {
    advanceEpoch(w);
    w.syncEpoch = w.epoch;
    w.copySynced = w.copyWaited;
  }
}

void checkRelease(Warp &w, const Inst &inst, u32 mask, bool global) {
  if (!w.machine->checks())
    return;
  u32 written = w.unsyncedWrites | (global ? w.unsyncedGlobal : 0);
  if (u32 others = written & ~mask)
    w.machine->error(7, w, inst, std::countr_zero(others), "memory", 0,
                     "release by other lanes than those that wrote; "
                     "bar.warp.sync is missing");
  else if (u32 readers = w.unsyncedReads & ~mask)
    w.machine->report(Severity::Warning, 7, &w, &inst,
                      std::countr_zero(readers), "memory", 0,
                      "release by other lanes than those that read; "
                      "bar.warp.sync is missing");
}

// The clock as other clusters see it: own counts become foreign ones.
static void exportTo(const Clock &from, u64 block, Clock &to) {
  auto own = std::make_shared<Foreign>();
  for (size_t agent = 0; agent < from.own.size(); ++agent)
    if (from.own[agent])
      own->push_back({globalAgent(block, u32(agent)), from.own[agent]});
  to.joinForeign(own);
  to.joinForeign(from.foreign);
  to.watermark = std::max(to.watermark, from.watermark);
}

static void importFrom(const Clock &from, u64 block, Clock &to) {
  if (from.foreign)
    for (const auto &[agent, count] : *from.foreign)
      if (agent >> 12 == block)
        to.own[agent & 0xfff] = std::max(to.own[agent & 0xfff], count);
  to.joinForeign(from.foreign);
  to.watermark = std::max(to.watermark, from.watermark);
}

void publish(Warp &w, const Inst &inst, const u64 *addresses, u32 mask,
             bool rmw) {
  if (!w.machine->checks())
    return;
  bool release = inst.sem == Sem::Release || inst.sem == Sem::AcqRel;
  auto &releases = w.machine->global.releases;
  for (; mask; mask &= mask - 1) {
    u64 word = addresses[std::countr_zero(mask)] & ~u64(3);
    auto it = releases.find(word);
    bool continues = rmw && it != releases.end();
    if (!release && !w.hasFence) {
      if (!rmw && it != releases.end())
        releases.erase(it);
      continue;
    }
    auto clock = continues ? std::make_shared<Clock>(*it->second)
                           : std::make_shared<Clock>();
    exportTo(release ? w.clocks.g : w.fenced, w.block->cluster->sequence,
             *clock);
    releases[word] = clock;
  }
}

void observe(Warp &w, const Inst &inst, const u64 *addresses, u32 mask) {
  if (!w.machine->checks())
    return;
  auto &releases = w.machine->global.releases;
  for (; mask; mask &= mask - 1) {
    u64 word = addresses[std::countr_zero(mask)] & ~u64(3);
    auto it = releases.find(word);
    if (it == releases.end())
      continue;
    if (inst.sem == Sem::Acquire || inst.sem == Sem::AcqRel) {
      importFrom(*it->second, w.block->cluster->sequence, w.clocks.g);
    } else {
      if (w.observed.own.empty())
        w.observed.resize(w.block->agents.count());
      importFrom(*it->second, w.block->cluster->sequence, w.observed);
      w.hasObserved = true;
    }
  }
}

void fenceOrder(Warp &w) {
  if (!w.machine->checks())
    return;
  if (w.hasObserved) {
    w.clocks.g.join(w.observed);
    w.observed.clear();
    w.hasObserved = false;
  }
  w.fenced = w.clocks.g;
  w.hasFence = true;
  advanceEpoch(w);
}

bool pollsAgain(Warp &w, const Inst &inst, const u64 *addresses, u32 mask,
                u32 bytes) {
  u64 value = 0, index = 0;
  u64 address = addresses[std::countr_zero(mask)];
  if (bytes > 8 || !w.machine->global.find(address, bytes, false, index))
    return false;
  std::memcpy(&value, reinterpret_cast<const void *>(address), bytes);
  bool again = w.pollPc == w.pc() && w.pollAddress == address &&
               w.pollValue == value && w.pollWork == w.work;
  if (!again) {
    w.pollPc = w.pc();
    w.pollAddress = address;
    w.pollValue = value;
    w.pollWork = w.work;
    return false;
  }
  w.machine->park(w, Wait::Global, address, inst);
  w.pollPc = kNone; // once woken, the load runs
  return true;
}

} // namespace fa2::sim
