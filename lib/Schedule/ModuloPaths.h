//===- ModuloPaths.h - longest paths between a loop's steps -----*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_MODULOPATHS_H
#define FA2_LIB_SCHEDULE_MODULOPATHS_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fa2::modulo {

/// Longest paths between steps; the last row and column are the interval's
/// start.
class Paths {
public:
  static constexpr int64_t kNone = INT64_MIN / 4; // no path

  explicit Paths(int steps) : n(steps + 1), longest(size_t(n) * n, kNone) {
    for (int i = 0; i < n; ++i)
      at(i, i) = 0;
  }
  int64_t operator()(int from, int to) const { return longest[from * n + to]; }
  int origin() const { return n - 1; }

  /// `to` is at least `length` behind `from`; false where that cannot be.
  bool add(int from, int to, int64_t length) {
    if (at(from, to) >= length)
      return true;
    if (at(to, from) != kNone && length + at(to, from) > 0)
      return false;
    for (int i = 0; i < n; ++i)
      if (at(i, from) != kNone)
        for (int j = 0; j < n; ++j)
          if (at(to, j) != kNone)
            at(i, j) = std::max(at(i, j), at(i, from) + length + at(to, j));
    return true;
  }

private:
  int64_t &at(int from, int to) { return longest[from * n + to]; }
  int n;
  std::vector<int64_t> longest;
};

} // namespace fa2::modulo

#endif
