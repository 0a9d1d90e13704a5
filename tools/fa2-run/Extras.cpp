//===- Extras.cpp - what a score program reads ----------------------------===//

#include "Extras.h"

#include "Npy.h"
#include "Parallel.h"
#include "Reference/Float16.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace fa2run {

namespace {

constexpr size_t kGuardBytes = 1024;
constexpr int64_t kPeriod = 1 << 22; // elements

/// -1 where the program leaves it to the launch.
int64_t extentOf(const std::string &dimension, const Configuration &c) {
  if (std::isdigit(static_cast<unsigned char>(dimension[0])))
    return std::stoll(dimension);
  if (dimension == "batch")
    return c.batch;
  if (dimension == "heads")
    return c.heads;
  if (dimension == "heads_kv")
    return c.headsKv;
  if (dimension == "seqlen_q")
    return c.seqlenQ;
  if (dimension == "seqlen_k")
    return c.seqlenK;
  return -1;
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::vector<int64_t> packedStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<int64_t>(1, shape[d]);
  return strides;
}

size_t elementBytes(fa2rtDType dtype) {
  return dtype == FA2RT_BF16 || dtype == FA2RT_F16 ? 2 : 4;
}

} // namespace

Extra::Extra(const Kernel::ExtraRule &rule, const Configuration &c,
             const GivenExtras &given, uint64_t stream, ExtraStrides lie)
    : rule(rule) {
  Sequence random(stream);
  auto text = given.find(rule.name);
  bool packed = lie == ExtraStrides::Packed;
  if (rule.tensor && packed)
    packShape(c);
  else if (rule.tensor)
    drawShape(c, random);
  if (text != given.end())
    take(text->second);
  else if (packed && rule.dtype == FA2RT_F32 &&
           rule.shape == std::vector<std::string>{"heads"})
    fallOverHeads();
  else
    drawValues(stream, packed ? kPeriod : std::numeric_limits<int64_t>::max());
  if (rule.tensor && packed)
    strides = packedStrides(values.shape);
  else if (rule.tensor)
    drawStrides(random, /*mayRepeat=*/text == given.end());
  store();
}

Extra Extra::gradientOf(const Extra &of, uint64_t stream, ExtraStrides lie) {
  Extra gradient;
  gradient.rule.name = "d" + of.rule.name;
  gradient.rule.wholeGradient = of.rule.wholeGradient;
  if (of.rule.wholeGradient)
    gradient.rule.dtype = of.rule.dtype;
  gradient.values.shape = of.values.shape;
  if (!of.rule.tensor)
    gradient.values.shape = {1};
  gradient.values.elements.assign(of.values.elements.size(), std::nan(""));
  Sequence random(stream);
  if (of.rule.wholeGradient)
    gradient.alignStrides(random);
  else if (lie == ExtraStrides::Packed)
    gradient.strides = packedStrides(gradient.values.shape);
  else
    gradient.drawStrides(random, /*mayRepeat=*/false);
  gradient.store();
  return gradient;
}

void Extra::drawShape(const Configuration &c, Sequence &random) {
  for (size_t d = 0; d < rule.shape.size(); ++d) {
    int64_t extent = rule.summed[d] ? 1 : extentOf(rule.shape[d], c);
    bool own = extent < 0;
    // One in four is more than kernels bring to shared memory.
    if (own && (extent = random.between(1, 40)) > 30)
      extent = 5000;
    bool repeats =
        rule.broadcast && !rule.wholeGradient && !own && random.chance(0.25);
    values.shape.push_back(repeats ? 1 : extent);
  }
}

void Extra::packShape(const Configuration &c) {
  constexpr int64_t ownExtent = 40;
  for (size_t d = 0; d < rule.shape.size(); ++d) {
    const std::string &dimension = rule.shape[d];
    int64_t extent = rule.summed[d] ? 1 : extentOf(dimension, c);
    bool forAll = dimension == "batch" && rule.broadcast && !rule.wholeGradient;
    values.shape.push_back(forAll ? 1 : extent < 0 ? ownExtent : extent);
  }
}

/// Half of the time all strides but the innermost are multiples of 16 bytes,
/// and mostly the address too; else one element follows the other as most
/// tensors have them, or there are gaps, any address, and maybe another order
/// of dimensions. Where values may repeat, one may stand for all of a
/// dimension.
void Extra::drawStrides(Sequence &random, bool mayRepeat) {
  size_t rank = values.shape.size();
  bool whole = rule.broadcast && random.chance(0.5);
  bool packed = rule.broadcast && !whole && random.chance(0.5);
  bool any = rule.broadcast && !whole && !packed;
  std::vector<size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t(0));
  if (any && rank > 1 && random.chance(0.25))
    std::swap(order[0], order[random.next() % rank]);
  strides.assign(rank, 1);
  int64_t pitch = any && random.chance(0.25) ? 2 : 1;
  for (size_t d : order) {
    strides[d] = pitch;
    if (rule.broadcast && random.chance(0.1) && mayRepeat) {
      strides[d] = 0;
      continue;
    }
    pitch *= std::max<int64_t>(1, values.shape[d]);
    pitch += packed ? 0 : random.between(0, 3);
    if (whole)
      pitch = (pitch + 7) / 8 * 8;
  }
  if (any || (whole && random.chance(0.25)))
    misaligned = size_t(random.between(0, 7)) * elementBytes(rule.dtype);
}

