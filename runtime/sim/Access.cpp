//===- Access.cpp - Checked accesses to memory ----------------------------===//

#include "Access.h"

namespace fa2::sim {

static std::string hex(u64 value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
  return text;
}

static const Inst *instAt(const Warp &warp, u32 index) {
  const auto &code = warp.block->kernel->code;
  return index < code.size() && index != 0xffff ? &code[index] : nullptr;
}
static u32 indexOf(const Warp &warp, const Inst &inst) {
  return u32(&inst - warp.block->kernel->code.data());
}

u64 ownOffset(Warp &warp, const Inst &inst, int lane, u64 address) {
  u64 rank = address >> kRankShift;
  const Block &block = *warp.block;
  if (rank == 0 || rank >= block.cluster->blocks.size())
    return address;
  if (rank != block.rank)
    warp.machine->fatal(13, warp, inst, lane, "shared", address,
                        "the address is in the shared memory of the cluster's "
                        "block " +
                            std::to_string(rank) + ", this is block " +
                            std::to_string(block.rank) +
                            ": the instruction takes its own block's only");
  return address & kOffsetMask;
}

Block &ownerOf(Warp &warp, const Inst &inst, int lane, u64 &address) {
  u64 rank = address >> kRankShift;
  Block &block = *warp.block;
  const auto &blocks = block.cluster->blocks;
  if (rank == block.rank) {
    address &= kOffsetMask;
    return block;
  }
  if (blocks.size() == 1 || rank >= kMaxCluster)
    return block; // out of bounds
  Machine &m = *warp.machine;
  if (rank >= blocks.size())
    m.fatal(13, warp, inst, lane, "shared", address,
            "the address is of the cluster's block " + std::to_string(rank) +
                "; the cluster has " + std::to_string(blocks.size()) +
                " blocks");
  Block *owner = blocks[size_t(rank)];
  std::string touches = "touches the shared memory of the cluster's block " +
                        std::to_string(rank) + ", which ";
  if (!owner)
    m.fatal(13, warp, inst, lane, "shared", address, touches + "has exited");
  if (m.checks() && !warp.metCluster) {
    bool started = false;
    for (const Warp &other : owner->warps)
      started |= warp.clocks.g.own[other.agent] != 0;
    if (!started)
      m.error(13, warp, inst, lane, "shared", address,
              touches + "may not have started; barrier.cluster is missing");
  }
  address &= kOffsetMask;
  return *owner;
}

void noteVisit(Block &block, const Inst &inst, u32 agent, u32 count,
               bool issued) {
  if (!block.machine->checks())
    return;
  for (Visit &visit : block.visits)
    if (visit.agent == agent && visit.issued == issued) {
      visit.count = std::max(visit.count, count);
      visit.inst = &inst;
      return;
    }
  block.visits.push_back({agent, count, &inst, issued});
}

void boundShared(Warp &warp, const Inst &inst, int lane, u64 address, u32 bytes,
                 const Block *owner) {
  const auto &shared = (owner ? owner : warp.block)->shared;
  if (address < kSharedBase || address + bytes > shared.size() ||
      address + bytes < address)
    warp.machine->fatal(11, warp, inst, lane, "shared", address,
                        std::to_string(bytes) + " bytes at " + hex(address) +
                            " are outside shared memory, which is [" +
                            hex(kSharedBase) + ", " + hex(shared.size()) + ")");
}

static void explain(Warp &warp, const Inst &inst, int lane,
                    const SharedConflict &c, bool write, const Block &owner) {
  Machine &m = *warp.machine;
  std::string what = write ? "write" : "read";
  if (&owner != warp.block)
    what += " of the shared memory of the cluster's block " +
            std::to_string(owner.rank);
  std::string other = warp.block->agents.describe(c.agent);
  std::string access = (c.wasWrite ? "a write by " : "a read by ") + other;
  Severity severity = Severity::Error;
  unsigned rule = 1;
  std::string text;
  switch (c.kind) {
  case SharedConflict::None:
    return;
  case SharedConflict::Unwritten:
    m.error(11, warp, inst, lane, "shared", c.address,
            &owner == warp.block ? "shared memory is read but was never written"
                                 : what + ", which was never written");
    return;
  case SharedConflict::Race:
    text = what + " is unordered with " + access;
    break;
  case SharedConflict::AsyncRace:
    rule = 4;
    text = what + " is unordered with " + access;
    break;
  case SharedConflict::Proxy:
    rule = 5;
    text = "async-proxy " + what + " after " + access +
           " without fence.proxy.async";
    break;
  case SharedConflict::ProxyRead:
    rule = 5;
    severity = Severity::Warning;
    text = "async-proxy " + what + " after " + access +
           " without fence.proxy.async";
    break;
  case SharedConflict::Lanes:
    rule = 7;
    severity = Severity::Warning;
    text = what + " after " + (c.wasWrite ? "a write" : "a read") +
           " by another lane of the warp without bar.warp.sync";
    break;
  }
  m.report(severity, rule, &warp, &inst, lane, "shared", c.address, text,
           instAt(warp, c.inst));
}

static void touchesMbarrier(Warp &warp, const Inst &inst, int lane, u32 address,
                            u32 bytes, const char *what, const Block &block) {
  if (address >= block.mbarriersEnd || address + bytes <= block.mbarriersFrom)
    return;
  for (const Mbarrier &m : block.mbarriers)
    if (m.live && address < m.address + 8 && m.address < address + bytes)
      warp.machine->error(3, warp, inst, lane, "mbarrier", m.address,
                          std::string(what) +
                              " touches the words of a live mbarrier");
}

void checkShared(Warp &warp, const Inst &inst, u32 mask, const u32 *addresses,
                 u32 bytes, AccessKind kind, Block *owner) {
  Machine &m = *warp.machine;
  Block &block = owner ? *owner : *warp.block;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    u32 address = addresses[lane];
    boundShared(warp, inst, lane, address, bytes, &block);
    if (address % bytes)
      m.fatal(11, warp, inst, lane, "shared", address,
              "address is not a multiple of the access's " +
                  std::to_string(bytes) + " bytes");
  }
  if (!m.checks())
    return;
  SharedBy by;
  by.agent = by.issuer = warp.agent;
  by.count = warp.epoch;
  by.clocks = &warp.clocks;
  by.syncEpoch = warp.syncEpoch;
  by.inst = indexOf(warp, inst);
  by.write = kind.write;
  by.atomic = kind.atomic;
  by.copiesSynced = warp.copySynced;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    by.lane = kind.collective ? 0xff : u8(lane);
    SharedConflict conflict;
    block.shadow.access(block.agents, by, addresses[lane], bytes, conflict);
    if (conflict.kind != SharedConflict::None)
      explain(warp, inst, lane, conflict, kind.write, block);
    touchesMbarrier(warp, inst, lane, addresses[lane], bytes,
                    kind.write ? "write" : "read", block);
  }
  if (&block != warp.block) {
    noteVisit(block, inst, warp.agent, warp.epoch);
    warp.storedToOthers |= kind.write;
  }
  (kind.write ? warp.unsyncedWrites : warp.unsyncedReads) |=
      kind.collective ? kFullMask : mask;
}

