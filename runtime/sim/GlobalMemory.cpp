//===- GlobalMemory.cpp - Legal addresses and races of global memory ------===//

#include "GlobalMemory.h"

namespace fa2::sim {

RegionState::RegionState(const Region &r) : region(&r) {
  u64 base = r.base, size = r.elementBytes;
  for (size_t k = 0; k < r.shape.size(); ++k) {
    if (r.shape[k] <= 0) {
      elements = 0;
      return;
    }
    u64 extent = u64(r.shape[k]);
    s64 stride = (k < r.strides.size() ? r.strides[k] : 0) * s64(size);
    if (extent == 1 || stride == 0)
      continue;
    if (stride < 0) {
      base -= u64(-stride) * (extent - 1);
      stride = -stride;
    }
    dims.push_back({u64(stride), extent, 0});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Dim &x, const Dim &y) { return x.stride > y.stride; });
  for (size_t k = 0; k + 1 < dims.size();)
    if (dims[k].stride == dims[k + 1].stride * dims[k + 1].extent) {
      dims[k + 1].extent *= dims[k].extent;
      dims.erase(dims.begin() + s64(k));
    } else {
      ++k;
    }
  u64 span = size;
  for (size_t k = dims.size(); k-- > 0;) {
    dims[k].linear = elements;
    elements *= dims[k].extent;
    nested &= dims[k].stride >= span;
    span += dims[k].stride * (dims[k].extent - 1);
  }
  runBytes = size;
  if (!dims.empty() && dims.back().stride == size) {
    runBytes = size * dims.back().extent;
    dims.pop_back();
  }
  low = base;
  high = base + span;
}

bool RegionState::search(u64 offset, size_t dim, u32 bytes, u64 &index) const {
  if (dim == dims.size()) {
    if (offset + bytes > runBytes)
      return false;
    index += offset / region->elementBytes;
    return true;
  }
  const Dim &d = dims[dim];
  u64 most = std::min(offset / d.stride, d.extent - 1);
  // Nested strides leave one candidate; overlapping ones need a search.
  for (u64 i = most + 1; i-- > 0;) {
    u64 found = index + i * d.linear;
    if (search(offset - i * d.stride, dim + 1, bytes, found)) {
      index = found;
      return true;
    }
    if (nested)
      break;
  }
  return false;
}

bool RegionState::locate(u64 address, u32 bytes, u64 &index) {
  if (address >= runLow && address < runHigh && bytes <= runHigh - address) {
    index = runIndex + (address - runLow) / region->elementBytes;
    return true;
  }
  if (address < low || address >= high || bytes > high - address)
    return false;
  u64 found = 0;
  if (!search(address - low, 0, bytes, found))
    return false;
  index = found;
  if (nested) {
    u64 within = address - low;
    for (const Dim &d : dims)
      within -= std::min(within / d.stride, d.extent - 1) * d.stride;
    runLow = address - within;
    runHigh = runLow + runBytes;
    runIndex = found - within / region->elementBytes;
  }
  return true;
}

GlobalMemory::GlobalMemory(const std::vector<Region> &list) {
  regions.reserve(list.size());
  for (const Region &region : list) {
    regions.emplace_back(region);
    RegionState &state = regions.back();
    if (state.counts() && state.elements)
      state.stores.assign(state.elements, 0);
  }
}

RegionState *GlobalMemory::find(u64 address, u32 bytes, bool write,
                                u64 &index) {
  RegionState *&last = write ? lastWrite : lastRead;
  if (last && last->locate(address, bytes, index))
    return last;
  for (RegionState &state : regions)
    if ((write ? state.region->writable : state.region->readable) &&
        state.locate(address, bytes, index))
      return last = &state;
  return nullptr;
}

std::string GlobalMemory::describe(u64 address) const {
  const RegionState *nearest = nullptr;
  u64 distance = u64(1) << 32;
  for (const RegionState &state : regions) {
    if (state.low == state.high)
      continue;
    u64 away = address < state.low     ? state.low - address
               : address >= state.high ? address - state.high + 1
                                       : 0;
    if (away < distance) {
      distance = away;
      nearest = &state;
    }
  }
  if (!nearest)
    return "near no tensor";
  if (distance == 0)
    return "between the elements of '" + nearest->region->name +
           "', or not of this access's kind or width";
  return std::to_string(distance) + " bytes " +
         (address < nearest->low ? "before" : "behind") + " '" +
         nearest->region->name + "'";
}

GlobalMemory::Word &GlobalMemory::word(u64 index) {
  u64 page = index / kPageWords;
  if (page != lastIndex) {
    auto &slot = pages[page];
    if (!slot)
      slot = std::make_unique<Page>();
    lastPage = slot.get();
    lastIndex = page;
  }
  return (*lastPage)[index % kPageWords];
}

bool GlobalMemory::access(u64 address, u32 bytes, const GlobalBy &by,
                          bool deterministic, GlobalConflict &conflict) {
  bool found = false;
  auto against = [&](const Stamp &other, u8 mask, bool wasWrite, u64 at) {
    if (found || other.count == 0 || !(other.mask & mask) ||
        other.agent == by.agent)
      return;
    bool nondeterministic = deterministic && by.rmwFloat && other.rmwFloat;
    // Strong accesses are no race, but a kernel's result would depend on how
    // much of the one before is over.
    bool before = other.agent >> 12 < by.firstBlock;
    bool behind = other.agent >> 12 >= by.endBlock;
    if (other.strong && by.strong && !nondeterministic && !before && !behind)
      return;
    if (by.order->covers(other.agent, other.count, by.block))
      return;
    found = true;
    conflict = {other.agent,
                other.line,
                at,
                wasWrite,
                nondeterministic && other.strong && by.strong,
                before,
                behind,
                false};
  };
  for (u64 index = address / 4; index <= (address + bytes - 1) / 4; ++index) {
    u64 first = std::max(address, index * 4);
    u64 last = std::min(address + bytes, index * 4 + 4);
    u8 mask = u8(((1u << (last - first)) - 1) << (first - index * 4));
    Word &w = word(index);
    for (const Stamp &other : w.writes) {
      u64 block = other.agent >> 12;
      if (by.readOnly && !found && (other.mask & mask) &&
          block >= by.overlaps && block < by.firstBlock) {
        found = true;
        conflict = {other.agent, other.line, first, true,
                    false,       true,       false, true};
      }
      against(other, mask, true, first);
    }
    if (by.write)
      for (const Stamp &other : w.reads)
        against(other, mask, false, first);
    Stamp *set = by.write ? w.writes : w.reads;
    Stamp *slot = nullptr;
    for (Stamp *s : {set, set + 1})
      if (s->count && s->agent == by.agent)
        slot = s;
    for (Stamp *s : {set, set + 1})
      if (!slot &&
          (s->count == 0 || (by.order->covers(s->agent, s->count, by.block) &&
                             (s->mask & ~mask) == 0)))
        slot = s;
    if (!slot) { // both are unordered with this one: forget the older
      set[0] = set[1];
      slot = set + 1;
    }
    bool same = slot->count == by.count && slot->agent == by.agent;
    bool strong = by.strong && (!same || slot->strong);
    *slot = {by.agent, by.count,   by.line, u8(same ? slot->mask | mask : mask),
             strong,   by.rmwFloat};
    if (by.write && !found)
      for (Stamp &other : w.reads)
        if ((other.mask & ~mask) == 0)
          other.count = 0;
  }
  return found;
}

} // namespace fa2::sim
