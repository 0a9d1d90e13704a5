//===- Cover.cpp - few kernels for many shapes ----------------------------===//

#include "Cover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace fa2run;

namespace fa2tune {

namespace {

/// What a guard may compare. `unit` multiplies the number that it is compared
/// with.
struct Quantity {
  std::string text, unit;
  int64_t scale = 1;
  bool readsBatch = false;
  int64_t (*of)(const Configuration &);
};

std::vector<Quantity> quantities(const Landscape &l) {
  std::vector<Quantity> all = {
      {"seqlen_q", "", 1, false,
       [](const Configuration &c) { return c.seqlenQ; }},
      {"seqlen_k", "", 1, false,
       [](const Configuration &c) { return c.seqlenK; }}};
  // Blocks are shared out to multiprocessors, whose number is the device's.
  constexpr auto unit = " * device.multiprocessors";
  if (l.multiprocessors > 0 && l.backward)
    all.push_back({"batch * heads_kv * seqlen_k", unit, l.multiprocessors, true,
                   [](const Configuration &c) {
                     return c.batch * c.headsKv * c.seqlenK;
                   }});
  else if (l.multiprocessors > 0)
    all.push_back(
        {"batch * heads * seqlen_q", unit, l.multiprocessors, true,
         [](const Configuration &c) { return c.batch * c.heads * c.seqlenQ; }});
  return all;
}

/// A number between two that were measured, the lower one included: about as
/// many times the one as the other is times it. 0 where there is none.
int64_t between(int64_t low, int64_t high, int64_t scale) {
  double middle = std::sqrt(double(low) * double(high)) / double(scale);
  int64_t number = int64_t(middle);
  if (number >= 16 && number / 16 * 16 * scale >= low)
    number = number / 16 * 16;
  number = std::max(number, (low + scale - 1) / scale);
  return number * scale < high ? number : 0;
}

/// The best cover by one quantity and some candidates.
class Search {
public:
  Search(const Landscape &l, const Quantity &quantity,
         const std::vector<size_t> &candidates)
      : l(l), quantity(quantity), candidates(candidates) {
    std::map<int64_t, std::vector<size_t>> byValue;
    for (size_t i = 0; i < l.shapes.size(); ++i)
      byValue[quantity.of(l.shapes[i])].push_back(i);
    for (auto &[value, shapes] : byValue) {
      values.push_back(value);
      groups.push_back(std::move(shapes));
    }
  }

  /// The least sum of losses with exactly so many parts, by dynamic
  /// programming over where the last one begins.
  Cover run(size_t parts) {
    size_t n = groups.size();
    std::vector<std::vector<double>> least(
        parts + 1, std::vector<double>(n + 1, INFINITY));
    std::vector<std::vector<size_t>> from(parts + 1,
                                          std::vector<size_t>(n + 1, 0));
    least[0][0] = 0;
    for (size_t p = 1; p <= parts; ++p)
      for (size_t end = p; end <= n; ++end)
        for (size_t begin = p - 1; begin < end; ++begin) {
          if (begin > 0 && cut(begin) == 0)
            continue;
          double loss = least[p - 1][begin] + bestOf(begin, end).second;
          if (loss < least[p][end]) {
            least[p][end] = loss;
            from[p][end] = begin;
          }
        }
    return std::isfinite(least[parts][n]) ? trace(from, parts) : Cover();
  }

private:
  /// What separates the groups before `begin` from those after it.
  int64_t cut(size_t begin) const {
    return between(values[begin - 1], values[begin], quantity.scale);
  }

  /// The candidate that loses least over groups, and what it loses.
  std::pair<size_t, double> bestOf(size_t begin, size_t end) const {
    std::pair<size_t, double> best{0, INFINITY};
    for (size_t candidate : candidates) {
      double loss = 0;
      for (size_t g = begin; g < end; ++g)
        for (size_t shape : groups[g])
          loss += l.losses[shape][candidate];
      if (loss < best.second)
        best = {candidate, loss};
    }
    return best;
  }

  Cover trace(const std::vector<std::vector<size_t>> &from, size_t parts) {
    Cover cover;
    cover.of.resize(l.shapes.size());
    size_t end = groups.size();
    for (size_t p = parts; p > 0; --p) {
      size_t begin = from[p][end];
      auto [candidate, loss] = bestOf(begin, end);
      std::string guard;
      if (p < parts)
        guard =
            fmt::format("{} <= {}{}", quantity.text, cut(end), quantity.unit);
      cover.parts.insert(cover.parts.begin(), {guard, candidate});
      cover.loss += loss / double(l.shapes.size());
      for (size_t g = begin; g < end; ++g)
        for (size_t shape : groups[g])
          cover.of[shape] = candidate;
      end = begin;
    }
    return cover;
  }

  const Landscape &l;
  const Quantity &quantity;
  const std::vector<size_t> &candidates;
  std::vector<int64_t> values;
  std::vector<std::vector<size_t>> groups; // shapes of each value
};

/// Candidates that one quantity may choose among: all, or where it reads the
/// batch those of one class of bits at a time.
std::vector<std::vector<size_t>> classesFor(const Landscape &l,
                                            const Quantity &quantity) {
  std::map<std::string, std::vector<size_t>> classes;
  for (size_t i = 0; i < l.bits.size(); ++i)
    if (!quantity.readsBatch)
      classes[""].push_back(i);
    else if (!l.bits[i].empty())
      classes[l.bits[i]].push_back(i);
  std::vector<std::vector<size_t>> list;
  for (auto &[bits, candidates] : classes)
    list.push_back(std::move(candidates));
  return list;
}

} // namespace

Cover findCover(const Landscape &l, size_t most, double gain) {
  Cover best;
  double least = INFINITY;
  for (const Quantity &quantity : quantities(l))
    for (const std::vector<size_t> &candidates : classesFor(l, quantity)) {
      Search search(l, quantity, candidates);
      for (size_t parts = 1; parts <= most; ++parts) {
        Cover cover = search.run(parts);
        // Of what is equal the first: fewer kernels, queries before keys.
        constexpr double equal = 1e-12;
        double cost = cover.loss + gain * double(parts - 1);
        if (cover.parts.empty() || cost >= least - equal)
          continue;
        least = cost;
        best = std::move(cover);
      }
    }
  return best;
}

} // namespace fa2tune
