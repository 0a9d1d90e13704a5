//===- LowerRoles.cpp - roles, persistent tile loops, turns ---------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Threads at a turn's barrier: those of two warpgroups.
constexpr int64_t kTurnThreads = 256, kGroupThreads = 128;

void setRegisters(Emit &e, int64_t count, NVVM::SetMaxRegisterAction action) {
  NVVM::SetMaxRegisterOp::create(e.b, e.loc, count, action);
}

struct RolesLowering : public OpConversionPattern<RolesOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RolesOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    // The mbarriers are initialized for every thread and the copy engine.
    e.ptx("fence.mbarrier_init.release.cluster;", "", {});
    NVVM::Barrier0Op::create(rewriter, op.getLoc());
    Value warp = e.uniformWarp();
    auto compare = [&](arith::CmpIPredicate p, int64_t n) -> Value {
      return arith::CmpIOp::create(rewriter, op.getLoc(), p, warp, e.i32(n));
    };
    int64_t consumers = op.getConsumerWarps();
    auto split = scf::IfOp::create(
        rewriter, op.getLoc(), compare(arith::CmpIPredicate::ult, consumers),
        /*withElse=*/true);
    auto fill = [&](Region &region, Block *into) {
      rewriter.inlineBlockBefore(&region.front(), into->getTerminator());
    };
    rewriter.setInsertionPointToStart(split.thenBlock());
    setRegisters(e, op.getConsumerRegisters(),
                 NVVM::SetMaxRegisterAction::increase);
    fill(op.getConsumer(), split.thenBlock());
    rewriter.setInsertionPointToStart(split.elseBlock());
    setRegisters(e, op.getProducerRegisters(),
                 NVVM::SetMaxRegisterAction::decrease);
    auto first = scf::IfOp::create(
        rewriter, op.getLoc(), compare(arith::CmpIPredicate::eq, consumers));
    rewriter.setInsertionPointToStart(first.thenBlock());
    auto one = scf::IfOp::create(rewriter, op.getLoc(), e.elect());
    fill(op.getProducer(), one.thenBlock());
    rewriter.eraseOp(op);
    return success();
  }
};

/// Tile numbers: a block's first is its own, the others come from a counter in
/// the workspace, which the last block to finish sets back to zero.
struct TileLoopLowering : public OpConversionPattern<TileLoopOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TileLoopOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emit e(rewriter, loc);
    auto func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
    auto order = op.getOrder();
    Value section = func.getArguments().back();
    unsigned last = func.getNumArguments() - 1;
    Value counter =
        func.getArgument(order == TileOrder::LongestFirst ? last - 1 : last);
    Value heads = adaptor.getHeads()[0], batches = adaptor.getBatches()[0];
    Value tiles = e.divU(e.add(adaptor.getRows()[0], op.getBlock() - 1),
                         e.index(op.getBlock()));
    Value total = e.mul(e.mul(tiles, heads), batches);
    RingParts queue(op.getQueue().getType(), adaptor.getQueue());
    auto dim = mlir::gpu::Dimension::x;
    Value id = mlir::gpu::BlockIdOp::create(rewriter, loc, dim);
    Value blocks = mlir::gpu::GridDimOp::create(rewriter, loc, dim);
    Value zero = e.index(0);

    Type index = rewriter.getIndexType();
    auto loop =
        scf::WhileOp::create(rewriter, loc, TypeRange{index, index, index},
                             ValueRange{id, zero, zero});
    SmallVector<Location> locs(3, loc);
    Block *before = rewriter.createBlock(&loop.getBefore(), {},
                                         TypeRange{index, index, index}, locs);
    Value more = rewriter.createOrFold<arith::CmpIOp>(
        loc, arith::CmpIPredicate::ult, before->getArgument(0), total);
    scf::ConditionOp::create(rewriter, loc, more, before->getArguments());
    Block *after = rewriter.createBlock(&loop.getAfter(), {},
                                        TypeRange{index, index, index}, locs);
    Value visit = after->getArgument(1);
    TileCoords at = decodeTile(e, after->getArgument(0), tiles, heads, batches,
                               order, section);
    Block &body = op.getBody().front();
    Operation *end = body.getTerminator();
    rewriter.setInsertionPointToEnd(after);
    auto marker =
        scf::YieldOp::create(rewriter, loc); // the block's end for now
    rewriter.inlineBlockBefore(
        &body, marker,
        {at.tile, at.head, at.batch, visit, after->getArgument(2)});
    Value uses = end->getOperand(0);
    rewriter.setInsertionPoint(marker);
    Value next = op.getDraws() ? draw(e, counter, blocks, queue, visit)
                               : receive(e, queue, visit);
    scf::YieldOp::create(rewriter, loc,
                         ValueRange{next, e.add(visit, 1), uses});
    rewriter.eraseOp(marker);
    rewriter.eraseOp(end);
    rewriter.setInsertionPointAfter(loop);
    if (op.getDraws())
      reset(e, counter, blocks);
    rewriter.eraseOp(op);
    return success();
  }

  static Value slotAddress(Emit &e, const RingParts &queue, Value slot) {
    return e.sharedPointer(e.add(queue.slots, e.mul(slot, 8)));
  }

  static Value draw(Emit &e, Value counter, Value blocks,
                    const RingParts &queue, Value visit) {
    Value old =
        LLVM::AtomicRMWOp::create(e.b, e.loc, LLVM::AtomicBinOp::add, counter,
                                  e.i32(1), LLVM::AtomicOrdering::monotonic);
    Value next = e.add(old, e.toI32(blocks));
    RingUse use(e, queue.type, visit);
    barrierWait(e, queue.empty(e, use.slot), e.bitXor(use.parity, 1));
    LLVM::StoreOp::create(e.b, e.loc, next, slotAddress(e, queue, use.slot), 4,
                          /*isVolatile=*/true);
    barrierArrive(e, queue.full(e, use.slot));
    return e.toIndex(next);
  }

  static Value receive(Emit &e, const RingParts &queue, Value visit) {
    RingUse use(e, queue.type, visit);
    barrierWait(e, queue.full(e, use.slot), use.parity);
    Value next = LLVM::LoadOp::create(e.b, e.loc, e.b.getI32Type(),
                                      slotAddress(e, queue, use.slot), 4,
                                      /*isVolatile=*/true);
    // Every lane has read before lane 0 says so.
    NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
    barrierArrive(e, queue.empty(e, use.slot),
                  arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                        e.lane(), e.i32(0)));
    return e.toIndex(next);
  }

  static void reset(Emit &e, Value counter, Value blocks) {
    // LLVM drops the order of atomicrmw on this target: PTX says it.
    Value finished = e.gep(counter, 4);
    Value old =
        LLVM::InlineAsmOp::create(
            e.b, e.loc, TypeRange{e.b.getI32Type()}, ValueRange{finished},
            e.b.getStringAttr("atom.add.acq_rel.gpu.global.u32 $0, [$1], 1;"),
            e.b.getStringAttr("=r,l,~{memory}"), e.b.getUnitAttr(), UnitAttr(),
            LLVM::TailCallKindAttr::get(e.b.getContext(),
                                        LLVM::TailCallKind::None),
            LLVM::AsmDialectAttr{}, ArrayAttr{})
            .getResult(0);
    Value lastOne = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                          old, e.add(e.toI32(blocks), -1));
    auto branch = scf::IfOp::create(e.b, e.loc, lastOne);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(branch.thenBlock());
    LLVM::StoreOp::create(e.b, e.loc, e.i32(0), counter);
    LLVM::StoreOp::create(e.b, e.loc, e.i32(0), finished);
  }
};

