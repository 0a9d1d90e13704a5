//===- LowerSums.cpp - sums in the order of registers ---------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The address of this thread's part of a tile of a sum: register r of thread t
/// is element (r / w * threads + t) * w + r % w, so that a warp's elements are
/// neighbours and w of a thread go together.
Value sumPointer(Emit &e, ViewParts view, Value row, int64_t width) {
  Value bytes = e.mul(e.mul(e.toI64(row), view.rowStride), 4);
  Value start = e.gep(view.base, bytes);
  Value own = e.mul(e.thread(), 4 * width);
  return e.gep(start, e.toI64(e.toIndex(own)));
}

/// Where the columns of a view begin that only the program knows, of so many
/// bytes each.
Value startOfColumn(Emit &e, ConversionPatternRewriter &rewriter, Value view,
                    int64_t bytes, Value start) {
  auto op = view.getDefiningOp<ViewOp>();
  if (!op || !op.getColumn())
    return start;
  Value column = e.toI64(rewriter.getRemappedValue(op.getColumn()));
  return e.gep(start, e.mul(column, bytes));
}

/// Bytes of a column of a tile of a sum, which has one column after the other.
int64_t columnBytes(Type tile) {
  return cast<RankedTensorType>(tile).getDimSize(0) * 4;
}

/// Where a part of a tile's columns begins: behind the columns before.
int64_t startOfPart(Value view, Type tile) {
  auto op = view.getDefiningOp<ViewOp>();
  return op ? op.getFirstColumn() * columnBytes(tile) : 0;
}

/// How long the cache keeps what is touched through a view.
CacheHint hintOf(Value view) {
  auto op = view.getDefiningOp<ViewOp>();
  return op ? op.getCache().value_or(CacheHint::None) : CacheHint::None;
}

/// Threads that hold a sum.
int64_t threadsOf(SumOrderAttr order) {
  return order.getWarps().getDown() * order.getWarps().getAcross() * kWarpLanes;
}

struct LoadSumLowering : public OpConversionPattern<fa2::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(fa2::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    auto acc = dyn_cast_or_null<AccAttr>(type.getEncoding());
    SumOrderAttr order = op.getView().getType().getOrder();
    if (!acc || !order)
      return rewriter.notifyMatchFailure(op, "not a sum");
    Emit e(rewriter, op.getLoc());
    int64_t width = order.getWidth();
    Value start = sumPointer(e, ViewParts::from(adaptor.getView()),
                             adaptor.getRow()[0], width);
    start = e.gep(start, startOfPart(op.getView(), type));
    Type part = type.getElementType();
    if (width > 1)
      part = VectorType::get({width}, part);
    SmallVector<Value> out;
    for (int64_t r = 0; r < acc.tileLayout(type.getShape()).numRegs();
         r += width) {
      Value x = LLVM::LoadOp::create(rewriter, op.getLoc(), part,
                                     e.gep(start, r * threadsOf(order) * 4));
      if (width == 1)
        out.push_back(x);
      for (int64_t i = 0; width > 1 && i < width; ++i)
        out.push_back(
            LLVM::ExtractElementOp::create(rewriter, op.getLoc(), x, e.i32(i)));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

struct StoreSumLowering : public OpConversionPattern<StoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getTile().getType());
    SumOrderAttr order = op.getView().getType().getOrder();
    if (!isa_and_nonnull<AccAttr>(type.getEncoding()) || !order)
      return rewriter.notifyMatchFailure(op, "not a sum");
    Emit e(rewriter, op.getLoc());
    int64_t width = order.getWidth();
    Value start = sumPointer(e, ViewParts::from(adaptor.getView()),
                             adaptor.getRow()[0], width);
    start = e.gep(start, startOfPart(op.getView(), type));
    ValueRange values = adaptor.getTile();
    for (size_t r = 0; r < values.size(); r += size_t(width))
      LLVM::StoreOp::create(rewriter, op.getLoc(),
                            together(e, values.slice(r, size_t(width))),
                            e.gep(start, int64_t(r) * threadsOf(order) * 4));
    rewriter.eraseOp(op);
    return success();
  }
};

/// This warp's counter of a tile's turns.
Value turnPointer(Emit &e, ViewParts turns, Value row) {
  Value word = e.add(row, e.toIndex(e.warp()));
  return e.gep(turns.base, e.mul(e.toI64(word), 4));
}

