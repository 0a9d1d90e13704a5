//===- Configuration.cpp - what one run computes --------------------------===//

#include "Configuration.h"

#include <algorithm>
#include <cmath>

namespace fa2run {

nlohmann::ordered_json toJson(const Configuration &c) {
  nlohmann::ordered_json json = {
      {"batch", c.batch},
      {"heads", c.heads},
      {"heads_kv", c.headsKv},
      {"seqlen_q", c.seqlenQ},
      {"seqlen_k", c.seqlenK},
      {"layout", c.layout == Layout::BSHD ? "bshd" : "bhsd"},
      {"row_padding", c.rowPadding},
      {"tail_rows", c.tailRows},
      {"random_scale", c.randomScale},
      {"sign", c.sign},
      {"seed", c.seed}};
  if (c.scale)
    json["scale"] = *c.scale;
  return json;
}

namespace {

/// A value in an error text: not the whole of a long one.
std::string shown(const nlohmann::json &value) {
  constexpr size_t most = 60;
  std::string text =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

int64_t wholeNumber(const std::string &name, const nlohmann::json &value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    refuse("{} is {}; it must be a whole number within 64 bits", name,
           shown(value));
  return value.get<int64_t>();
}

double realNumber(const std::string &name, const nlohmann::json &value) {
  if (!value.is_number())
    refuse("{} is {}; it must be a number", name, shown(value));
  return value.get<double>();
}

void setField(Configuration &c, const std::string &name,
              const nlohmann::json &value) {
  if (name == "batch") {
    c.batch = wholeNumber(name, value);
  } else if (name == "heads") {
    c.heads = wholeNumber(name, value);
  } else if (name == "heads_kv") {
    c.headsKv = wholeNumber(name, value);
  } else if (name == "seqlen_q") {
    c.seqlenQ = wholeNumber(name, value);
  } else if (name == "seqlen_k") {
    c.seqlenK = wholeNumber(name, value);
  } else if (name == "layout") {
    if (value != "bshd" && value != "bhsd")
      refuse("layout is {}; it must be bshd or bhsd", shown(value));
    c.layout = value == "bshd" ? Layout::BSHD : Layout::BHSD;
  } else if (name == "row_padding") {
    c.rowPadding = wholeNumber(name, value);
  } else if (name == "tail_rows") {
    c.tailRows = wholeNumber(name, value);
  } else if (name == "random_scale") {
    c.randomScale = realNumber(name, value);
  } else if (name == "sign") {
    if (!value.is_boolean())
      refuse("sign is {}; it must be true or false", shown(value));
    c.sign = value;
  } else if (name == "seed") {
    if (!value.is_number_unsigned())
      refuse("seed is {}; it must be a whole number from 0 to 2^64 - 1",
             shown(value));
    c.seed = value;
  } else if (name == "scale") {
    c.scale = realNumber(name, value);
  } else {
    refuse("a configuration has no field {}", shown(name));
  }
}

} // namespace

Configuration fromJson(const nlohmann::json &json) {
  Configuration c;
  if (!json.is_object())
    refuse("a configuration is a JSON object, got {}", shown(json));
  for (const auto &[name, value] : json.items())
    setField(c, name, value);
  if (!json.contains("heads_kv"))
    c.headsKv = c.heads;
  return c;
}
void validate(const Configuration &c) {
  constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
  auto range = [](const char *name, int64_t value, int64_t least,
                  int64_t most) {
    if (value < least || value > most)
      refuse("{} is {}; it must be {} to {}", name, value, least, most);
  };
  range("batch", c.batch, 0, kMaxExtent);
  range("heads", c.heads, 0, kMaxExtent);
  range("heads-kv", c.headsKv, 0, kMaxExtent);
  range("seqlen-q", c.seqlenQ, 0, kMaxExtent);
  range("seqlen-k", c.seqlenK, 0, kMaxExtent);
  range("row padding", c.rowPadding, 0, 1 << 20);
  range("tail rows", c.tailRows, 0, 1 << 20);
  // f16 holds up to 65504, and what is drawn is up to some 8.
  if (!(std::abs(c.randomScale) <= 4096))
    refuse("random-scale is {:g}; it must be -4096 to 4096", c.randomScale);
  if (c.headsKv == 0 ? c.heads != 0 : c.heads % c.headsKv != 0)
    refuse("heads is {}, not a multiple of heads-kv = {}", c.heads, c.headsKv);
}

std::string describe(const Configuration &c) {
  std::string text =
      fmt::format("batch {}, heads {} (kv {}), seqlen {} x {}, {}", c.batch,
                  c.heads, c.headsKv, c.seqlenQ, c.seqlenK,
                  c.layout == Layout::BSHD ? "bshd" : "bhsd");
  if (c.randomScale != 1)
    text += fmt::format(", scores x{:g}", c.randomScale);
  if (c.sign)
    text += ", q >= 0 and k <= 0";
  if (c.scale)
    text += fmt::format(", scale {:g}", *c.scale);
  return text;
}

namespace {

int64_t randomLength(Sequence &random, int64_t most, int64_t tile) {
  static constexpr int64_t edges[] = {
      0,   1,   2,    7,    8,    15,   16,   17,   31,  33,  63,
      64,  65,  113,  127,  128,  129,  191,  255,  257, 383, 511,
      513, 777, 1023, 1024, 1025, 1536, 2047, 2048, 2049};
  int64_t length = 0;
  if (random.chance(0.5)) {
    do
      length = random.pick(edges);
    while (length > most);
  } else if (tile > 0 && tile <= most && random.chance(0.5)) {
    length = tile * random.between(1, most / tile) + random.between(-1, 1);
  } else {
    length = random.between(1, most);
  }
  return std::min(length, most);
}

} // namespace

Configuration randomConfiguration(const Kernel &kernel, uint64_t seed,
                                  int64_t index, int64_t maxSeqlen,
                                  double maxWork) {
  static constexpr int64_t batches[] = {1, 1, 1, 2, 2, 3, 5};
  static constexpr int64_t kvHeads[] = {1, 1, 2, 2, 3, 4};
  static constexpr int64_t groups[] = {1, 1, 1, 2, 3, 4, 8};
  static constexpr double scales[] = {1, 1, 1, 6, 60};
  Sequence random(scramble(seed) + uint64_t(index) * 0x9e3779b97f4a7c15u);
  Configuration c;
  c.seed = random.next() >> 12; // exact as a JSON number anywhere
  c.batch = random.pick(batches);
  c.headsKv = random.pick(kvHeads);
  int64_t packed = kernel.packedHeads;
  c.heads = c.headsKv * random.pick(groups) * packed;
  c.seqlenQ = randomLength(random, maxSeqlen, kernel.blockQ);
  c.seqlenK = random.chance(0.3)
                  ? c.seqlenQ
                  : randomLength(random, maxSeqlen, kernel.blockKv);
  c.layout = random.chance(0.5) ? Layout::BSHD : Layout::BHSD;
  c.rowPadding = random.chance(0.5) ? random.between(1, 5) : 0;
  c.tailRows = random.chance(0.75) ? random.between(1, 150) : 0;
  c.randomScale = random.pick(scales);
  c.sign = random.chance(0.25);
  if (kernel.hasScale && random.chance(0.25))
    c.scale = kernel.defaultScale * double(random.between(25, 200)) / 100;
  if (random.chance(0.01))
    c.batch = 0;
  // Shrink batch, then groups, then lengths, until the work fits.
  auto work = [&] {
    return double(c.batch) * double(c.heads) * double(c.seqlenQ) *
           double(c.seqlenK) * double(kernel.headDim + kernel.headDimV);
  };
  while (work() > maxWork && c.batch > 1)
    --c.batch;
  while (work() > maxWork && c.heads > c.headsKv * packed)
    c.heads -= c.headsKv * packed;
  while (work() > maxWork && c.headsKv > 1)
    c.heads = --c.headsKv * packed;
  while (work() > maxWork && c.seqlenQ > 1)
    c.seqlenQ = c.seqlenQ * 3 / 4;
  while (work() > maxWork && c.seqlenK > 1)
    c.seqlenK = c.seqlenK * 3 / 4;
  return c;
}

} // namespace fa2run
