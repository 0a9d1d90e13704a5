//===- CheckGradients.cpp - a backward case against the reference ---------===//

#include "Check.h"

#include "Parallel.h"
#include "Random.h"
#include "Reference/Gradient.h"
#include "Reference/ProgramNumbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace fa2run {

namespace {

constexpr size_t kMaxFailures = 5;
constexpr int64_t kSampledGroups = 2;
constexpr double kLeast = 0x1p-126; // the least normal f32
/// Of sums of products in f32, over their sizes.
constexpr double kOfSums = 0x1p-20;

/// The query heads that share a key head, decoded, and what is known of their
/// rows.
struct Group {
  int64_t batch = 0, headKv = 0;
  std::vector<float> k, v;
  std::vector<std::vector<float>> q, dout, out;
  std::vector<std::vector<RowStatistics>> statistics;
  // Of rows: the largest norms of dout, out and v, elements of q and k, and
  // gradient of lse.
  double doutNorm = 0, outNorm = 0, vNorm = 0, qMax = 0, kMax = 0, dlseMax = 0;
};

double largestNorm(const std::vector<float> &x, int64_t columns) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); i += size_t(columns)) {
    double sum = 0;
    for (size_t d = 0; d < size_t(columns); ++d)
      sum += double(x[i + d]) * x[i + d];
    largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

std::vector<float> decodeHead(const Tensor &tensor, Precision precision,
                              int64_t batch, int64_t head) {
  int64_t rows = tensor.extent(1), dim = tensor.extent(3);
  std::vector<float> values(size_t(rows * dim));
  for (int64_t i = 0; i < rows; ++i)
    decodeRow(tensor.row(batch, i, head), precision, dim,
              values.data() + i * dim);
  return values;
}

class GradientCheck {
public:
  GradientCheck(const Kernel &kernel, const Configuration &c,
                const Tensors &tensors, const RowSample &sample,
                TensorCore core)
      : kernel(kernel), c(c), tensors(tensors), sample(sample), core(core),
        perGroup(c.headsKv ? c.heads / c.headsKv : 0),
        scale(float(c.scale.value_or(kernel.defaultScale))),
        operands(operandsOf(tensors.extras)),
        dropout(dropoutOf(kernel, operands, c.heads)) {}

  CheckResult run() {
    for (const Tensor *t : {&tensors.dq, &tensors.dk, &tensors.dv})
      scanTensor(*t, kernel.precision, result);
    reportScan(result);
    for (const char *name : {"dq", "dk", "dv"})
      result.gradients.emplace_back(name);
    if (sample.heads.empty())
      return result;
    std::set<std::pair<int64_t, int64_t>> groups;
    for (const RowSample::HeadRows &entry : sample.heads)
      groups.emplace(entry.batch, entry.head);
    for (auto [batch, headKv] : groups)
      checkGroup(batch, headKv);
    return result;
  }

private:
  /// With the program's scores of one query head of the group.
  Head headOf(const Group &g, size_t h = 0) const {
    Head head{kernel.headDim, kernel.headDimV, g.k.data(),
              g.v.data(),     scale,           kernel.precision};
    if (kernel.program)
      head.program = &*kernel.program;
    head.sink = sinkOf(kernel, operands, queryHead(g, h));
    head.dropout = dropout ? &*dropout : nullptr;
    head.place = {g.batch, queryHead(g, h), 0, 0, false, &operands};
    return head;
  }
  int64_t queryHead(const Group &g, size_t h) const {
    return g.headKv * perGroup + int64_t(h);
  }

  void checkGroup(int64_t batch, int64_t headKv) {
    Group g{batch,
            headKv,
            decodeHead(tensors.k, kernel.precision, batch, headKv),
            decodeHead(tensors.v, kernel.precision, batch, headKv),
            {},
            {},
            {},
            {}};
    const double factor = dropout ? dropout->factor() : 1;
    g.vNorm = largestNorm(g.v, kernel.headDimV) * factor;
    g.kMax = largestNorm(g.k, 1);
    for (int64_t h = headKv * perGroup; h < (headKv + 1) * perGroup; ++h) {
      g.q.push_back(decodeHead(tensors.q, kernel.precision, batch, h));
      g.dout.push_back(decodeHead(tensors.dout, kernel.precision, batch, h));
      g.out.push_back(decodeHead(tensors.out, kernel.precision, batch, h));
      g.doutNorm =
          std::max(g.doutNorm, largestNorm(g.dout.back(), kernel.headDimV));
      g.outNorm =
          std::max(g.outNorm, largestNorm(g.out.back(), kernel.headDimV));
      g.qMax = std::max(g.qMax, largestNorm(g.q.back(), 1));
      for (int64_t row = 0; row < c.seqlenQ; ++row)
        g.dlseMax = std::max(g.dlseMax, std::abs(dlseOf(batch, row, h)));
    }
    checkQueries(g);
    checkKeys(g);
  }

  double dlseOf(int64_t batch, int64_t row, int64_t head) const {
    return kernel.hasDlse ? valueAt(tensors.dlse, batch, row, head) : 0;
  }

  /// dq of the sampled rows; the statistics of all rows.
  void checkQueries(Group &g) {
    g.statistics.assign(g.q.size(),
                        std::vector<RowStatistics>(size_t(c.seqlenQ)));
    std::vector<char> wanted = rowsWanted(c.seqlenQ, 0);
    std::vector<std::vector<RowResult>> rows(g.q.size());
    for (auto &of : rows)
      of.resize(size_t(c.seqlenQ));
    parallelFor(int64_t(g.q.size()) * c.seqlenQ, [&](int64_t i) {
      thread_local Scratch scratch;
      size_t h = size_t(i / c.seqlenQ), row = size_t(i % c.seqlenQ);
      Head head = atRow(headOf(g, h), int64_t(row));
      int64_t keys =
          visibleKeys(kernel.mask, int64_t(row), c.seqlenQ, c.seqlenK);
      const float *q = g.q[h].data() + int64_t(row) * kernel.headDim,
                  *dout = g.dout[h].data() + int64_t(row) * kernel.headDimV;
      int64_t index = g.headKv * perGroup + int64_t(h);
      GivenRow given{g.out[h].data() + int64_t(row) * kernel.headDimV,
                     valueAt(tensors.lse, g.batch, int64_t(row), index),
                     dlseOf(g.batch, int64_t(row), index)};
      GradientRow dq;
      g.statistics[h][row] = gradientOfRow(head, q, dout, given, keys, scratch,
                                           wanted[row] ? &dq : nullptr);
      if (!wanted[row])
        return;
      rows[h][row] = compare(tensors.dq, g.batch, int64_t(row), index,
                             std::isinf(g.statistics[h][row].lse), dq);
      rows[h][row].sumError =
          sumError(g, dq.weight, keys) * g.kMax + dq.underflow;
      if (exceeds(rows[h][row]))
        for (int64_t j = 0; j < keys; ++j)
          rows[h][row].sumError += scoreError(g, h, int64_t(row), j).dq;
    });
    for (size_t h = 0; h < rows.size(); ++h)
      merge(0, keep(rows[h], wanted), g.batch,
            g.headKv * perGroup + int64_t(h));
  }

  void checkKeys(const Group &g) {
    std::vector<QueryHead> heads;
    std::vector<const RowStatistics *> statistics;
    for (size_t h = 0; h < g.q.size(); ++h) {
      heads.push_back(
          {c.seqlenQ, g.q[h].data(), g.dout[h].data(), queryHead(g, h)});
      statistics.push_back(g.statistics[h].data());
    }
    std::vector<char> wanted = rowsWanted(c.seqlenK, 1);
    std::vector<RowResult> dk(size_t(c.seqlenK)), dv(size_t(c.seqlenK));
    Head head = headOf(g);
    parallelFor(c.seqlenK, [&](int64_t j) {
      if (!wanted[size_t(j)])
        return;
      thread_local Scratch scratch;
      GradientRow k, v;
      int64_t first = firstRowOfKey(kernel.mask, j, c.seqlenQ, c.seqlenK);
      gradientOfKey(head, heads, statistics, j, first, scratch, k, v);
      int64_t terms = int64_t(heads.size()) * (c.seqlenQ - first);
      bool unseen = first >= c.seqlenQ || heads.empty();
      dk[size_t(j)] = compare(tensors.dk, g.batch, j, g.headKv, unseen, k);
      dk[size_t(j)].sumError =
          sumError(g, k.weight, terms) * g.qMax + k.underflow;
      dv[size_t(j)] = compare(tensors.dv, g.batch, j, g.headKv, unseen, v);
      dv[size_t(j)].sumError =
          kLeast * double(terms) * g.doutNorm + v.underflow;
      if (!exceeds(dk[size_t(j)]) && !exceeds(dv[size_t(j)]))
        return;
      for (size_t h = 0; h < g.q.size(); ++h)
        for (int64_t i = first; i < c.seqlenQ; ++i) {
          ScoreError error = scoreError(g, h, i, j);
          dk[size_t(j)].sumError += error.dk;
          dv[size_t(j)].sumError += error.dv;
        }
    });
    merge(1, keep(dk, wanted), g.batch, g.headKv);
    merge(2, keep(dv, wanted), g.batch, g.headKv);
  }

  /// A bound of what rounding to f32 leaves of P (dP - delta), summed over
  /// `weight`: dP and delta are sums of at most |dout| |v| and |dout| |out|,
  /// and the gradient of lse. Of `terms` many P, those below 2^-126 are 0 in
  /// f32.
  double sumError(const Group &g, double weight, int64_t terms) const {
    return (kOfSums * weight + kLeast * double(terms)) * scale * sizes(g);
  }
  static double sizes(const Group &g) {
    return g.doutNorm * (g.vNorm + g.outNorm) + g.dlseMax;
  }

  /// The row needs more than its own share of the rule.
  bool exceeds(const RowResult &row) const {
    return !row.empty &&
           row.error > 2 * row.standardError +
                           2 * ulp(kernel.precision, row.largest) +
                           row.sumError;
  }

  struct ScoreError {
    double dq, dk, dv;
  };
  /// What the tensor core's score t_ij in place of the exact s_ij can do to
  /// the gradients, to first order: P scale |t - s| in P.
  ScoreError scoreError(const Group &g, size_t h, int64_t i, int64_t j) const {
    const int64_t d = kernel.headDim, dV = kernel.headDimV;
    const float *q = g.q[h].data() + i * d, *k = g.k.data() + j * d,
                *dout = g.dout[h].data() + i * dV, *v = g.v.data() + j * dV;
    auto dot = [](const float *a, const float *b, int64_t count) {
      double sum = 0;
      for (int64_t e = 0; e < count; ++e)
        sum += double(a[e]) * b[e];
      return sum;
    };
    auto largest = [](const float *a, int64_t count) {
      double most = 0;
      for (int64_t e = 0; e < count; ++e)
        most = std::max(most, double(std::abs(a[e])));
      return most;
    };
    const RowStatistics &of = g.statistics[h][size_t(i)];
    if (!std::isfinite(of.givenLse)) // no key is seen, none has a gradient
      return {0, 0, 0};
    double s = dot(q, k, d);
    double t = tensorCoreDot(core, kernel.precision, q, k, d);
    double kept = dropout ? dropout->at(g.batch, queryHead(g, h), i, j) : 1;
    double dp = std::abs(kept * dot(dout, v, dV) - of.givenDelta) * scale;
    double p, ds; // by how much they are off
    if (kernel.program) {
      Number x = programScore(g, h, i, j, scale * s, scale * std::abs(t - s));
      double exact = std::exp(x.value - of.givenLse);
      p = std::isinf(x.error) ? kUnknown
                              : exact * std::expm1(std::min(x.error, 80.0));
      // Of one key that has all the weight, dP - delta is what rounding left.
      dp += kOfSums * scale * sizes(g);
      ds = times(dp, times(p, std::abs(x.slope)) + times(exact, x.slopeError));
    } else {
      p = std::exp(scale * s - of.givenLse) * scale * std::abs(t - s);
      ds = p * dp;
    }
    return {times(ds, largest(k, d)), times(ds, largest(q, d)),
            times(kept * p, largest(dout, dV))};
  }

  Number programScore(const Group &g, size_t h, int64_t i, int64_t j, double s,
                      double error) const {
    Head head = atColumn(headOf(g, h), j, i);
    std::vector<Number> score{{s, error + std::abs(s) * 0x1p-24}};
    head.program->apply(head.place, score);
    return score[0];
  }

  RowResult compare(const Tensor &tensor, int64_t batch, int64_t row,
                    int64_t head, bool empty,
                    const GradientRow &gradient) const {
    RowResult result;
    result.row = row;
    std::vector<float> values(gradient.given.size());
    int64_t count = int64_t(values.size());
    decodeRow(tensor.row(batch, row, head), kernel.precision, count,
              values.data());
    result.empty = empty;
    if (empty) {
      result.lse = -INFINITY;
      for (float value : values)
        result.exact &= value == 0;
      return result;
    }
    result.error = largestError(values.data(), gradient.given.data(), count,
                                &result.column);
    result.standardError =
        largestError(gradient.standard.data(), gradient.exact.data(), count);
    // Also of what it is compared with: a row in which dropout keeps one key
    // has out = v / (1 - p), rounded. Then dP - delta is 0, but as given it is
    // that rounding, which no element holds closer than its own ulp.
    for (const std::vector<double> *values : {&gradient.exact, &gradient.given})
      for (double value : *values)
        result.largest = std::max(result.largest, std::abs(value));
    return result;
  }

  /// Rows (side 0) or keys (side 1) to be compared.
  std::vector<char> rowsWanted(int64_t count, int side) const {
    if (sample.everything)
      return std::vector<char>(size_t(count), 1);
    std::vector<char> wanted(size_t(count), 0);
    Sequence random(c.seed + 78 + uint64_t(side));
    int64_t tile = side == 0 ? kernel.blockQ : kernel.blockKv;
    tile = tile ? tile : 64;
    auto add = [&](int64_t i) {
      if (i >= 0 && i < count)
        wanted[size_t(i)] = 1;
    };
    for (int64_t t : {int64_t(0), int64_t(1), count / tile / 2, count / tile}) {
      add(t * tile - 1);
      add(t * tile);
    }
    add(count - 1);
    for (int i = 0; i < 48 && count > 0; ++i)
      add(random.between(0, count - 1));
    return wanted;
  }

  static std::vector<RowResult> keep(const std::vector<RowResult> &rows,
                                     const std::vector<char> &wanted) {
    std::vector<RowResult> kept;
    for (size_t i = 0; i < rows.size(); ++i)
      if (wanted[i])
        kept.push_back(rows[i]);
    return kept;
  }

  void merge(size_t which, const std::vector<RowResult> &rows, int64_t batch,
             int64_t head) {
    GradientVerdict &into = result.gradients[which];
    HeadVerdict verdict = judge(rows, kernel.precision);
    for (const RowResult &row : rows)
      result.emptyRows += row.empty;
    result.rowsCompared += int64_t(rows.size());
    into.maxError = std::max(into.maxError, verdict.maxError);
    into.maxStandardError =
        std::max(into.maxStandardError, verdict.maxStandardError);
    if (into.worst.batch < 0 || verdict.worstRatio > into.worstRatio)
      into.worst = {batch, head, verdict.worstRow, verdict.worstColumn};
    into.worstRatio = std::max(into.worstRatio, verdict.worstRatio);
    if (result.worstHead < 0 || verdict.worstRatio > result.worst.worstRatio) {
      result.worst = verdict;
      result.worstBatch = batch;
      result.worstHead = head;
    }
    result.failedRows += verdict.failedRows;
    if (verdict.passed)
      return;
    result.passed = false;
    if (result.failures.size() < kMaxFailures)
      result.failures.push_back(fmt::format("{} batch {} head {} {}", into.name,
                                            batch, head, verdict.firstFailure));
  }

  const Kernel &kernel;
  const Configuration &c;
  const Tensors &tensors;
  const RowSample &sample;
  TensorCore core;
  int64_t perGroup;
  double scale;
  Operands operands;
  std::optional<Dropout> dropout;
  CheckResult result;
};

} // namespace

