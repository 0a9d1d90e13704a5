//===- Tensors.cpp - a case's tensors in poisoned memory ------------------===//

#include "Tensors.h"

#include "Parallel.h"
#include "Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fa2run {

namespace {

constexpr uint8_t kPoison = 0xff;
/// Poisoned bytes before the first element and after the last.
constexpr int64_t kGuardBytes = 1024;

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// a * b, refused beyond 2^40: more than any host here holds.
int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > (int64_t(1) << 40))
    refuse("a tensor of more than 2^40 elements is beyond fa2-run");
  return result;
}

} // namespace

void Tensor::allocate(int64_t elements, int64_t alignment) {
  base = roundUp(kGuardBytes, alignment);
  storage.resize(size_t(base + product(elements, elementBytes) + kGuardBytes));
  poison();
}

Tensor Tensor::rows(std::string name, fa2rtDType dtype, int64_t batch,
                    int64_t length, int64_t heads, int64_t dim,
                    const Configuration &configuration,
                    const Kernel::TensorRule &rule) {
  Tensor t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.batch = batch;
  t.length = length;
  t.heads = heads;
  t.dim = dim;
  int64_t pitch = roundUp(dim, rule.strideMultiple) +
                  configuration.rowPadding * rule.strideMultiple;
  int64_t rowsHeld = length + configuration.tailRows;
  if (configuration.layout == Layout::BSHD) {
    t.strideH = pitch;
    t.strideS = product(pitch, std::max<int64_t>(heads, 1));
    t.strideB = product(t.strideS, rowsHeld);
  } else {
    t.strideS = pitch;
    t.strideH = product(pitch, rowsHeld);
    t.strideB = product(t.strideH, std::max<int64_t>(heads, 1));
  }
  t.shape = {batch, length, heads, dim};
  t.strides = {t.strideB, t.strideS, t.strideH, 1};
  t.allocate(product(t.strideB, batch), rule.alignment);
  return t;
}

Tensor Tensor::vectors(std::string name, int64_t batch, int64_t heads,
                       int64_t length, const Configuration &configuration,
                       const Kernel::TensorRule &rule) {
  Tensor t;
  t.name = std::move(name);
  t.dtype = FA2RT_F32;
  t.elementBytes = 4;
  t.batch = batch;
  t.length = length;
  t.heads = heads;
  t.strideS = 1;
  t.strideH = roundUp(length + configuration.tailRows, rule.strideMultiple);
  t.strideB = product(t.strideH, std::max<int64_t>(heads, 1));
  t.shape = {batch, heads, length};
  t.strides = {t.strideB, t.strideH, 1};
  t.allocate(product(t.strideB, batch), rule.alignment);
  return t;
}

void Tensor::poison() { std::memset(storage.data(), kPoison, storage.size()); }

void Tensor::upload(fa2rtDevice *device) {
  if (!owner) {
    owner = device;
    buffer = Buffer(device, storage.size());
  }
  check(
      fa2rtMemoryCopyIn(owner, buffer.data(), storage.data(), storage.size()));
}

void Tensor::download() {
  checkLaunch(
      fa2rtMemoryCopyOut(owner, storage.data(), buffer.data(), storage.size()));
}

bool Tensor::changedOnDevice() {
  std::vector<uint8_t> now(storage.size());
  checkLaunch(fa2rtMemoryCopyOut(owner, now.data(), buffer.data(), now.size()));
  return now != storage;
}

std::string Tensor::disturbedPadding() const {
  // Poison over the elements of a copy; then everything must be poison.
  std::vector<uint8_t> copy = storage;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < length; ++s)
      for (int64_t h = 0; h < heads; ++h)
        std::memset(copy.data() + rowOffset(b, s, h), kPoison,
                    size_t(rowBytes()));
  auto at = std::find_if(copy.begin(), copy.end(),
                         [](uint8_t byte) { return byte != kPoison; });
  if (at == copy.end())
    return "";
  return fmt::format("byte {} of {} (the elements begin at {})",
                     at - copy.begin(), copy.size(), base);
}

