//===- CheckExtraGradients.cpp - gradients of what programs read ----------===//
//
// In f32 no product rounds what they are made of to the input dtype: each
// element is compared with float64 within a bound of f32's roundings. Those in
// 16 bits are dS as the products have it: P may have been rounded before, and
// dS is.
//
//===----------------------------------------------------------------------===//

#include "Check.h"

#include "Parallel.h"
#include "Reference/Gradient.h"
#include "Reference/ProgramNumbers.h"

#include <cmath>
#include <cstring>
#include <mutex>

namespace fa2run {

namespace {

constexpr double kStep = 0x1p-24; // what an f32 operation rounds by
constexpr double kLeast = 0x1p-126;

double norm(const std::vector<float> &x) {
  double sum = 0;
  for (float value : x)
    sum += double(value) * value;
  return std::sqrt(sum);
}

double dot(const std::vector<float> &x, const std::vector<float> &y) {
  double sum = 0;
  for (size_t d = 0; d < x.size(); ++d)
    sum += double(x[d]) * y[d];
  return sum;
}

class ExtraGradientCheck {
public:
  ExtraGradientCheck(const Kernel &kernel, const Configuration &c,
                     const Tensors &tensors, TensorCore core)
      : kernel(kernel), c(c), tensors(tensors), core(core),
        scale(float(c.scale.value_or(kernel.defaultScale))),
        operands(operandsOf(tensors.extras)),
        dropout(dropoutOf(kernel, operands, c.heads)),
        factor(dropout ? dropout->factor() : 1) {}

  void run(const Extra &gradient, CheckResult &result) {
    name = gradient.nameOf().substr(1);
    rounding = gradient.dtype() == FA2RT_BF16  ? Rounding{0x1p-8, 0}
               : gradient.dtype() == FA2RT_F16 ? Rounding{0x1p-11, 0x1p-25}
                                               : Rounding{};
    const std::vector<double> &got = gradient.operand().elements;
    sumUp(got.size(), /*tensorCore=*/false);
    if (worstRatio(got).second > 1)
      sumUp(got.size(), /*tensorCore=*/true);
    auto [worst, ratio] = worstRatio(got);
    GradientVerdict verdict(gradient.nameOf());
    verdict.worstRatio = ratio;
    for (size_t e = 0; e < got.size(); ++e)
      verdict.maxError =
          std::max(verdict.maxError, std::abs(got[e] - sums[e].value));
    result.gradients.push_back(verdict);
    if (ratio <= 1)
      return;
    result.passed = false;
    result.failures.push_back(fmt::format(
        "{} element {}: {} is off {} by {:.3g}, which exceeds the allowed "
        "{:.3g}",
        gradient.nameOf(), worst, got[worst], sums[worst].value,
        std::abs(got[worst] - sums[worst].value), allowed(sums[worst])));
  }

private:
  struct Sum {
    double value = 0, bound = 0, size = 0, terms = 0;
    double dp = 0; // what P is multiplied with, whose roundings it scales
  };
  /// What a number in the gradient's type may be off by.
  struct Rounding {
    double relative = 0, absolute = 0;
  };

  double allowed(const Sum &sum) const {
    return sum.bound + kStep * (16 + std::sqrt(sum.terms)) * sum.size +
           2 * rounding.relative * (sum.size + sum.bound) +
           rounding.absolute * (1 + sum.dp) + kFlushed * (1 + sum.terms);
  }

  /// The element that is furthest off, in units of what is allowed; a NaN is
  /// the furthest.
  std::pair<size_t, double> worstRatio(const std::vector<double> &got) const {
    std::pair<size_t, double> worst{0, 0};
    for (size_t e = 0; e < got.size(); ++e) {
      double error = std::abs(got[e] - sums[e].value);
      double ratio = error == 0 ? 0 : error / allowed(sums[e]);
      if (std::isnan(error))
        ratio = kUnknown;
      if (ratio > worst.second)
        worst = {e, ratio};
    }
    return worst;
  }

  std::vector<float> rowOf(const Tensor &tensor, int64_t batch, int64_t row,
                           int64_t head) const {
    std::vector<float> values(size_t(tensor.extent(3)));
    decodeRow(tensor.row(batch, row, head), kernel.precision, tensor.extent(3),
              values.data());
    return values;
  }

  void sumUp(size_t elements, bool tensorCore) {
    sums.assign(elements, {});
    parallelFor(c.batch * c.heads * c.seqlenQ, [&](int64_t i) {
      addRow(i / c.seqlenQ / c.heads, i / c.seqlenQ % c.heads, i % c.seqlenQ,
             tensorCore);
    });
  }

