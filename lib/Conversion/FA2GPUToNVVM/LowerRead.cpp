//===- LowerRead.cpp - operands of score programs -------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <map>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

/// The row or column of each value that a thread holds of a vector.
struct PositionsLowering : public OpConversionPattern<PositionsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(PositionsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getResult().getType());
    auto row = dyn_cast_or_null<RowAttr>(type.getEncoding());
    auto column = dyn_cast_or_null<ColumnAttr>(type.getEncoding());
    if (!row && !column)
      return rewriter.notifyMatchFailure(op, "not a row or column vector");
    TileLayout layout = row ? rowLayout(row, type) : columnLayout(column, type);
    Value lane = row ? laneRow(e, layout) : laneCol(e, layout);
    Value first = e.add(e.mul(adaptor.getBlock()[0], type.getDimSize(0)),
                        e.toIndex(lane));
    if (op.getLead())
      first = e.sub(first, adaptor.getLead()[0]);
    // Else addresses of elements would be held for an arm that hardly runs.
    if (op->hasAttr(kAgainName))
      first = e.hidden(first);
    SmallVector<Value> out;
    int64_t slots = row ? layout.numRowSlots() : layout.numColSlots();
    for (int64_t slot = 0; slot < slots; ++slot)
      out.push_back(e.add(first, row ? rowOfSlot(layout, slot)
                                     : colOfSlot(layout, slot)));
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// An addition for each diagonal of the thread's registers, behind one
/// conversion where it is in f32.
struct DistanceLowering : public OpConversionPattern<DistanceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(DistanceOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<RankedTensorType>(op.getResult().getType());
    auto acc = dyn_cast_or_null<DistributedLayoutAttr>(type.getEncoding());
    auto diagonal = dyn_cast_or_null<DiagonalAttr>(type.getEncoding());
    if (!acc && !diagonal)
      return rewriter.notifyMatchFailure(op, "not a tile in registers");
    if (op->hasAttr(kThreadAnewName))
      e.readThreadAnew();
    std::optional<DiagonalWindows> windows;
    if (diagonal)
      windows.emplace(diagonal, type);
    TileLayout layout =
        windows ? windows->layout : acc.tileLayout(type.getShape());
    Value row = e.add(e.mul(adaptor.getRowBlock()[0], layout.rows()),
                      e.toIndex(laneRow(e, layout)));
    if (op.getLead())
      row = e.sub(row, adaptor.getLead()[0]);
    Value column = e.add(e.mul(adaptor.getColumnBlock()[0], layout.cols()),
                         e.toIndex(laneCol(e, layout)));
    if (windows) // of the lane in the first window
      column =
          e.add(column, e.toIndex(e.sub(e.lane(), windows->laneDiagonal(e))));
    bool whole = type.getElementType().isIndex();
    auto real = [&](Value x) -> Value {
      return LLVM::SIToFPOp::create(rewriter, op.getLoc(),
                                    type.getElementType(), e.toI32(x));
    };
    // Again, it must not be found equal to what it is a copy of.
    Value first;
    if (op->hasAttr(kAgainName))
      first = whole ? e.sub(e.index(0), e.sub(row, column))
                    : e.fsub(real(column), real(row));
    else
      first = whole ? e.sub(column, row) : real(e.sub(column, row));
    auto from = [&](int64_t n) {
      return whole ? e.add(first, n) : e.fadd(first, e.f32(float(n)));
    };
    std::map<int64_t, Value> diagonals;
    SmallVector<Value> out;
    for (int64_t m = 0; windows && m < windows->count; ++m)
      out.push_back(
          from(windows->step * (m + windows->first) - windows->before));
    for (int64_t r = 0; !windows && r < layout.numRegs(); ++r) {
      Coord at = layout.at(0, 0, r);
      Value &distance = diagonals[at.col - at.row];
      if (!distance)
        distance = from(at.col - at.row);
      out.push_back(distance);
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

/// An element where `inside`, else 0, as f32 or i32. No branch, since matmuls
/// may be in flight.
Value readElement(Emit &e, Value address, Value inside, Type element) {
  bool narrow = element.getIntOrFloatBitWidth() == 16;
  std::string suffix = narrow ? "b16" : "b32";
  auto text =
      "{ mov." + suffix + " $0, 0; @$2 ld.global.nc." + suffix + " $0, [$1]; }";
  Type loaded = e.b.getIntegerType(narrow ? 16 : 32);
  Value bits = LLVM::InlineAsmOp::create(
                   e.b, e.loc, loaded, ValueRange{address, inside}, text,
                   narrow ? "=&h,l,b" : "=&r,l,b", /*has_side_effects=*/true,
                   /*is_align_stack=*/false, LLVM::TailCallKind::None,
                   LLVM::AsmDialectAttr{}, ArrayAttr{})
                   .getResult(0);
  if (isa<IntegerType>(element))
    return bits;
  Type f32 = e.b.getF32Type();
  if (element.isF16())
    return LLVM::FPExtOp::create(
        e.b, e.loc, f32, LLVM::BitcastOp::create(e.b, e.loc, element, bits));
  if (narrow) // bf16 is the upper half of an f32
    bits = e.shl(LLVM::ZExtOp::create(e.b, e.loc, e.b.getI32Type(), bits), 16);
  return LLVM::BitcastOp::create(e.b, e.loc, f32, bits);
}

struct ReadLowering : public OpConversionPattern<ReadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emit e(rewriter, op.getLoc());
    auto type = cast<MemRefType>(op.getSource().getType());
    if (numStrides(type) != type.getRank())
      return rewriter.notifyMatchFailure(op, "expected a stride of each "
                                             "dimension");
    Elements elements(e, op.getSource(), adaptor.getSource(), op.getIndices(),
                      adaptor.getIndices(), op.getClamped());
    SmallVector<Value> out;
    for (size_t r = 0; r < elements.count(); ++r) {
      if (size_t same = elements.firstLike(r); same != r) {
        out.push_back(out[same]);
        continue;
      }
      Elements::Place place = elements.at(r);
      if (!place.inside) // of extents that are known
        place.inside = arith::ConstantOp::create(rewriter, op.getLoc(),
                                                 rewriter.getBoolAttr(true));
      out.push_back(
          readElement(e, place.address, place.inside, type.getElementType()));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }
};

} // namespace

