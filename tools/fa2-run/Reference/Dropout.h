//===- Dropout.h - which probabilities are dropped --------------*- C++ -*-===//
//
// As fa2.attention says it: Philox4x32-7 (Salmon et al., SC 2011), a byte for
// each element of each head.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_DROPOUT_H
#define FA2RUN_REFERENCE_DROPOUT_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace fa2run {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 7; ++round) {
    uint64_t a = uint64_t(counter[0]) * 0xD2511F53,
             b = uint64_t(counter[2]) * 0xCD9E8D57;
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

struct Dropout {
  int threshold = 0; // in 256ths
  /// Seed and offset, the lower word of each first.
  std::array<uint32_t, 4> words = {};
  int64_t heads = 0;

  static Dropout of(double p, std::array<uint32_t, 4> words, int64_t heads) {
    int threshold = int(std::clamp(std::floor(p * 256 + 0.5), 0.0, 255.0));
    return {threshold, words, heads};
  }
  /// 1 / (1 - p) with p as it counts.
  double factor() const { return 256.0 / (256 - threshold); }
  /// What element (row, column) is multiplied by: 0 or that.
  double at(int64_t batch, int64_t head, int64_t row, int64_t column) const {
    auto unit = [](int64_t x) { return uint32_t(x / 32 * 8 + x % 8); };
    std::array<uint32_t, 4> numbers = philox(
        {unit(row), unit(column), uint32_t(batch * heads + head), words[2]},
        {words[0], words[1] ^ words[3]});
    uint32_t byte = numbers[row % 32 / 8] >> (column % 32 / 8 * 8) & 255;
    return byte >= uint32_t(threshold) ? factor() : 0;
  }
};

} // namespace fa2run

#endif // FA2RUN_REFERENCE_DROPOUT_H
