//===- Schedule.h - schedules as plain values -------------------*- C++ -*-===//
//
// What #fa2.schedule holds, as a struct, and the choice of one: explicit values
// win, then the target's table, then a rule from the target's limits.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TARGET_SCHEDULE_H
#define FA2_TARGET_SCHEDULE_H

#include "fa2/Dialect/FA2/FA2.h"

#include <optional>
#include <string>
#include <vector>

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

/// What one block takes. Bytes are those of the layouts in shared memory;
/// registers are an estimate for one thread.
struct Footprint {
  int64_t queryBytes = 0, ringBytes = 0, outputBytes = 0, scratchBytes = 0;
  /// Backward: `queryBytes` are those of the keys and values that stay, rings
  /// bring queries and dO; dS (and P) go from warp to warp.
  int64_t exchangeBytes = 0;
  /// Those of the scores serve dQ too, where backward adds it to a sum.
  int64_t accumulatorRegisters = 0, scoreRegisters = 0, queryRegisters = 0;
  int64_t otherRegisters = 0;
  int64_t threads = 0;
  int64_t barrierBytes = 0;
  bool separateOutput = false;

  /// The output, and split-K's scratch, reuse the bytes of queries and rings.
  int64_t sharedBytes() const;
  int64_t registers() const {
    return accumulatorRegisters + scoreRegisters + queryRegisters +
           otherRegisters;
  }
};

/// How messages name a footprint's parts: "queries 16384, 2 stages of ...".
std::string describeShared(const Problem &problem, const Schedule &schedule,
                           const Footprint &footprint);

Footprint footprint(const Target &target, const Problem &problem,
                    const Schedule &schedule);

/// Whether a head dim is padded so that the warps of a row can split it: some
/// of what they multiply is then thrown away.
bool padsColumns(const Problem &problem, const Schedule &schedule);

struct Selection {
  ScheduleAttr schedule;
  Footprint footprint;
  /// Blocks a multiprocessor holds, by shared memory, threads and the estimate
  /// of registers.
  int64_t blocksPerMultiprocessor = 1;
  /// From the target's table as it stands, nothing asked: its variants go with
  /// it.
  bool tuned = false;
  /// One sentence a decision.
  std::vector<std::string> reasons;
  /// What may make the kernel slow (not wrong).
  std::vector<std::string> warnings;
};

/// Chooses a schedule. On failure `error` names the field, its value and the
/// limit.
mlir::FailureOr<Selection> selectSchedule(mlir::MLIRContext *context,
                                          const Target &target,
                                          const Problem &problem,
                                          const ScheduleOverrides &asked,
                                          std::string &error);

/// The variants beside the schedule of `selection`, which gets their reasons
/// and warnings. `asked` is "guard: name=value,...; ..." or "none"; empty takes
/// the table's where the schedule is the table's.
mlir::FailureOr<llvm::SmallVector<VariantAttr>>
selectVariants(mlir::MLIRContext *context, const Target &target,
               const Problem &problem, llvm::StringRef asked,
               Selection &selection, std::string &error);

/// Checks variants that stand already; their reasons and warnings as above.
mlir::LogicalResult checkVariants(const Target &target, const Problem &problem,
                                  llvm::ArrayRef<VariantAttr> variants,
                                  Selection &selection, std::string &error);

/// The schedule of dQ's own kernel in a backward program.
mlir::FailureOr<ScheduleAttr> gradQSchedule(mlir::MLIRContext *context,
                                            const Target &target,
                                            const Problem &problem,
                                            std::string &error);

/// Checks a schedule that stands already: shared memory, threads.
mlir::FailureOr<Selection> checkSchedule(const Target &target,
                                         const Problem &problem,
                                         ScheduleAttr schedule,
                                         std::string &error);

} // namespace fa2

#endif
