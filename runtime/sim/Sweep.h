//===- Sweep.h - A function over a range of its inputs ---------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_SWEEP_H
#define FA2_RUNTIME_SIM_SWEEP_H

#include "Simulator.h"

#include <string>

namespace fa2::sim {

/// A kernel (u32 start, u64 out) of one-dimensional blocks, out[i] =
/// f((start + i) * stride) in 32-bit words, for i < count, against the words of
/// a file that a device wrote.
struct Sweep {
  Launch launch; ///< without grid and parameters
  uint64_t start = 0, count = 0, stride = 1;
  std::string path;
  /// In ulp, against the simulator's value, which is rounded itself (1 ulp
  /// more); "lg2": the manual's bound of lg2.approx, 2^-22 in (0.5, 2).
  std::string bound;
  unsigned threads = 1;
};

/// Compares; the result as JSON: inputs, different, beyond (the bound), worst
/// (in ulp, or in 2^-22), example. Throws std::runtime_error.
std::string compareSweep(const Sweep &sweep, const Options &options);

/// Writes the simulator's own values to the file: a device to test with.
void writeSweep(const Sweep &sweep, const Options &options);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_SWEEP_H
