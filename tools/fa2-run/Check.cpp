//===- Check.cpp - a case's outputs against the reference -----------------===//

#include "Check.h"

#include "Parallel.h"
#include "Random.h"
#include "Reference/Attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace fa2run {

namespace {

constexpr size_t kMaxFailures = 5;
constexpr int64_t kSampledHeads = 8;
constexpr int64_t kSampledRows = 48;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargestFloat = std::numeric_limits<float>::max();
/// A program's roundings of larger ones may leave nothing known of exp(x -
/// lse).
constexpr double kLargestDifferentiated = 0x1p16;

/// First, last, both sides of the edges of tiles near the ends and in the
/// middle, and random rows.
std::vector<int64_t> sampleRows(const Kernel &kernel, const Configuration &c,
                                Sequence &random) {
  int64_t n = c.seqlenQ;
  std::set<int64_t> rows;
  auto add = [&](int64_t row) {
    if (row >= 0 && row < n)
      rows.insert(row);
  };
  add(0);
  add(n - 1);
  int64_t tile = kernel.blockQ ? kernel.blockQ : 128;
  int64_t tiles = (n + tile - 1) / tile;
  for (int64_t t : {int64_t(1), tiles / 2, tiles - 1}) {
    add(t * tile - 1);
    add(t * tile);
  }
  // Rows whose last key is on either side of the edge of a tile of keys.
  int64_t tileKv = kernel.blockKv ? kernel.blockKv : 64;
  if (kernel.mask != Mask::None) {
    int64_t shift = kernel.mask == Mask::CausalTopLeft ? 0 : c.seqlenK - n;
    if (kernel.mask == Mask::StrictlyCausal)
      --shift;
    for (int64_t t : {int64_t(1), int64_t(2), c.seqlenK / tileKv}) {
      add(t * tileKv - 2 - shift);
      add(t * tileKv - 1 - shift);
      add(t * tileKv - shift);
    }
    add(-shift - 1); // the last row that sees no key
    add(-shift);
  }
  while (int64_t(rows.size()) < std::min(n, kSampledRows))
    add(random.between(0, n - 1));
  return {rows.begin(), rows.end()};
}

} // namespace

RowSample chooseRows(const Kernel &kernel, const Configuration &c,
                     CheckMode mode, double budget) {
  RowSample sample;
  sample.rowsTotal = c.batch * c.heads * c.seqlenQ;
  if (mode == CheckMode::None || sample.rowsTotal == 0) {
    sample.everything = mode != CheckMode::None;
    return sample;
  }
  // Two attentions a row, float64 and f32.
  double rowWork =
      2.0 * double(c.seqlenK) * double(kernel.headDim + kernel.headDimV);
  bool full =
      mode == CheckMode::Full ||
      (mode == CheckMode::Auto && double(sample.rowsTotal) * rowWork <= budget);
  Sequence random(c.seed + 77);
  std::vector<int64_t> all;
  if (full)
    for (int64_t row = 0; row < c.seqlenQ; ++row)
      all.push_back(row);
  std::set<std::pair<int64_t, int64_t>> heads;
  if (full || c.batch * c.heads <= kSampledHeads) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        heads.emplace(b, h);
  } else {
    heads.emplace(0, 0);
    heads.emplace(c.batch - 1, c.heads - 1);
    while (int64_t(heads.size()) < kSampledHeads)
      heads.emplace(random.between(0, c.batch - 1),
                    random.between(0, c.heads - 1));
  }
  for (auto [b, h] : heads) {
    RowSample::HeadRows entry{b, h, full ? all : sampleRows(kernel, c, random)};
    sample.rowsChecked += int64_t(entry.rows.size());
    sample.heads.push_back(std::move(entry));
  }
  sample.everything = sample.rowsChecked == sample.rowsTotal;
  return sample;
}

