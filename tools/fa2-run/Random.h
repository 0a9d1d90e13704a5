//===- Random.h - seeded random numbers -------------------------*- C++ -*-===//
#ifndef FA2RUN_RANDOM_H
#define FA2RUN_RANDOM_H

#include <cmath>
#include <cstdint>
#include <utility>

namespace fa2run {

/// SplitMix64's finalizer (Steele, Lea and Flood, 2014): a bijection of 64
/// bits that scatters neighbours.
inline uint64_t scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Two independent normal numbers for each (stream, index), by Box and Muller;
/// the same whatever the order or number of threads.
inline std::pair<float, float> normalPair(uint64_t stream, uint64_t index) {
  uint64_t bits = scramble(stream ^ scramble(index));
  float u = (float(uint32_t(bits >> 40)) + 1.0f) * 0x1p-24f; // (0, 1]
  float angle = float(uint32_t(bits & 0xffffffu)) * (6.2831853f * 0x1p-24f);
  float radius = std::sqrt(-2.0f * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// A sequence of random integers.
class Sequence {
public:
  explicit Sequence(uint64_t seed) : state(scramble(seed)) {}
  uint64_t next() { return scramble(state++); }
  /// Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + int64_t(next() % uint64_t(high - low + 1));
  }
  bool chance(double probability) {
    return double(next() >> 11) * 0x1p-53 < probability;
  }
  template <typename T, size_t N> T pick(const T (&choices)[N]) {
    return choices[next() % N];
  }

private:
  uint64_t state;
};

} // namespace fa2run

#endif // FA2RUN_RANDOM_H
