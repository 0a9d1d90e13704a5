//===- LowerRoles.cpp - roles, persistent tile loops, turns ---------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// Threads at a turn's barrier: those of two warpgroups.
constexpr int64_t kTurnThreads = 256, kGroupThreads = 128;

/// Tile numbers: a block's first is its own, the others come from a counter in
/// the workspace, which the last block to finish sets back to zero. Of a
/// cluster, whose blocks take a tile together, the first block draws, and waits
/// until all have read; what is said of a block's number and of how many there
/// are is said of clusters.
struct TileLoopLowering : public OpConversionPattern<TileLoopOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(TileLoopOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emit e(rewriter, loc);
    auto func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
    auto order = op.getOrder();
    bool balanced = order == TileOrder::Balanced;
    // What stands behind the counter: how many of the longest start first, and
    // the sections.
    unsigned sections = func.getNumArguments() - numSectionArguments(order);
    Value longest = balanced ? func.getArgument(sections - 1) : Value();
    Value counter = func.getArgument(sections - (balanced ? 2 : 1));
    Value heads = adaptor.getHeads()[0], batches = adaptor.getBatches()[0];
    Value tiles = e.divU(e.add(adaptor.getRows()[0], op.getBlock() - 1),
                         e.index(op.getBlock()));
    Value total = e.mul(e.mul(tiles, heads), batches);
    auto dim = mlir::gpu::Dimension::x;
    Value id = mlir::gpu::BlockIdOp::create(rewriter, loc, dim);
    Value blocks = mlir::gpu::GridDimOp::create(rewriter, loc, dim);
    Value rank, isFirst;
    if (int64_t cluster = op.getCluster(); cluster > 1) {
      id = e.divU(id, e.index(cluster));
      blocks = e.divU(blocks, e.index(cluster));
      rank = e.toI32(mlir::gpu::ClusterBlockIdOp::create(rewriter, loc, dim));
      isFirst = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                      rank, e.i32(0));
    }

    bool located = op.getLocated();
    auto decoded = [&](Value number) {
      if (balanced)
        number = placeOf(e, number, longest, total, blocks);
      return decodeTile(e, number, tiles, heads, batches, order, func);
    };
    auto placed = [&](Value number) {
      if (!located)
        return Drawn{number};
      TileCoords at = decoded(number);
      Value more = arith::CmpIOp::create(
          rewriter, loc, arith::CmpIPredicate::ult, number, total);
      return Drawn{e.select(more, e.toI32(at.tile), e.i32(kNoTile)),
                   e.toI32(at.head), e.toI32(at.batch)};
    };
    // Which tile it is, how many came before it, and what is carried.
    SmallVector<Value> begin(placed(id));
    unsigned words = begin.size();
    begin.push_back(e.index(0));
    for (ValueRange init : adaptor.getInits())
      llvm::append_range(begin, init);
    SmallVector<Type> types(begin.size(), rewriter.getIndexType());
    if (located)
      std::fill_n(types.begin(), words, rewriter.getI32Type());
    SmallVector<Location> locs(begin.size(), loc);
    auto loop = scf::WhileOp::create(rewriter, loc, types, begin);
    Block *before = rewriter.createBlock(&loop.getBefore(), {}, types, locs);
    Value first = before->getArgument(0);
    Value more = located
                     ? rewriter.createOrFold<arith::CmpIOp>(
                           loc, arith::CmpIPredicate::ne, first, e.i32(kNoTile))
                     : rewriter.createOrFold<arith::CmpIOp>(
                           loc, arith::CmpIPredicate::ult, first, total);
    scf::ConditionOp::create(rewriter, loc, more, before->getArguments());
    Block *after = rewriter.createBlock(&loop.getAfter(), {}, types, locs);
    Value visit = after->getArgument(words);
    Block &body = op.getBody().front();
    Operation *end = body.getTerminator();
    Queue queue{RingParts(op.getQueue().getType(), adaptor.getQueue()), words,
                rank, int64_t(op.getCluster())};
    bool ofMany = op.getDraws() && !isOneThreadsRole(op);
    Value drawn, draws;
    if (ofMany) { // it comes while the tile's work goes on
      draws = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                    e.thread(), e.i32(0));
      if (isFirst)
        draws = e.both(draws, isFirst);
      drawn = drawWhere(e, counter, draws);
    }
    rewriter.setInsertionPointToEnd(after);
    auto marker =
        scf::YieldOp::create(rewriter, loc); // the block's end for now
    rewriter.setInsertionPoint(marker);
    SmallVector<Value> args;
    if (located) {
      for (Value word : after->getArguments().take_front(words))
        args.push_back(e.toIndex(word));
    } else {
      TileCoords at = decoded(after->getArgument(0));
      args = {at.tile, at.head, at.batch};
    }
    llvm::append_range(args, after->getArguments().drop_front(words));
    rewriter.inlineBlockBefore(&body, marker, args);
    SmallVector<Value> cursors(end->getOperands());
    rewriter.setInsertionPoint(marker);
    if (ofMany) {
      auto one = scf::IfOp::create(rewriter, loc, draws);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(one.thenBlock());
      give(e, placed(nextOf(e, drawn, blocks)), queue, visit);
    }
    Drawn next;
    if (!op.getDraws() || ofMany)
      next = receive(e, queue, visit, isOneThreadsRole(op));
    else {
      auto draw = [&] {
        Drawn next = placed(nextOf(e, drawFrom(e, counter), blocks));
        give(e, next, queue, visit);
        return next;
      };
      next = isFirst ? oneOf(e, words, isFirst, draw,
                             [&] {
                               return receive(e, queue, visit,
                                              /*oneThread=*/true);
                             })
                     : draw();
    }
    next.push_back(e.add(visit, 1));
    cursors.insert(cursors.begin(), next.begin(), next.end());
    scf::YieldOp::create(rewriter, loc, cursors);
    rewriter.eraseOp(marker);
    rewriter.eraseOp(end);
    rewriter.setInsertionPointAfter(loop);
    if (op.getDraws())
      onOneThread(e, [&] {
        auto resets = [&] { reset(e, counter, blocks); };
        isFirst ? when(e, isFirst, resets) : resets();
      });
    rewriter.eraseOp(op);
    return success();
  }

  /// The place, in the order from the longest to the shortest, of the tile that
  /// starts as `number`: so many of the longest, then as many of the shortest
  /// as are more than one for each block with these, then the others.
  static Value placeOf(Emit &e, Value number, Value longest, Value total,
                       Value blocks) {
    auto below = [&](Value x) -> Value {
      return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                   number, x);
    };
    Value together = e.sub(total, blocks), shortest = e.sub(together, longest);
    Value fromLast = e.sub(e.add(e.add(total, longest), -1), number);
    return e.select(
        below(longest), number,
        e.select(below(together), fromLast, e.sub(number, shortest)));
  }

  static bool isOneThreadsRole(TileLoopOp op) {
    auto roles = op->getParentOfType<RolesOp>();
    return !roles || roles.getOneThread()[roles.getRoleOf(op)];
  }

  /// The tiles that roles take. Of a cluster each block has one, which the
  /// first block fills.
  struct Queue {
    RingParts ring;
    unsigned words; // of a slot
    Value rank;     // of a cluster's block
    int64_t blocks;

    Value slotAddress(Emit &e, Value slot) const {
      return e.add(ring.slots, e.mul(slot, kQueueSlotBytes));
    }
  };

  /// A tile's index along the sequence, which is kNoTile where there is none
  /// any more, its head and its batch entry, i32; or its number alone, an
  /// index.
  using Drawn = SmallVector<Value, 4>;
  static constexpr int64_t kNoTile = -1;

  /// What one of two branches gives.
  template <typename Then, typename Else>
  static Drawn oneOf(Emit &e, unsigned words, Value condition, Then then,
                     Else otherwise) {
    Type word = words == 1 ? Type(e.b.getIndexType()) : e.b.getI32Type();
    SmallVector<Type> types(words, word);
    auto branch = scf::IfOp::create(e.b, e.loc, types, condition,
                                    /*withElse=*/true);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(e.b, e.loc, then());
    e.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(e.b, e.loc, otherwise());
    return Drawn(branch.getResults());
  }

  static Value drawFrom(Emit &e, Value counter) {
    return LLVM::AtomicRMWOp::create(e.b, e.loc, LLVM::AtomicBinOp::add,
                                     counter, e.i32(1),
                                     LLVM::AtomicOrdering::monotonic);
  }

  static Value nextOf(Emit &e, Value drawn, Value blocks) {
    return e.toIndex(e.add(drawn, e.toI32(blocks)));
  }

  /// The counter before one thread added to it; anything in the others. No
  /// branch, which would wait for it.
  static Value drawWhere(Emit &e, Value counter, Value draws) {
    return LLVM::InlineAsmOp::create(
               e.b, e.loc, e.b.getI32Type(), ValueRange{counter, draws},
               "{\nmov.b32 $0, 0;\n"
               "@$2 atom.relaxed.gpu.global.add.u32 $0, [$1], 1;\n}",
               "=&r,l,b,~{memory}", /*has_side_effects=*/true,
               /*is_align_stack=*/false, LLVM::TailCallKind::None,
               LLVM::AsmDialectAttr{}, ArrayAttr{})
        .getResult(0);
  }

  /// Puts the next tile into the queue, of a cluster into that of each block,
  /// since all have released both.
  static void give(Emit &e, const Drawn &next, const Queue &queue,
                   Value visit) {
    RingUse use(e, queue.ring.type, visit);
    Value full = queue.ring.full(e, use.slot);
    barrierWait(e, queue.ring.empty(e, use.slot), e.bitXor(use.parity, 1));
    Value slot = queue.slotAddress(e, use.slot);
    if (!queue.rank) {
      store(e, next, slot);
      barrierArrive(e, full);
      return;
    }
    for (int64_t block = 0; block < queue.blocks; ++block) {
      SmallVector<Value> operands{inBlock(e, slot, e.i32(block)),
                                  inBlock(e, full, e.i32(block))};
      for (Value word : next)
        operands.push_back(e.toI32(word));
      bool one = queue.words == 1;
      e.ptx(std::string(one ? "st.shared::cluster.u32 [$0], $2;\n"
                            : "st.shared::cluster.v4.u32 [$0], {$2, $3, $4, "
                              "$4};\n") +
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$1];",
            one ? "r,r,r" : "r,r,r,r,r", operands);
    }
  }

  /// One word, or four of which the last is to spare.
  static Type slotType(Emit &e, unsigned words) {
    Type word = e.b.getI32Type();
    return words == 1 ? word : VectorType::get({4}, word);
  }

  static void store(Emit &e, ArrayRef<Value> words, Value slot) {
    Value all = e.toI32(words.front());
    if (words.size() > 1) {
      all = LLVM::UndefOp::create(e.b, e.loc, slotType(e, words.size()));
      for (unsigned i = 0; i < 4; ++i)
        all = LLVM::InsertElementOp::create(
            e.b, e.loc, all, i < words.size() ? words[i] : words.back(),
            e.i32(i));
    }
    LLVM::StoreOp::create(e.b, e.loc, all, e.sharedPointer(slot),
                          words.size() > 1 ? kQueueSlotBytes : 4,
                          /*isVolatile=*/true);
  }

  static Drawn receive(Emit &e, const Queue &queue, Value visit,
                       bool oneThread) {
    RingUse use(e, queue.ring.type, visit);
    barrierWait(e, queue.ring.full(e, use.slot), use.parity,
                /*ofCluster=*/bool(queue.rank));
    bool one = queue.words == 1;
    Value all =
        LLVM::LoadOp::create(e.b, e.loc, slotType(e, queue.words),
                             e.sharedPointer(queue.slotAddress(e, use.slot)),
                             one ? 4 : kQueueSlotBytes, /*isVolatile=*/true);
    Drawn next;
    for (unsigned i = 0; i < queue.words; ++i)
      next.push_back(
          one ? e.toIndex(all)
              : LLVM::ExtractElementOp::create(e.b, e.loc, all, e.i32(i)));
    Value arrives;
    if (!oneThread) { // every lane has read before lane 0 says so
      NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
      arrives = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                      e.lane(), e.i32(0));
    }
    Value empty = queue.ring.empty(e, use.slot);
    if (queue.rank)
      barrierArriveIn(e, inBlock(e, empty, e.i32(0)), arrives);
    else
      barrierArrive(e, empty, arrives);
    return next;
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