/// All lanes acquire, so that none has to tell the others; where `waits` holds,
/// if it is given. With `atLeast` as many may have added, or more.
void awaitTurn(Emit &e, Value counter, Value turn, Value waits,
               bool atLeast = false) {
  SmallVector<Value> operands{counter, turn};
  std::string skip;
  if (waits) {
    operands.push_back(waits);
    skip = "@!$2 bra DONE;\n";
  }
  e.ptx("{\n.reg .pred early;\n.reg .b32 now;\n" + skip +
            "WAIT:\nld.acquire.gpu.global.b32 now, [$0];\n"
            "setp." +
            (atLeast ? "lt" : "ne") +
            ".s32 early, now, $1;\n@early bra WAIT;\n" +
            (waits ? "DONE:\n}" : "}"),
        waits ? "l,r,b" : "l,r", operands);
}

/// Whether the turn had not come when its counter was `seen`.
Value isEarly(Emit &e, Value seen, Value turn, Value first, bool atLeast) {
  Value early = arith::CmpIOp::create(e.b, e.loc,
                                      atLeast ? arith::CmpIPredicate::slt
                                              : arith::CmpIPredicate::ne,
                                      seen, turn);
  return e.both(early, first);
}

Value isNot(Emit &e, Value condition) {
  return arith::XOrIOp::create(
      e.b, e.loc, condition,
      arith::ConstantIntOp::create(e.b, e.loc, /*value=*/1, /*width=*/1));
}

Value isFirstLane(Emit &e) {
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, e.lane(),
                               e.i32(0));
}

/// One lane releases what all have added: the warp's barrier and the release
/// are cumulative (PTX ISA, memory consistency model).
void passTurn(Emit &e, Value counter, Value last) {
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  Value operands[] = {counter, e.both(isFirstLane(e), last)};
  e.ptx("@$1 red.release.gpu.global.add.u32 [$0], 1;", "l,b", operands);
}

/// A thread's part of a tile of a sum.
struct Reductions {
  template <typename Op>
  Reductions(Emit &e, Op op, ViewParts view, Value row)
      : e(e), width(op.getView().getType().getOrder().getWidth()),
        threads(threadsOf(op.getView().getType().getOrder())),
        first(startOfPart(op.getView(), op.getTile().getType())),
        start(sumPointer(e, view, row, width)) {
    if (CacheHint hint = hintOf(op.getView()); hint != CacheHint::None)
      policy = e.cachePolicy(hint);
  }

  /// One reduction an element, in whatever order they arrive. LLVM would return
  /// the old value and drop the ordering of an atomicrmw, hence assembly.
  void add(ValueRange values) {
    put("red.relaxed.gpu.global.add", SmallVector<Value>(values));
  }
  /// Where nobody has added yet: what a reduction would make of zeros.
  void store(ValueRange values) {
    Value zero = e.f32(0.0f);
    put("st.global", llvm::map_to_vector(
                         values, [&](Value x) { return flushedSum(zero, x); }));
  }

  /// What has been added, where somebody has and `resumes` holds, or zeros.
  SmallVector<Value> resume(Value resumes, size_t count) {
    SmallVector<Value> values;
    for (size_t r = 0; r < count; r += size_t(width))
      llvm::append_range(values, load(r, "@", resumes));
    return values;
  }

  /// These times the factors, as packed pairs.
  SmallVector<Value> scaled(ValueRange values, ValueRange factors,
                            Type element) {
    SmallVector<Value> pairs;
    auto scale = [&](Value x) {
      for (Value factor : factors)
        x = e.fmul(x, factor);
      return x;
    };
    for (size_t i = 0; i < values.size(); i += 2)
      pairs.push_back(e.pack(scale(values[i]), scale(values[i + 1]), element));
    return pairs;
  }

  /// What the sum would be with these, times the factors, as packed pairs.
  SmallVector<Value> rounded(Value opens, ValueRange values, ValueRange factors,
                             Type element) {
    SmallVector<Value> pairs;
    // So many registers are loaded before the first is waited for.
    constexpr size_t kAtOnce = 16;
    for (size_t from = 0; from < values.size(); from += kAtOnce) {
      size_t to = std::min(from + kAtOnce, values.size());
      SmallVector<Value> sums;
      for (size_t r = from; r < to; r += size_t(width))
        llvm::append_range(sums, load(r, "@!", opens));
      for (auto [sum, value] : llvm::zip(sums, values.slice(from, to - from)))
        sum = flushedSum(sum, value);
      llvm::append_range(pairs, scaled(sums, factors, element));
    }
    return pairs;
  }

