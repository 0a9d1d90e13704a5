//===- Statistics.h - of few numbers ----------------------------*- C++ -*-===//
#ifndef FA2TUNE_STATISTICS_H
#define FA2TUNE_STATISTICS_H

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace fa2tune {

/// The value below which that part of them lies; 0 of none.
inline double quantile(std::vector<double> values, double part) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  double at = part * double(values.size() - 1);
  size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - double(low)) * (values[high] - values[low]);
}

/// Each value's place, equal ones in the middle of theirs.
inline std::vector<double> places(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> place(values.size());
  for (size_t i = 0, end = 0; i < order.size(); i = end) {
    for (end = i; end < order.size() && values[order[end]] == values[order[i]];)
      ++end;
    for (size_t j = i; j < end; ++j)
      place[order[j]] = double(i + end - 1) / 2;
  }
  return place;
}

/// Spearman's: 1 where both put things in one order; 0 of fewer than two.
inline double rankCorrelation(const std::vector<double> &a,
                              const std::vector<double> &b) {
  std::vector<double> x = places(a), y = places(b);
  double n = double(x.size()), mean = (n - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

} // namespace fa2tune

#endif // FA2TUNE_STATISTICS_H