RowSample chooseGradientRows(const Kernel &kernel, const Configuration &c,
                             CheckMode mode, double budget) {
  RowSample sample;
  sample.rowsTotal =
      c.batch * (c.heads * c.seqlenQ + 2 * c.headsKv * c.seqlenK);
  sample.everything = mode != CheckMode::None;
  if (mode == CheckMode::None)
    return sample;
  // Two passes, float64 and f32.
  double work = 4.0 * double(c.batch) * double(c.heads) * double(c.seqlenQ) *
                double(c.seqlenK) * double(kernel.headDim + kernel.headDimV);
  sample.everything =
      mode == CheckMode::Full || (mode == CheckMode::Auto && work <= budget);
  Sequence random(c.seed + 77);
  std::set<std::pair<int64_t, int64_t>> groups;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.headsKv; ++h)
      groups.emplace(b, h);
  while (!sample.everything && int64_t(groups.size()) > kSampledGroups) {
    auto at = groups.begin();
    std::advance(at, random.between(0, int64_t(groups.size()) - 1));
    groups.erase(at);
  }
  for (auto [b, h] : groups)
    sample.heads.push_back({b, h, {}});
  return sample;
}

CheckResult checkGradients(const Kernel &kernel,
                           const Configuration &configuration,
                           const Tensors &tensors, const RowSample &sample,
                           TensorCore core) {
  return GradientCheck(kernel, configuration, tensors, sample, core).run();
}

} // namespace fa2run
