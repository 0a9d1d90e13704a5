//===- FlowRules.cpp - what operations ask of the state -------------------===//

#include "fa2/Analysis/Flow.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

static bool isShared(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && isa_and_nonnull<SharedAttr>(type.getEncoding());
}

/// Whether every warpgroup keeps to rows of its own in what `op` does to
/// `slot`: those that its warps have of an accumulator or an operand.
static bool keepsToOwnRows(Operation *op, Value slot) {
  auto byRows = [](Type type) {
    auto tile = cast<RankedTensorType>(type).getEncoding();
    if (auto operand = dyn_cast_or_null<OperandAttr>(tile))
      tile = operand.getAcc();
    auto acc = dyn_cast_or_null<AccAttr>(tile);
    return acc && acc.warpCols() == 1 && acc.getSplitK() == 1;
  };
  if (auto store = dyn_cast<TensorStoreOp>(op))
    return store.getAcross() == 1;
  if (auto store = dyn_cast<LocalStoreOp>(op))
    return !store.getTransposed() && byRows(store.getValue().getType());
  if (auto load = dyn_cast<LocalLoadOp>(op))
    return !load.getTransposed() && byRows(load.getResult().getType());
  if (auto dot = dyn_cast<DotStartOp>(op))
    return slot == dot.getA() && slot != dot.getB() && !dot.getTransposeA() &&
           byRows(dot.getD().getType().getTile());
  return false;
}

/// Whether the role that `op` is part of has one warpgroup.
static bool isOneGroup(Operation &op) {
  auto roles = op.getParentOfType<RolesOp>();
  return roles && roles.getWarps()[roles.getRoleOf(&op)] == kGroupWarps;
}

Use Flow::useOf(Operation *at, Value ring, Value use) {
  Use u;
  u.ring = ring;
  u.n = symbols.of(use);
  u.at = at;
  return u;
}

void Flow::step(Operation &op) {
  if (auto acquire = dyn_cast<RingAcquireOp>(op))
    return take(&op, acquire.getRing(), acquire.getUse(), /*toWrite=*/true);
  if (auto wait = dyn_cast<RingWaitOp>(op))
    return take(&op, wait.getRing(), wait.getUse(), /*toWrite=*/false);
  if (auto commit = dyn_cast<RingCommitOp>(op))
    return give(&op, commit.getRing(), commit.getUse(), /*written=*/true);
  if (auto release = dyn_cast<RingReleaseOp>(op))
    return give(&op, release.getRing(), release.getUse(), /*written=*/false);
  if (auto slot = dyn_cast<RingSlotOp>(op)) {
    if (shared.contains(slot.getRing()) && !isHeld(slot))
      fail(&op, "expected fa2gpu.ring.wait or fa2gpu.ring.acquire of this use "
                "before because roles share ring '" +
                    nameOf(slot.getRing()) + "'");
    return;
  }
  if (auto copy = dyn_cast<CopyOp>(op))
    return writes(&op, copy.getSlot(), /*generic=*/false);
  if (auto copy = dyn_cast<TensorCopyOp>(op))
    return writes(&op, copy.getSlot(), /*generic=*/false);
  if (auto copy = dyn_cast<BulkCopyOp>(op))
    return writes(&op, copy.getSlot(), /*generic=*/false);
  if (auto copy = dyn_cast<PeerCopyOp>(op))
    return copyToPeer(copy);
  if (auto store = dyn_cast<LocalStoreOp>(op))
    return writes(&op, store.getSlot(), /*generic=*/true);
  if (auto await = dyn_cast<AwaitTurnOp>(op))
    return writes(&op, await.getCome(), /*generic=*/false); // carries nothing
  if (auto dot = dyn_cast<DotStartOp>(op))
    return startDot(dot);
  if (auto wait = dyn_cast<DotWaitOp>(op))
    return waitDot(wait);
  if (auto store = dyn_cast<TensorStoreOp>(op))
    return storeTensor(store);
  if (isa<CopyCommitOp>(op)) {
    forEachFilled([](Filled &f) {
      if (f.level == Filled::Grouped)
        ++f.younger;
      if (f.level == Filled::Issued)
        f.level = Filled::Grouped;
    });
  } else if (auto wait = dyn_cast<CopyWaitOp>(op)) {
    forEachFilled([&](Filled &f) {
      if (f.level == Filled::Grouped && f.younger >= int64_t(wait.getPending()))
        f.level = Filled::Complete;
    });
  } else if (isa<BarrierOp, RoleBarrierOp, GroupBarrierOp>(op)) {
    meet(/*together=*/!isa<GroupBarrierOp>(op) || isOneGroup(op));
  } else if (isa<ProxyFenceOp>(op)) {
    fence();
  } else if (isa<WarpBarrierOp>(op)) {
    llvm::erase_if(now.byLanes, [](const Filled &f) { return f.fenced; });
    for (Held &h : now.held)
      h.met = true;
  } else if (isa<StoreWaitOp>(op)) {
    llvm::append_range(now.stored, now.storing);
    now.storing.clear();
  } else if (auto wait = dyn_cast<TurnWaitOp>(op)) {
    waitTurn(wait);
  } else if (auto pass = dyn_cast<TurnPassOp>(op)) {
    passTurn(pass);
  } else if (auto add = dyn_cast<AccumulateOp>(op)) {
    addInTurn(add);
  } else if (isa<ChangeTurnOp>(op)) {
    now.owes = false;
  } else if (auto combine = dyn_cast<CombineSplitsOp>(op)) {
    // All warps write, meet, and read (its lowering holds the barrier).
    Use scratch;
    scratch.ring = combine.getScratch();
    scratch.at = &op;
    overwrites(&op, scratch, /*acquired=*/false);
    meet(/*together=*/true);
    now.read.push_back(scratch);
  } else {
    for (Value operand : op.getOperands())
      if (isShared(operand) && !op.hasTrait<OpTrait::IsTerminator>())
        reads(&op, operand, /*byLanes=*/true);
  }
}