ExactPlaces::ExactPlaces(Emit &e, MemRefType type, const MemRefParts &sums)
    : count(e.i64(1)) {
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    Value extent =
        sums.extents[d] ? e.toI64(sums.extents[d]) : e.i64(type.getDimSize(d));
    Value single = e.b.createOrFold<arith::CmpIOp>(
        e.loc, arith::CmpIPredicate::eq, sums.strides[d], e.i64(0));
    strides.insert(strides.begin(), e.select(single, e.i64(0), count));
    count = e.select(single, count, e.mul(count, extent));
  }
}

/// What all elements share is added once. Strides are in bytes before they are
/// multiplied with.
Elements::Elements(Emit &e, Value memref, ValueRange parts, ValueRange indices,
                   ArrayRef<ValueRange> indexParts, ArrayRef<int64_t> clamped,
                   Value words)
    : e(e), source(cast<MemRefType>(memref.getType()), parts) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  if (words) {
    ExactPlaces places(e, type, source);
    source.base = words;
    source.strides = places.strides;
    bytes = 8;
    step = e.mul(places.count, bytes);
  }
  for (Value &stride : source.strides)
    stride = e.mul(stride, bytes);
  Value shared = e.i64(0);
  for (int64_t d : clamped) {
    Value &extent = source.extents[size_t(d)];
    if (extent)
      allInside = e.both(allInside, e.less(e.index(0), extent));
    extent = Value();
  }
  for (auto [d, index] : llvm::enumerate(indices)) {
    if (isa<RankedTensorType>(index.getType())) {
      number = indexParts[d].size();
      own.push_back({d, indexParts[d]});
      continue;
    }
    Value single = indexParts[d][0];
    shared = e.add(shared, e.mul(e.toI64(single), source.strides[d]));
    if (source.extents[d])
      allInside = e.both(allInside, e.below(single, source.extents[d]));
  }
  base = e.gep(source.base, shared);
  size_t most = 0;
  for (auto [i, dim] : llvm::enumerate(own)) {
    llvm::SmallPtrSet<void *, 32> values;
    for (Value index : dim.second)
      values.insert(index.getAsOpaquePointer());
    if (values.size() > most) {
      most = values.size();
      along = i;
    }
  }
}

size_t Elements::firstLike(size_t element) {
  std::vector<void *> key;
  for (auto [d, parts] : own)
    key.push_back(parts[element].getAsOpaquePointer());
  return first.try_emplace(key, element).first->second;
}

SmallVector<Value> Elements::ownOf(size_t element) const {
  return llvm::map_to_vector(
      own, [&](const auto &dim) -> Value { return dim.second[element]; });
}

Elements::Place Elements::at(size_t element) { return placeOf(ownOf(element)); }

/// A number of rows or columns behind another, where that is how it was made.
static std::pair<Value, int64_t> behind(Value index) {
  APInt by;
  if (auto add = index.getDefiningOp<arith::AddIOp>())
    if (matchPattern(add.getRhs(), m_ConstantInt(&by)))
      return {add.getLhs(), by.getSExtValue()};
  return {index, 0};
}

Value Elements::addressOf(ValueRange ownIndices) {
  if (own.empty())
    return base;
  auto offsetOf = [&](size_t i) {
    return e.mul(e.toI64(ownIndices[i]), source.strides[own[i].first]);
  };
  std::vector<const void *> others;
  for (size_t i = 0; i < own.size(); ++i)
    if (i != along)
      others.push_back(ownIndices[i].getAsOpaquePointer());
  // The next is an addition behind the last, so that few are alive at once: of
  // offsets, which rows share, in the last dimension, else of addresses.
  bool shared = along + 1 == own.size();
  auto [root, by] = behind(ownIndices[along]);
  std::vector<const void *> of = shared ? std::vector<const void *>() : others;
  of.push_back(root.getAsOpaquePointer());
  std::map<int64_t, Value> &chain = chains[of];
  auto here = chain.try_emplace(by).first;
  Value &place = here->second;
  if (!place && here != chain.begin()) {
    auto [from, last] = *std::prev(here);
    Value further = e.mul(source.strides[own[along].first], by - from);
    place = shared ? e.add(last, further) : e.gep(last, further);
  } else if (!place && shared) {
    place = offsetOf(along);
  } else if (!place) {
    place = base;
    for (size_t i = 0; i < own.size(); ++i)
      place = e.gep(place, offsetOf(i));
  }
  if (!shared)
    return place;
  Value &row = rows[others];
  if (!row) {
    row = base;
    for (size_t i = 0; i < along; ++i)
      row = e.gep(row, offsetOf(i));
  }
  return e.gep(row, place);
}

Elements::Place Elements::placeOf(ValueRange ownIndices) {
  Value inside = allInside;
  for (auto [dim, index] : llvm::zip_equal(own, ownIndices))
    if (Value extent = source.extents[dim.first])
      inside = e.both(inside, e.below(index, extent));
  return {addressOf(ownIndices), inside, step};
}

void fa2::gpu::populateReadPatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<PositionsLowering, DistanceLowering, ReadLowering>(
      converter, patterns.getContext());
}