/// As the copy engine stores tiles: neighbours in the last dimension, and
/// multiples of 16 bytes in the others. It writes rows up to such a multiple.
void Extra::alignStrides(Sequence &random) {
  strides.assign(values.shape.size(), 1);
  int64_t pitch = 1, multiple = 16 / int64_t(elementBytes(rule.dtype));
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = pitch;
    pitch *= std::max<int64_t>(1, values.shape[d]);
    pitch += random.between(0, 1) * multiple;
    pitch = (pitch + multiple - 1) / multiple * multiple;
  }
}

/// As ALiBi's slopes do (Press et al. 2022, section 3): what multiplies a
/// distance would make maxima rise from tile to tile if half of it were below
/// 0.
void Extra::fallOverHeads() {
  int64_t heads = values.shape[0];
  for (int64_t h = 1; h <= heads; ++h)
    values.elements.push_back(std::exp2(-8.0 * double(h) / double(heads)));
}

/// At most `most` of them.
void Extra::drawValues(uint64_t stream, int64_t most) {
  int64_t count = 1;
  for (int64_t extent : values.shape)
    if (__builtin_mul_overflow(count, extent, &count) ||
        count > (int64_t(1) << 32))
      refuse("{}: more than 2^32 elements are beyond fa2-run", rule.name);
  count = std::min(count, most);
  values.elements.resize(size_t(count));
  auto draw = [&](size_t i) -> double {
    auto [normal, other] = normalPair(stream, i);
    using Draw = Kernel::ExtraRule::Draw;
    if (rule.draw != Draw::Numbers) {
      uint64_t bits = scramble(stream + i);
      return rule.draw == Draw::Words ? double(int32_t(bits))
                                      : double(bits % 200) / 256;
    }
    if (rule.dtype == FA2RT_I32) // ids and lengths: few, so that some are equal
      return std::floor(std::abs(normal) * (rule.tensor ? 2 : 20));
    if (!rule.tensor) // caps and temperatures
      return std::abs(normal) + 0.5;
    return normal;
  };
  constexpr int64_t piece = 1 << 14; // elements that a thread draws at a time
  parallelFor((count + piece - 1) / piece, [&](int64_t p) {
    for (int64_t i = p * piece; i < std::min(count, (p + 1) * piece); ++i)
      values.elements[size_t(i)] = draw(size_t(i));
  });
}

void Extra::take(const std::string &text) {
  if (rule.tensor) {
    if (!endsWith(text, ".npy"))
      refuse("--extra {}: expected a .npy file for a tensor, got '{}'",
             rule.name, text);
    Array array = readNpy(text);
    if (array.shape.size() != rule.shape.size())
      refuse("--extra {}: the array has {} dimensions, the kernel takes {}",
             rule.name, array.shape.size(), rule.shape.size());
    values.shape = array.shape;
    values.elements.assign(array.values.begin(), array.values.end());
    return;
  }
  char *end = nullptr;
  double x = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(x))
    refuse("--extra {}: expected a number, got '{}'", rule.name, text);
  values.elements = {x};
}