/// bar.sync or bar.arrive at a barrier whose number the warpgroup decides.
void namedBarrier(Emit &e, StringRef verb, Value id, int64_t threads) {
  std::string text =
      "bar." + verb.str() + " $0, " + std::to_string(threads) + ";";
  e.ptx(text, "r", id);
}

Value groupOf(Emit &e) { return e.shr(e.uniformWarp(), 2); }

/// Runs `body` where the warpgroup is `group`.
template <typename Fn> void inGroup(Emit &e, int64_t group, Fn body) {
  Value is = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                   groupOf(e), e.i32(group));
  auto branch = scf::IfOp::create(e.b, e.loc, is);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(branch.thenBlock());
  body();
}

struct WarpgroupLowering : public OpConversionPattern<WarpgroupOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(WarpgroupOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    rewriter.replaceOp(op, e.toIndex(groupOf(e)));
    return success();
  }
};

struct TurnWaitLowering : public OpConversionPattern<TurnWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TurnWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getId())
      return rewriter.notifyMatchFailure(op, "expected fa2gpu-allocate");
    Emit e(rewriter, op.getLoc());
    if (op.getFirst())
      inGroup(e, 0, [&] {
        namedBarrier(e, "sync", e.i32(*op.getId()), kTurnThreads);
      });
    else
      namedBarrier(e, "sync", e.add(groupOf(e), *op.getId()), kTurnThreads);
    rewriter.eraseOp(op);
    return success();
  }
};

struct TurnPassLowering : public OpConversionPattern<TurnPassOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TurnPassOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getId())
      return rewriter.notifyMatchFailure(op, "expected fa2gpu-allocate");
    Emit e(rewriter, op.getLoc());
    int64_t groups = op.getGroups();
    if (op.getFirst()) {
      inGroup(e, groups - 1, [&] {
        namedBarrier(e, "arrive", e.i32(*op.getId()), kTurnThreads);
      });
    } else {
      Value next = e.add(groupOf(e), 1);
      Value wraps = arith::CmpIOp::create(
          rewriter, op.getLoc(), arith::CmpIPredicate::eq, next, e.i32(groups));
      next = e.select(wraps, e.i32(0), next);
      namedBarrier(e, "arrive", e.add(next, *op.getId()), kTurnThreads);
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct GroupBarrierLowering : public OpConversionPattern<GroupBarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(GroupBarrierOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getId())
      return rewriter.notifyMatchFailure(op, "expected fa2gpu-allocate");
    Emit e(rewriter, op.getLoc());
    namedBarrier(e, "sync", e.add(groupOf(e), *op.getId()), kGroupThreads);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fa2::gpu::populateRolePatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<RolesLowering, TileLoopLowering, WarpgroupLowering,
               TurnWaitLowering, TurnPassLowering, GroupBarrierLowering>(
      converter, patterns.getContext());
}