namespace {

/// A (batch, kv head)'s keys and values as f32, packed.
struct DecodedHead {
  std::vector<float> k, v;
};

using DecodedHeads = std::map<std::pair<int64_t, int64_t>, DecodedHead>;

DecodedHeads decodeHeads(const Kernel &kernel, const Configuration &c,
                         const Tensors &tensors, const RowSample &sample) {
  DecodedHeads decoded;
  int64_t group = c.headsKv ? c.heads / c.headsKv : 1;
  for (const RowSample::HeadRows &entry : sample.heads)
    decoded[{entry.batch, entry.head / group}];
  std::vector<std::pair<const std::pair<int64_t, int64_t>, DecodedHead> *> list;
  for (auto &item : decoded)
    list.push_back(&item);
  parallelFor(int64_t(list.size()), [&](int64_t i) {
    auto &[place, head] = *list[size_t(i)];
    head.k.resize(size_t(c.seqlenK * kernel.headDim));
    head.v.resize(size_t(c.seqlenK * kernel.headDimV));
    for (int64_t j = 0; j < c.seqlenK; ++j) {
      decodeRow(tensors.k.row(place.first, j, place.second), kernel.precision,
                kernel.headDim, head.k.data() + j * kernel.headDim);
      decodeRow(tensors.v.row(place.first, j, place.second), kernel.precision,
                kernel.headDimV, head.v.data() + j * kernel.headDimV);
    }
  });
  return decoded;
}

/// A head of queries beside its keys and values.
Head headOf(const Kernel &kernel, const Configuration &c,
            const DecodedHeads &decoded, const RowSample::HeadRows &entry,
            const Operands &operands, const Dropout *dropout) {
  int64_t group = c.headsKv ? c.heads / c.headsKv : 1;
  const DecodedHead &kv = decoded.at({entry.batch, entry.head / group});
  // What the kernel gets is an f32.
  double scale = float(c.scale.value_or(kernel.defaultScale));
  Head head{kernel.headDim, kernel.headDimV, kv.k.data(),
            kv.v.data(),    scale,           kernel.precision};
  if (kernel.program)
    head.program = &*kernel.program;
  head.sink = sinkOf(kernel, operands, entry.head);
  head.dropout = dropout;
  head.place = {entry.batch, entry.head, 0, 0, false, &operands};
  return head;
}

/// Of the values that a row sees.
double largestOf(const Head &head, int64_t keys) {
  double largest = 0;
  for (int64_t i = 0; i < keys * head.headDimV; ++i)
    largest = std::max(largest, double(std::abs(head.v[i])));
  return largest;
}

/// What is left where dropout takes a row's large P may be too small for its
/// type: in f16 half of a step for each, of a kernel's P, which begin at 2^-7
/// where it assumes maxima; in bf16 all of what is below 2^-126, where
/// exponentials are 0. Beside a sink those of all keys may be.
double underflowOf(const Head &head, const Scratch &scratch, int64_t keys) {
  if (!head.dropout && head.sink == -kInfinity)
    return 0;
  bool half = head.dropout && head.precision == Precision::F16;
  double least = half ? 0x1p-25 * 0x1p7 : 0x1p-126;
  double most = least * dropoutFactor(head), lost = 0;
  for (int64_t j = 0; j < keys; ++j) {
    float largest = 0;
    for (int64_t d = 0; d < head.headDimV; ++d)
      largest = std::max(largest, std::abs(head.v[j * head.headDimV + d]));
    lost += std::min(scratch.scores[size_t(j)] / scratch.sum, most) * largest;
  }
  return lost;
}

RowResult checkRow(const Kernel &kernel, const Configuration &c,
                   const Tensors &tensors, const Head &head, int64_t batch,
                   int64_t headIndex, int64_t row, TensorCore core,
                   Scratch &scratch) {
  RowResult result;
  result.row = row;
  int64_t keys = visibleKeys(kernel.mask, row, c.seqlenQ, c.seqlenK);
  size_t dimV = size_t(kernel.headDimV);
  std::vector<float> q(size_t(kernel.headDim)), out(dimV), standard(dimV);
  std::vector<double> reference(dimV);
  decodeRow(tensors.q.row(batch, row, headIndex), kernel.precision,
            kernel.headDim, q.data());
  decodeRow(tensors.out.row(batch, row, headIndex), kernel.precision,
            kernel.headDimV, out.data());
  referenceRow(head, q.data(), keys, scratch, reference.data(),
               result.lseReference);
  result.lse = result.lseReference;
  if (kernel.hasLse) {
    float lse;
    std::memcpy(&lse, tensors.lse.row(batch, row, headIndex), sizeof lse);
    result.lse = lse;
  }
  result.empty = result.lseReference == -kInfinity;
  if (result.empty) {
    for (float value : out)
      result.exact &= value == 0;
    return result;
  }
  if (keys > 0)
    result.sumError = underflowOf(head, scratch, keys);
  standardRow(head, q.data(), keys, scratch, standard.data());
  result.error = largestError(out.data(), reference.data(), kernel.headDimV,
                              &result.column);
  result.standardError =
      largestError(standard.data(), reference.data(), kernel.headDimV);
  for (double value : reference)
    result.largest = std::max(result.largest, std::abs(value));
  // Few rows need it, and it costs more than the rest.
  bool outIsOff =
      !(result.error <=
        2 * result.standardError + 2 * ulp(kernel.precision, result.largest));
  if (!(lseError(result) <= lseAllowed(result)) || (head.program && outIsOff))
    result.scoreError =
        scoreError(head, q.data(), keys, result.lseReference, core);
  if (head.program && outIsOff)
    result.sumError +=
        2 * result.scoreError * largestOf(head, keys) * dropoutFactor(head);
  return result;
}

/// Every value must have been written, and not be a NaN.
void scanVectors(const Tensor &tensor, CheckResult &result) {
  for (int64_t b = 0; b < tensor.extent(0); ++b)
    for (int64_t h = 0; h < tensor.extent(1); ++h)
      for (int64_t s = 0; s < tensor.extent(2); ++s) {
        float value;
        const uint8_t *bytes = tensor.row(b, s, h);
        std::memcpy(&value, bytes, sizeof value);
        if (std::isnan(value))
          ++(bytes[0] == 0xff && bytes[3] == 0xff ? result.unwritten
                                                  : result.notNumbers);
      }
}

void merge(CheckResult &result, const HeadVerdict &verdict, int64_t batch,
           int64_t head) {
  result.maxError = std::max(result.maxError, verdict.maxError);
  result.maxStandardError =
      std::max(result.maxStandardError, verdict.maxStandardError);
  result.lseMaxError = std::max(result.lseMaxError, verdict.lseMaxError);
  result.lseWorstRatio = std::max(result.lseWorstRatio, verdict.lseWorstRatio);
  result.failedRows += verdict.failedRows;
  if (result.worstHead < 0 || verdict.worstRatio > result.worst.worstRatio) {
    result.worst = verdict;
    result.worstBatch = batch;
    result.worstHead = head;
  }
  if (verdict.passed)
    return;
  result.passed = false;
  if (result.failures.size() < kMaxFailures)
    result.failures.push_back(
        fmt::format("batch {} head {} {}", batch, head, verdict.firstFailure));
}

} // namespace