//===----------------------------------------------------------------------===//
// Uses of rings
//===----------------------------------------------------------------------===//

/// Whether the use that `source` names was waited for and not yet released.
bool Flow::isHeld(Operation *source) {
  Use u = useOf(source, source->getOperand(0), source->getOperand(1));
  return llvm::any_of(now.held,
                      [&](const Held &h) { return !h.toWrite && same(h, u); });
}

/// Who gets a slot of the other block's knows that its copies into the uses
/// before have come there.
void Flow::expectCopied(const Use &acquired) {
  int64_t slots = cast<RingType>(acquired.ring.getType()).getSlots();
  llvm::erase_if(now.sending, [&](const Sending &s) {
    if (s.into.ring != acquired.ring || !s.into.n || !acquired.n)
      return false;
    Linear apart = *acquired.n - *s.into.n;
    return apart.isConstant() && apart.constant >= slots;
  });
}

/// Whether a use is filled when another one has been released.
static bool comesBehind(const Use &use, const Use &held) {
  if (use.ring != held.ring || !use.n || !held.n)
    return false;
  Linear apart = *use.n - *held.n;
  return apart.isConstant() &&
         apart.constant >= cast<RingType>(use.ring.getType()).getSlots();
}

void Flow::take(Operation *op, Value ring, Value use, bool toWrite) {
  // Otherwise there is nothing that it waits for.
  if (!shared.contains(ring))
    return fail(op, "expected mbarriers of ring '" + nameOf(ring) +
                        "', at which roles wait, or fa2gpu.ring.slot and "
                        "barriers");
  Held h;
  static_cast<Use &>(h) = useOf(op, ring, use);
  h.toWrite = toWrite;
  h.level = Filled::Complete; // nothing is under way
  if (toWrite)
    expectCopied(h);
  auto &next = now.next[toWrite];
  if (auto it = next.find(ring); it != next.end()) {
    if (quiet == 0 && !symbols.equal(*h.n, it->second)) {
      Linear d = *h.n - it->second;
      fail(op, "expected the uses of ring '" + nameOf(ring) +
                   "' one after the other" +
                   (d.isConstant()
                        ? ", got use n + " + Twine(d.constant) + " for use n"
                        : Twine("")));
    }
    it->second = *h.n + 1;
  }
  for (const Held &o : now.held)
    if (toWrite && mayMeet(h, o) && o.ring == ring)
      fail(op,
           "expected a slot of ring '" + nameOf(ring) +
               "' that is free: it has " +
               Twine(cast<RingType>(ring.getType()).getSlots()),
           o.at, "held since here");
    else if (!toWrite && comesBehind(h, o))
      fail(op,
           "expected the use of ring '" + nameOf(ring) +
               "' that is held to be released before: of " +
               Twine(cast<RingType>(ring.getType()).getSlots()) +
               " slots it has the one into which this use would come, never",
           o.at, "held since here");
  now.held.push_back(h);
}