  Emit &e;
  int64_t width, threads, first;
  Value start, policy;

private:
  /// As reductions add: subnormal numbers are zeros (PTX ISA, red).
  Value flushedSum(Value x, Value y) {
    return e.instruction(e.b.getF32Type(), "add.rn.ftz.f32 $0, $1, $2;",
                         "=f,f,f", {x, y});
  }

  void put(StringRef instruction, ArrayRef<Value> values) {
    for (size_t r = 0; r < values.size(); r += size_t(width)) {
      SmallVector<Value> operands{start};
      llvm::append_range(operands, values.slice(r, size_t(width)));
      std::string text =
          (instruction + (policy ? ".L2::cache_hint" : "") +
           (width == 4 ? ".v4" : "") + ".f32 [$0+" + offsetOf(r) + "], " +
           (width == 4 ? "{$1, $2, $3, $4}" : "$1"))
              .str();
      std::string constraints = width == 4 ? "l,f,f,f,f" : "l,f";
      if (policy) {
        operands.push_back(policy);
        text += ", $" + std::to_string(width + 1);
        constraints += ",l";
      }
      assemble(TypeRange{LLVM::LLVMVoidType::get(e.b.getContext())}, operands,
               text + ";", constraints);
    }
  }

  std::string offsetOf(size_t r) {
    return std::to_string(first + int64_t(r) * threads * 4);
  }

  /// From where reductions are done, the level-2 cache; zeros where `condition`
  /// does not hold ("@!": holds).
  SmallVector<Value> load(size_t r, StringRef guard, Value condition) {
    Type f32 = e.b.getF32Type();
    std::string zeros, results, constraints;
    for (int64_t i = 0; i < width; ++i) {
      std::string result = "$" + std::to_string(i);
      zeros += "mov.b32 " + result + ", 0;\n";
      results += (i ? ", " : "") + result;
      constraints += "=&f,";
    }
    std::string at = "$" + std::to_string(width),
                where = "$" + std::to_string(width + 1);
    std::string text =
        zeros + guard.str() + where + " ld.relaxed.gpu.global" +
        (width == 4 ? ".v4.f32 {" + results + "}" : ".f32 " + results) + ", [" +
        at + "+" + offsetOf(r) + "];";
    Type type = width == 1 ? f32
                           : LLVM::LLVMStructType::getLiteral(
                                 e.b.getContext(),
                                 SmallVector<Type>(size_t(width), f32));
    Value loaded = assemble(type, {start, condition}, text, constraints + "l,b")
                       .getResult(0);
    if (width == 1)
      return {loaded};
    SmallVector<Value> values;
    for (int64_t i = 0; i < width; ++i)
      values.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, loaded, i));
    return values;
  }

  LLVM::InlineAsmOp assemble(TypeRange types, ValueRange operands,
                             const std::string &text,
                             const std::string &constraints) {
    return LLVM::InlineAsmOp::create(
        e.b, e.loc, types, operands, text, constraints + ",~{memory}",
        /*has_side_effects=*/true, /*is_align_stack=*/false,
        LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{});
  }
};

