//===- Dispatch.h - when the blocks of a launch end -------------*- C++ -*-===//
//
// Blocks under a mask differ in length. Where a launch has few of them, which
// ones share a multiprocessor decides how long it takes; here they are placed
// one by one, as a GPU does.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_DISPATCH_H
#define FA2_SCHEDULE_DISPATCH_H

#include <cstdint>
#include <vector>

namespace fa2 {

/// What a multiprocessor makes of blocks.
struct BlockRates {
  int64_t multiprocessors = 1, blocksPerMultiprocessor = 1;
  /// Clocks of a step, of a block that has the multiprocessor to itself, and of
  /// one of many that share it.
  double stepAlone = 1, step = 1;
};

/// Clocks until the last block ends. Blocks start in their order, one on each
/// multiprocessor before a second on any, and the next where one has ended.
/// Those of one multiprocessor proceed alike.
double clocksOfBlocks(const std::vector<double> &steps,
                      const BlockRates &rates);

/// The same of persistent blocks, of which each takes every so many-th tile:
/// where `balanced`, there and back, so that a long one is followed by a short
/// one.
double clocksOfPersistent(const std::vector<double> &steps,
                          const BlockRates &rates, bool balanced);

} // namespace fa2

#endif
