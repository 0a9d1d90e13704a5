//===- Rates.h - how fast a device of a target is ---------------*- C++ -*-===//
//
// What vendors and measurements say, for estimates of time alone: nothing that
// a kernel computes depends on it.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TARGET_RATES_H
#define FA2_TARGET_RATES_H

#include <cstdint>

namespace fa2 {

class Target;

/// Of the device that the target's schedules are tuned on. Rates are those of
/// one multiprocessor in a clock.
struct Rates {
  const char *device;
  int64_t multiprocessors;
  double clockGHz;      // under load
  double tensorFlops;   // of the target's matmul instructions, 16 bits
  double exponentials;  // ex2
  double lanes;         // instructions of one thread, f32
  double sharedBytes;   // shared memory
  double globalBytes;   // L2, where it hits
  double copyLatency;   // clocks from a copy's start to its bytes
  double launchClocks;  // of a kernel, in which nothing else happens
  double matmulLatency; // clocks from a matmul's start to its wait's end,
                        // beside those of its flops
};

Rates ratesOf(const Target &target);

} // namespace fa2

#endif
