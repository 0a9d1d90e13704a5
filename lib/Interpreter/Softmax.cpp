//===- Softmax.cpp - the online softmax -----------------------------------===//

#include "Evaluate.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

static constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// log2(e) c, which is 1 of c = ln 2.
static float powersOfTwo(float scale) {
  constexpr double log2e = 1.4426950408889634;
  return float(log2e * scale);
}

static float exp2Of(float x) { return float(std::exp2(double(x))); }

/// 2^(k s - k m): one fused multiply-add whose second term is rounded.
static float power(float k, float s, float km) {
  return exp2Of(std::fmaf(k, s, -km));
}

static float largestOf(const Tile &tile, int64_t row) {
  const float *first = &tile.real[row * tile.cols()];
  return *std::max_element(first, first + tile.cols());
}

static void give(Frame &f, Value result, std::shared_ptr<Tile> tile) {
  f.set(result, Datum(TileRef(std::move(tile))));
}

/// Row r of `p` becomes 2^(k s - k m); its sum.
static float exponentials(Tile &p, int64_t r, float k, float m) {
  double sum = 0;
  float km = k * m;
  for (int64_t c = 0; c < p.cols(); ++c) {
    float &x = p.real[r * p.cols() + c];
    x = power(k, x, km);
    sum += x;
  }
  return float(sum);
}

static float newReference(SoftmaxStepOp op, float k, float m, float largest) {
  float slack = op.getSlack().convertToFloat();
  float top = largest + float(op.getStart()) / k;
  if (slack == 0)
    return std::max(m, top);
  return k * (largest - m) <= slack ? m : top;
}

void interpreter::run(Frame &f, SoftmaxStepOp op) {
  TileRef s = f.tile(op.getS());
  auto p = std::make_shared<Tile>(*s),
       m = std::make_shared<Tile>(*f.tile(op.getM())),
       l = std::make_shared<Tile>(*f.tile(op.getL())),
       alpha = makeTile(op.getAlpha().getType());
  float k = powersOfTwo(f.real(op.getScale()));
  for (int64_t r = 0; r < s->rows(); ++r) {
    float before = m->real[r];
    float now = newReference(op, k, before, largestOf(*s, r));
    m->real[r] = now;
    alpha->real[r] = exp2Of(k * before - k * now);
    l->real[r] =
        std::fmaf(alpha->real[r], l->real[r], exponentials(*p, r, k, now));
  }
  give(f, op.getP(), p);
  give(f, op.getNewM(), m);
  give(f, op.getNewL(), l);
  give(f, op.getAlpha(), alpha);
}

void interpreter::run(Frame &f, SoftmaxRecomputeOp op) {
  auto p = std::make_shared<Tile>(*f.tile(op.getS()));
  TileRef n = op.getN() ? f.tile(op.getN()) : TileRef();
  float k = powersOfTwo(f.real(op.getScale()));
  for (int64_t r = 0, i = 0; r < p->rows(); ++r)
    for (int64_t c = 0; c < p->cols(); ++c, ++i) {
      float of = n ? n->real[op.getColumns() ? c : r] : 0;
      p->real[i] = of == -kInfinity ? 0 : power(k, p->real[i], -of);
    }
  give(f, op.getP(), p);
}

namespace {
struct Normalizer {
  float inverse, lse;
};
} // namespace

static Normalizer normalizer(float m, float l, float scale) {
  if (l == 0)
    return {0, -kInfinity};
  return {1 / l, float(double(scale) * m + std::log(double(l)))};
}

void interpreter::run(Frame &f, SoftmaxFinishOp op) {
  auto out = std::make_shared<Tile>(*f.tile(op.getO()));
  auto lse = makeTile(op.getLse().getType());
  TileRef m = f.tile(op.getM()), l = f.tile(op.getL());
  float scale = f.real(op.getScale());
  for (int64_t r = 0, i = 0; r < out->rows(); ++r) {
    Normalizer n = normalizer(m->real[r], l->real[r], scale);
    lse->real[r] = n.lse;
    for (int64_t c = 0; c < out->cols(); ++c, ++i)
      out->real[i] *= n.inverse;
  }
  give(f, op.getOut(), out);
  give(f, op.getLse(), lse);
}

void interpreter::run(Frame &f, NormalizerOp op) {
  TileRef m = f.tile(op.getM()), l = f.tile(op.getL());
  auto inverse = makeTile(op.getInverse().getType()),
       lse = makeTile(op.getLse().getType());
  float scale = f.real(op.getScale());
  for (int64_t r = 0; r < m->size(); ++r) {
    Normalizer n = normalizer(m->real[r], l->real[r], scale);
    inverse->real[r] = n.inverse;
    lse->real[r] = n.lse;
  }
  give(f, op.getInverse(), inverse);
  give(f, op.getLse(), lse);
}

//===----------------------------------------------------------------------===//
// Without a maximum
//===----------------------------------------------------------------------===//

void interpreter::run(Frame &f, SoftmaxSpeculateOp op) {
  auto p = std::make_shared<Tile>(*f.tile(op.getS()));
  auto sum = op.getSum() ? makeTile(op.getSum().getType()) : nullptr;
  TileRef m = op.getM() ? f.tile(op.getM()) : TileRef();
  float k = powersOfTwo(f.real(op.getScale()));
  for (int64_t r = 0; r < p->rows(); ++r) {
    float ofRow = exponentials(*p, r, k, m ? m->real[r] : 0.0f);
    if (sum)
      sum->real[r] = ofRow;
  }
  give(f, op.getP(), p);
  if (sum)
    give(f, op.getSum(), sum);
}

/// Written so that it is true of a NaN. A row's sum stands for those of its
/// lanes, of which it is at most so many times the largest.
static bool exceeds(float sum, int64_t above) {
  return !(sum <= std::ldexp(1.0f, int(above)));
}

void interpreter::run(Frame &f, ExceedsOp op) {
  TileRef sum = f.tile(op.getSum());
  bool any = llvm::any_of(sum->real,
                          [&](float x) { return exceeds(x, op.getAbove()); });
  f.set(op.getResult(), int64_t(any));
}

void interpreter::run(Frame &f, SoftmaxRebaseOp op) {
  TileRef sum = f.tile(op.getSum()),
          s = op.getS() ? f.tile(op.getS()) : nullptr;
  auto m = std::make_shared<Tile>(*f.tile(op.getM()));
  auto alpha = makeTile(op.getAlpha().getType());
  float k = powersOfTwo(f.real(op.getScale()));
  for (int64_t r = 0; r < m->size(); ++r) {
    float before = m->real[r], big = sum->real[r];
    alpha->real[r] = 1;
    if (!exceeds(big, op.getAbove()))
      continue;
    int64_t n = s ? 0 : op.getStart() + std::ilogb(big);
    m->real[r] = s ? largestOf(*s, r) : before + float(n) / k;
    alpha->real[r] =
        s ? exp2Of(k * before - k * m->real[r]) : std::ldexp(1.0f, int(-n));
  }
  give(f, op.getNewM(), m);
  give(f, op.getAlpha(), alpha);
}

void interpreter::run(Frame &f, NeedsRescaleOp op) {
  auto changes = [](float x) { return !(x == 1); };
  f.set(op.getResult(),
        int64_t(llvm::any_of(f.tile(op.getFactors())->real, changes)));
}

/// A tile has the keys of all warps already: there is one state.
void interpreter::run(Frame &f, CombineSplitsOp op) {
  f.set(op.getOutO(), f.get(op.getO()));
  f.set(op.getOutM(), f.get(op.getM()));
  f.set(op.getOutL(), f.get(op.getL()));
}
