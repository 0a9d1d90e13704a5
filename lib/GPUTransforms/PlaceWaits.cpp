//===- PlaceWaits.cpp - fa2gpu-place-waits --------------------------------===//
//
// Ring operations say what must hold; copy groups and barriers make it hold.
// The pass executes the block's program abstractly (RingSimulation.h), with
// small trip counts for each loop. Where a condition does not hold, its
// operation is given a wait or a barrier, until all runs pass; one that the
// others imply is taken away again.
//
//   wait(ring, n):    where its result is used, the copy of use n is complete
//                     and a barrier followed
//   acquire(ring, n): a barrier stands since the slot's last release, and no
//                     copy into it is open; of an earlier iteration of a loop
//                     around loops, at that iteration's end
//
// At first each copy is a group. One is then joined to the next where no wait
// tells them apart: every wait of every run completes the same copies.
//
//===----------------------------------------------------------------------===//

#include "fa2/GPUTransforms/Passes.h"

#include "fa2/Analysis/RingSimulation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace fa2 {
#define GEN_PASS_DEF_PLACEWAITS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Of all runs, up to the first in which a condition fails.
struct Outcome {
  bool holds = true, impossible = false;
  std::vector<Trace> traces;
};

struct PlaceWaitsPass : public fa2::impl::PlaceWaitsBase<PlaceWaitsPass> {
  void runOnOperation() override {
    // Rings that roles share keep their operations, which become mbarriers.
    if (!getOperation().getOps<RolesOp>().empty())
      return;
    SmallVector<Block *> programs;
    getOperation().walk(
        [&](ForEachTileOp op) { programs.push_back(&op.getBody().front()); });
    WalkResult known = getOperation().walk([](Operation *op) {
      if (!isa<RingAcquireOp, RingCommitOp, RingWaitOp, RingReleaseOp>(op) ||
          RingSimulation::isKnown(op->getOperand(1)))
        return WalkResult::advance();
      op->emitOpError() << "expected a number that follows from the loops "
                           "around it";
      return WalkResult::interrupt();
    });
    if (known.wasInterrupted())
      return signalPassFailure();
    for (Block *block : programs)
      place(*block);
    lower();
  }

  /// Waits that follow each other directly are one point: the first waits for
  /// all of their groups.
  static void mergeAdjacent(Syncs &syncs) {
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

  /// Runs the block with trip counts 0, 1 and enough to wrap every ring, in
  /// every combination, until a condition fails.
  Outcome runAll(Block &block, const Operations &generic,
                 const Operations &joined, Syncs &syncs) {
    SmallVector<scf::ForOp> loops;
    block.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    int64_t many = 0;
    for (auto ring : getOperation().getOps<RingCreateOp>())
      many = std::max(many, ring.getRing().getType().getSlots() + 3);
    SmallVector<int64_t> counts{0, 1, 2, many};
    uint64_t runs = 1;
    for (size_t i = 0; i < loops.size(); ++i)
      runs *= counts.size();
    Outcome outcome;
    for (uint64_t r = 0; r < runs; ++r) {
      llvm::DenseMap<Operation *, int64_t> trips;
      uint64_t rest = r;
      for (scf::ForOp loop : loops) {
        trips[loop] = counts[rest % counts.size()];
        rest /= counts.size();
      }
      RingSimulation simulation(syncs, generic, joined);
      outcome.holds = simulation.run(block, trips);
      outcome.impossible = simulation.isImpossible();
      if (!outcome.holds || outcome.impossible)
        break;
      outcome.traces.push_back(simulation.finish());
    }
    return outcome;
  }

  /// The syncs that `block` needs when the commits in `joined` close no group,
  /// and all runs' traces; none when a wait stands before its group's end.
  std::optional<std::vector<Trace>> synchronise(Block &block,
                                                const Operations &generic,
                                                const Operations &joined,
                                                Syncs &syncs) {
    Outcome outcome;
    while (!(outcome = runAll(block, generic, joined, syncs)).holds) {
      if (outcome.impossible)
        return std::nullopt;
      mergeAdjacent(syncs);
    }
    // One found early may be implied by those found later.
    for (Operation *op : llvm::map_to_vector(
             syncs, [](const auto &entry) { return entry.first; })) {
      Syncs fewer = syncs;
      fewer.erase(op);
      Outcome without = runAll(block, generic, joined, fewer);
      if (!without.holds)
        continue;
      syncs = fewer;
      outcome = without;
    }
    return outcome.traces;
  }

  /// Commits that no wait needs: those of a whole ring, then single ones.
  Operations joinGroups(Block &block, const Operations &generic, Syncs &syncs) {
    std::vector<SmallVector<Operation *>> candidates;
    llvm::MapVector<Operation *, SmallVector<Operation *>> ofRing;
    block.walk([&](RingCommitOp op) {
      if (Operation *ring = op.getRing().getDefiningOp();
          !generic.contains(ring))
        ofRing[ring].push_back(op);
    });
    for (auto &[ring, commits] : ofRing)
      candidates.push_back(commits);
    for (auto &[ring, commits] : ofRing)
      for (Operation *commit : commits)
        candidates.push_back({commit});
    Operations joined;
    std::optional<std::vector<Trace>> traces =
        synchronise(block, generic, joined, syncs);
    for (const SmallVector<Operation *> &candidate : candidates) {
      Operations more = joined;
      more.insert(candidate.begin(), candidate.end());
      Syncs fewer;
      if (more.size() == joined.size() ||
          synchronise(block, generic, more, fewer) != traces)
        continue;
      joined = more;
      syncs = fewer;
    }
    return joined;
  }

  void place(Block &block) {
    Syncs syncs;
    Operations generic;
    block.walk([&](LocalStoreOp op) {
      if (auto acquire = op.getSlot().getDefiningOp<RingAcquireOp>())
        generic.insert(acquire.getRing().getDefiningOp());
    });
    Operations joined = joinGroups(block, generic, syncs);
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
      if (!generic.contains(op.getRing().getDefiningOp()) &&
          !joined.contains(op))
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
      op->getResult(0).replaceAllUsesWith(slot.getTile());
      if (Value next = op->getResult(1); !next.use_empty()) {
        Value one = arith::ConstantIndexOp::create(b, op->getLoc(), 1);
        next.replaceAllUsesWith(
            arith::AddIOp::create(b, op->getLoc(), index, one));
      }
      op->erase();
    });
  }
};

} // namespace
