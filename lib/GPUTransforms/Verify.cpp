//===- Verify.cpp - fa2gpu-verify -----------------------------------------===//
//
// Budgets are compared with the target's; everything that depends on order is
// Flow's.
//
//===----------------------------------------------------------------------===//

#include "Flow.h"

#include "fa2/Target/Target.h"

namespace fa2 {
#define GEN_PASS_DEF_VERIFY
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

constexpr int64_t kGroupWarps = 4;
// PTX ISA, bar: barriers 0 to 15 of each block, on every target.
constexpr int64_t kNamedBarriers = 16;
// PTX ISA, setmaxnreg: a multiple of 8 in [24, 256].
constexpr int64_t kMinRegisters = 24, kMaxRegisters = 256;

/// Bytes of shared memory that have one owner.
struct Bytes {
  int64_t begin, size;
  RingCreateOp ring;
};

struct VerifyPass : public fa2::impl::VerifyBase<VerifyPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    RolesOp roles;
    for (auto op : kernel.getOps<RolesOp>())
      roles = op;
    if (failed(checkMemory(*target, roles)))
      return signalPassFailure();
    if (roles &&
        (failed(checkRegisters(*target, roles)) ||
         failed(checkNamedBarriers(roles)) || failed(checkArrivals(roles))))
      return signalPassFailure();
    Symbols symbols;
    llvm::SmallPtrSet<Value, 4> shared;
    for (auto ring : kernel.getOps<RingCreateOp>())
      if (ring.getBarriers() && !isQueue(ring))
        shared.insert(ring);
    Flow flow(symbols, shared);
    if (!roles) {
      if (!flow.run(kernel.getBody().front()))
        signalPassFailure();
      return;
    }
    if (!flow.run(roles.getConsumer().front()))
      return signalPassFailure();
    Flow producer(symbols, shared);
    if (failed(bindTiles(symbols, flow.tiles, roles.getProducer())) ||
        !producer.run(roles.getProducer().front()) ||
        failed(compare(symbols, roles, flow, producer)))
      signalPassFailure();
  }

  /// The tiles of one role are those of the other.
  LogicalResult bindTiles(Symbols &symbols, Operation *consumer,
                          Region &producer) {
    for (Operation &op : producer.front())
      if (consumer && op.getName() == consumer->getName()) {
        if (!llvm::equal(op.getOperands(), consumer->getOperands()))
          return op.emitOpError() << "expected the tiles of the other role";
        for (auto [mine, other] :
             llvm::zip(op.getRegion(0).getArguments(),
                       consumer->getRegion(0).getArguments()))
          symbols.bind(mine, symbols.of(other));
      }
    return success();
  }

  /// Both roles take as many uses of each ring.
  LogicalResult compare(Symbols &symbols, RolesOp roles, Flow &consumer,
                        Flow &producer) {
    for (auto &[ring, n] : producer.taken) {
      auto it = consumer.taken.find(ring);
      if (it == consumer.taken.end() || !symbols.equal(n, it->second))
        return roles.emitOpError()
               << "expected the consumer to wait for as many uses of ring '"
               << nameOf(ring) << "' as the producer fills";
    }
    for (auto &[ring, n] : consumer.taken)
      if (!producer.taken.count(ring))
        return roles.emitOpError()
               << "expected the producer to fill ring '" << nameOf(ring)
               << "' because the consumer waits for it";
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Budgets
  //===--------------------------------------------------------------------===//

  LogicalResult checkMemory(const Target &target, RolesOp roles) {
    KernelOp kernel = getOperation();
    if (!kernel.getSharedBytes())
      return kernel.emitOpError() << "expected fa2gpu-allocate to have set "
                                     "'shared_bytes'";
    int64_t bytes = *kernel.getSharedBytes();
    int64_t limit = target.limits().sharedBytesPerBlock;
    if (bytes > limit)
      return kernel.emitOpError()
             << "expected at most " << limit << " bytes of shared memory on "
             << target.name() << ", got " << bytes;
    SmallVector<Bytes> places;
    for (auto ring : kernel.getOps<RingCreateOp>()) {
      if (ring.getOffset())
        places.push_back({int64_t(*ring.getOffset()), ringBytes(ring), ring});
      if (ring.getBarriers())
        places.push_back(
            {int64_t(*ring.getBarriers()), barrierBytes(ring), ring});
    }
    llvm::stable_sort(places, [](const Bytes &a, const Bytes &b) {
      return a.begin < b.begin;
    });
    int64_t end = 0;
    for (const Bytes &b : places) {
      RingCreateOp ring = b.ring;
      if (b.begin + b.size > bytes)
        return ring.emitOpError() << "expected ring '" << ring.getName()
                                  << "' to end within the block's " << bytes
                                  << " bytes, got " << b.begin + b.size;
      // Without roles, lives that do not meet share bytes.
      if (roles && b.begin < end)
        return ring.emitOpError()
               << "expected ring '" << ring.getName()
               << "' to have bytes of its own because roles run side by side: "
                  "those before end at "
               << end << ", got " << b.begin;
      end = std::max(end, b.begin + b.size);
    }
    return success();
  }

  /// setmaxnreg.inc waits until the registers are there: what all warpgroups
  /// ask for must not exceed what the block has at entry.
  LogicalResult checkRegisters(const Target &target, RolesOp roles) {
    int64_t consumers = roles.getConsumerWarps(),
            producers = roles.getProducerWarps();
    int64_t threads = (consumers + producers) * kWarpLanes;
    if (threads > target.limits().threadsPerBlock)
      return roles.emitOpError()
             << "expected at most " << target.limits().threadsPerBlock
             << " threads on " << target.name() << ", got " << threads;
    int64_t groups = consumers / kGroupWarps, others = producers / kGroupWarps;
    int64_t entry = target.registerBudget(threads, 1) / 8 * 8;
    int64_t more = roles.getConsumerRegisters(),
            less = roles.getProducerRegisters();
    for (int64_t n : {more, less})
      if (n % 8 != 0 || n < kMinRegisters || n > kMaxRegisters)
        return roles.emitOpError()
               << "expected registers of a role to be a multiple of 8 from "
               << kMinRegisters << " to " << kMaxRegisters << ", got " << n;
    if (more < entry || less > entry)
      return roles.emitOpError()
             << "expected consumers to have at least, and producers at most, "
                "the "
             << entry << " registers at entry, got " << more << " and " << less;
    int64_t sum = more * groups + less * others,
            limit = entry * (groups + others);
    if (sum > limit)
      return roles.emitOpError()
             << "expected registers of " << groups << " consumer and " << others
             << " producer warpgroups to sum to at most " << limit << " ("
             << entry << " each at entry), got " << sum
             << ": the increase would wait for ever";
    return success();
  }

  LogicalResult checkNamedBarriers(RolesOp roles) {
    int64_t groups = roles.getConsumerWarps() / kGroupWarps;
    constexpr int64_t limit = kNamedBarriers;
    SmallVector<Operation *> owner(limit); // of each number's kind
    LogicalResult result = success();
    roles.walk([&](Operation *op) {
      std::optional<uint64_t> id;
      bool turn = isa<TurnWaitOp, TurnPassOp>(op);
      if (!turn && !isa<GroupBarrierOp>(op))
        return WalkResult::advance();
      if (auto number = op->getAttrOfType<IntegerAttr>("id"))
        id = number.getInt();
      if (!id || *id < 1 || int64_t(*id) + groups > limit) {
        auto error = op->emitOpError()
                     << "expected named barriers from 1 to " << limit - 1
                     << " (0 is the block's), got ";
        id ? (error << *id << " to " << *id + groups - 1) : (error << "none");
        result = failure();
        return WalkResult::interrupt();
      }
      for (int64_t n = *id; n < int64_t(*id) + groups; ++n) {
        Operation *&first = owner[n];
        if (first && isa<GroupBarrierOp>(first) == turn) {
          op->emitOpError() << "expected named barrier " << n
                            << " to be for turns or for warpgroups, not both";
          result = failure();
          return WalkResult::interrupt();
        }
        first = op;
      }
      return WalkResult::advance();
    });
    return result;
  }

  /// A slot is empty when each consumer warp that reads it has released it.
  LogicalResult checkArrivals(RolesOp roles) {
    for (auto ring : getOperation().getOps<RingCreateOp>()) {
      if (!ring.getBarriers())
        continue;
      int64_t warps =
          roles.getConsumerWarps() / ring.getRing().getType().getParts();
      SmallVector<RingInitOp> inits;
      for (Operation *user : ring->getUsers())
        if (auto op = dyn_cast<RingInitOp>(user))
          inits.push_back(op);
      if (inits.size() != 1)
        return ring.emitOpError()
               << "expected one fa2gpu.ring.init of ring '" << ring.getName()
               << "', got " << inits.size();
      RingInitOp init = inits.front();
      if (int64_t(init.getConsumers()) != warps)
        return init.emitOpError()
               << "expected ring '" << ring.getName() << "' to be released by "
               << warps << " warps, got " << init.getConsumers();
    }
    return success();
  }
};

} // namespace
