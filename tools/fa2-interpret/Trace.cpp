//===- Trace.cpp - the tiles that a run gave, in order --------------------===//

#include "Trace.h"

#include <algorithm>
#include <cmath>

using namespace fa2::interpreter;

namespace fa2interpret {

bool areClose(float a, float b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return true;
  double larger = std::max({1.0, std::abs(double(a)), std::abs(double(b))});
  return std::abs(double(a) - b) <= tolerance * larger && std::isfinite(larger);
}

void Trace::note(const Event &event) {
  Key key{event.what, event.place, event.group};
  Numbers &numbers = byKey[key];
  order.emplace_back(key, numbers.size());
  numbers.push_back(events.size());
  events.push_back(event);
}

const Trace::Numbers *Trace::matchOf(const Key &key, const Trace &other) const {
  auto found = other.byKey.find(key);
  bool same = found != other.byKey.end() &&
              found->second.size() == byKey.at(key).size();
  return same ? &found->second : nullptr;
}

std::optional<Parting> Trace::compare(const Key &key, size_t nth,
                                      const Trace &other, const Numbers &match,
                                      double tolerance) const {
  const Event &a = events[byKey.at(key)[nth]], &b = other.events[match[nth]];
  if (a.tile->shape != b.tile->shape)
    return std::nullopt;
  int64_t columns = a.tile->cols();
  for (int64_t i = 0; i < a.tile->size(); ++i) {
    int64_t row = i / columns, column = i % columns;
    float x = a.tile->real[size_t(i)], y = b.tile->real[size_t(i)];
    if (a.part.holds(row, column) && b.part.holds(row, column) &&
        !areClose(x, y, tolerance))
      return Parting{a, b, nth + 1, match.size(), row, column, x, y};
  }
  return std::nullopt;
}

std::optional<Parting> Trace::partsFrom(const Trace &other,
                                        double tolerance) const {
  for (const auto &[key, nth] : order)
    if (const Numbers *match = matchOf(key, other))
      if (auto parting = compare(key, nth, other, *match, tolerance))
        return parting;
  return std::nullopt;
}

size_t Trace::comparedWith(const Trace &other) const {
  return size_t(std::count_if(order.begin(), order.end(), [&](const auto &at) {
    return matchOf(at.first, other) != nullptr;
  }));
}

} // namespace fa2interpret
