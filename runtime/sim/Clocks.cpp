//===- Clocks.cpp - Vector clocks -----------------------------------------===//

#include "Clocks.h"

namespace fa2::sim {

std::string Agents::describe(u32 agent) const {
  static const char *const kinds[] = {"", "a cp.async of ", "a bulk copy of ",
                                      "a wgmma of ", "a bulk copy of "};
  u32 number = local(agent), other = agent / perBlock();
  std::string text =
      number < 5 * warps
          ? kinds[number / warps] + ("warp " + std::to_string(number % warps))
          : "a copy signalling mbarrier " + std::to_string(number - 5 * warps);
  return other == rank
             ? text
             : text + " of the cluster's block " + std::to_string(other);
}

void Clock::clear() {
  std::fill(own.begin(), own.end(), 0);
  foreign.reset();
  watermark = 0;
}

void Clock::joinForeign(const std::shared_ptr<const Foreign> &other) {
  if (!other || other == foreign)
    return;
  if (!foreign) {
    foreign = other;
    return;
  }
  auto merged = std::make_shared<Foreign>();
  merged->reserve(foreign->size() + other->size());
  auto x = foreign->begin(), y = other->begin();
  while (x != foreign->end() || y != other->end()) {
    if (y == other->end() || (x != foreign->end() && x->first < y->first)) {
      merged->push_back(*x++);
    } else if (x == foreign->end() || y->first < x->first) {
      merged->push_back(*y++);
    } else {
      merged->push_back({x->first, std::max(x->second, y->second)});
      ++x, ++y;
    }
  }
  foreign = std::move(merged);
}

void Clock::join(const Clock &other) {
  for (size_t k = 0, n = std::min(own.size(), other.own.size()); k < n; ++k)
    own[k] = std::max(own[k], other.own[k]);
  joinForeign(other.foreign);
  watermark = std::max(watermark, other.watermark);
}

u32 Clock::of(GlobalAgent agent, u64 block) const {
  if (agent >> 12 == block)
    return own[agent & 0xfff];
  if (!foreign)
    return 0;
  auto it = std::lower_bound(
      foreign->begin(), foreign->end(), agent,
      [](const auto &entry, GlobalAgent key) { return entry.first < key; });
  return it != foreign->end() && it->first == agent ? it->second : 0;
}

} // namespace fa2::sim
