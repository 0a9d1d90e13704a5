//===- SharedShadow.cpp - Races of shared memory --------------------------===//

#include "SharedShadow.h"

namespace fa2::sim {

using Kind = SharedConflict::Kind;

SharedShadow::States SharedShadow::allocate(u32 count) {
  States states(static_cast<State *>(std::calloc(count, sizeof(State))));
  if (!states)
    throw std::bad_alloc();
  return states;
}

void SharedShadow::reset(u32 bytes) {
  if (u32 needed = bytes / kUnit + 1; capacity < needed) {
    units = allocate(needed);
    words = allocate(needed * (kUnit / kWord));
    capacity = needed;
    generation = 0;
  }
  ++generation;
}

SharedShadow::State &SharedShadow::current(State &state) {
  if (state.generation != generation) {
    state.generation = generation;
    state.readers = state.written = 0;
    state.split = false;
    state.writes[0].mask = state.writes[1].mask = 0;
  }
  return state;
}

/// From here on each of its words has what was known of all.
void SharedShadow::split(u32 unit) {
  for (u32 k = 0; k < kUnit / kWord; ++k)
    words[unit * (kUnit / kWord) + k] = units[unit];
  units[unit].split = true;
}

void SharedShadow::access(const Agents &agents, const SharedBy &by, u32 address,
                          u32 bytes, SharedConflict &conflict) {
  Access access{agents, by, conflict};
  u32 end = address + bytes;
  for (u32 unit = address / kUnit; unit <= (end - 1) / kUnit; ++unit) {
    State &whole = current(units[unit]);
    u32 first = std::max(address, unit * kUnit);
    u32 last = std::min(end, unit * kUnit + kUnit);
    bool covers = last - first == kUnit;
    if (covers && !whole.split) {
      access.record(whole, 15, first);
      continue;
    }
    if (!whole.split)
      split(unit);
    for (u32 word = first / kWord; word <= (last - 1) / kWord; ++word) {
      u32 from = std::max(first, word * kWord);
      u32 to = std::min(last, word * kWord + kWord);
      u8 mask = u8(((1u << (to - from)) - 1) << (from - word * kWord));
      access.record(current(words[word]), mask, from);
    }
    if (covers && by.write) // what was known before has gone from all words
      whole = words[unit * (kUnit / kWord)], whole.split = false;
  }
}

/// What an earlier, conflicting access is to this one.
Kind SharedShadow::Access::relation(const Stamp &other,
                                    bool otherWrites) const {
  if (by.atomic && other.atomic)
    return Kind::None;
  const u32 *g = by.clocks->g.own.data(), *a = by.clocks->a.own.data();
  // An async access after a generic one needs the fence (rule 5).
  bool needsFence = by.async && !other.async;
  if (other.count <= (needsFence ? a : g)[other.agent]) {
    if (other.agent == by.issuer && by.agent == by.issuer &&
        other.lane != by.lane && other.count >= by.syncEpoch &&
        !(by.write && otherWrites && other.inst == u16(by.inst)))
      return Kind::Lanes;
    // A lane's wait covers its own cp.async only.
    if (agents.isCopies(other.agent) && !by.async &&
        other.agent == agents.copiesOf(by.issuer) && other.lane != by.lane &&
        other.count > by.copiesSynced)
      return Kind::Lanes;
    return Kind::None;
  }
  if (needsFence && other.count <= g[other.agent])
    return otherWrites ? Kind::Proxy : Kind::ProxyRead;
  bool copies = other.async || by.async || agents.isCopies(other.agent) ||
                agents.isCopies(by.agent);
  return copies ? Kind::AsyncRace : Kind::Race;
}

/// A firm finding takes the place of a weaker one.
void SharedShadow::Access::note(Kind kind, const Stamp &other, u32 address,
                                bool wasWrite) {
  auto weight = [](Kind k) {
    return k == Kind::None                            ? 0
           : k == Kind::ProxyRead || k == Kind::Lanes ? 1
                                                      : 2;
  };
  if (weight(kind) > weight(conflict.kind))
    conflict = {kind, other.agent, other.inst, address, wasWrite};
}

void SharedShadow::Access::record(State &state, u8 mask, u32 address) {
  Stamp stamp{by.count, u16(by.agent), u16(std::min(by.inst, 0xffffu)),
              mask,     by.lane,       by.async,
              by.atomic};
  for (const Stamp &other : state.writes)
    if (other.mask & mask)
      note(relation(other, true), other, address, true);
  if ((!by.write || by.atomic) && (state.written & mask) != mask)
    note(Kind::Unwritten, {}, address, false);
  if (by.write)
    write(state, stamp, address);
  else
    read(state, stamp);
}

void SharedShadow::Access::write(State &state, Stamp stamp, u32 address) {
  u8 mask = stamp.mask;
  unsigned kept = 0;
  for (unsigned k = 0; k < state.readers; ++k) {
    const Stamp other = state.reads[k].stamp();
    if (other.mask & mask)
      note(relation(other, false), other, address, false);
    if (other.mask & ~mask)
      state.reads[kept++] = state.reads[k];
  }
  state.readers = u8(kept);
  state.written |= mask;
  Stamp *slot = nullptr;
  for (Stamp &s : state.writes)
    if (!slot && (s.mask & ~mask) == 0)
      slot = &s;
  if (!slot)
    for (Stamp &s : state.writes)
      if (!slot && s.agent == by.agent && s.count == by.count)
        slot = &s, stamp.mask |= s.mask;
  if (!slot)
    slot = &state.writes[0];
  *slot = stamp;
  for (Stamp &s : state.writes)
    if (&s != slot)
      s.mask &= u8(~mask);
}

void SharedShadow::Access::read(State &state, Stamp stamp) {
  const u32 *g = by.clocks->g.own.data();
  unsigned k = 0;
  while (k < state.readers && state.reads[k].agent() != by.agent)
    ++k;
  if (k == kReaders) {
    // Full: one that is ordered before this access says no more than it.
    for (k = 0; k < kReaders; ++k)
      if (state.reads[k].count() <= g[state.reads[k].agent()])
        break;
    if (k == kReaders)
      k = by.count % kReaders;
  } else if (k == state.readers) {
    ++state.readers;
  } else if (const Stamp old = state.reads[k].stamp();
             old.count == stamp.count) {
    stamp.mask |= old.mask;
    if (stamp.lane != old.lane)
      stamp.lane = 0xff;
  }
  state.reads[k] = Reader::of(stamp);
}

} // namespace fa2::sim
