//===- LowerTensorCopy.cpp - tensor maps, mbarrier rings ------------------===//
//
// PTX ISA, "cp.async.bulk.tensor" and "mbarrier". A slot's "full" barrier
// counts one arrival and the bytes of its copies, or one arrival of each warp
// that writes it; its "empty" barrier one arrival of each warp that reads it.
// Use n of a ring of s slots waits for phase n / s.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

RingUse::RingUse(Emit &e, RingType ring, Value use, Value part) {
  Value n = e.toI32(use);
  int64_t slots = ring.getSlots();
  if (llvm::isPowerOf2_64(slots)) {
    slot = e.bitAnd(n, slots - 1);
    parity = e.bitAnd(e.shr(n, llvm::Log2_64(slots)), 1);
  } else {
    slot = e.remU(n, e.i32(slots));
    parity = e.bitAnd(e.divU(n, e.i32(slots)), 1);
  }
  barrier = slot;
  if (ring.getParts() > 1) {
    if (!part)
      part = e.shr(e.uniformWarp(), 2);
    barrier = e.add(e.mul(slot, ring.getParts()), part);
  }
}

Value RingParts::full(Emit &e, Value barrier) const {
  return e.add(barriers, e.mul(barrier, kBarrierBytes));
}
Value RingParts::empty(Emit &e, Value barrier) const {
  return e.add(full(e, barrier),
               kBarrierBytes * type.getSlots() * type.getParts());
}

void fa2::gpu::barrierWait(Emit &e, Value barrier, Value parity,
                           bool ofCluster) {
  Value operands[] = {barrier, parity};
  std::string kind = ofCluster ? ".acquire.cluster.shared::cta" : ".shared";
  e.ptx("{\n.reg .pred done;\nWAIT:\n"
        "mbarrier.try_wait.parity" +
            kind +
            ".b64 done, [$0], $1, 10000000;\n"
            "@done bra.uni DONE;\nbra.uni WAIT;\nDONE:\n}",
        "r,r", operands);
}

/// No scope of its own: who arrives has only read (docs/decisions, clusters).
void fa2::gpu::barrierArriveIn(Emit &e, Value barrier, Value predicate) {
  if (!predicate)
    return e.ptx("mbarrier.arrive.shared::cluster.b64 _, [$0];", "r", barrier);
  Value operands[] = {barrier, predicate};
  e.ptx("@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,b", operands);
}

void fa2::gpu::barrierArrive(Emit &e, Value barrier, Value predicate) {
  if (!predicate)
    return e.ptx("mbarrier.arrive.shared.b64 _, [$0];", "r", barrier);
  Value operands[] = {barrier, predicate};
  e.ptx("@$1 mbarrier.arrive.shared.b64 _, [$0];", "r,b", operands);
}

void fa2::gpu::barrierExpect(Emit &e, Value barrier, int64_t bytes) {
  Value operands[] = {barrier, e.i32(bytes)};
  e.ptx("mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1;", "r,r", operands);
}

Value fa2::gpu::inBlock(Emit &e, Value address, Value rank) {
  Value operands[] = {address, rank};
  return LLVM::InlineAsmOp::create(
             e.b, e.loc, e.b.getI32Type(), operands,
             "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
             /*has_side_effects=*/false, /*is_align_stack=*/false,
             LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
      .getResult(0);
}

/// The same place of the cluster's other block.
static Value atPeer(Emit &e, Value address) {
  Value rank =
      mlir::gpu::ClusterBlockIdOp::create(e.b, e.loc, mlir::gpu::Dimension::x);
  return inBlock(e, address, e.bitXor(e.toI32(rank), 1));
}

namespace {

Value isZero(Emit &e, Value v) {
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, v,
                               e.i32(0));
}

struct RingInitLowering : public OpConversionPattern<RingInitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingInitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    auto first =
        scf::IfOp::create(rewriter, op.getLoc(), isZero(e, e.thread()));
    rewriter.setInsertionPointToStart(first.thenBlock());
    auto init = [&](Value barrier, int64_t count) {
      Value operands[] = {barrier, e.i32(count)};
      e.ptx("mbarrier.init.shared.b64 [$0], $1;", "r,r", operands);
    };
    int64_t barriers = ring.type.getSlots() * ring.type.getParts();
    for (int64_t s = 0; s < barriers; ++s) {
      init(ring.full(e, e.i32(s)), op.getFillers());
      init(ring.empty(e, e.i32(s)), op.getConsumers());
    }
    rewriter.eraseOp(op);
    return success();
  }
};

