//===- Gradient.cpp - the gradients of attention on the host --------------===//

#include "Reference/Gradient.h"

#include "Reference/Products.h"

#include <cmath>
#include <limits>

namespace fa2run {

namespace {

/// P (dP - delta); 0 where P is, whatever dP may be.
double gradientOfScore(double p, double dp, double delta) {
  return p == 0 ? 0 : p * (dp - delta);
}

/// The row's gradient in float64; `sums` becomes dS.
void exactRow(const Head &head, const float *q, const float *dout, int64_t keys,
              Scratch &scratch, RowStatistics &statistics, double *dq,
              double *out) {
  std::vector<double> &p = scratch.scores, &ds = scratch.sums;
  p.resize(size_t(keys));
  ds.resize(size_t(keys));
  scratch.query.assign(q, q + head.headDim);
  dots(scratch.query.data(), head.k, keys, head.headDim, p.data());
  scratch.query.assign(dout, dout + head.headDimV);
  dots(scratch.query.data(), head.v, keys, head.headDimV, ds.data());
  double largest = -std::numeric_limits<double>::infinity();
  for (double &s : p)
    largest = std::max(largest, s *= head.scale);
  double sum = 0;
  for (double s : p)
    sum += std::exp(s - largest);
  statistics.lse = largest + std::log(sum);
  statistics.delta = 0;
  for (size_t j = 0; j < p.size(); ++j) {
    p[j] = std::exp(p[j] - statistics.lse);
    statistics.delta += p[j] * ds[j];
  }
  if (out)
    weigh(p.data(), head.v, keys, head.headDimV, out);
  if (!dq)
    return;
  for (size_t j = 0; j < p.size(); ++j)
    ds[j] = head.scale * gradientOfScore(p[j], ds[j], statistics.delta);
  weigh(ds.data(), head.k, keys, head.headDim, dq);
}

/// The same with a framework's roundings.
void standardGradient(const Head &head, const float *q, const float *dout,
                      int64_t keys, Scratch &scratch, RowStatistics &statistics,
                      float *dq) {
  std::vector<float> &p = scratch.scores32, &ds = scratch.sums32;
  p.resize(size_t(keys));
  ds.resize(size_t(keys));
  dots(q, head.k, keys, head.headDim, p.data());
  dots(dout, head.v, keys, head.headDimV, ds.data());
  statistics.largest32 = -std::numeric_limits<float>::infinity();
  for (float &s : p) {
    s = float(head.scale) * roundTo(head.precision, s);
    statistics.largest32 = std::max(statistics.largest32, s);
  }
  statistics.sum32 = 0;
  for (float &s : p)
    statistics.sum32 += s = std::exp(s - statistics.largest32);
  statistics.delta32 = 0;
  for (size_t j = 0; j < p.size(); ++j) {
    p[j] = roundTo(head.precision, p[j] / statistics.sum32);
    ds[j] = roundTo(head.precision, ds[j]);
    statistics.delta32 += p[j] * ds[j];
  }
  if (!dq)
    return;
  for (size_t j = 0; j < p.size(); ++j)
    ds[j] = roundTo(head.precision, p[j] * (ds[j] - statistics.delta32));
  weigh(ds.data(), head.k, keys, head.headDim, dq);
  for (int64_t d = 0; d < head.headDim; ++d)
    dq[d] = roundTo(head.precision, float(head.scale) * dq[d]);
}

} // namespace

RowStatistics gradientOfRow(const Head &head, const float *q, const float *dout,
                            int64_t keys, Scratch &scratch, double *dq,
                            float *dq32, double *out) {
  RowStatistics statistics;
  if (keys == 0) {
    statistics.lse = -std::numeric_limits<double>::infinity();
    if (dq)
      std::fill(dq, dq + head.headDim, 0.0);
    if (dq32)
      std::fill(dq32, dq32 + head.headDim, 0.0f);
    if (out)
      std::fill(out, out + head.headDimV, 0.0);
    return statistics;
  }
  exactRow(head, q, dout, keys, scratch, statistics, dq, out);
  standardGradient(head, q, dout, keys, scratch, statistics, dq32);
  return statistics;
}

void gradientOfKey(const Head &head, const std::vector<QueryHead> &group,
                   const std::vector<const RowStatistics *> &statistics,
                   int64_t key, int64_t first, Scratch &scratch, double *dk,
                   float *dk32, double *dv, float *dv32) {
  const float *k = head.k + key * head.headDim,
              *v = head.v + key * head.headDimV;
  std::vector<double> k64(k, k + head.headDim), v64(v, v + head.headDimV);
  std::vector<double> partK(k64.size()), partV(v64.size());
  std::vector<float> partK32(k64.size()), partV32(v64.size());
  std::fill(dk, dk + head.headDim, 0.0);
  std::fill(dk32, dk32 + head.headDim, 0.0f);
  std::fill(dv, dv + head.headDimV, 0.0);
  std::fill(dv32, dv32 + head.headDimV, 0.0f);
  for (size_t h = 0; h < group.size(); ++h) {
    int64_t rows = group[h].rows - first;
    if (rows <= 0)
      continue;
    const float *q = group[h].q + first * head.headDim,
                *dout = group[h].dout + first * head.headDimV;
    const RowStatistics *of = statistics[h] + first;
    std::vector<double> &p = scratch.scores, &ds = scratch.sums;
    std::vector<float> &p32 = scratch.scores32, &ds32 = scratch.sums32;
    p.resize(size_t(rows));
    ds.resize(size_t(rows));
    p32.resize(size_t(rows));
    ds32.resize(size_t(rows));
    dots(k64.data(), q, rows, head.headDim, p.data());
    dots(v64.data(), dout, rows, head.headDimV, ds.data());
    dots(k, q, rows, head.headDim, p32.data());
    dots(v, dout, rows, head.headDimV, ds32.data());
    for (size_t i = 0; i < size_t(rows); ++i) {
      p[i] = std::exp(head.scale * p[i] - of[i].lse);
      ds[i] = head.scale * gradientOfScore(p[i], ds[i], of[i].delta);
      float s = float(head.scale) * roundTo(head.precision, p32[i]);
      p32[i] =
          roundTo(head.precision, std::exp(s - of[i].largest32) / of[i].sum32);
      float dp = roundTo(head.precision, ds32[i]);
      ds32[i] = roundTo(head.precision, p32[i] * (dp - of[i].delta32));
    }
    weigh(p.data(), dout, rows, head.headDimV, partV.data());
    weigh(ds.data(), q, rows, head.headDim, partK.data());
    weigh(p32.data(), dout, rows, head.headDimV, partV32.data());
    weigh(ds32.data(), q, rows, head.headDim, partK32.data());
    for (int64_t d = 0; d < head.headDim; ++d) {
      dk[d] += partK[size_t(d)];
      dk32[d] += partK32[size_t(d)];
    }
    for (int64_t d = 0; d < head.headDimV; ++d) {
      dv[d] += partV[size_t(d)];
      dv32[d] += partV32[size_t(d)];
    }
  }
  for (int64_t d = 0; d < head.headDim; ++d)
    dk32[d] = roundTo(head.precision, float(head.scale) * dk32[d]);
  for (int64_t d = 0; d < head.headDimV; ++d)
    dv32[d] = roundTo(head.precision, dv32[d]);
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
  }
  return 0;
}

} // namespace fa2run