void scanTensor(const Tensor &tensor, Precision precision,
                CheckResult &result) {
  std::atomic<int64_t> unwritten{0}, notNumbers{0};
  int64_t length = tensor.extent(1), dim = tensor.extent(3);
  parallelFor(tensor.extent(0) * length, [&](int64_t bs) {
    int64_t poisoned = 0, nan = 0;
    std::vector<float> values(static_cast<size_t>(dim));
    for (int64_t h = 0; h < tensor.extent(2); ++h) {
      const uint8_t *row = tensor.row(bs / length, bs % length, h);
      decodeRow(row, precision, dim, values.data());
      for (size_t d = 0; d < values.size(); ++d)
        if (!std::isfinite(values[d]))
          ++(row[2 * d] == 0xff && row[2 * d + 1] == 0xff ? poisoned : nan);
    }
    unwritten += poisoned;
    notNumbers += nan;
  });
  result.unwritten += unwritten;
  result.notNumbers += notNumbers;
}

void reportScan(CheckResult &result) {
  if (result.unwritten) {
    result.passed = false;
    result.failures.push_back(fmt::format(
        "{} elements of the outputs were never written", result.unwritten));
  }
  if (result.notNumbers) {
    result.passed = false;
    result.failures.push_back(fmt::format(
        "{} elements of the outputs are NaN or infinite", result.notNumbers));
  }
}