namespace {

template <typename T> void put(uint8_t *to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T> T get(const uint8_t *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void storeElement(fa2rtDType dtype, uint8_t *to, double value) {
  if (dtype == FA2RT_I32)
    put(to, int32_t(std::clamp(value, -0x1p31, 0x1p31 - 1)));
  else if (dtype == FA2RT_F32)
    put(to, float(value));
  else if (dtype == FA2RT_BF16)
    put(to, encodeBF16(float(value)));
  else
    put(to, encodeF16(float(value)));
}

double loadElement(fa2rtDType dtype, const uint8_t *from) {
  if (dtype == FA2RT_I32)
    return get<int32_t>(from);
  if (dtype == FA2RT_F32)
    return get<float>(from);
  uint16_t bits = get<uint16_t>(from);
  return dtype == FA2RT_BF16 ? decodeBF16(bits) : decodeF16(bits);
}

} // namespace

/// The address of each element in C order, and whether an element before lies
/// there too.
template <typename Visit> void Extra::forEachElement(Visit visit) {
  std::vector<int64_t> at(strides.size(), 0);
  for (double &value : values.elements) {
    int64_t offset = 0;
    bool repeated = false;
    for (size_t d = 0; d < at.size(); ++d) {
      offset += at[d] * strides[d];
      repeated |= strides[d] == 0 && at[d] > 0;
    }
    visit(value,
          storage.data() + base + size_t(offset) * elementBytes(rule.dtype),
          repeated);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == values.shape[d];)
      at[d] = 0;
  }
}

void Extra::store() {
  if (!rule.tensor) {
    uint8_t scalar[4];
    storeElement(rule.dtype, scalar, values.elements[0]);
    values.elements[0] = loadElement(rule.dtype, scalar);
    return;
  }
  size_t last = 0, count = 1, drawn = values.elements.size();
  for (size_t d = 0; d < strides.size(); ++d) {
    last += size_t(std::max<int64_t>(0, values.shape[d] - 1) * strides[d]);
    count *= size_t(values.shape[d]);
  }
  // Of a beginning the last element lies behind all others: no stride of an
  // outer dimension is smaller then.
  size_t lastDrawn = last;
  if (drawn < count) {
    lastDrawn = 0;
    for (size_t d = strides.size(), i = drawn - 1; d-- > 0;) {
      lastDrawn += i % size_t(values.shape[d]) * size_t(strides[d]);
      i /= size_t(values.shape[d]);
    }
  }
  base = kGuardBytes + misaligned;
  span = (last + 1) * elementBytes(rule.dtype);
  held = (lastDrawn + 1) * elementBytes(rule.dtype);
  storage.assign(base + held + kGuardBytes, 0xff);
  forEachElement([&](double value, uint8_t *at, bool repeated) {
    if (!repeated)
      storeElement(rule.dtype, at, value);
  });
  // As they lie there: rounded, and of what a stride of 0 repeats the first,
  // so that a batch's first entry is the same for any number of them.
  forEachElement([&](double &value, const uint8_t *at, bool) {
    value = loadElement(rule.dtype, at);
  });
}

void Extra::upload(fa2rtDevice *device) {
  if (storage.empty())
    return;
  owner = device;
  buffer = Buffer(device, bytes());
  auto copy = [&](size_t to, size_t from, size_t bytes) {
    check(fa2rtMemoryCopyIn(device,
                            static_cast<std::byte *>(buffer.data()) + to,
                            storage.data() + from, bytes));
  };
  for (size_t at = held; at < span; at += held)
    copy(base + at, base, std::min(held, span - at));
  copy(0, 0, held < span ? base + held : storage.size());
}

bool Extra::changedOnDevice() const {
  if (storage.empty())
    return false;
  std::vector<uint8_t> now(storage.size());
  checkLaunch(fa2rtMemoryCopyOut(owner, now.data(), buffer.data(), now.size()));
  return now != storage;
}

bool Extra::download() {
  std::vector<uint8_t> before = storage;
  if (owner)
    checkLaunch(fa2rtMemoryCopyOut(owner, storage.data(), buffer.data(),
                                   storage.size()));
  size_t bytes = elementBytes(rule.dtype), index = 0;
  size_t columns = values.shape.empty() ? 1 : size_t(values.shape.back());
  size_t padding = rule.wholeGradient ? (16 - columns * bytes % 16) % 16 : 0;
  forEachElement([&](double &value, const uint8_t *at, bool) {
    value = loadElement(rule.dtype, at);
    bool ends = ++index % columns == 0;
    std::memcpy(before.data() + (at - storage.data()), at,
                bytes + (ends ? padding : 0));
  });
  return before == storage;
}

fa2rtArgument Extra::argument() const {
  if (!rule.tensor)
    return rule.dtype == FA2RT_I32
               ? fa2rtInteger(rule.name.c_str(), int64_t(values.elements[0]))
               : fa2rtReal(rule.name.c_str(), values.elements[0]);
  const void *memory = owner ? buffer.data() : storage.data();
  auto *data =
      const_cast<uint8_t *>(static_cast<const uint8_t *>(memory)) + base;
  return fa2rtTensor(
      rule.name.c_str(), values.elements.empty() ? nullptr : data, rule.dtype,
      int32_t(values.shape.size()), values.shape.data(), strides.data());
}

std::vector<Extra> makeExtras(const Kernel &kernel, const Configuration &c,
                              const GivenExtras &given, ExtraStrides lie) {
  for (const auto &entry : given)
    if (std::none_of(
            kernel.extras.begin(), kernel.extras.end(),
            [&](const auto &rule) { return rule.name == entry.first; }))
      refuse("--extra {}: the program reads nothing of that name", entry.first);
  std::vector<Extra> extras;
  for (const Kernel::ExtraRule &rule : kernel.extras)
    extras.emplace_back(rule, c, given, scramble(c.seed) + 1000 + extras.size(),
                        lie);
  return extras;
}

Operands operandsOf(const std::vector<Extra> &extras) {
  Operands operands;
  for (const Extra &extra : extras)
    operands.emplace(extra.nameOf(), extra.operand());
  return operands;
}

} // namespace fa2run