struct RoleBarrierLowering : public OpConversionPattern<RoleBarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(RoleBarrierOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getId())
      return rewriter.notifyMatchFailure(op, "expected fa2gpu-allocate");
    Emit e(rewriter, op.getLoc());
    auto roles = op->getParentOfType<RolesOp>();
    int64_t warps = roles.getWarps()[roles.getRoleOf(op)];
    namedBarrier(e, "sync", e.i32(*op.getId()), warps * kWarpLanes);
    rewriter.eraseOp(op);
    return success();
  }
};

/// setmaxnreg: a role takes what others have given back.
void setRegisters(Emit &e, int64_t count, int64_t atEntry) {
  NVVM::SetMaxRegisterOp::create(e.b, e.loc, count,
                                 count < atEntry
                                     ? NVVM::SetMaxRegisterAction::decrease
                                     : NVVM::SetMaxRegisterAction::increase);
}

/// All threads of a cluster have come here, and see what each did to memory.
void clusterBarrier(Emit &e) {
  e.ptx("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;", "",
        {});
}

/// Goes on for the warps in front of a role's; where it goes on for others.
Block *partBefore(Emit &e, RolesOp op, unsigned role) {
  Value mine =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                            e.uniformWarp(), e.i32(op.getFirstWarp(role)));
  auto split = scf::IfOp::create(e.b, e.loc, mine, /*withElse=*/true);
  e.b.setInsertionPointToStart(split.thenBlock());
  return split.elseBlock();
}