fa2rtArgument Tensor::argument() const {
  const void *memory = owner ? buffer.data() : storage.data();
  auto *data =
      const_cast<uint8_t *>(static_cast<const uint8_t *>(memory)) + base;
  bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
  return fa2rtTensor(name.c_str(), empty ? nullptr : data, dtype,
                     int32_t(shape.size()), shape.data(), strides.data());
}

namespace {

enum class Sign { Any, Positive, Negative };

void fillNormal(Tensor &tensor, Precision precision, double factor, Sign sign,
                uint64_t stream) {
  int64_t batch = tensor.extent(0), length = tensor.extent(1),
          heads = tensor.extent(2), dim = tensor.extent(3);
  int64_t pairs = (dim + 1) / 2;
  parallelFor(batch * length, [&](int64_t bs) {
    for (int64_t h = 0; h < heads; ++h) {
      uint8_t *row = tensor.row(bs / length, bs % length, h);
      for (int64_t p = 0; p < pairs; ++p) {
        auto [a, b] =
            normalPair(stream, uint64_t((bs * heads + h) * pairs + p));
        float values[2] = {a, b};
        for (int64_t i = 0; i < 2 && 2 * p + i < dim; ++i) {
          float value = values[i] * float(factor);
          if (sign != Sign::Any)
            value = sign == Sign::Positive ? std::abs(value) : -std::abs(value);
          uint16_t bits = encode(precision, value);
          std::memcpy(row + 2 * (2 * p + i), &bits, sizeof bits);
        }
      }
    }
  });
}

void fillVectors(Tensor &tensor, uint64_t stream) {
  uint64_t next = 0;
  for (int64_t b = 0; b < tensor.extent(0); ++b)
    for (int64_t h = 0; h < tensor.extent(1); ++h)
      for (int64_t s = 0; s < tensor.extent(2); ++s) {
        float value = normalPair(stream, next++).first;
        std::memcpy(tensor.row(b, s, h), &value, sizeof value);
      }
}

} // namespace

size_t upload(fa2rtDevice *device, const Kernel &kernel, Tensors &t) {
  size_t bytes = 0;
  for (const auto &tensors : {inputsOf(kernel, t), outputsOf(kernel, t)})
    for (Tensor *tensor : tensors) {
      tensor->upload(device);
      bytes += tensor->bytes();
    }
  for (auto *extras : {&t.extras, &t.dextras})
    for (Extra &extra : *extras) {
      extra.upload(device);
      bytes += extra.bytes();
    }
  return bytes;
}

std::string describeTensors(const Kernel &kernel) {
  std::string text = fmt::format("{} {} {} {}", kernel.pass, kernel.dtypeName,
                                 kernel.headDim, kernel.headDimV);
  auto add = [&](const char *name, const Kernel::TensorRule &rule) {
    text += fmt::format(" {}:{}:{}", name, rule.alignment, rule.strideMultiple);
  };
  add("q", kernel.q);
  add("k", kernel.k);
  add("v", kernel.v);
  add("out", kernel.out);
  if (kernel.hasLse)
    add("lse", kernel.lse);
  if (kernel.pass == "backward") {
    add("dout", kernel.dout);
    add("dq", kernel.dq);
    add("dk", kernel.dk);
    add("dv", kernel.dv);
  }
  if (kernel.hasDlse)
    add("dlse", kernel.dlse);
  for (const Kernel::ExtraRule &rule : kernel.extras)
    text +=
        fmt::format(" {} {} {} [{}] {} {} {} [{}] {}", rule.name, rule.tensor,
                    int(rule.dtype), fmt::join(rule.shape, ","), rule.broadcast,
                    rule.hasGradient, rule.wholeGradient,
                    fmt::join(rule.summed, ","), int(rule.draw));
  return text;
}