/// Where no wait ends the product, as that of wgmma does, a branch around them
/// that is always taken does: ptxas otherwise mixes the two, runs out of
/// registers and spills.
struct AccumulateLowering : public OpConversionPattern<AccumulateOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(AccumulateOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    ViewParts view = ViewParts::from(adaptor.getView());
    OpBuilder::InsertionGuard guard(rewriter);
    auto acc = cast<AccAttr>(
        cast<RankedTensorType>(op.getTile().getType()).getEncoding());
    if (acc.getFamily().warpsPerInstruction() == 1) {
      auto inside = scf::IfOp::create(rewriter, op.getLoc(),
                                      e.less(adaptor.getRow()[0], view.length));
      rewriter.setInsertionPointToStart(inside.thenBlock());
    }
    Value counter;
    auto given = [](ValueRange values) {
      return values.empty() ? Value() : values.front();
    };
    if (op.getTurns())
      counter = turnPointer(e, ViewParts::from(adaptor.getTurns()),
                            op.getSharedRow() ? given(adaptor.getSharedRow())
                                              : adaptor.getRow()[0]);
    if (op.getBegins() && !op.getGiven()) {
      Value turn = e.toI32(adaptor.getTurn()[0]);
      Value waits = given(adaptor.getFirst());
      if (op.getSeen())
        waits = isEarly(e, adaptor.getSeen()[0], turn, waits, op.getAtLeast());
      if (op.getResumed())
        waits = e.both(isNot(e, adaptor.getCloses()[0]), waits);
      awaitTurn(e, counter, turn, waits, op.getAtLeast());
    }
    Reductions sum(e, op, view, adaptor.getRow()[0]);
    sum.start = startOfColumn(e, rewriter, op.getView(),
                              columnBytes(op.getTile().getType()), sum.start);
    if (op.getInto())
      finish(e, op, adaptor, sum, rewriter);
    else
      sum.add(adaptor.getTile());
    if (op.getEnds() && !op.getLater() && !op.getGiven())
      passTurn(e, counter, given(adaptor.getLast()));
    rewriter.eraseOp(op);
    return success();
  }

  /// Tiles that neither open nor close are nearly all: one branch for them.
  static void finish(Emit &e, AccumulateOp op, OneToNOpAdaptor adaptor,
                     Reductions &sum, ConversionPatternRewriter &rewriter) {
    OpBuilder::InsertionGuard guard(rewriter);
    Value opens = adaptor.getOpens()[0], closes = adaptor.getCloses()[0];
    auto end = scf::IfOp::create(
        rewriter, op.getLoc(),
        arith::OrIOp::create(rewriter, op.getLoc(), opens, closes),
        /*withElse=*/true);
    rewriter.setInsertionPointToStart(end.elseBlock());
    sum.add(adaptor.getTile());
    rewriter.setInsertionPointToStart(end.thenBlock());
    auto last = scf::IfOp::create(rewriter, op.getLoc(), closes,
                                  /*withElse=*/true);
    rewriter.setInsertionPointToStart(last.elseBlock());
    sum.store(adaptor.getTile());
    rewriter.setInsertionPointToStart(last.thenBlock());
    SmallVector<Value> factors;
    for (ValueRange factor : adaptor.getFactors())
      factors.push_back(factor[0]);
    ViewType into = op.getInto().getType();
    Type element = into.getElementType();
    Emit inside(rewriter, op.getLoc());
    ViewParts to = viewAnew(inside, op.getInto(), adaptor.getInto());
    to.base = startOfColumn(inside, rewriter, op.getInto(),
                            element.getIntOrFloatBitWidth() / 8, to.base);
    auto type = cast<RankedTensorType>(op.getTile().getType());
    ValueRange values = adaptor.getTile();
    SmallVector<Value> pairs =
        op.getResumed() ? sum.scaled(values, factors, element)
                        : sum.rounded(opens, values, factors, element);
    if (op.getIntoRow())
      storeTurned(inside, type.clone(element), pairs, to,
                  adaptor.getIntoRow()[0], adaptor.getIntoColumn()[0]);
    else
      storeElements(inside, type.clone(element), pairs, into, to,
                    adaptor.getRow()[0]);
  }
};

struct ResumeLowering : public OpConversionPattern<ResumeOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ResumeOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getTile().getType());
    Value row = adaptor.getRow()[0],
          resumes =
              e.both(adaptor.getCloses()[0], isNot(e, adaptor.getOpens()[0]));
    if (op.getBegins()) {
      Value counter =
          turnPointer(e, ViewParts::from(adaptor.getTurns()),
                      op.getSharedRow() ? adaptor.getSharedRow()[0] : row);
      // Another tile of the turn may have a sum where this one opens.
      Value waits = op.getFirst()
                        ? e.both(adaptor.getCloses()[0], adaptor.getFirst()[0])
                        : resumes;
      awaitTurn(e, counter, e.toI32(adaptor.getTurn()[0]), waits);
    }
    Reductions sum(e, op, ViewParts::from(adaptor.getView()), row);
    auto acc = cast<AccAttr>(type.getEncoding());
    size_t count = size_t(acc.tileLayout(type.getShape()).numRegs());
    SmallVector<Value> values = sum.resume(resumes, count);
    rewriter.replaceOpWithMultiple(op, {ValueRange(values)});
    return success();
  }
};