/// Whether somebody reads what a ring carries; else it only says that something
/// has happened.
static bool isRead(Value ring) {
  return llvm::any_of(ring.getUsers(), [](Operation *user) {
    auto wait = dyn_cast<RingWaitOp>(user);
    return wait && !wait.getTile().use_empty();
  });
}

void Flow::give(Operation *op, Value ring, Value use, bool written) {
  Use u = useOf(op, ring, use);
  auto *it = llvm::find_if(now.held, [&](const Held &h) {
    return h.toWrite == written && same(h, u);
  });
  if (it == now.held.end()) {
    Operation *other = nullptr;
    for (Operation *user : ring.getUsers())
      if (user != op && user->getName() == op->getName() &&
          user->getOperand(1) == use)
        other = user;
    return fail(op,
                "expected a use of ring '" + nameOf(ring) + "' that is " +
                    (written ? "acquired and not yet committed"
                             : "waited for and not yet released"),
                other, "the same use ends here");
  }
  if (written && !it->written && isRead(ring))
    fail(op,
         "expected a copy into ring '" + nameOf(ring) +
             "' before its use is committed",
         it->at, "acquired here");
  if (written && it->written && it->level < Filled::Complete)
    fail(op,
         "expected fa2gpu.copy_commit and fa2gpu.copy_wait before this use of "
         "ring '" +
             nameOf(ring) +
             "' is committed because copies of threads (fa2gpu.copy) fill it",
         it->at, "acquired here");
  if (written && it->generic && !it->fenced && isReadByEngines(ring))
    fail(op,
         "expected fa2gpu.proxy_fence before this use of ring '" +
             nameOf(ring) +
             "' is committed because threads wrote it and matmuls or the copy "
             "engine read it",
         it->at, "acquired here");
  if (!written) {
    for (const Flying &f : now.flying)
      for (const Use &r : f.reads)
        if (same(r, u))
          fail(op,
               "expected no matmul in flight that reads this use of ring '" +
                   nameOf(ring) + "'",
               f.at, "started here");
    for (const Filled &r : now.byLanes)
      if (r.ring == ring && (!r.n || same(r, u)))
        fail(op,
             "expected fa2gpu.proxy_fence and fa2gpu.warp_barrier because "
             "lanes read this use of ring '" +
                 nameOf(ring) + "'",
             r.at, "read here");
    for (const Use &s : now.storing)
      if (s.ring == ring)
        fail(op,
             "expected fa2gpu.store_wait because the copy engine reads this "
             "use of ring '" +
                 nameOf(ring) + "'",
             s.at, "the store starts here");
    for (const Held &h : now.held)
      if (h.toWrite && h.generic && !h.met && shared.contains(h.ring) &&
          shared.contains(ring) && !sharesBarriers(ring))
        fail(op,
             "expected fa2gpu.ring.commit or fa2gpu.warp_barrier before "
             "because lanes wrote ring '" +
                 nameOf(h.ring) + "', and one of them releases ring '" +
                 nameOf(ring) + "' for all",
             h.at, "acquired here");
    // Its bytes are another role's now.
    llvm::erase_if(now.filled, [&](const Filled &f) { return f.ring == ring; });
    if (shared.contains(ring))
      for (auto *set : {&now.read, &now.stored})
        llvm::erase_if(*set, [&](const Use &r) { return same(r, u); });
  }
  now.held.erase(it);
}

