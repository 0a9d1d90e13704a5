//===- Gradient.cpp - the gradients of attention on the host --------------===//

#include "Reference/Gradient.h"

#include "Reference/Products.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa2run {

namespace {

/// P (dP - delta) slope; 0 where P is, whatever the others may be.
double gradientOfScore(double p, double dp, double delta, double slope) {
  return p == 0 || slope == 0 ? 0 : p * (dp - delta) * slope;
}

/// The most that rounding x to the dtype takes from a term x row[d], where x is
/// subnormal: half a step, or all of x.
double underflow(Precision precision, double x, const float *row,
                 int64_t count) {
  double normal = precision == Precision::F16 ? 0x1p-14 : 0x1p-126,
         step = precision == Precision::F16 ? 0x1p-24 : 0x1p-133;
  if (std::abs(x) >= normal)
    return 0;
  float largest = 0;
  for (int64_t d = 0; d < count; ++d)
    largest = std::max(largest, std::abs(row[d]));
  return std::min(std::abs(x), step / 2) * largest;
}

/// The same, rounded as a framework rounds it.
float standardOfScore(const Head &head, float p, float dp, float delta,
                      float slope) {
  float ds = roundTo(head.precision, p * (dp - delta));
  if (!head.program)
    return ds;
  return p == 0 ? 0 : roundTo(head.precision, ds * slope);
}

void noScores(RowStatistics &statistics) {
  statistics.lse = statistics.givenLse =
      -std::numeric_limits<double>::infinity();
}

/// Of scores that a program made so large that f32 has no exp(x - lse).
bool isLost(const Head &head, const GivenRow &row) {
  return head.program && std::abs(row.lse) >= kLargestLse;
}

/// The row's gradient in float64.
void exactRow(const Head &head, const float *q, const float *dout,
              const GivenRow &row, int64_t keys, Scratch &scratch,
              RowStatistics &statistics, GradientRow *dq) {
  std::vector<double> &s = scratch.scores, &dp = scratch.sums;
  s.resize(size_t(keys));
  dp.resize(size_t(keys));
  scratch.query.assign(q, q + head.headDim);
  dots(scratch.query.data(), head.k, keys, head.headDim, s.data());
  scratch.query.assign(dout, dout + head.headDimV);
  dots(scratch.query.data(), head.v, keys, head.headDimV, dp.data());
  applyDropout(head, dp.data(), dp.size());
  for (double &x : s)
    x *= head.scale;
  std::vector<double> &slopes = scratch.slopes;
  applyProgram(head, s, slopes);
  double largest = -std::numeric_limits<double>::infinity();
  for (double x : s)
    largest = std::max(largest, x);
  // Nothing but hidden scores, or such that nothing is known of P.
  if (std::isinf(largest) || isLost(head, row))
    return noScores(statistics);
  largest = std::max(largest, head.sink);
  double sum = std::exp(head.sink - largest);
  for (double x : s)
    sum += std::exp(x - largest);
  statistics.lse = largest + std::log(sum);
  for (size_t j = 0; j < s.size(); ++j)
    statistics.delta += std::exp(s[j] - statistics.lse) * dp[j];
  statistics.delta -= row.dlse;
  statistics.givenDelta = -row.dlse;
  statistics.givenLse = row.lse;
  for (int64_t d = 0; d < head.headDimV; ++d)
    statistics.givenDelta += double(dout[d]) * row.out[d];
  if (!dq)
    return;
  std::vector<double> ds(s.size());
  const double factor = dropoutFactor(head);
  auto sumUp = [&](double lse, double delta, std::vector<double> &to) {
    for (size_t j = 0; j < s.size(); ++j)
      ds[j] = head.scale *
              gradientOfScore(std::exp(s[j] - lse), dp[j], delta, slopes[j]);
    to.resize(size_t(head.headDim));
    weigh(ds.data(), head.k, keys, head.headDim, to.data());
  };
  sumUp(statistics.lse, statistics.delta, dq->exact);
  sumUp(statistics.givenLse, statistics.givenDelta, dq->given);
  for (size_t j = 0; j < s.size(); ++j)
    dq->weight += std::abs(
        gradientOfScore(std::exp(s[j] - statistics.lse), 1, 0, slopes[j]));
  for (size_t j = 0; j < ds.size(); ++j)
    dq->underflow +=
        head.scale * factor *
        underflow(head.precision, ds[j] / head.scale / factor,
                  head.k + int64_t(j) * head.headDim, head.headDim);
}

/// The same with a framework's roundings.
void standardGradient(const Head &head, const float *q, const float *dout,
                      const GivenRow &row, int64_t keys, Scratch &scratch,
                      RowStatistics &statistics, float *dq) {
  std::vector<float> &p = scratch.scores32, &ds = scratch.sums32;
  p.resize(size_t(keys));
  ds.resize(size_t(keys));
  dots(q, head.k, keys, head.headDim, p.data());
  dots(dout, head.v, keys, head.headDimV, ds.data());
  applyDropout(head, ds.data(), ds.size());
  for (float &s : p)
    s = float(head.scale) * roundTo(head.precision, s);
  std::vector<float> &slopes = scratch.slopes32;
  applyProgram(head, p, slopes);
  statistics.largest32 = -std::numeric_limits<float>::infinity();
  for (float s : p)
    statistics.largest32 = std::max(statistics.largest32, s);
  if (isLost(head, row))
    statistics.largest32 = -std::numeric_limits<float>::infinity();
  if (std::isinf(statistics.largest32))
    return;
  statistics.largest32 = std::max(statistics.largest32, float(head.sink));
  statistics.sum32 = std::exp(float(head.sink) - statistics.largest32);
  for (float &s : p)
    statistics.sum32 += s = std::exp(s - statistics.largest32);
  statistics.delta32 = -float(row.dlse);
  for (size_t j = 0; j < p.size(); ++j) {
    p[j] = roundTo(head.precision, p[j] / statistics.sum32);
    ds[j] = roundTo(head.precision, ds[j]);
    statistics.delta32 += p[j] * ds[j];
  }
  if (!dq)
    return;
  for (size_t j = 0; j < p.size(); ++j)
    ds[j] = standardOfScore(head, p[j], ds[j], statistics.delta32, slopes[j]);
  weigh(ds.data(), head.k, keys, head.headDim, dq);
  for (int64_t d = 0; d < head.headDim; ++d)
    dq[d] = roundTo(head.precision, float(head.scale) * dq[d]);
}

} // namespace

