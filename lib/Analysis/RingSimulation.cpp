//===- RingSimulation.cpp - the rings' protocol, executed -----------------===//

#include "fa2/Analysis/RingSimulation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

int64_t RingSimulation::use(Value index) {
  llvm::APInt c;
  if (matchPattern(index, m_ConstantInt(&c)))
    return c.getSExtValue();
  if (auto it = numbers.find(index); it != numbers.end())
    return it->second;
  if (auto add = index.getDefiningOp<arith::AddIOp>())
    return use(add.getLhs()) + use(add.getRhs());
  if (auto next = dyn_cast<OpResult>(index);
      next && isa<RingAcquireOp, RingWaitOp>(next.getOwner()))
    return use(next.getOwner()->getOperand(1)) + 1;
  llvm_unreachable("expected a number that follows from loops (isKnown)");
}

bool RingSimulation::isKnown(Value index) {
  llvm::APInt c;
  if (matchPattern(index, m_ConstantInt(&c)))
    return true;
  if (auto arg = dyn_cast<BlockArgument>(index))
    return isa<scf::ForOp>(arg.getOwner()->getParentOp());
  Operation *op = index.getDefiningOp();
  if (isa<RingAcquireOp, RingWaitOp>(op))
    return isKnown(op->getOperand(1));
  if (isa<arith::AddIOp>(op))
    return llvm::all_of(op->getOperands(), isKnown);
  return isa<scf::ForOp>(op);
}

bool RingSimulation::require(Operation *op, int64_t pending) {
  auto [it, isNew] = syncs.insert({op, Sync{pending}});
  if (!isNew && pending != Sync::kNoGroups &&
      (it->second.pending == Sync::kNoGroups || pending < it->second.pending))
    it->second.pending = pending;
  return false;
}

/// What an earlier iteration of an outer loop leaves is best waited for at that
/// iteration's end: the first iteration then waits for nothing.
bool RingSimulation::requireForAcquire(Operation *op, int64_t pending) {
  auto before = groupsBefore.find(op->getBlock());
  if (before == groupsBefore.end())
    return require(op, pending);
  Operation *end = op->getBlock()->getTerminator();
  auto it = syncs.find(end);
  bool isNew = it == syncs.end();
  if (pending == Sync::kNoGroups)
    return require(isNew ? end : op, pending);
  int64_t then = pending - (int64_t(groupEnds.size()) - before->second);
  bool stronger = isNew || it->second.pending == Sync::kNoGroups ||
                  then < it->second.pending;
  return then >= 0 && stronger ? require(end, then) : require(op, pending);
}

int64_t RingSimulation::groupsAfter(int64_t copy) {
  int64_t after =
      llvm::count_if(groupEnds, [&](int64_t e) { return e > copy; });
  impossible |= after == 0;
  return after - 1;
}

/// Whether what `op` reads of slots that were waited for has come.
bool RingSimulation::checkOperands(Operation &op) {
  for (Value operand : op.getOperands()) {
    auto it = needs.find(operand);
    if (it == needs.end())
      continue;
    const Need &need = it->second;
    if (need.stored && *need.stored >= lastBarrier)
      return require(need.wait, Sync::kNoGroups);
    if (need.copy && *need.copy >= seen)
      return require(need.wait, need.pending);
  }
  return true;
}

bool RingSimulation::step(Operation &op) {
  ++time;
  if (auto it = syncs.find(&op); it != syncs.end()) {
    int64_t pending = it->second.pending;
    if (int64_t groups = int64_t(groupEnds.size()) - pending;
        pending != Sync::kNoGroups && groups > 0)
      seen = std::max(seen, groupEnds[size_t(groups) - 1]);
    trace.emplace_back(&op, seen);
    barrier();
  }
  auto key = [&](TypedValue<RingType> ring, Value index) {
    return Key{ring.getDefiningOp(), use(index) % ring.getType().getSlots()};
  };
  if (auto commit = dyn_cast<RingCommitOp>(op)) {
    Key k = key(commit.getRing(), commit.getUse());
    if (generic.contains(k.first)) {
      stored[k] = time;
    } else {
      copyInto[k] = copies++;
      if (!joined.contains(&op))
        groupEnds.push_back(copies);
    }
  } else if (auto wait = dyn_cast<RingWaitOp>(op)) {
    Key k = key(wait.getRing(), wait.getUse());
    Need need{wait, {}, {}, 0};
    if (auto it = stored.find(k); it != stored.end())
      need.stored = it->second;
    else if (auto it = copyInto.find(k);
             it != copyInto.end() && it->second >= seen) {
      need.copy = it->second;
      need.pending = groupsAfter(it->second);
    }
    needs[wait.getTile()] = need;
  } else if (auto release = dyn_cast<RingReleaseOp>(op)) {
    released[key(release.getRing(), release.getUse())] = time;
  } else if (auto acquire = dyn_cast<RingAcquireOp>(op)) {
    Key k = key(acquire.getRing(), acquire.getUse());
    // A copy that was predicated off still writes zeros.
    if (auto it = copyInto.find(k); it != copyInto.end() && it->second >= seen)
      return requireForAcquire(&op, groupsAfter(it->second));
    auto it = released.find(k);
    if (it != released.end() && it->second > lastBarrier)
      return requireForAcquire(&op, Sync::kNoGroups);
  }
  WalkResult uses = op.walk([&](Operation *inner) {
    return checkOperands(*inner) ? WalkResult::advance()
                                 : WalkResult::interrupt();
  });
  return !uses.wasInterrupted();
}

void RingSimulation::carry(ValueRange from, ValueRange to) {
  SmallVector<int64_t> values;
  for (Value v : from)
    values.push_back(v.getType().isIndex() && isKnown(v) ? use(v) : 0);
  for (auto [v, n] : llvm::zip(to, values))
    numbers[v] = n;
}

bool RingSimulation::run(Block &block,
                         const llvm::DenseMap<Operation *, int64_t> &trips) {
  int64_t iteration = 0; // consecutive loops go on counting
  for (Operation &op : block) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) {
      if (!step(op) || impossible)
        return false;
      continue;
    }
    if (!checkOperands(op))
      return false;
    Block *body = loop.getBody();
    carry(loop.getInitArgs(), loop.getRegionIterArgs());
    bool outer = !body->getOps<scf::ForOp>().empty();
    for (int64_t t = 0; t < trips.at(loop); ++t) {
      if (outer && t > 0)
        groupsBefore[body] = int64_t(groupEnds.size());
      numbers[loop.getInductionVar()] = iteration++;
      if (!run(*body, trips))
        return false;
      carry(loop.getYieldedValues(), loop.getRegionIterArgs());
    }
    carry(loop.getRegionIterArgs(), loop.getResults());
    groupsBefore.erase(body);
  }
  return true;
}

Trace RingSimulation::finish() {
  trace.emplace_back(nullptr, groupEnds.empty() ? 0 : groupEnds.back());
  return std::move(trace);
}
