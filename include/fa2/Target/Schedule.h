//===- Schedule.h - schedules as plain values -------------------*- C++ -*-===//
//
// What #fa2.schedule holds, as a struct, and what of a kernel it depends on.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TARGET_SCHEDULE_H
#define FA2_TARGET_SCHEDULE_H

#include "fa2/Dialect/FA2/FA2.h"

#include <optional>
#include <string>

namespace fa2 {

class Target;

/// The fields of #fa2.schedule (FA2Attrs.td says what they mean).
struct Schedule {
  int64_t blockQ = 64, blockKV = 64, warps = 4, stages = 2;
  Partition partition = Partition::SplitQ;
  bool qInRegisters = false;
  int64_t lazyRescale = 0; // powers of two; 0 rescales always
  int64_t minBlocks = 1;
  TileOrder order = TileOrder::Ascending;
  bool overlap = false, pingPong = false, persistent = false;
  bool separateOutput = false, groupLimits = false;
  int64_t speculateMax = 0;
  int64_t querySlots = 1, packedHeads = 1;
  int64_t keyWarps = 0, dqWarps = 0; // backward; 0 chooses
  GradQ dq = GradQ::Atomic;

  static Schedule fromAttr(ScheduleAttr attr);
  /// Fails with the verifier's message in `error`.
  mlir::FailureOr<ScheduleAttr> toAttr(mlir::MLIRContext *context,
                                       llvm::StringRef target,
                                       std::string &error) const;
};

/// The fields somebody asked for.
struct ScheduleOverrides {
  std::optional<int64_t> blockQ, blockKV, warps, stages, lazyRescale, minBlocks;
  std::optional<Partition> partition;
  std::optional<bool> qInRegisters;
  std::optional<TileOrder> order;
  std::optional<bool> overlap, pingPong, persistent, separateOutput,
      groupLimits;
  std::optional<int64_t> speculateMax, querySlots, packedHeads;

  /// Sets fields from "name=value,name=value", of what `what` calls so in
  /// messages. Returns what is wrong, or an empty string.
  std::string setFields(llvm::StringRef what, llvm::StringRef text);
  std::optional<int64_t> keyWarps, dqWarps;
  std::optional<GradQ> dq;

  Schedule applyTo(Schedule schedule) const;
  /// Where a warp takes 16 rows, no more (targets with roles), block_q and
  /// warps follow from each other: sets the one that is not set.
  void completeRows(const Target &target);
};

/// A second schedule, for launches where a guard (#fa2.guard) holds: that of
/// all others with these fields in place.
struct Variant {
  std::string when;
  ScheduleOverrides fields;
};

/// What of a kernel its schedule depends on. Elements have 16 bits.
struct Problem {
  int64_t headDim, headDimV;
  bool masked = false;
  bool backward = false;
  /// Powers of two that probabilities may reach: #fa2.schedule, lazy_rescale.
  int64_t maxSlack = 15;
};
/// That of probabilities of an element type.
int64_t maxSlack(mlir::Type dtype);

} // namespace fa2

#endif