void Flow::reads(Operation *op, Value slot, bool byLanes) {
  Operation *source = slot.getDefiningOp();
  if (!isa_and_nonnull<RingWaitOp, RingSlotOp, RingAcquireOp>(source))
    return fail(op, "expected a slot of a ring as the tile in shared memory");
  Use u = useOf(op, source->getOperand(0), source->getOperand(1));
  u.ownRows = keepsToOwnRows(op, slot);
  if (isa<RingAcquireOp>(source))
    return fail(op,
                "expected a tile of ring '" + nameOf(u.ring) +
                    "' that was waited for, got one that is being written",
                source, "acquired here");
  bool named = isa<RingSlotOp>(source) && shared.contains(u.ring);
  if (isa<RingWaitOp>(source) || named) {
    if (!isHeld(source))
      return fail(op,
                  "expected a tile of ring '" + nameOf(u.ring) +
                      "' that has not been released",
                  source, "waited for here");
    if (byLanes && shared.contains(u.ring)) {
      Filled lanes;
      static_cast<Use &>(lanes) = u;
      lanes.fenced = !isCopied(u.ring) || copiesFence(u.ring);
      now.byLanes.push_back(lanes);
    }
  }
  auto *it =
      llvm::find_if(now.filled, [&](const Filled &f) { return same(f, u); });
  if (it != now.filled.end())
    expectArrived(op, u, *it, byLanes);
  else if (isa<RingSlotOp>(source) && !named)
    return fail(op,
                "expected this use of ring '" + nameOf(u.ring) +
                    "' to have been written on every path",
                source, "its slot");
  now.read.push_back(u);
}

void Flow::expectArrived(Operation *op, const Use &u, const Filled &f,
                         bool byLanes) {
  if (f.level == Filled::Issued)
    return fail(op,
                "expected fa2gpu.copy_commit behind the copy into ring '" +
                    nameOf(u.ring) + "'",
                f.at, "copied here");
  if (f.level == Filled::Grouped)
    return fail(op,
                "expected a wait that leaves at most " + Twine(f.younger) +
                    " copy groups open before ring '" + nameOf(u.ring) +
                    "' is read",
                f.at, "copied here");
  if (f.level == Filled::Complete)
    return fail(op,
                "expected a barrier before ring '" + nameOf(u.ring) +
                    "' is read by other threads than wrote it",
                f.at, "written here");
  if (f.level == Filled::SeenByGroup && !(f.ownRows && u.ownRows))
    return fail(op,
                "expected a barrier of all warpgroups before ring '" +
                    nameOf(u.ring) +
                    "' is read, where others wrote what this one reads",
                f.at, "written here");
  if (f.generic && !f.fenced && !byLanes)
    return fail(op,
                "expected fa2gpu.proxy_fence and then a barrier between the "
                "writes to ring '" +
                    nameOf(u.ring) +
                    "' and a matmul that reads shared memory by itself",
                f.at, "written here");
}

/// The slot's bytes must be free of older readers and writers.
void Flow::overwrites(Operation *op, const Use &u, bool acquired) {
  auto meets = [&](const Use &o) {
    bool apart = o.groupsMet && o.ownRows && u.ownRows;
    return !apart && !(acquired && o.ring == u.ring) && mayMeet(o, u);
  };
  for (const Use &r : now.read)
    if (meets(r))
      return fail(op,
                  "expected a barrier between the last read of ring '" +
                      nameOf(r.ring) + "' and this write",
                  r.at, "read here");
  for (const Flying &f : now.flying)
    for (const Use &r : f.reads)
      if (meets(r))
        return fail(op,
                    "expected no matmul in flight that reads ring '" +
                        nameOf(r.ring) + "'",
                    f.at, "started here");
  for (const Filled &o : now.open)
    if (meets(o))
      return fail(op,
                  "expected earlier writes of ring '" + nameOf(o.ring) +
                      "' to be complete and met at a barrier",
                  o.at, "written here");
  for (const Use &s : now.storing)
    if (meets(s))
      return fail(op,
                  "expected fa2gpu.store_wait because the copy engine reads "
                  "ring '" +
                      nameOf(s.ring) + "'",
                  s.at, "the store starts here");
  for (const Sending &s : now.sending)
    if (mayMeet(s, u))
      return fail(op,
                  "expected fa2gpu.ring.acquire of ring '" +
                      nameOf(s.into.ring) +
                      "' before because the copy engine may still read ring '" +
                      nameOf(s.ring) + "'",
                  s.at, "the copy to the other block starts here");
  for (const Use &s : now.stored)
    if (meets(s))
      return fail(op,
                  "expected fa2gpu.group_barrier because one thread alone "
                  "waited for the store from ring '" +
                      nameOf(s.ring) + "'",
                  s.at, "the store starts here");
}