void proxyFence(Emit &e) { e.ptx("fence.proxy.async.shared::cta;", "", {}); }

int64_t slotBytes(RingType ring) {
  return sharedLayout(ring.getTile()).pitch();
}

/// The number of the use after this one.
template <typename Adaptor> Value next(Emit &e, Adaptor adaptor) {
  return e.add(adaptor.getUse()[0], 1);
}

/// Waits until a slot, or its part, is free.
void waitForSlot(Emit &e, const RingParts &ring, const RingUse &use) {
  // A fresh barrier counts as one whose phase before has ended.
  barrierWait(e, ring.empty(e, use.barrier), e.bitXor(use.parity, 1));
}

/// The same for copies, whose bytes will arrive.
void acquire(Emit &e, const RingParts &ring, const RingUse &use,
             bool fences = false, int64_t more = 0) {
  waitForSlot(e, ring, use);
  if (fences)
    proxyFence(e);
  barrierExpect(
      e, ring.full(e, use.barrier),
      sharedLayout(ring.type.getTile()).bytes() / ring.type.getParts() + more);
}

/// Bytes that arrive with a slot's own, in rings that share its mbarriers.
int64_t sharedBytes(Value ring) {
  int64_t bytes = 0;
  for (RingCreateOp sharer : sharersOf(ring))
    if (isCopied(sharer.getRing()))
      bytes += sharedLayout(sharer.getRing().getType().getTile()).bytes();
  return bytes;
}

struct AcquireLowering : public OpConversionPattern<RingAcquireOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingAcquireOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    RingUse use(e, ring.type, adaptor.getUse()[0]);
    // Of copies parts are waited for one by one, each before its own.
    // What shares another ring's mbarriers is acquired with that.
    // Of a slot of the other block's all threads learn that it is free.
    if (!isCopied(op.getRing()) || isPeer(op.getRing()))
      waitForSlot(e, ring, use);
    else if (ring.type.getParts() == 1 && !sharesBarriers(op.getRing()))
      onOneThread(e, [&] {
        acquire(e, ring, use, op.getFences(), sharedBytes(op.getRing()));
      });
    Value slot = e.add(ring.slots, e.mul(use.slot, slotBytes(ring.type)));
    rewriter.replaceOp(op, {slot, next(e, adaptor)});
    return success();
  }
};

/// Copies commit by their arrival, threads warp by warp.
struct CommitLowering : public OpConversionPattern<RingCommitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingCommitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!isCopied(op.getRing())) {
      Emit e(rewriter, op.getLoc());
      RingParts ring(op.getRing().getType(), adaptor.getRing());
      RingUse use(e, ring.type, adaptor.getUse()[0]);
      // Every lane has written before lane 0 says so.
      NVVM::SyncWarpOp::create(rewriter, op.getLoc(), e.i32(-1));
      barrierArrive(e, ring.full(e, use.barrier), isZero(e, e.lane()));
    }
    rewriter.eraseOp(op);
    return success();
  }
};

/// Whether one thread of the role copies, beside what all of them do.
bool elects(Operation *op) {
  auto roles = op->getParentOfType<RolesOp>();
  return roles && !roles.getOneThread()[roles.getRoleOf(op)] &&
         roles->getRegion(roles.getRoleOf(op))
             .walk([](Operation *copy) {
               return isa<TensorCopyOp, BulkCopyOp, PeerCopyOp>(copy)
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

struct WaitLowering : public OpConversionPattern<RingWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    Value number = adaptor.getUse()[0];
    // ptxas keeps the counters of a loop with code of one thread in each
    // thread's registers, and then the descriptors of what matmuls read there.
    if (ring.type.getSlots() > 1 && elects(op))
      number = e.toIndex(e.sameInWarp(e.toI32(number)));
    RingUse use(e, ring.type, number);
    if (!sharesBarriers(op.getRing()) && !op.getImplied())
      barrierWait(e, ring.full(e, use.barrier), use.parity);
    Value tile = e.add(ring.slots, e.mul(use.slot, slotBytes(ring.type)));
    rewriter.replaceOp(op, {tile, next(e, adaptor)});
    return success();
  }
};

struct ReleaseLowering : public OpConversionPattern<RingReleaseOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RingReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    if (!sharesBarriers(op.getRing())) {
      RingUse use(e, ring.type, adaptor.getUse()[0]);
      if (op.getWaits())
        barrierWait(e, ring.full(e, use.barrier), use.parity);
      Value empty = ring.empty(e, use.barrier);
      if (isPeer(op.getRing()))
        barrierArriveIn(e, atPeer(e, empty), isZero(e, e.lane()));
      else
        barrierArrive(e, empty, isZero(e, e.lane()));
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct TensorMapLowering : public OpConversionPattern<TensorMapOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TensorMapOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getParameter())
      return rewriter.notifyMatchFailure(op, "expected a parameter");
    auto func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
    rewriter.replaceOp(op, func.getArgument(*op.getParameter()));
    return success();
  }
};