Tensors makeTensors(const Kernel &kernel, const Configuration &c,
                    const GivenExtras &given, ExtraStrides lie) {
  fa2rtDType dtype =
      kernel.precision == Precision::BF16 ? FA2RT_BF16 : FA2RT_F16;
  Tensors t;
  t.extras = makeExtras(kernel, c, given, lie);
  t.q = Tensor::rows("q", dtype, c.batch, c.seqlenQ, c.heads, kernel.headDim, c,
                     kernel.q);
  t.k = Tensor::rows("k", dtype, c.batch, c.seqlenK, c.headsKv, kernel.headDim,
                     c, kernel.k);
  t.v = Tensor::rows("v", dtype, c.batch, c.seqlenK, c.headsKv, kernel.headDimV,
                     c, kernel.v);
  t.out = Tensor::rows("out", dtype, c.batch, c.seqlenQ, c.heads,
                       kernel.headDimV, c, kernel.out);
  if (kernel.hasLse)
    t.lse = Tensor::vectors("lse", c.batch, c.heads, c.seqlenQ, c, kernel.lse);
  uint64_t stream = scramble(c.seed);
  fillNormal(t.q, kernel.precision, c.randomScale,
             c.sign ? Sign::Positive : Sign::Any, stream + 1);
  fillNormal(t.k, kernel.precision, 1, c.sign ? Sign::Negative : Sign::Any,
             stream + 2);
  fillNormal(t.v, kernel.precision, 1, Sign::Any, stream + 3);
  if (kernel.pass != "backward")
    return t;
  t.dout = Tensor::rows("dout", dtype, c.batch, c.seqlenQ, c.heads,
                        kernel.headDimV, c, kernel.dout);
  if (kernel.hasDlse) {
    t.dlse =
        Tensor::vectors("dlse", c.batch, c.heads, c.seqlenQ, c, kernel.dlse);
    fillVectors(t.dlse, stream + 6);
  }
  t.dq = Tensor::rows("dq", dtype, c.batch, c.seqlenQ, c.heads, kernel.headDim,
                      c, kernel.dq);
  t.dk = Tensor::rows("dk", dtype, c.batch, c.seqlenK, c.headsKv,
                      kernel.headDim, c, kernel.dk);
  t.dv = Tensor::rows("dv", dtype, c.batch, c.seqlenK, c.headsKv,
                      kernel.headDimV, c, kernel.dv);
  fillNormal(t.dout, kernel.precision, 1, Sign::Any, stream + 4);
  for (const Extra &extra : t.extras)
    if (extra.hasGradient())
      t.dextras.push_back(
          Extra::gradientOf(extra, stream + 2000 + t.dextras.size(), lie));
  return t;
}

void fillForward(const Kernel &kernel, const Configuration &c, Tensors &t) {
  int64_t group = c.headsKv ? c.heads / c.headsKv : 1;
  double scale = float(c.scale.value_or(kernel.defaultScale));
  Operands operands = operandsOf(t.extras);
  std::optional<Dropout> dropout = dropoutOf(kernel, operands, c.heads);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t kv = 0; kv < c.headsKv; ++kv) {
      std::vector<float> k(size_t(c.seqlenK * kernel.headDim)),
          v(size_t(c.seqlenK * kernel.headDimV));
      for (int64_t j = 0; j < c.seqlenK; ++j) {
        decodeRow(t.k.row(b, j, kv), kernel.precision, kernel.headDim,
                  k.data() + j * kernel.headDim);
        decodeRow(t.v.row(b, j, kv), kernel.precision, kernel.headDimV,
                  v.data() + j * kernel.headDimV);
      }
      Head head{kernel.headDim, kernel.headDimV, k.data(),
                v.data(),       scale,           kernel.precision};
      if (kernel.program)
        head.program = &*kernel.program;
      parallelFor(group * c.seqlenQ, [&](int64_t i) {
        thread_local Scratch scratch;
        int64_t h = kv * group + i / c.seqlenQ, row = i % c.seqlenQ;
        std::vector<float> q(size_t(kernel.headDim));
        std::vector<double> out(size_t(kernel.headDimV));
        double lse;
        decodeRow(t.q.row(b, row, h), kernel.precision, kernel.headDim,
                  q.data());
        Head own = head;
        own.sink = sinkOf(kernel, operands, h);
        own.dropout = dropout ? &*dropout : nullptr;
        own.place = {b, h, row, 0, false, &operands};
        referenceRow(own, q.data(),
                     visibleKeys(kernel.mask, row, c.seqlenQ, c.seqlenK),
                     scratch, out.data(), lse);
        for (size_t d = 0; d < out.size(); ++d) {
          uint16_t bits = encode(kernel.precision, float(out[d]));
          std::memcpy(t.out.row(b, row, h) + 2 * d, &bits, sizeof bits);
        }
        float rounded = float(lse);
        std::memcpy(t.lse.row(b, row, h), &rounded, sizeof rounded);
      });
    }
}