RowStatistics gradientOfRow(const Head &head, const float *q, const float *dout,
                            const GivenRow &row, int64_t keys, Scratch &scratch,
                            GradientRow *dq) {
  RowStatistics statistics;
  if (dq) {
    dq->exact.assign(size_t(head.headDim), 0);
    dq->given = dq->exact;
    dq->standard.assign(size_t(head.headDim), 0);
    dq->weight = dq->underflow = 0;
  }
  if (keys == 0) {
    noScores(statistics);
    return statistics;
  }
  exactRow(head, q, dout, row, keys, scratch, statistics, dq);
  standardGradient(head, q, dout, row, keys, scratch, statistics,
                   dq ? dq->standard.data() : nullptr);
  return statistics;
}

namespace {

template <typename T>
void addTo(std::vector<T> &sums, const std::vector<T> &x) {
  for (size_t d = 0; d < sums.size(); ++d)
    sums[d] += x[d];
}

void clear(GradientRow &row, int64_t count) {
  row.exact.assign(size_t(count), 0);
  row.given = row.exact;
  row.standard.assign(size_t(count), 0);
  row.weight = row.underflow = 0;
}

} // namespace

void gradientOfKey(const Head &head, const std::vector<QueryHead> &group,
                   const std::vector<const RowStatistics *> &statistics,
                   int64_t key, int64_t first, Scratch &scratch,
                   GradientRow &dk, GradientRow &dv) {
  const float *k = head.k + key * head.headDim,
              *v = head.v + key * head.headDimV;
  std::vector<double> k64(k, k + head.headDim), v64(v, v + head.headDimV);
  std::vector<double> partK(k64.size()), partV(v64.size()), p, ds, kept;
  std::vector<float> partK32(k64.size()), partV32(v64.size());
  clear(dk, head.headDim);
  clear(dv, head.headDimV);
  for (size_t h = 0; h < group.size(); ++h) {
    int64_t rows = group[h].rows - first;
    if (rows <= 0)
      continue;
    const float *q = group[h].q + first * head.headDim,
                *dout = group[h].dout + first * head.headDimV;
    const RowStatistics *of = statistics[h] + first;
    std::vector<double> &s = scratch.scores, &dp = scratch.sums;
    std::vector<float> &p32 = scratch.scores32, &ds32 = scratch.sums32;
    for (std::vector<double> *x : {&s, &dp, &p, &ds})
      x->resize(size_t(rows));
    p32.resize(size_t(rows));
    ds32.resize(size_t(rows));
    dots(k64.data(), q, rows, head.headDim, s.data());
    dots(v64.data(), dout, rows, head.headDimV, dp.data());
    Head column = atColumn(head, key, first);
    column.place.head = group[h].head;
    const double factor = dropoutFactor(head);
    applyDropout(column, dp.data(), dp.size());
    for (double &x : s)
      x *= head.scale;
    applyProgram(column, s, scratch.slopes);
    auto probability = [&](size_t i, double lse) {
      return std::isinf(lse) ? 0 : std::exp(s[i] - lse);
    };
    auto sumUp = [&](double RowStatistics::*lse, double RowStatistics::*delta,
                     std::vector<double> &toK, std::vector<double> &toV) {
      for (size_t i = 0; i < size_t(rows); ++i) {
        p[i] = probability(i, of[i].*lse);
        ds[i] = head.scale *
                gradientOfScore(p[i], dp[i], of[i].*delta, scratch.slopes[i]);
      }
      weigh(ds.data(), q, rows, head.headDim, partK.data());
      kept = p;
      applyDropout(column, kept.data(), kept.size());
      weigh(kept.data(), dout, rows, head.headDimV, partV.data());
      addTo(toV, partV);
      addTo(toK, partK);
    };
    sumUp(&RowStatistics::lse, &RowStatistics::delta, dk.exact, dv.exact);
    for (size_t i = 0; i < size_t(rows); ++i)
      dk.weight += std::abs(gradientOfScore(p[i], 1, 0, scratch.slopes[i]));
    sumUp(&RowStatistics::givenLse, &RowStatistics::givenDelta, dk.given,
          dv.given);
    for (size_t i = 0; i < size_t(rows); ++i) {
      dv.underflow +=
          factor * underflow(head.precision, p[i],
                             dout + int64_t(i) * head.headDimV, head.headDimV);
      dk.underflow += head.scale * factor *
                      underflow(head.precision, ds[i] / head.scale / factor,
                                q + int64_t(i) * head.headDim, head.headDim);
    }
    dots(k, q, rows, head.headDim, p32.data());
    dots(v, dout, rows, head.headDimV, ds32.data());
    applyDropout(column, ds32.data(), ds32.size());
    for (float &x : p32)
      x = float(head.scale) * roundTo(head.precision, x);
    applyProgram(column, p32, scratch.slopes32);
    for (size_t i = 0; i < size_t(rows); ++i) {
      p32[i] = std::isinf(of[i].largest32)
                   ? 0
                   : roundTo(head.precision,
                             std::exp(p32[i] - of[i].largest32) / of[i].sum32);
      ds32[i] = standardOfScore(head, p32[i], roundTo(head.precision, ds32[i]),
                                of[i].delta32, scratch.slopes32[i]);
    }
    applyDropout(column, p32.data(), p32.size());
    for (float &x : p32)
      x = roundTo(head.precision, x);
    weigh(p32.data(), dout, rows, head.headDimV, partV32.data());
    weigh(ds32.data(), q, rows, head.headDim, partK32.data());
    addTo(dv.standard, partV32);
    addTo(dk.standard, partK32);
  }
  for (float &x : dk.standard)
    x = roundTo(head.precision, float(head.scale) * x);
  for (float &x : dv.standard)
    x = roundTo(head.precision, x);
}

int64_t firstRowOfKey(Mask mask, int64_t key, int64_t seqlenQ,
                      int64_t seqlenK) {
  switch (mask) {
  case Mask::None:
    return 0;
  case Mask::Causal:
    return std::clamp<int64_t>(key - (seqlenK - seqlenQ), 0, seqlenQ);
  case Mask::CausalTopLeft:
    return std::min(key, seqlenQ);
  case Mask::StrictlyCausal:
    return std::clamp<int64_t>(key - (seqlenK - seqlenQ) + 1, 0, seqlenQ);
  }
  return 0;
}

} // namespace fa2run