struct TensorMapPrefetchLowering
    : public OpConversionPattern<TensorMapPrefetchOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TensorMapPrefetchOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto first =
        scf::IfOp::create(rewriter, op.getLoc(), isZero(e, e.thread()));
    rewriter.setInsertionPointToStart(first.thenBlock());
    // nvvm.prefetch of a parameter comes out twice, once for each space.
    e.ptx("prefetch.tensormap [$0];", "l", adaptor.getMap()[0]);
    rewriter.eraseOp(op);
    return success();
  }
};

struct TensorCopyLowering : public OpConversionPattern<TensorCopyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TensorCopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    SharedLayout layout = sharedLayout(ring.type.getTile());
    int64_t parts = ring.type.getParts(), rows = layout.rows() / parts;
    int64_t queries = rows / op.getHeads();
    Value row = e.toI32(adaptor.getRow()[0]);
    Value column;
    if (op.getColumn())
      column = e.toI32(adaptor.getColumn()[0]);
    onOneThread(e, [&] {
      for (int64_t part = 0; part < parts; ++part) {
        RingUse use(e, ring.type, adaptor.getUse()[0], e.i32(part));
        if (parts > 1)
          acquire(e, ring, use);
        copyPart(e, adaptor, layout, part * rows, e.add(row, part * queries),
                 column, ring.full(e, use.barrier));
      }
    });
    rewriter.eraseOp(op);
    return success();
  }

  /// The rows from `first` of the tile on, as many as the map's box has, and
  /// columns from `column` on, where it is given.
  static void copyPart(Emit &e, OneToNOpAdaptor adaptor,
                       const SharedLayout &layout, int64_t first, Value row,
                       Value column, Value full) {
    CacheHint hint = adaptor.getCache().value_or(CacheHint::None);
    bool hinted = hint != CacheHint::None;
    Value policy = hinted ? e.cachePolicy(hint) : Value();
    for (const auto &panel : layout.panels()) {
      Value to =
          e.add(adaptor.getSlot()[0], panel.offset + first * panel.bytes);
      SmallVector<Value> operands{to,
                                  adaptor.getMap()[0],
                                  column ? e.add(column, panel.col)
                                         : e.i32(panel.col),
                                  row,
                                  e.toI32(adaptor.getHead()[0]),
                                  e.toI32(adaptor.getBatch()[0]),
                                  full};
      if (hinted)
        operands.push_back(policy);
      e.ptx("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::"
            "complete_tx::bytes" +
                std::string(hinted ? ".L2::cache_hint" : "") +
                " [$0], [$1, {$2, $3, $4, $5}], [$6]" +
                (hinted ? ", $7;" : ";"),
            hinted ? "r,l,r,r,r,r,r,l" : "r,l,r,r,r,r,r", operands);
    }
  }
};

struct BulkCopyLowering : public OpConversionPattern<BulkCopyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(BulkCopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    auto slot = cast<RankedTensorType>(op.getSlot().getType());
    int64_t element = slot.getElementTypeBitWidth() / 8;
    onOneThread(e, [&] {
      RingUse use(e, ring.type, adaptor.getUse()[0]);
      ViewParts view = ViewParts::from(adaptor.getView());
      Value from =
          e.gep(view.base, e.mul(e.toI64(adaptor.getRow()[0]), element));
      Value operands[] = {adaptor.getSlot()[0], from,
                          e.i32(slot.getNumElements() * element),
                          ring.full(e, use.barrier)};
      e.ptx("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[$0], [$1], $2, [$3];",
            "r,l,r,r", operands);
    });
    rewriter.eraseOp(op);
    return success();
  }
};