void Flow::writes(Operation *op, Value slot, bool generic) {
  Operation *source = slot.getDefiningOp();
  if (!isa_and_nonnull<RingWaitOp, RingSlotOp, RingAcquireOp>(source))
    return fail(op, "expected a slot of a ring as the tile in shared memory");
  Use u = useOf(op, source->getOperand(0), source->getOperand(1));
  bool acquired = isa<RingAcquireOp>(source);
  bool byThreads = generic || isa<CopyOp>(op);
  if (!isa<RingSlotOp>(source)) {
    auto *it = llvm::find_if(now.held, [&](const Held &h) {
      return h.toWrite == acquired && same(h, u);
    });
    if (it == now.held.end())
      return fail(op,
                  "expected a use of ring '" + nameOf(u.ring) + "' that is " +
                      (acquired ? "acquired and not yet committed"
                                : "waited for and not yet released"),
                  source, "its slot");
    if (it->written && signalledUse(op))
      return fail(op, "expected one copy into a use of ring '" +
                          nameOf(u.ring) + "', whose arrival completes it");
    it->written = true;
    if (byThreads) {
      it->generic = true;
      it->fenced = it->met = false;
    }
    if (isa<CopyOp>(op)) {
      it->level = Filled::Issued;
      it->younger = 0;
    }
  }
  if (OpOperand *use = signalledUse(op))
    if (signalledRing(*use) != u.ring ||
        !symbols.equal(symbols.of(use->get()), *u.n))
      return fail(op, "expected a copy to signal the use of ring '" +
                          nameOf(u.ring) + "' that it fills");
  if (acquired && byThreads && isCopied(u.ring))
    return fail(op, "expected a copy by the engine into ring '" +
                        nameOf(u.ring) +
                        "' because roles wait for a copy's bytes, not for "
                        "what threads write");
  u.ownRows = keepsToOwnRows(op, slot);
  overwrites(op, u, acquired);
  if (acquired)
    return; // those who wait for the use wait for its bytes
  llvm::erase_if(now.filled, [&](const Filled &f) { return mayMeet(f, u); });
  Filled f;
  static_cast<Use &>(f) = u;
  f.generic = generic;
  f.level = generic ? Filled::Complete : Filled::Issued;
  now.filled.push_back(f);
  now.open.push_back(f);
}

//===----------------------------------------------------------------------===//
// Order between threads, and the copy engine
//===----------------------------------------------------------------------===//

void Flow::fence() {
  for (auto *set : {&now.filled, &now.open})
    for (Filled &f : *set) {
      if (f.fenced || f.level == Filled::Seen)
        continue;
      f.fenced = true;
      f.level = std::min(f.level, Filled::Complete); // to be met again
    }
  for (Filled &f : now.byLanes)
    f.fenced = true;
  for (Held &h : now.held)
    h.fenced = h.level >= Filled::Complete;
}

void Flow::forEachFilled(llvm::function_ref<void(Filled &)> visit) {
  llvm::for_each(now.filled, visit);
  llvm::for_each(now.open, visit);
  llvm::for_each(now.held, visit);
}

void Flow::meet(bool together) {
  for (Filled &f : now.filled)
    if (f.level >= Filled::Complete)
      f.level =
          together ? Filled::Seen : std::max(f.level, Filled::SeenByGroup);
  if (together) {
    llvm::erase_if(now.open,
                   [](const Filled &f) { return f.level >= Filled::Complete; });
    now.read.clear();
    now.stored.clear();
    return;
  }
  for (Filled &f : now.open)
    f.groupsMet |= f.level >= Filled::Complete;
  for (auto *set : {&now.read, &now.stored})
    for (Use &use : *set)
      use.groupsMet = true;
}