void drawForward(const Kernel &kernel, const Configuration &c, Tensors &t) {
  fillNormal(t.out, kernel.precision, 0.1, Sign::Any, scramble(c.seed) + 5);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t s = 0; s < c.seqlenQ; ++s) {
        int64_t keys = visibleKeys(kernel.mask, s, c.seqlenQ, c.seqlenK);
        float lse = std::log(float(keys)) + 1;
        std::memcpy(t.lse.row(b, s, h), &lse, sizeof lse);
      }
}

void decodeRow(const uint8_t *bytes, Precision precision, int64_t count,
               float *values) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    values[i] = decode(precision, bits);
  }
}

namespace {

/// The shape of a [batch, length, heads, dim] tensor in the order of `layout`.
std::vector<int64_t> orderedShape(const Tensor &tensor, Layout layout) {
  std::vector<int64_t> shape;
  for (size_t d = 0; d < 4; ++d)
    shape.push_back(tensor.extent(d));
  if (layout == Layout::BHSD)
    std::swap(shape[1], shape[2]);
  return shape;
}

/// Calls visit(batch, position, head) for each row in the order of `layout`.
template <typename Visit>
void forEachRow(const Tensor &tensor, Layout layout, Visit visit) {
  std::vector<int64_t> shape = orderedShape(tensor, layout);
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t i = 0; i < shape[1]; ++i)
      for (int64_t j = 0; j < shape[2]; ++j)
        layout == Layout::BSHD ? visit(b, i, j) : visit(b, j, i);
}

} // namespace

void setElements(Tensor &tensor, const Array &array, Precision precision,
                 Layout layout, const std::string &name) {
  std::vector<int64_t> shape = orderedShape(tensor, layout);
  if (array.shape != shape)
    refuse("{}: the array's shape is [{}], expected [{}]", name,
           fmt::join(array.shape, ", "), fmt::join(shape, ", "));
  const float *next = array.values.data();
  forEachRow(tensor, layout, [&](int64_t b, int64_t s, int64_t h) {
    uint8_t *row = tensor.row(b, s, h);
    for (int64_t d = 0; d < tensor.extent(3); ++d) {
      uint16_t bits = encode(precision, *next++);
      std::memcpy(row + 2 * d, &bits, sizeof bits);
    }
  });
}

Array getElements(const Tensor &tensor, Precision precision, Layout layout) {
  Array array;
  array.shape = orderedShape(tensor, layout);
  int64_t dim = tensor.extent(3);
  array.values.resize(size_t(tensor.rowCount() * dim));
  float *next = array.values.data();
  forEachRow(tensor, layout, [&](int64_t b, int64_t s, int64_t h) {
    decodeRow(tensor.row(b, s, h), precision, dim, next);
    next += dim;
  });
  return array;
}

float valueAt(const Tensor &tensor, int64_t b, int64_t s, int64_t h) {
  float value;
  std::memcpy(&value, tensor.row(b, s, h), sizeof value);
  return value;
}

Array getVectors(const Tensor &tensor) {
  Array array;
  for (size_t d = 0; d < 3; ++d)
    array.shape.push_back(tensor.extent(d));
  for (int64_t b = 0; b < tensor.extent(0); ++b)
    for (int64_t h = 0; h < tensor.extent(1); ++h)
      for (int64_t s = 0; s < tensor.extent(2); ++s) {
        float value;
        std::memcpy(&value, tensor.row(b, s, h), sizeof value);
        array.values.push_back(value);
      }
  return array;
}

} // namespace fa2run