  /// Row (batch, head, row) of dS, by the sink or by what is read.
  void addRow(int64_t batch, int64_t head, int64_t row, bool tensorCore) {
    int64_t keys = visibleKeys(kernel.mask, row, c.seqlenQ, c.seqlenK),
            headKv = head / (c.heads / c.headsKv);
    std::vector<float> q = rowOf(tensors.q, batch, row, head),
                       dout = rowOf(tensors.dout, batch, row, head),
                       out = rowOf(tensors.out, batch, row, head);
    float lse = valueAt(tensors.lse, batch, row, head);
    double dlse = kernel.hasDlse ? valueAt(tensors.dlse, batch, row, head) : 0;
    if (kernel.hasSink && name == "sink") { // whose value is 0
      std::lock_guard lock(mutex);
      return add(
          sums[size_t(head)], {sinkOf(kernel, operands, head), 0, /*slope=*/1},
          lse, dlse - dot(dout, out), norm(dout) * norm(out) + std::abs(dlse));
    }
    if (std::abs(lse) >= kLargestLse)
      return;
    std::vector<Number> scores(static_cast<size_t>(keys));
    std::vector<double> dp(scores.size()), size(scores.size());
    for (int64_t j = 0; j < keys; ++j) {
      std::vector<float> k = rowOf(tensors.k, batch, j, headKv),
                         v = rowOf(tensors.v, batch, j, headKv);
      double s = dot(q, k), error = std::abs(scale * s) * kStep;
      if (tensorCore)
        error +=
            scale * std::abs(tensorCoreDot(core, kernel.precision, q.data(),
                                           k.data(), kernel.headDim) -
                             s);
      scores[size_t(j)] = {scale * s, error};
      double kept = dropout ? dropout->at(batch, head, row, j) : 1;
      dp[size_t(j)] = kept * dot(dout, v) - dot(dout, out) + dlse;
      size[size_t(j)] =
          norm(dout) * (factor * norm(v) + norm(out)) + std::abs(dlse);
    }
    ProgramLine line{batch, head, row, 0, false, &operands};
    std::vector<double> begun(scores.size());
    if (tensorCore) {
      std::vector<Number> changed = scores;
      kernel.program->apply(line, changed);
      for (int64_t j = 0; j < keys; ++j)
        begun[size_t(j)] =
            errorBegun(scores[size_t(j)], changed[size_t(j)], lse, q.data(),
                       rowOf(tensors.k, batch, j, headKv).data());
    }
    for (size_t place : kernel.program->placesOf(name)) {
      std::vector<Number> by = scores;
      std::vector<size_t> elements;
      kernel.program->applyBy(place, line, by, elements);
      for (size_t j = 0; j < by.size(); ++j)
        by[j].error += begun[j];
      std::lock_guard lock(mutex);
      for (size_t j = 0; j < by.size(); ++j)
        add(sums[elements[j]], by[j], lse, dp[j], size[j]);
    }
  }

  /// Where the program adds, products may begin with what it adds less lse,
  /// over the scale: how far off the tensor core's sums are from there.
  double errorBegun(const Number &score, const Number &changed, double lse,
                    const float *q, const float *k) const {
    double whole = changed.value - lse;
    float start = float((whole - score.value) / scale);
    if (changed.slope != 1 || !std::isfinite(start))
      return 0;
    return std::abs(scale * tensorCoreDot(core, kernel.precision, q, k,
                                          kernel.headDim, start) -
                    whole);
  }

  /// P (dP - delta) times the slope, and how far f32 may be from it. `size`
  /// bounds what dP and delta are sums of.
  static void add(Sum &sum, const Number &x, double lse, double dp,
                  double size) {
    double p = std::isinf(lse) ? 0 : std::exp(x.value - lse);
    if (p == 0 || (x.slope == 0 && x.slopeError == 0))
      return;
    double power = (std::abs(x.value) + std::abs(lse)) * 2 * kStep + x.error;
    double off = std::isinf(power) ? kUnknown : std::expm1(power) + 0x1p-21;
    double value = times(p, dp) * x.slope;
    sum.value += value;
    sum.size += std::abs(value);
    sum.terms += 1;
    sum.dp += std::abs(dp * x.slope);
    sum.bound += times(std::abs(x.slope),
                       times(p, times(off, std::abs(dp)) + 0x1p-20 * size) +
                           kLeast * size) +
                 times(x.slopeError, p * (std::abs(dp) + 0x1p-20 * size));
  }

  const Kernel &kernel;
  const Configuration &c;
  const Tensors &tensors;
  TensorCore core;
  double scale;
  Operands operands;
  std::optional<Dropout> dropout;
  double factor;
  std::string name;
  Rounding rounding;
  std::vector<Sum> sums;
  std::mutex mutex;
};

} // namespace

void checkExtraGradients(const Kernel &kernel,
                         const Configuration &configuration,
                         const Tensors &tensors, TensorCore core,
                         CheckResult &result) {
  ExtraGradientCheck check(kernel, configuration, tensors, core);
  for (const Extra &gradient : tensors.dextras)
    check.run(gradient, result);
}

} // namespace fa2run
