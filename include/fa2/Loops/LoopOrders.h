//===- LoopOrders.h - in which order a loop's products start ----*- C++ -*-===//
#ifndef FA2_LOOPS_LOOPORDERS_H
#define FA2_LOOPS_LOOPORDERS_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include <string>

namespace fa2::gpu {

/// A product as fa2.dot names it, of this tile or of the one before.
struct Product {
  std::string name;
  bool behind = false;
  /// What it adds to memory it adds when it has been waited for, not behind all
  /// products: while others are in flight, but before their operands are
  /// fenced, which waits for additions too.
  bool addsAtOnce = false;
};

/// The products of a loop as they start, so many of them in flight at most. No
/// products: the order in which they are written.
struct Order {
  llvm::SmallVector<Product> products;
  /// Whose accumulators begin with values that are written before any product
  /// starts, not just before their own.
  llvm::SmallVector<std::string> begunEarly;
  size_t inFlight = 0;

  /// "s o'"
  std::string text() const;
};

/// An order from text: "(dp) dk' s dp dv", where a quote says a tile behind,
/// brackets, which come first, whose accumulators begin early, and "dq'+" that
/// sums are added at once.
Order parseOrder(llvm::StringRef products, size_t inFlight);

/// What the table says for a schedule; nothing where a search does.
Order orderOf(ScheduleAttr schedule);

} // namespace fa2::gpu

#endif