void Flow::storeTensor(TensorStoreOp op) {
  Operation *source = op.getSlot().getDefiningOp();
  if (!isa_and_nonnull<RingWaitOp, RingSlotOp>(source))
    return fail(op, "expected a slot of a ring as the tile in shared memory");
  Use u = useOf(op, source->getOperand(0), source->getOperand(1));
  auto *it =
      llvm::find_if(now.filled, [&](const Filled &f) { return same(f, u); });
  if (it == now.filled.end() && isa<RingWaitOp>(source) &&
      shared.contains(u.ring)) {
    // What another role wrote, and fenced before it committed the use.
    reads(op, op.getSlot(), /*byLanes=*/false);
    now.storing.push_back(u);
    return;
  }
  if (it == now.filled.end())
    return fail(op,
                "expected this use of ring '" + nameOf(u.ring) +
                    "' to have been written on every path",
                source, "its slot");
  u.ownRows = keepsToOwnRows(op, op.getSlot());
  bool own = it->ownRows && u.ownRows;
  if (!it->fenced || it->level < (own ? Filled::SeenByGroup : Filled::Seen))
    return fail(op,
                "expected fa2gpu.proxy_fence and then fa2gpu." +
                    Twine(own ? "group" : "role") +
                    "_barrier between the writes to ring '" + nameOf(u.ring) +
                    "' and the copy engine's read",
                it->at, "written here");
  now.storing.push_back(u);
}

void Flow::copyToPeer(PeerCopyOp op) {
  reads(op, op.getTile(), /*byLanes=*/false);
  writes(op, op.getSlot(), /*generic=*/false);
  Operation *source = op.getTile().getDefiningOp();
  if (failed || !source)
    return;
  Sending s;
  static_cast<Use &>(s) =
      useOf(op, source->getOperand(0), source->getOperand(1));
  s.into = useOf(op, op.getRing(), op.getUse());
  now.sending.push_back(s);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Whether the warps of a warpgroup may differ in a condition: it comes from
/// what each of them has in its registers.
static bool variesByWarp(Value condition) {
  Operation *op = condition.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [](Value v) {
           return isa<RankedTensorType>(v.getType()) || variesByWarp(v);
         });
}

/// PTX ISA, wgmma: .aligned asks all warps of a warpgroup for the same
/// instruction.
void Flow::expectAligned(Operation *op) {
  for (Operation *at = op->getParentOp(); !isa<KernelOp>(at);
       at = at->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(at))
      if (variesByWarp(branch.getCondition()))
        return fail(op,
                    "expected to stand where all warps of a warpgroup come to "
                    "it because its instruction is theirs together",
                    branch, "warps may take either arm of this branch");
}

void Flow::startDot(DotStartOp op) {
  bool asynchronous = op.isAsynchronous();
  if (asynchronous)
    expectAligned(op);
  Flying f;
  f.dot = op.getD();
  f.at = op;
  for (Value operand : {op.getA(), op.getB()})
    if (isShared(operand)) {
      reads(op, operand, /*byLanes=*/!asynchronous);
      if (Operation *source = operand.getDefiningOp()) {
        f.reads.push_back(
            useOf(op, source->getOperand(0), source->getOperand(1)));
        f.reads.back().ownRows = keepsToOwnRows(op, operand);
      }
    }
  if (asynchronous && !failed)
    now.flying.push_back(f);
}

void Flow::waitDot(DotWaitOp op) {
  auto *it = llvm::find_if(
      now.flying, [&](const Flying &f) { return f.dot == op.getSource(); });
  if (it == now.flying.end())
    return; // complete: by an older wait, or since it was started
  expectAligned(op);
  if (!op.getPending())
    return fail(op, "expected fa2gpu-place-dot-waits to have set 'pending'");
  int64_t younger = now.flying.end() - it - 1;
  if (int64_t(*op.getPending()) > younger)
    return fail(op,
                "expected pending to be at most " + Twine(younger) +
                    ", the matmuls started after this one, got " +
                    Twine(int64_t(*op.getPending())),
                it->at, "started here");
  auto dot = cast<DotStartOp>(it->at);
  Value registers = isShared(dot.getA()) ? dot.getHeld() : dot.getA();
  if (dot.getD() == op.getSource() && registers &&
      !llvm::is_contained(op.getKeep(), registers))
    return fail(op,
                "expected to keep the operand in registers, which the matmul "
                "reads until here",
                it->at, "started here");
  // Groups complete in order.
  auto *end = now.flying.end() - int64_t(*op.getPending());
  for (auto *done = now.flying.begin(); done != end; ++done)
    llvm::append_range(now.read, done->reads);
  now.flying.erase(now.flying.begin(), end);
}