void checkSharedAs(Warp &warp, const Inst &inst, u32 agent, u32 count,
                   u32 address, u32 bytes, bool write, int lane, Block *owner) {
  Block &block = owner ? *owner : *warp.block;
  if (!warp.machine->checks() || bytes == 0)
    return;
  SharedBy by;
  by.agent = agent;
  by.issuer = warp.agent;
  by.count = count;
  by.clocks = &warp.clocks;
  by.inst = indexOf(warp, inst);
  by.write = write;
  by.lane = u8(lane);
  by.copiesSynced = warp.copySynced;
  by.async = block.agents.isAsyncProxy(agent);
  SharedConflict conflict;
  block.shadow.access(block.agents, by, address, bytes, conflict);
  if (conflict.kind != SharedConflict::None)
    explain(warp, inst, lane, conflict, write, block);
  touchesMbarrier(warp, inst, -1, address, bytes,
                  write ? "async write" : "async read", block);
}

static void checkGlobalOne(Warp &warp, const Inst &inst, int lane, GlobalBy &by,
                           u64 address, u32 bytes, AccessKind kind) {
  Machine &m = *warp.machine;
  u64 index = 0;
  RegionState *region = m.global.find(address, bytes, kind.write, index);
  if (!region || (kind.atomic && !region->region->readable))
    m.fatal(11, warp, inst, lane, "global", address,
            std::string(kind.write ? "write" : "read") + " of " +
                std::to_string(bytes) +
                " bytes is outside every tensor's elements: " +
                m.global.describe(address));
  if (!m.checks() || !kind.record)
    return;
  if (region->counts()) {
    u32 size = region->region->elementBytes;
    u64 last = index + (bytes + size - 1) / size;
    for (u64 k = index; k < last && k < region->elements; ++k) {
      u8 &stores = region->stores[k];
      if ((!kind.write || kind.atomic) && !stores &&
          !region->region->initialised)
        m.error(11, warp, inst, lane, "global", address,
                "element " + std::to_string(k) + " of '" +
                    region->region->name + "' is read but was never written");
      if (kind.write && stores && region->region->storedOnce)
        m.error(11, warp, inst, lane, "global", address,
                "element " + std::to_string(k) + " of '" +
                    region->region->name + "' is stored twice");
      if (kind.write)
        stores = 1;
    }
  }
  // Only memory that some kernel writes can race.
  if (!region->region->writable)
    return;
  GlobalConflict conflict;
  if (!m.global.access(address, bytes, by, region->region->deterministic,
                       conflict))
    return;
  std::string other = "block " + std::to_string(conflict.agent >> 12) +
                      ", agent " + std::to_string(conflict.agent & 0xfff) +
                      " (line " + std::to_string(conflict.line) + ")";
  if (conflict.agent >> 12 == warp.block->cluster->sequence)
    other = warp.block->agents.describe(u32(conflict.agent & 0xfff)) +
            " (line " + std::to_string(conflict.line) + ")";
  if (conflict.before || conflict.behind) {
    std::string here = kind.write ? "write" : "read",
                there = conflict.wasWrite ? "write" : "read";
    m.error(
        9, warp, inst, lane, "global", conflict.address,
        conflict.stale
            ? "ld.global.nc of '" + region->region->name +
                  "', which a kernel writes that may run beside this one, " +
                  other
        : conflict.before
            ? here + " of '" + region->region->name +
                  "' before griddepcontrol.wait, after a " + there +
                  " by a kernel before, " + other
            : here + " of '" + region->region->name + "' after a " + there +
                  " by a kernel behind, which has not executed "
                  "griddepcontrol.wait, " +
                  other);
    return;
  }
  std::string text =
      conflict.nondeterministic
          ? "f32 addition to '" + region->region->name +
                "', which is to be deterministic, is unordered with one by " +
                other
          : std::string(kind.write ? "write" : "read") + " of '" +
                region->region->name + "' is unordered with a " +
                (conflict.wasWrite ? "write" : "read") + " by " + other;
  m.error(8, warp, inst, lane, "global", conflict.address, text);
}

