//===- RingSimulation.h - the rings' protocol, executed ---------*- C++ -*-===//
//
// Executes a block's program abstractly, with given trip counts, and keeps the
// list of copies so far, which group holds each, which of them every warp has
// seen, and when each use of a slot was released.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_ANALYSIS_RINGSIMULATION_H
#define FA2_ANALYSIS_RINGSIMULATION_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "llvm/ADT/MapVector.h"

#include <optional>
#include <vector>

namespace fa2::gpu {

using mlir::Block;
using mlir::Operation;
using mlir::Value;

/// A wait for groups and a barrier, before an operation.
struct Sync {
  static constexpr int64_t kNoGroups = -1; // a barrier alone
  int64_t pending = kNoGroups;
};

using Syncs = llvm::MapVector<Operation *, Sync>;
using Operations = llvm::SmallPtrSet<Operation *, 4>;
/// The copies that were complete after each wait, in order of execution.
using Trace = std::vector<std::pair<Operation *, int64_t>>;

class RingSimulation {
public:
  /// Commits in `joined` close no group.
  RingSimulation(Syncs &syncs, const Operations &generic,
                 const Operations &joined)
      : syncs(syncs), generic(generic), joined(joined) {}

  /// Runs `block`; false as soon as a condition fails, with a new sync for it.
  bool run(Block &block, const llvm::DenseMap<Operation *, int64_t> &trips);
  /// What waits completed; after a run, a wait for all groups included.
  Trace finish();
  /// Whether a use's number follows from loops: their counters and what they
  /// carry.
  static bool isKnown(Value index);
  /// A wait stands where its copy is in no group yet.
  bool isImpossible() const { return impossible; }

private:
  struct Need { ///< of a wait's result
    RingWaitOp wait;
    std::optional<int64_t> copy, stored;
    int64_t pending = 0;
  };

  bool step(Operation &op);
  bool checkOperands(Operation &op);
  int64_t use(Value index);
  /// Numbers go from one to the other, where a loop carries them.
  void carry(mlir::ValueRange from, mlir::ValueRange to);
  void barrier() { lastBarrier = ++time; }
  bool require(Operation *op, int64_t pending);
  bool requireForAcquire(Operation *op, int64_t pending);
  int64_t groupsAfter(int64_t copy);

  using Key = std::pair<Operation *, int64_t>; // ring, slot
  Syncs &syncs;
  const Operations &generic, &joined;
  llvm::DenseMap<Value, int64_t> numbers; // counters and what loops carry
  llvm::DenseMap<Value, Need> needs;
  llvm::DenseMap<Key, int64_t> copyInto; // index in order of copies
  llvm::DenseMap<Key, int64_t> stored;   // time of a commit without a group
  llvm::DenseMap<Key, int64_t> released;
  /// Groups when the current iteration of an outer loop, not its first, began.
  llvm::DenseMap<Block *, int64_t> groupsBefore;
  std::vector<int64_t> groupEnds; // copies up to the end of each group
  int64_t copies = 0, seen = 0;   // seen: copies that every warp sees
  int64_t time = 0, lastBarrier = 0;
  bool impossible = false;
  Trace trace;
};

} // namespace fa2::gpu

#endif // FA2_ANALYSIS_RINGSIMULATION_H