bool scoresFitFloat32(const Kernel &kernel, const Configuration &c,
                      const Tensors &tensors) {
  const double largest =
      kernel.pass == "backward" ? kLargestDifferentiated : kLargestFloat;
  RowSample sample = chooseRows(kernel, c, CheckMode::Sample, 0);
  Operands operands = operandsOf(tensors.extras);
  DecodedHeads decoded = decodeHeads(kernel, c, tensors, sample);
  std::atomic<bool> fit{true};
  parallelFor(int64_t(sample.heads.size()), [&](int64_t i) {
    const RowSample::HeadRows &entry = sample.heads[size_t(i)];
    Head head = headOf(kernel, c, decoded, entry, operands, nullptr);
    std::vector<float> q(size_t(kernel.headDim));
    std::vector<double> out(size_t(kernel.headDimV));
    Scratch scratch;
    for (int64_t row : entry.rows) {
      decodeRow(tensors.q.row(entry.batch, row, entry.head), kernel.precision,
                kernel.headDim, q.data());
      double lse;
      referenceRow(atRow(head, row), q.data(),
                   visibleKeys(kernel.mask, row, c.seqlenQ, c.seqlenK), scratch,
                   out.data(), lse);
      if (!(lse <= largest))
        fit = false;
    }
  });
  return fit;
}

CheckResult checkOutputs(const Kernel &kernel, const Configuration &c,
                         const Tensors &tensors, const RowSample &sample,
                         TensorCore core) {
  CheckResult result;
  Operands operands = operandsOf(tensors.extras);
  std::optional<Dropout> dropout = dropoutOf(kernel, operands, c.heads);
  scanTensor(tensors.out, kernel.precision, result);
  if (kernel.hasLse)
    scanVectors(tensors.lse, result);
  reportScan(result);
  DecodedHeads decoded = decodeHeads(kernel, c, tensors, sample);

  struct Chunk {
    size_t head, begin, end;
  };
  std::vector<Chunk> chunks;
  std::vector<std::vector<RowResult>> rows(sample.heads.size());
  for (size_t i = 0; i < sample.heads.size(); ++i) {
    size_t count = sample.heads[i].rows.size();
    rows[i].resize(count);
    for (size_t begin = 0; begin < count; begin += 16)
      chunks.push_back({i, begin, std::min(begin + 16, count)});
  }
  parallelFor(int64_t(chunks.size()), [&](int64_t i) {
    const Chunk &chunk = chunks[size_t(i)];
    const RowSample::HeadRows &entry = sample.heads[chunk.head];
    Head head = headOf(kernel, c, decoded, entry, operands,
                       dropout ? &*dropout : nullptr);
    Scratch scratch;
    for (size_t r = chunk.begin; r < chunk.end; ++r)
      rows[chunk.head][r] =
          checkRow(kernel, c, tensors, atRow(head, entry.rows[r]), entry.batch,
                   entry.head, entry.rows[r], core, scratch);
  });
  for (size_t i = 0; i < sample.heads.size(); ++i) {
    for (const RowResult &row : rows[i])
      result.emptyRows += row.empty;
    merge(result, judge(rows[i], kernel.precision), sample.heads[i].batch,
          sample.heads[i].head);
  }
  return result;
}

} // namespace fa2run