/// Lane l has seen the counter of the tile l tiles ahead. All acquire what they
/// see; a lane without a tile sees nothing. Where turns have an order no
/// counter is past a turn before it is taken, so that `at_least` changes
/// nothing here.
struct AwaitTurnLowering : public OpConversionPattern<AwaitTurnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(AwaitTurnOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emit e(rewriter, loc);
    ViewParts turns = ViewParts::from(adaptor.getTurns());
    Value row = e.add(adaptor.getRow()[0],
                      e.mul(e.toIndex(e.lane()), adaptor.getStep()[0]));
    // A row before the first is a large one.
    Value isTile = arith::CmpIOp::create(
        rewriter, loc, arith::CmpIPredicate::ult, row, turns.length);
    Value operands[] = {e.gep(turns.base, e.mul(e.toI64(row), 4)),
                        e.toI32(adaptor.getTurn()[0]), adaptor.getSeen()[0],
                        isTile};
    Value next = LLVM::InlineAsmOp::create(
                     rewriter, loc, TypeRange{e.b.getI32Type()}, operands,
                     "{\n.reg .pred early;\n.reg .b32 first;\n"
                     "mov.b32 $0, $3;\n"
                     "WAIT:\nshfl.sync.idx.b32 first, $0, 0, 31, -1;\n"
                     "setp.ge.s32 early, first, $2;\n@early bra DONE;\n"
                     "@$4 ld.acquire.gpu.global.b32 $0, [$1];\nbra WAIT;\n"
                     "DONE:\nshfl.sync.down.b32 $0|early, $0, 1, 31, -1;\n"
                     "@!early mov.b32 $0, 0;\n}",
                     "=&r,l,r,r,b,~{memory}", /*has_side_effects=*/true,
                     /*is_align_stack=*/false, LLVM::TailCallKind::None,
                     LLVM::AsmDialectAttr{}, ArrayAttr{})
                     .getResult(0);
    // All lanes have acquired before one says so to another role.
    NVVM::SyncWarpOp::create(rewriter, loc, e.i32(-1));
    rewriter.replaceOp(op, next);
    return success();
  }
};

/// Looks, then fences, then passes on. The fence is of all lanes, each of which
/// looks and adds.
struct ChangeTurnLowering : public OpConversionPattern<ChangeTurnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ChangeTurnOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    ViewParts turns = ViewParts::from(adaptor.getTurns());
    Value row = adaptor.getPast()[0], past = turnPointer(e, turns, row);
    Value passes = arith::CmpIOp::create(
        rewriter, op.getLoc(), arith::CmpIPredicate::sge, row, e.index(0));
    if (!op.getSeen()) {
      passTurn(e, past, passes);
      rewriter.eraseOp(op);
      return success();
    }
    Value from = op.getFrom() ? adaptor.getFrom()[0] : Value();
    Value seen = look(e, turnPointer(e, turns, adaptor.getNext()[0]), from);
    NVVM::SyncWarpOp::create(rewriter, op.getLoc(), e.i32(-1));
    if (from)
      e.ptx("@$0 fence.acq_rel.gpu;", "b",
            Value(arith::OrIOp::create(rewriter, op.getLoc(), passes, from)));
    else
      e.ptx("fence.acq_rel.gpu;", "", {});
    Value operands[] = {past, e.both(passes, isFirstLane(e))};
    e.ptx("@$1 red.relaxed.gpu.global.add.u32 [$0], 1;", "l,b", operands);
    rewriter.replaceOp(op, seen);
    return success();
  }

  static Value look(Emit &e, Value counter, Value from) {
    SmallVector<Value> operands{counter};
    std::string text = "ld.relaxed.gpu.global.b32 $0, [$1];";
    if (from) {
      operands.push_back(from);
      text = "mov.b32 $0, 0;\n@$2 " + text;
    }
    return LLVM::InlineAsmOp::create(
               e.b, e.loc, TypeRange{e.b.getI32Type()}, operands, text,
               from ? "=&r,l,b,~{memory}" : "=r,l,~{memory}",
               /*has_side_effects=*/true, /*is_align_stack=*/false,
               LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
        .getResult(0);
  }
};

} // namespace

void fa2::gpu::populateSumPatterns(TypeConverter &converter,
                                   RewritePatternSet &patterns) {
  patterns.add<LoadSumLowering, StoreSumLowering, AccumulateLowering,
               ResumeLowering, AwaitTurnLowering, ChangeTurnLowering>(
      converter, patterns.getContext());
}