/// Moves a role's program to where `e` builds.
void fillRole(Emit &e, RolesOp op, unsigned role) {
  OpBuilder::InsertionGuard guard(e.b);
  if (op.getOneThread()[role]) {
    Value first = e.i32(op.getFirstWarp(role));
    auto warp = scf::IfOp::create(
        e.b, e.loc,
        arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                              e.uniformWarp(), first));
    e.b.setInsertionPointToStart(warp.thenBlock());
    auto one = scf::IfOp::create(e.b, e.loc, e.elect());
    e.b.setInsertionPointToStart(one.thenBlock());
  }
  Block *into = e.b.getInsertionBlock();
  into->getOperations().splice(e.b.getInsertionPoint(),
                               op.getPrograms()[role].front().getOperations());
}

} // namespace

/// Last of all: until then what stands in a role finds it (Emit::firstWarp).
void fa2::gpu::lowerRoles(RolesOp op, int64_t registersAtEntry) {
  OpBuilder b(op);
  Emit e(b, op.getLoc());
  // The mbarriers are initialized for every thread and the copy engine.
  e.ptx("fence.mbarrier_init.release.cluster;", "", {});
  bool cluster = inCluster(op);
  if (cluster)
    clusterBarrier(e);
  else
    NVVM::Barrier0Op::create(b, op.getLoc());
  unsigned last = op.getPrograms().size() - 1;
  for (unsigned role = 0; role <= last; ++role) {
    // Roles that share a warpgroup part behind its setmaxnreg.
    if (op.getFirstWarp(role) % kGroupWarps != 0)
      continue;
    unsigned end = role + 1;
    while (end <= last && op.getFirstWarp(end) % kGroupWarps != 0)
      ++end;
    Block *others = end <= last ? partBefore(e, op, end) : nullptr;
    setRegisters(e, op.getRegisters()[role], registersAtEntry);
    for (unsigned sharer = role; sharer < end; ++sharer) {
      Block *rest = sharer + 1 < end ? partBefore(e, op, sharer + 1) : nullptr;
      fillRole(e, op, sharer);
      if (rest)
        b.setInsertionPointToStart(rest);
    }
    if (others)
      b.setInsertionPointToStart(others);
  }
  // Shared memory, which other blocks write and signal, outlives what they do.
  if (cluster) {
    b.setInsertionPoint(op);
    clusterBarrier(e);
  }
  op.erase();
}

void fa2::gpu::populateRolePatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<TileLoopLowering, WarpgroupLowering, TurnWaitLowering,
               TurnPassLowering, GroupBarrierLowering, RoleBarrierLowering>(
      converter, patterns.getContext());
}
