//===- Footprint.h - what one block of a schedule takes ---------*- C++ -*-===//
#ifndef FA2_SCHEDULE_FOOTPRINT_H
#define FA2_SCHEDULE_FOOTPRINT_H

#include "fa2/Target/Problem.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace fa2 {

class Target;

/// Slots of the rings by which roles see to turns at a sum: a turn is looked
/// for so many tiles ahead.
constexpr int64_t kTurnSlots = 4;

/// What one block takes: bytes of the layouts in shared memory, where
/// fa2gpu-allocate will place them, and an estimate of one thread's registers.
struct Footprint {
  /// The sizes of what is placed. Backward: `queryBytes` are those of the keys
  /// and values that stay, rings bring queries and dO; dS (and P) go from warp
  /// to warp.
  int64_t queryBytes = 0, ringBytes = 0, outputBytes = 0, scratchBytes = 0;
  int64_t exchangeBytes = 0;
  /// Of the output those in places of their own; with roles beside all else.
  int64_t ownOutputBytes = 0;
  /// Of them those at most that some may lack: vectors that arrive with a tile
  /// have its mbarriers.
  int64_t barrierBytes = 0;
  /// All of it, placed.
  int64_t sharedBytes = 0;
  /// Those of the scores serve dQ too, where backward adds it to a sum.
  int64_t accumulatorRegisters = 0, scoreRegisters = 0, queryRegisters = 0;
  int64_t otherRegisters = 0;
  int64_t threads = 0;

  int64_t registers() const {
    return accumulatorRegisters + scoreRegisters + queryRegisters +
           otherRegisters;
  }
};

Footprint footprint(const Target &target, const Problem &problem,
                    const Schedule &schedule);

/// Whether a head dim is padded so that the warps of a row can split it: some
/// of what they multiply is then thrown away.
bool padsColumns(const Target &target, const Problem &problem,
                 const Schedule &schedule);

/// So many of dQ's columns, which a block multiplies and sums at once. Of a
/// cluster the block of rank r has those from `first + r * step` on, and of the
/// other's keys it loads the panels of them: `loaded` columns from `panel` on,
/// where both blocks' lie in one, else from `panel + r * step` on.
struct GradQPiece {
  static constexpr int64_t kPanelColumns = 64; // of 16 bits, in 128 bytes
  int64_t first, count, step, panel, loaded;

  bool sharesPanel() const { return step % kPanelColumns != 0; }
  /// Whether it is the first of those whose panels are loaded together.
  bool begins() const { return first == panel; }
};

/// All of dQ's columns in pieces of dq_columns. Where the blocks of a cluster
/// share them, of two neighbours in whole panels each has one; of what is left
/// behind them, a panel of 64 at a time, each has a half.
llvm::SmallVector<GradQPiece> gradQPieces(int64_t headDim,
                                          const Schedule &schedule);

/// Why dQ cannot be multiplied and summed in pieces of dq_columns on a target
/// whose tiles are in uniform panels, or an empty string.
std::string gradQColumnsError(const Target &target, int64_t headDim,
                              const Schedule &schedule);

/// Blocks of this footprint that a multiprocessor holds at once.
int64_t blocksPerMultiprocessor(const Target &target,
                                const Footprint &footprint);

} // namespace fa2

#endif
