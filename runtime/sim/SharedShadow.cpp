//===- SharedShadow.cpp - Races of shared memory --------------------------===//

#include "SharedShadow.h"

namespace fa2::sim {

void SharedShadow::reset(u32 bytes) {
  if (capacity < bytes / 4 + 1) {
    capacity = bytes / 4 + 1;
    words.reset(static_cast<Word *>(std::calloc(capacity, sizeof(Word))));
    if (!words)
      throw std::bad_alloc();
    generation = 0;
  }
  ++generation;
}

void SharedShadow::access(const Agents &agents, const SharedBy &by, u32 address,
                          u32 bytes, SharedConflict &conflict) {
  using Kind = SharedConflict::Kind;
  const u32 *g = by.clocks->g.own.data(), *a = by.clocks->a.own.data();
  // What an earlier, conflicting access is to this one.
  auto relation = [&](const Stamp &other, bool otherWrites) -> Kind {
    if (by.atomic && other.atomic)
      return Kind::None;
    // An async access after a generic one needs the fence (rule 5).
    bool needsFence = by.async && !other.async;
    if (other.count <= (needsFence ? a : g)[other.agent]) {
      if (other.agent == by.issuer && by.agent == by.issuer &&
          other.lane != by.lane && other.count >= by.syncEpoch &&
          !(by.write && otherWrites && other.inst == u16(by.inst)))
        return Kind::Lanes;
      // A lane's wait covers its own cp.async only.
      if (agents.isCopies(other.agent) && !by.async &&
          other.agent == agents.copies(by.issuer) && other.lane != by.lane &&
          other.count > by.copiesSynced)
        return Kind::Lanes;
      return Kind::None;
    }
    if (needsFence && other.count <= g[other.agent])
      return otherWrites ? Kind::Proxy : Kind::ProxyRead;
    bool copies = other.async || by.async || agents.isCopies(other.agent) ||
                  agents.isCopies(by.agent);
    return copies ? Kind::AsyncRace : Kind::Race;
  };
  auto note = [&](Kind kind, const Stamp &other, u32 at, bool wasWrite) {
    if (kind == Kind::None)
      return;
    // A firm finding takes the place of a weaker one.
    auto weight = [](Kind k) {
      return k == Kind::None                            ? 0
             : k == Kind::ProxyRead || k == Kind::Lanes ? 1
                                                        : 2;
    };
    if (weight(kind) <= weight(conflict.kind))
      return;
    conflict = {kind, other.agent, other.inst, at, wasWrite};
  };

  for (u32 index = address / 4; index <= (address + bytes - 1) / 4; ++index) {
    u32 first = std::max(address, index * 4);
    u32 last = std::min(address + bytes, index * 4 + 4);
    u8 mask = u8(((1u << (last - first)) - 1) << (first - index * 4));
    Word &w = words[index];
    if (w.generation != generation) {
      w.generation = generation;
      w.readers = w.written = 0;
      w.writes[0].mask = w.writes[1].mask = 0;
    }
    Stamp stamp{by.count, u16(by.agent), u16(std::min(by.inst, 0xffffu)),
                mask,     by.lane,       by.async,
                by.atomic};
    for (const Stamp &other : w.writes)
      if (other.mask & mask)
        note(relation(other, true), other, first, true);
    if (!by.write || by.atomic)
      if ((w.written & mask) != mask)
        note(Kind::Unwritten, {}, first, false);
    if (by.write) {
      unsigned kept = 0;
      for (unsigned k = 0; k < w.readers; ++k) {
        const Stamp other = w.reads[k].stamp();
        if (other.mask & mask)
          note(relation(other, false), other, first, false);
        if (other.mask & ~mask)
          w.reads[kept++] = w.reads[k];
      }
      w.readers = u8(kept);
      w.written |= mask;
      Stamp *slot = nullptr;
      for (Stamp &s : w.writes)
        if (!slot && (s.mask & ~mask) == 0)
          slot = &s;
      if (!slot)
        for (Stamp &s : w.writes)
          if (!slot && s.agent == by.agent && s.count == by.count)
            slot = &s, stamp.mask |= s.mask;
      if (!slot)
        slot = &w.writes[0];
      *slot = stamp;
      for (Stamp &s : w.writes)
        if (&s != slot)
          s.mask &= u8(~mask);
    } else {
      unsigned k = 0;
      while (k < w.readers && w.reads[k].agent != u8(by.agent))
        ++k;
      if (k == kReaders) {
        // Full: one that is ordered before this access says no more than it.
        for (k = 0; k < kReaders; ++k)
          if (w.reads[k].countLane >> 8 <= g[w.reads[k].agent])
            break;
        if (k == kReaders)
          k = by.count % kReaders;
      } else if (k == w.readers) {
        ++w.readers;
      } else if (const Stamp old = w.reads[k].stamp();
                 old.count == stamp.count) {
        stamp.mask |= old.mask;
        if (stamp.lane != old.lane)
          stamp.lane = 0xff;
      }
      w.reads[k] = Reader::of(stamp);
    }
  }
}

} // namespace fa2::sim
