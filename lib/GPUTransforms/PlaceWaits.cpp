//===- PlaceWaits.cpp - fa2gpu-place-waits --------------------------------===//
//
// Ring operations say what must hold; copy groups and barriers make it hold.
// The pass executes the block's program abstractly, with small trip counts for
// each loop, and keeps the list of copy groups committed so far, which of them
// every warp has seen, and when each use of a slot was released. Where an
// operation's condition does not hold, it is given a wait or a barrier, until
// all runs pass.
//
//   wait(ring, n):    the group of use n is complete and a barrier followed
//   acquire(ring, n): a barrier stands since the slot's last release, and no
//                     copy into it is open
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

namespace fa2 {
#define GEN_PASS_DEF_PLACEWAITS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// What stands before an operation.
struct Sync {
  static constexpr int64_t kNoGroups = -1; // a barrier alone
  int64_t pending = kNoGroups;
};

class Simulation {
public:
  Simulation(llvm::MapVector<Operation *, Sync> &syncs,
             const llvm::SmallPtrSetImpl<Operation *> &generic)
      : syncs(syncs), generic(generic) {}

  /// Runs `block`; false as soon as a condition fails, with a new sync for it.
  bool run(Block &block, const llvm::DenseMap<Operation *, int64_t> &trips);

private:
  bool step(Operation &op);
  int64_t use(Value index);
  void barrier() { lastBarrier = ++time; }
  bool require(Operation *op, int64_t pending);

  using Key = std::pair<Operation *, int64_t>; // ring, slot
  llvm::MapVector<Operation *, Sync> &syncs;
  const llvm::SmallPtrSetImpl<Operation *> &generic;
  llvm::DenseMap<Value, int64_t> iterations; // of induction variables
  llvm::DenseMap<Key, int64_t> group;        // index in order of commit
  llvm::DenseMap<Key, int64_t> stored;       // time of a commit without a group
  llvm::DenseMap<Key, int64_t> released;
  int64_t committed = 0, seen = 0; // groups; those that every warp sees
  int64_t time = 0, lastBarrier = 0;
};

int64_t Simulation::use(Value index) {
  llvm::APInt c;
  if (matchPattern(index, m_ConstantInt(&c)))
    return c.getSExtValue();
  if (auto it = iterations.find(index); it != iterations.end())
    return it->second;
  if (auto add = index.getDefiningOp<arith::AddIOp>())
    return use(add.getLhs()) + use(add.getRhs());
  return 0;
}

bool Simulation::require(Operation *op, int64_t pending) {
  auto [it, isNew] = syncs.insert({op, Sync{pending}});
  if (!isNew && pending != Sync::kNoGroups &&
      (it->second.pending == Sync::kNoGroups || pending < it->second.pending))
    it->second.pending = pending;
  return false;
}

bool Simulation::step(Operation &op) {
  ++time;
  if (auto it = syncs.find(&op); it != syncs.end()) {
    if (it->second.pending != Sync::kNoGroups)
      seen = std::max(seen, committed - it->second.pending);
    barrier();
  }
  auto key = [&](TypedValue<RingType> ring, Value index) {
    return Key{ring.getDefiningOp(), use(index) % ring.getType().getSlots()};
  };
  if (auto commit = dyn_cast<RingCommitOp>(op)) {
    Key k = key(commit.getRing(), commit.getUse());
    if (generic.contains(k.first))
      stored[k] = time;
    else
      group[k] = committed++;
  } else if (auto wait = dyn_cast<RingWaitOp>(op)) {
    Key k = key(wait.getRing(), wait.getUse());
    if (auto it = stored.find(k); it != stored.end())
      return it->second < lastBarrier || require(&op, Sync::kNoGroups);
    auto it = group.find(k);
    if (it != group.end() && it->second >= seen)
      return require(&op, committed - 1 - it->second);
  } else if (auto release = dyn_cast<RingReleaseOp>(op)) {
    released[key(release.getRing(), release.getUse())] = time;
  } else if (auto acquire = dyn_cast<RingAcquireOp>(op)) {
    Key k = key(acquire.getRing(), acquire.getUse());
    // A copy that was predicated off still writes zeros.
    if (auto it = group.find(k); it != group.end() && it->second >= seen)
      return require(&op, committed - 1 - it->second);
    auto it = released.find(k);
    if (it != released.end() && it->second > lastBarrier)
      return require(&op, Sync::kNoGroups);
  }
  return true;
}

bool Simulation::run(Block &block,
                     const llvm::DenseMap<Operation *, int64_t> &trips) {
  int64_t iteration = 0; // consecutive loops go on counting
  for (Operation &op : block.without_terminator()) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) {
      if (!step(op))
        return false;
      continue;
    }
    for (int64_t t = 0; t < trips.at(loop); ++t) {
      iterations[loop.getInductionVar()] = iteration++;
      if (!run(*loop.getBody(), trips))
        return false;
    }
  }
  return true;
}