static GlobalBy globalBy(const Warp &warp, const Inst &inst, u32 agent,
                         u32 count, AccessKind kind) {
  const Block &block = *warp.block;
  GlobalBy by;
  by.agent = globalAgent(block.cluster->sequence, agent);
  by.count = count;
  by.order = &warp.clocks.g;
  by.block = block.cluster->sequence;
  by.firstBlock = block.grid->firstSequence;
  by.endBlock = by.firstBlock + block.grid->total;
  by.overlaps = block.grid->watermark;
  by.line = inst.line;
  by.strong = kind.strong;
  by.write = kind.write;
  by.rmwFloat = kind.rmwFloat;
  by.readOnly = kind.readOnly;
  return by;
}

void checkGlobal(Warp &warp, const Inst &inst, u32 mask, const u64 *addresses,
                 u32 bytes, AccessKind kind) {
  GlobalBy by = globalBy(warp, inst, warp.agent, warp.epoch, kind);
  for (u32 rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    if (addresses[lane] % bytes)
      warp.machine->fatal(11, warp, inst, lane, "global", addresses[lane],
                          "address is not a multiple of the access's " +
                              std::to_string(bytes) + " bytes");
    checkGlobalOne(warp, inst, lane, by, addresses[lane], bytes, kind);
  }
  if (kind.write)
    warp.unsyncedGlobal |= mask;
}

void checkGlobalAs(Warp &warp, const Inst &inst, int lane, u32 agent, u32 count,
                   u64 address, u32 bytes, AccessKind kind) {
  GlobalBy by = globalBy(warp, inst, agent, count, kind);
  checkGlobalOne(warp, inst, lane, by, address, bytes, kind);
}

// One wavefront serves 128 bytes: 32 lanes of 4, 16 of 8, 8 of 16 bytes. Lanes
// that read the same word share it.
u32 bankConflicts(u32 mask, const u32 *addresses, u32 bytes) {
  u32 group = bytes <= 4 ? 32 : 128 / bytes, words = std::max(1u, bytes / 4);
  u32 extra = 0;
  for (u32 first = 0; first < kWarpSize; first += group) {
    u32 seen[32][32];
    u8 depth[32] = {};
    u32 worst = 0;
    for (u32 lane = first; lane < first + group; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      for (u32 k = 0; k < words; ++k) {
        u32 word = addresses[lane] / 4 + k, bank = word % 32;
        u32 d = 0;
        while (d < depth[bank] && seen[bank][d] != word)
          ++d;
        if (d == depth[bank] && d < 32) {
          seen[bank][depth[bank]++] = word;
          worst = std::max<u32>(worst, depth[bank]);
        }
      }
    }
    extra += worst > 1 ? worst - 1 : 0;
  }
  return extra;
}

void profileShared(Warp &warp, const Inst &inst, u32 mask, const u32 *addresses,
                   u32 bytes, bool write) {
  LineProfile *line = warp.machine->profileOf(warp, inst);
  if (!line)
    return;
  Profile &profile = warp.machine->result.profile;
  u64 moved = u64(std::popcount(mask)) * bytes;
  u32 extra = bankConflicts(mask, addresses, bytes);
  line->sharedBytes += moved;
  line->bankConflicts += extra;
  (write ? profile.sharedStoreBytes : profile.sharedLoadBytes) += moved;
  profile.bankConflicts += extra;
}

void profileGlobal(Warp &warp, const Inst &inst, u32 mask, const u64 *addresses,
                   u32 bytes, bool write) {
  LineProfile *line = warp.machine->profileOf(warp, inst);
  if (!line)
    return;
  Profile &profile = warp.machine->result.profile;
  u64 moved = u64(std::popcount(mask)) * bytes;
  line->globalBytes += moved;
  (write ? profile.globalStoreBytes : profile.globalLoadBytes) += moved;
  std::vector<u64> sectors;
  for (u32 rest = mask; rest; rest &= rest - 1)
    sectors.push_back(addresses[std::countr_zero(rest)] / 32);
  std::sort(sectors.begin(), sectors.end());
  line->globalSectors +=
      u64(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
}

} // namespace fa2::sim
