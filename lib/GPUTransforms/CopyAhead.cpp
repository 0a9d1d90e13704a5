//===- CopyAhead.cpp - fa2gpu-copy-ahead ----------------------------------===//
//
// A role that only copies runs ahead of the others by itself, as far as rings
// have slots. One that multiplies too would wait for what it multiplies first:
// in its loops, copies are taken so many tiles ahead. Three loops do it, each
// over as many places as there are, so that nothing is asked in them:
//
//   places [0, d)        copies
//   places [0, n - d)    copies of the place d further on, and the rest
//   places [n - d, n)    the rest
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Loops/RotateLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace fa2 {
#define GEN_PASS_DEF_COPYAHEAD
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// A loop's operations: copies, the rest, and numbers that either needs.
struct Parts {
  explicit Parts(scf::ForOp loop) : loop(loop) {
    for (Operation &op : loop.getBody()->without_terminator())
      if (isOneThreads(&op) && !isOfPeer(&op))
        copies.insert(&op);
      else if (!isMemoryEffectFree(&op) || op.getNumResults() == 0 ||
               !llvm::all_of(op.getResultTypes(), isNumber))
        rest.insert(&op);
  }

  /// What goes to another block is of this loop's work.
  static bool isOfPeer(Operation *op) {
    OpOperand *use = signalledUse(op);
    return isPeer(use ? signalledRing(*use) : op->getOperand(0));
  }
  static bool isNumber(Type type) {
    return type.isIntOrIndexOrFloat() || isa<ViewType, TileRangeType>(type);
  }
  /// What the loop carries of a copy: the cursor of a ring that it fills.
  bool ofCopies(unsigned i) {
    Operation *last = loop.getYieldedValues()[i].getDefiningOp();
    return last && copies.contains(last);
  }

  scf::ForOp loop;
  llvm::SmallSetVector<Operation *, 16> copies, rest;
};

struct CopyAheadPass : public fa2::impl::CopyAheadBase<CopyAheadPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    for (auto roles : getOperation().getOps<RolesOp>())
      for (Region &program : roles.getPrograms())
        if (!onlyCopies(program))
          program.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) {
      if (givesWhatItReads(loop)) {
        if (failed(readAhead(loop)))
          return signalPassFailure();
        continue;
      }
      Parts parts(loop);
      if (!parts.copies.empty() && !parts.rest.empty() &&
          failed(takeAhead(parts)))
        return signalPassFailure();
    }
  }

  /// Whether nothing is done but to fill slots with what is read of memory.
  /// Its range has a tile always where others' first is peeled (overlap).
  bool givesWhatItReads(scf::ForOp loop) {
    if (!getOperation().getSchedule().getOverlap())
      return false;
    Block &body = *loop.getBody();
    return !body.getOps<ReadOp>().empty() &&
           !body.getOps<LocalStoreOp>().empty() &&
           llvm::all_of(body, [](Operation &op) {
             return op.getNumRegions() == 0 &&
                    (op.hasTrait<OpTrait::IsTerminator>() ||
                     isMemoryEffectFree(&op) ||
                     isa<ReadOp, LocalStoreOp, RingAcquireOp, RingCommitOp>(
                         op));
           });
  }

  /// Reads are a tile ahead of what is computed of them.
  static LogicalResult readAhead(scf::ForOp loop) {
    decided(loop, "fa2gpu-copy-ahead", "ahead",
            "reads are a tile ahead of the role's other work");
    llvm::SetVector<Operation *> users;
    for (ReadOp read : loop.getBody()->getOps<ReadOp>())
      for (Operation *user : read->getUsers())
        if (!isa<ReadOp>(user))
          users.insert(user);
    llvm::DenseSet<Operation *> behind = takeBehind(loop, users.getArrayRef());
    // What is given does not wait for the next reads.
    LoopStages stages;
    for (unsigned stage : {1, 0})
      for (Operation &op : loop.getBody()->without_terminator())
        if (behind.contains(&op) == (stage == 1))
          stages.push_back({&op, stage});
    return rotateLoop(loop, stages);
  }

  /// As far as every ring has slots but the one that is read.
  static int64_t distance(Parts &parts) {
    int64_t slots = std::numeric_limits<int64_t>::max();
    for (Operation *op : parts.copies)
      if (auto acquire = dyn_cast<RingAcquireOp>(op))
        slots = std::min(slots, acquire.getRing().getType().getSlots());
    return std::max<int64_t>(slots - 1, 1);
  }

  static LogicalResult takeAhead(Parts &parts) {
    scf::ForOp loop = parts.loop;
    Location loc = loop.getLoc();
    OpBuilder b(loop);
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    decided(loop, "fa2gpu-copy-ahead", "ahead",
            "copies are {0} tiles ahead of the role's other work",
            distance(parts));
    Value count = b.createOrFold<arith::SubIOp>(loc, upper, lower);
    Value ahead = b.createOrFold<arith::MinSIOp>(
        loc, count, arith::ConstantIndexOp::create(b, loc, distance(parts)));
    Value last = b.createOrFold<arith::SubIOp>(loc, upper, ahead);
    Value first = b.createOrFold<arith::AddIOp>(loc, lower, ahead);
    SmallVector<Value> state(loop.getInitArgs());
    state = part(b, parts, lower, first, state, /*copies=*/Value(),
                 /*copy=*/true, /*work=*/false);
    state = part(b, parts, lower, last, state, ahead, true, true);
    state = part(b, parts, last, upper, state, Value(), false, true);
    if (isNeededOutside(loop))
      return loop.emitError("expected copies that need nothing of the role's "
                            "other work, so that they can go ahead of it");
    loop.replaceAllUsesWith(state);
    loop.erase();
    return success();
  }

  /// Whether what was written for the loop needs something of its body.
  static bool isNeededOutside(scf::ForOp loop) {
    auto leaves = [&](Value v) {
      return llvm::any_of(v.getUsers(), [&](Operation *user) {
        return !loop->isAncestor(user);
      });
    };
    return llvm::any_of(loop.getBody()->getArguments(), leaves) ||
           llvm::any_of(*loop.getBody(), [&](Operation &op) {
             return llvm::any_of(op.getResults(), leaves);
           });
  }

  /// A loop over [lower, upper) with the copies of places `ahead` further on,
  /// the rest, or both.
  static SmallVector<Value> part(OpBuilder &b, Parts &parts, Value lower,
                                 Value upper, ArrayRef<Value> state,
                                 Value ahead, bool copy, bool work) {
    scf::ForOp loop = parts.loop;
    Location loc = loop.getLoc();
    SmallVector<unsigned> carried;
    SmallVector<Value> inits, next(state);
    for (unsigned i = 0; i < state.size(); ++i)
      if (parts.ofCopies(i) ? copy : work) {
        carried.push_back(i);
        inits.push_back(state[i]);
      }
    auto body = [&](OpBuilder &inner, Location, Value place, ValueRange args) {
      IRMapping copies, rest;
      for (auto [i, arg] : llvm::zip(carried, args)) {
        copies.map(loop.getRegionIterArgs()[i], arg);
        rest.map(loop.getRegionIterArgs()[i], arg);
      }
      rest.map(loop.getInductionVar(), place);
      if (copy) {
        copies.map(loop.getInductionVar(),
                   ahead ? inner.createOrFold<arith::AddIOp>(loc, place, ahead)
                         : place);
        cloneInto(inner, parts, parts.copies, copies);
      }
      if (work)
        cloneInto(inner, parts, parts.rest, rest);
      SmallVector<Value> yields;
      for (unsigned i : carried)
        yields.push_back((parts.ofCopies(i) ? copies : rest)
                             .lookupOrDefault(loop.getYieldedValues()[i]));
      scf::YieldOp::create(inner, loc, yields);
    };
    auto made =
        scf::ForOp::create(b, loc, lower, upper, loop.getStep(), inits, body);
    for (auto [i, result] : llvm::zip(carried, made.getResults()))
      next[i] = result;
    return next;
  }

  /// The operations of `which`, and the numbers that they need.
  static void cloneInto(OpBuilder &b, Parts &parts,
                        llvm::SmallSetVector<Operation *, 16> &which,
                        IRMapping &map) {
    auto &other = &which == &parts.copies ? parts.rest : parts.copies;
    for (Operation &op : parts.loop.getBody()->without_terminator())
      if (!other.contains(&op))
        b.clone(op, map);
  }
};

} // namespace