struct PlaceWaitsPass : public fa2::impl::PlaceWaitsBase<PlaceWaitsPass> {
  void runOnOperation() override {
    // Rings that roles share keep their operations, which become mbarriers.
    if (!getOperation().getOps<RolesOp>().empty())
      return;
    SmallVector<Block *> programs;
    getOperation().walk(
        [&](ForEachTileOp op) { programs.push_back(&op.getBody().front()); });
    for (Block *block : programs)
      place(*block);
    lower();
  }

  /// Waits that follow each other directly are one point: the first waits for
  /// all of their groups.
  static void mergeAdjacent(llvm::MapVector<Operation *, Sync> &syncs) {
    SmallVector<Operation *> order;
    for (auto &[op, sync] : syncs)
      order.push_back(op);
    for (Operation *op : order) {
      Operation *first = op;
      for (Operation *prev = op->getPrevNode();
           isa_and_nonnull<RingWaitOp>(prev); prev = prev->getPrevNode())
        if (syncs.count(prev))
          first = prev;
      if (first == op || !isa<RingWaitOp>(op))
        continue;
      Sync merged = syncs[op];
      Sync &target = syncs[first];
      if (merged.pending != Sync::kNoGroups)
        target.pending = target.pending == Sync::kNoGroups
                             ? merged.pending
                             : std::min(target.pending, merged.pending);
      syncs.erase(op);
    }
  }

  void place(Block &block) {
    llvm::MapVector<Operation *, Sync> syncs;
    llvm::SmallPtrSet<Operation *, 4> generic;
    block.walk([&](LocalStoreOp op) {
      if (auto acquire = op.getSlot().getDefiningOp<RingAcquireOp>())
        generic.insert(acquire.getRing().getDefiningOp());
    });
    SmallVector<scf::ForOp> loops;
    block.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    // Trip counts 0, 1 and enough to wrap every ring, in every combination.
    int64_t many = getOperation().getSchedule().getStages() + 3;
    SmallVector<int64_t> counts{0, 1, 2, many};
    uint64_t runs = 1;
    for (size_t i = 0; i < loops.size(); ++i)
      runs *= counts.size();
    for (uint64_t r = 0; r < runs;) {
      llvm::DenseMap<Operation *, int64_t> trips;
      uint64_t rest = r;
      for (scf::ForOp loop : loops) {
        trips[loop] = counts[rest % counts.size()];
        rest /= counts.size();
      }
      if (Simulation(syncs, generic).run(block, trips)) {
        ++r;
        continue;
      }
      mergeAdjacent(syncs);
      r = 0;
    }
    OpBuilder b(&getContext());
    for (auto &[op, sync] : syncs) {
      b.setInsertionPoint(op);
      if (sync.pending != Sync::kNoGroups)
        CopyWaitOp::create(b, op->getLoc(), sync.pending);
      BarrierOp::create(b, op->getLoc());
    }
    // Copies that were predicated off may still be open: their zeros must not
    // fall into memory that is used for something else.
    scf::ForOp last;
    for (auto loop : block.getOps<scf::ForOp>())
      last = loop;
    if (last) {
      b.setInsertionPointAfter(last);
      CopyWaitOp::create(b, last.getLoc(), 0);
    }
    block.walk([&](RingCommitOp op) {
      b.setInsertionPoint(op);
      if (!generic.contains(op.getRing().getDefiningOp()))
        CopyCommitOp::create(b, op.getLoc());
    });
  }

  /// Ring operations to what is left of them: the slot's address.
  void lower() {
    OpBuilder b(&getContext());
    getOperation().walk([&](Operation *op) {
      if (isa<RingReleaseOp, RingCommitOp>(op))
        return op->erase();
      Value ring, index;
      if (auto acquire = dyn_cast<RingAcquireOp>(op))
        ring = acquire.getRing(), index = acquire.getUse();
      else if (auto wait = dyn_cast<RingWaitOp>(op))
        ring = wait.getRing(), index = wait.getUse();
      else
        return;
      b.setInsertionPoint(op);
      auto slot = RingSlotOp::create(b, op->getLoc(),
                                     op->getResult(0).getType(), ring, index);
      op->replaceAllUsesWith(slot->getResults());
      op->erase();
    });
  }
};

} // namespace
