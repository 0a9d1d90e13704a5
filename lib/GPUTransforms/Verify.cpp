//===- Verify.cpp - fa2gpu-verify -----------------------------------------===//
//
// Budgets are compared with the target's; everything that depends on order is
// Flow's.
//
//===----------------------------------------------------------------------===//

#include "fa2/Analysis/Budgets.h"
#include "fa2/Analysis/Flow.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

namespace fa2 {
#define GEN_PASS_DEF_VERIFY
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct VerifyPass : public fa2::impl::VerifyBase<VerifyPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    RolesOp roles;
    for (auto op : kernel.getOps<RolesOp>())
      roles = op;
    if (failed(checkBudgets(kernel, *target, roles)) ||
        (roles &&
         (failed(checkImplied(kernel)) || failed(checkPeers(kernel, roles)))))
      return signalPassFailure();
    Symbols symbols;
    llvm::SmallPtrSet<Value, 4> shared;
    for (auto ring : kernel.getOps<RingCreateOp>())
      if (ring.getBarriers() && !isQueue(ring))
        shared.insert(ring);
    if (roles
            ? failed(proveRoles(symbols, shared, roles)) ||
                  failed(checkArrivals(roles)) || failed(checkOneThread(roles))
            : !Flow(symbols, shared).run(kernel.getBody().front()))
      signalPassFailure();
  }

  /// One role after the other, and then that they agree.
  LogicalResult proveRoles(Symbols &symbols,
                           const llvm::SmallPtrSetImpl<Value> &shared,
                           RolesOp roles) {
    std::vector<Flow> flows;
    for (auto [i, program] : llvm::enumerate(roles.getPrograms())) {
      flows.emplace_back(symbols, shared);
      if (failed(bindTiles(symbols, flows.front().tiles, program)) ||
          !flows.back().run(program.front()))
        return failure();
    }
    for (Value ring : shared)
      if (failed(compare(symbols, roles, ring, flows)))
        return failure();
    return success();
  }

  /// The tiles of one role are those of the others.
  LogicalResult bindTiles(Symbols &symbols, Operation *tiles, Region &program) {
    for (Operation &op : program.front())
      if (tiles && &op != tiles && op.getName() == tiles->getName()) {
        auto source = [](Operation *op) { // what is carried begins as it may
          return op->getOperands().take_front(isa<TileLoopOp>(op) ? 4 : 3);
        };
        auto order = [](Operation *op) { // one role alone draws
          NamedAttrList attributes(op->getAttrDictionary());
          attributes.erase("draws");
          return attributes.getDictionary(op->getContext());
        };
        if (!llvm::equal(source(&op), source(tiles)) ||
            order(&op) != order(tiles))
          return op.emitOpError() << "expected the tiles of the other role";
        for (auto [mine, other] :
             llvm::zip(op.getRegion(0).getArguments().take_front(4),
                       tiles->getRegion(0).getArguments()))
          symbols.bind(mine, symbols.of(other));
      }
    return success();
  }

  /// One role fills a ring, and every role that reads it takes as many uses.
  LogicalResult compare(Symbols &symbols, RolesOp roles, Value ring,
                        ArrayRef<Flow> flows) {
    std::optional<unsigned> filler;
    for (auto [i, flow] : llvm::enumerate(flows))
      if (flow.taken[1].count(ring)) {
        if (filler)
          return roles.emitOpError()
                 << "expected one role to fill ring '" << nameOf(ring)
                 << "', got '" << roles.getRoleName(*filler) << "' and '"
                 << roles.getRoleName(i) << "'";
        filler = i;
      }
    bool read = false;
    for (auto [i, flow] : llvm::enumerate(flows)) {
      auto taken = flow.taken[0].find(ring);
      if (taken == flow.taken[0].end())
        continue;
      read = true;
      if (!filler)
        return roles.emitOpError() << "expected a role to fill ring '"
                                   << nameOf(ring) << "' because role '"
                                   << roles.getRoleName(i) << "' waits for it";
      Flow::Taken filled = flows[*filler].taken[1].lookup(ring);
      if (!symbols.equal(filled.first, taken->second.first) ||
          !symbols.equal(filled.uses, taken->second.uses))
        return roles.emitOpError()
               << "expected role '" << roles.getRoleName(i)
               << "' to wait for as many uses of ring '" << nameOf(ring)
               << "' as role '" << roles.getRoleName(*filler) << "' fills";
    }
    if (filler && !read)
      return roles.emitOpError() << "expected a role to wait for ring '"
                                 << nameOf(ring) << "' because role '"
                                 << roles.getRoleName(*filler) << "' fills it";
    return success();
  }

  /// Only a block of a cluster has another whose rings it fills. Who sends a
  /// tile writes it too: no other role knows when it has been read there.
  static LogicalResult checkPeers(KernelOp kernel, RolesOp roles) {
    bool cluster = hasClusters(kernel);
    for (auto ring : kernel.getOps<RingCreateOp>())
      if (ring.getPeer() && !cluster)
        return ring.emitOpError()
               << "expected fa2.for_each_tile with a cluster of blocks because "
                  "another block fills ring '"
               << ring.getName() << "'";
    for (auto ring : kernel.getOps<RingCreateOp>())
      for (Operation *user : ring->getUsers())
        if (auto acquire = dyn_cast<RingAcquireOp>(user))
          for (PeerCopyOp copy : copiesToPeers(ring))
            if (roles.getRoleOf(copy) != roles.getRoleOf(acquire))
              return copy.emitOpError()
                     << "expected role '"
                     << roles.getRoleName(roles.getRoleOf(acquire))
                     << "', which writes ring '" << ring.getName()
                     << "', to send its tiles";
    return success();
  }

  static LogicalResult checkImplied(KernelOp kernel) {
    WalkResult result = kernel.walk([](RingWaitOp wait) {
      std::string why = wait.getImplied() ? whyNotImplied(wait) : "";
      bool behind = llvm::all_of(releasesOf(wait), [](RingReleaseOp release) {
        return release.getWaits();
      });
      if (why.empty() && wait.getImplied() && !behind)
        why = "it releases the use without having waited for it";
      if (why.empty())
        return WalkResult::advance();
      wait.emitOpError() << "expected a wait that is not implied: " << why;
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// What shares mbarriers has those, and each use within one of their ring's.
  static LogicalResult checkSharing(RingCreateOp ring, RingCreateOp tiles) {
    if (!tiles)
      return ring.emitOpError() << "expected a ring whose mbarriers it shares";
    if (std::string why = whyNotShared(ring.getRing(), tiles); !why.empty())
      return ring.emitOpError()
             << "expected mbarriers of its own for ring '" << ring.getName()
             << "' instead of those of '" << tiles.getName() << "': " << why;
    if (ring.getBarriers() != tiles.getBarriers())
      return ring.emitOpError()
             << "expected the mbarriers of ring '" << tiles.getName() << "'";
    if (copiesFence(ring.getRing()) && !copiesFence(tiles.getRing()))
      return ring.emitOpError()
             << "expected acquires of ring '" << tiles.getName()
             << "' to fence as those of ring '" << ring.getName() << "' do";
    return success();
  }

  /// A slot is full when all that fills it has arrived, and empty when each
  /// warp that reads it has released it.
  LogicalResult checkArrivals(RolesOp roles) {
    for (auto ring : getOperation().getOps<RingCreateOp>()) {
      if (Value tiles = ring.getShares()) {
        if (failed(checkSharing(ring, tiles.getDefiningOp<RingCreateOp>())))
          return failure();
        continue;
      }
      if (!ring.getBarriers())
        continue;
      SmallVector<RingInitOp> inits;
      for (Operation *user : ring->getUsers())
        if (auto op = dyn_cast<RingInitOp>(user))
          inits.push_back(op);
      if (inits.size() != 1)
        return ring.emitOpError()
               << "expected one fa2gpu.ring.init of ring '" << ring.getName()
               << "', got " << inits.size();
      RingInitOp init = inits.front();
      RingArrivals arrivals = arrivalsOf(ring.getRing(), roles);
      if (int64_t(init.getConsumers()) != arrivals.consumers)
        return init.emitOpError()
               << "expected ring '" << ring.getName() << "' to be released by "
               << arrivals.consumers << " warps, got " << init.getConsumers();
      if (int64_t(init.getFillers()) != arrivals.fillers)
        return init.emitOpError()
               << "expected ring '" << ring.getName() << "' to be filled by "
               << arrivals.fillers << " arrivals, got " << init.getFillers();
    }
    return success();
  }

  /// One thread runs a role only where that is all the role asks for; of
  /// persistent blocks one role draws the tiles.
  LogicalResult checkOneThread(RolesOp roles) {
    int64_t drawing = 0, waiting = 0;
    for (auto [i, program] : llvm::enumerate(roles.getPrograms())) {
      program.walk(
          [&](TileLoopOp op) { ++(op.getDraws() ? drawing : waiting); });
      if (roles.getOneThread()[i] && !isOneThreads(program))
        return roles.emitOpError()
               << "expected role '" << roles.getRoleName(i)
               << "' to do what one thread does and nothing else because one "
                  "thread runs it";
    }
    if (waiting > 0 && drawing != 1)
      return roles.emitOpError()
             << "expected one role to draw the tiles, got " << drawing;
    return success();
  }
};

} // namespace
