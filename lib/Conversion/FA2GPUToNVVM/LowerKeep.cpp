//===- LowerKeep.cpp - which elements dropout keeps -----------------------===//
//
// Philox4x32-7 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A call gives the bytes of 16 elements, four rows and columns eight
// apart of a block of 32 x 32: whichever way a tile lies, fragments of 8 rows
// and columns have them in one lane. Of tiles whose rows or columns begin at
// any multiple of 16, a call's other half is another thread's.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <array>
#include <map>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

using Words = std::array<Value, 4>;

/// x c, of 64 bits: the lower word and the higher one.
std::pair<Value, Value> multiply(Emit &e, Value x, uint32_t c) {
  auto product =
      arith::MulUIExtendedOp::create(e.b, e.loc, x, e.i32(int32_t(c)));
  return {product.getLow(), product.getHigh()};
}

Words philox(Emit &e, Words counter, Value key0, Value key1) {
  constexpr int kRounds = 7;
  for (int round = 0; round < kRounds; ++round) {
    auto [low0, high0] = multiply(e, counter[0], 0xD2511F53);
    auto [low1, high1] = multiply(e, counter[2], 0xCD9E8D57);
    counter = {e.bitXor(e.bitXor(high1, counter[1]), key0), low1,
               e.bitXor(e.bitXor(high0, counter[3]), key1), low0};
    key0 = e.add(key0, int32_t(0x9E3779B9));
    key1 = e.add(key1, int32_t(0xBB67AE85));
  }
  return counter;
}

/// A row or a column that a thread has of a tile: the group of those that
/// share calls, their unit, and the number of this one in it, of which the
/// higher bit may be known at run time alone, or both.
struct Place {
  int64_t group;
  Value unit, head;
  int64_t number; // 0 to 3, without what is in `high` or `whole`
  Value high;     // i1, of those that begin at a multiple of 16
  Value whole;    // i32, of those that begin anywhere
};

Value unitOf(Emit &e, Value x) {
  return e.add(e.shl(e.shr(x, 5), 3), e.bitAnd(x, 7));
}

/// The places of a thread's slots, `offsets` from `first`, which is a multiple
/// of `apart` and what the lane adds, less than 8.
SmallVector<Place> placesOf(Emit &e, Value first, ArrayRef<int64_t> offsets,
                            int64_t apart) {
  std::map<int64_t, Place> groups;
  SmallVector<Place> places;
  for (int64_t offset : offsets) {
    int64_t from = offset / apart * apart + offset % 8;
    auto [known, isNew] =
        groups.try_emplace(from, Place{from, {}, {}, 0, {}, {}});
    Place &group = known->second;
    if (isNew) {
      Value x = e.add(first, from);
      group.unit = unitOf(e, x);
      if (apart == 16)
        group.high = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne,
                                           e.bitAnd(x, 16), e.i32(0));
    }
    places.push_back(group);
    places.back().number = offset % apart / 8;
  }
  return places;
}

/// Rows of several heads.
SmallVector<Place> packedPlaces(Emit &e, Value block, Value lane,
                                ArrayRef<int64_t> offsets, int64_t rows,
                                int64_t heads) {
  SmallVector<Place> places;
  for (auto [i, offset] : llvm::enumerate(offsets)) {
    Value row = e.add(lane, offset);
    Value x = e.add(e.mul(block, rows / heads), packedRow(e, row, heads));
    places.push_back({int64_t(i),
                      unitOf(e, x),
                      packedHead(e, row, heads),
                      0,
                      {},
                      e.bitAnd(e.shr(x, 3), 3)});
  }
  return places;
}

/// The largest of 32 and 16 of which `a` and `b` are multiples.
int64_t apartOf(int64_t a, int64_t b) { return a % 32 || b % 32 ? 16 : 32; }

struct KeepLowering : public OpConversionPattern<KeepOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(KeepOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    auto distributed = distributedLayout(type);
    if (!distributed)
      return rewriter.notifyMatchFailure(op, "not a tile in registers");
    Emit e(rewriter, op.getLoc());
    TileLayout layout = distributed.tileLayout(type.getShape());
    const int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
    SmallVector<int64_t> rowOffsets, colOffsets;
    for (int64_t slot = 0; slot < layout.numRowSlots(); ++slot)
      rowOffsets.push_back(rowOfSlot(layout, slot));
    for (int64_t slot = 0; slot < layout.numColSlots(); ++slot)
      colOffsets.push_back(colOfSlot(layout, slot));
    Value q = e.toI32(adaptor.getQBlock()[0]),
          kv = e.toI32(adaptor.getKvBlock()[0]);
    Value rowBlock = op.getTransposed() ? kv : q,
          colBlock = op.getTransposed() ? q : kv;
    int64_t rowApart = layout.warpGridRows() > 1
                           ? apartOf(rows, layout.rowsPerWarp())
                           : apartOf(rows, rows);
    int64_t colApart = layout.warpGridCols() > 1
                           ? apartOf(cols, layout.colsPerWarp())
                           : apartOf(cols, cols);
    SmallVector<Place> rowPlaces =
        op.getHeads() > 1
            ? packedPlaces(e, rowBlock, laneRow(e, layout), rowOffsets, rows,
                           op.getHeads())
            : placesOf(e, e.add(e.mul(rowBlock, rows), laneRow(e, layout)),
                       rowOffsets, rowApart);
    SmallVector<Place> colPlaces =
        placesOf(e, e.add(e.mul(colBlock, cols), laneCol(e, layout)),
                 colOffsets, colApart);

    Value key0 = adaptor.getWords()[0][0],
          key1 = e.bitXor(adaptor.getWords()[1][0], adaptor.getWords()[3][0]);
    Value head = e.toI32(adaptor.getHead()[0]);
    Value threshold = adaptor.getThreshold()[0];
    std::map<std::pair<int64_t, int64_t>, Words> calls;
    SmallVector<Value> out;
    for (int64_t r = 0; r < layout.numRegs(); ++r) {
      const Place &row = rowPlaces[layout.rowSlot(r)],
                  &col = colPlaces[layout.colSlot(r)];
      const Place &query = op.getTransposed() ? col : row,
                  &key = op.getTransposed() ? row : col;
      auto [call, isNew] = calls.try_emplace({row.group, col.group});
      if (isNew)
        call->second = philox(e,
                              {query.unit, key.unit,
                               row.head ? e.add(head, row.head) : head,
                               adaptor.getWords()[2][0]},
                              key0, key1);
      Value byte = byteOf(e, wordOf(e, call->second, query), key);
      out.push_back(arith::CmpIOp::create(
          rewriter, op.getLoc(), arith::CmpIPredicate::uge, byte, threshold));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }

  /// The word of a query's place.
  static Value wordOf(Emit &e, const Words &words, const Place &query) {
    if (query.high)
      return e.select(query.high, words[query.number + 2], words[query.number]);
    if (!query.whole)
      return words[query.number];
    Value word = words[0];
    for (int64_t i = 1; i < 4; ++i) {
      Value at = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                       query.whole, e.i32(i));
      word = e.select(at, words[i], word);
    }
    return word;
  }

  /// The byte of a key's place.
  static Value byteOf(Emit &e, Value word, const Place &key) {
    if (key.high)
      word = e.select(key.high, e.shr(word, 16), word);
    return e.bitAnd(e.shr(word, 8 * key.number), 255);
  }
};

} // namespace

void fa2::gpu::populateKeepPatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<KeepLowering>(converter, patterns.getContext());
}