/// From this block's shared memory to the other's, which is told how many bytes
/// will come.
struct PeerCopyLowering : public OpConversionPattern<PeerCopyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(PeerCopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    RingParts ring(op.getRing().getType(), adaptor.getRing());
    Value bytes = e.i32(sharedLayout(ring.type.getTile()).bytes());
    onOneThread(e, [&] {
      RingUse use(e, ring.type, adaptor.getUse()[0]);
      Value full = atPeer(e, ring.full(e, use.barrier));
      e.ptx("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [$0], $1;", "r,r",
            {full, bytes});
      Value operands[] = {atPeer(e, adaptor.getSlot()[0]), adaptor.getTile()[0],
                          bytes, full};
      e.ptx("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
            "bytes [$0], [$1], $2, [$3];",
            "r,r,r,r", operands);
    });
    rewriter.eraseOp(op);
    return success();
  }
};

/// One thread of each warpgroup: lane 0 of its first warp.
struct TensorStoreLowering : public OpConversionPattern<TensorStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TensorStoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    Value warp = e.uniformWarp(), group = e.shr(warp, 2);
    Value leads = e.both(isZero(e, e.bitAnd(warp, 3)), isZero(e, e.lane()));
    SharedLayout layout =
        sharedLayout(cast<RankedTensorType>(op.getSlot().getType()));
    int64_t across = op.getAcross();
    Value part = across > 1 ? e.remU(group, e.i32(across)) : Value();
    if (part)
      group = e.divU(group, e.i32(across));
    Value row = e.add(e.toI32(adaptor.getRow()[0]),
                      e.mul(group, kGroupRows / op.getHeads()));
    if (mayPrecede(op.getRow()))
      leads = e.both(leads, e.less(e.i32(-1), row));
    auto branch = scf::IfOp::create(rewriter, op.getLoc(), leads);
    rewriter.setInsertionPointToStart(branch.thenBlock());
    Value column;
    if (op.getColumn())
      column = e.toI32(adaptor.getColumn()[0]);
    for (auto [i, panel] : llvm::enumerate(layout.panels())) {
      OpBuilder::InsertionGuard guard(rewriter);
      if (part) { // one warpgroup's, of those that share rows
        auto own = scf::IfOp::create(rewriter, op.getLoc(),
                                     isZero(e, e.sub(part, e.i32(i % across))));
        rewriter.setInsertionPointToStart(own.thenBlock());
      }
      Value from = e.add(adaptor.getSlot()[0], panel.offset);
      Value operands[] = {e.add(from, e.mul(group, kGroupRows * panel.bytes)),
                          adaptor.getMap()[0],
                          column ? e.add(column, panel.col) : e.i32(panel.col),
                          row,
                          e.toI32(adaptor.getHead()[0]),
                          e.toI32(adaptor.getBatch()[0])};
      e.ptx("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
            "[$1, {$2, $3, $4, $5}], [$0];",
            "r,l,r,r,r,r", operands);
    }
    NVVM::CpAsyncBulkCommitGroupOp::create(rewriter, op.getLoc());
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreWaitLowering : public OpConversionPattern<StoreWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    e.ptx("cp.async.bulk.wait_group.read 0;", "", {});
    rewriter.eraseOp(op);
    return success();
  }
};

struct WarpBarrierLowering : public OpConversionPattern<WarpBarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(WarpBarrierOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    NVVM::SyncWarpOp::create(rewriter, op.getLoc(), e.i32(-1));
    rewriter.eraseOp(op);
    return success();
  }
};

struct ProxyFenceLowering : public OpConversionPattern<ProxyFenceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ProxyFenceOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    proxyFence(e);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fa2::gpu::populateTensorCopyPatterns(TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<RingInitLowering, AcquireLowering, CommitLowering, WaitLowering,
               ReleaseLowering, TensorMapLowering, TensorMapPrefetchLowering,
               TensorCopyLowering, BulkCopyLowering, PeerCopyLowering,
               TensorStoreLowering, StoreWaitLowering, WarpBarrierLowering,
               ProxyFenceLowering>(converter, patterns.getContext());
}
