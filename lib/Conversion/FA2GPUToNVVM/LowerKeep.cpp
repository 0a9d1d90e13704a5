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
std::pair<Value, Value> multiply(Emit &e, Value x, Value c) {
  auto product = arith::MulUIExtendedOp::create(e.b, e.loc, x, c);
  return {product.getLow(), product.getHigh()};
}

/// A call. With `later`, of the last round only the words 2 and 3 where it
/// holds and 0 and 1 elsewhere, in the places of both: a product less.
Words philox(Emit &e, Words counter, Value key0, Value key1, Value later) {
  constexpr uint32_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
  constexpr int kRounds = 7;
  auto half = [&](Value x, Value factor, Value y, Value key) {
    auto [low, high] = multiply(e, x, factor);
    return std::pair<Value, Value>(e.bitXor(e.bitXor(high, y), key), low);
  };
  Value first = e.i32(int32_t(kFirst)), second = e.i32(int32_t(kSecond));
  for (int round = 0; round + 1 < kRounds; ++round) {
    auto [word0, word1] = half(counter[2], second, counter[1], key0);
    auto [word2, word3] = half(counter[0], first, counter[3], key1);
    counter = {word0, word1, word2, word3};
    key0 = e.add(key0, int32_t(0x9E3779B9));
    key1 = e.add(key1, int32_t(0xBB67AE85));
  }
  if (later) {
    // By an instruction, since of two constants one is chosen of 64 bits each.
    Value product =
        e.instruction(e.b.getI64Type(), "mul.wide.u32 $0, $1, $2;", "=l,r,r",
                      {e.select(later, counter[0], counter[2]),
                       e.select(later, first, second)});
    auto word = [&](Value x) -> Value {
      return arith::TruncIOp::create(e.b, e.loc, e.b.getI32Type(), x);
    };
    Value rest = e.bitXor(e.select(later, counter[3], counter[1]),
                          e.select(later, key1, key0));
    Value even = e.bitXor(word(e.shr(product, 32)), rest), odd = word(product);
    return {even, odd, even, odd};
  }
  auto [word0, word1] = half(counter[2], second, counter[1], key0);
  auto [word2, word3] = half(counter[0], first, counter[3], key1);
  return {word0, word1, word2, word3};
}

/// Which bytes of a word are at least a threshold of 0 to 255, as their upper
/// bits: four elements by three operations.
class Thresholds {
public:
  Thresholds(Emit &e, Value threshold) : e(e) {
    constexpr int64_t kEach = 0x01010101;
    Value lower = e.bitAnd(threshold, 127);
    addend = e.mul(e.sub(e.i32(128), lower), kEach);
    // All ones below 128.
    small = e.sub(e.shr(threshold, 7), e.i32(1));
  }
  /// Without their upper bits, bytes reach the lower seven of the threshold
  /// where adding 128 less those carries into that bit. Of both bits either
  /// tells where the threshold is small, and both together where it is not.
  Value reachedBy(Value word) {
    auto [known, isNew] = reached.try_emplace(word);
    if (isNew) {
      Value carried = e.add(e.bitAnd(word, 0x7f7f7f7f), addend);
      // What at least two of the three have.
      known->second =
          e.instruction(e.b.getI32Type(), "lop3.b32 $0, $1, $2, $3, 0xe8;",
                        "=r,r,r,r", {word, carried, small});
    }
    return known->second;
  }

private:
  Emit &e;
  Value addend, small;
  llvm::DenseMap<Value, Value> reached;
};

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

constexpr int64_t kUnit = 32; // rows or columns whose units are apart

Value unitOf(Emit &e, Value x) {
  return e.add(e.shl(e.shr(x, llvm::Log2_64(kUnit)), 3), e.bitAnd(x, 7));
}

/// The places of a thread's slots, `offsets` from `first`, which is a multiple
/// of `apart` and what the lane adds, less than 8.
SmallVector<Place> placesOf(Emit &e, Value first, ArrayRef<int64_t> offsets,
                            int64_t apart) {
  std::map<int64_t, Place> groups;
  SmallVector<Place> places;
  // A multiple of whole units adds whole units.
  Value firstUnit = apart == kUnit ? unitOf(e, first) : Value();
  for (int64_t offset : offsets) {
    int64_t from = offset / apart * apart + offset % 8;
    auto [known, isNew] =
        groups.try_emplace(from, Place{from, {}, {}, 0, {}, {}});
    Place &group = known->second;
    if (isNew) {
      Value x = e.add(first, from);
      group.unit = firstUnit ? e.add(firstUnit, from / kUnit * 8 + from % 8)
                             : unitOf(e, x);
      if (apart < kUnit)
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
    std::map<std::pair<int64_t, int64_t>, Words> calls;
    auto byteAt = [&](int64_t r) {
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
                              key0, key1, query.high);
      return Byte{wordOf(e, call->second, query), key};
    };
    Value threshold = adaptor.getThreshold()[0];
    SmallVector<Value> out;
    if (isPacked(type)) {
      Thresholds thresholds(e, threshold);
      for (int64_t r = 0; r < layout.numRegs(); r += 2) {
        // One after the other: compilers differ in the order of arguments.
        Byte low = byteAt(r), high = byteAt(r + 1);
        out.push_back(halves(e, thresholds, low, high));
      }
    } else {
      for (int64_t r = 0; r < layout.numRegs(); ++r)
        out.push_back(arith::CmpIOp::create(rewriter, op.getLoc(),
                                            arith::CmpIPredicate::uge,
                                            valueOf(e, byteAt(r)), threshold));
    }
    rewriter.replaceOpWithMultiple(op, {out});
    return success();
  }

  /// An element's byte: that of a key's place in a word.
  struct Byte {
    Value word;
    const Place &key;
  };

  /// The word of a query's place.
  static Value wordOf(Emit &e, const Words &words, const Place &query) {
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

  static Value valueOf(Emit &e, Byte byte) {
    Value word = byte.word;
    if (byte.key.high)
      word = e.select(byte.key.high, e.shr(word, 16), word);
    return e.bitAnd(e.shr(word, 8 * byte.key.number), 255);
  }

  /// All bits of each half where its byte reaches the threshold: prmt fills
  /// bytes with the upper bit of the one that a selector with 8 names.
  static Value halves(Emit &e, Thresholds &thresholds, Byte low, Byte high) {
    auto twice = [&](Byte byte, int64_t operand) {
      int64_t at = 0x88 + 0x11 * (byte.key.number + 4 * operand);
      return byte.key.high
                 ? e.select(byte.key.high, e.i32(at + 0x22), e.i32(at))
                 : e.i32(at);
    };
    Value selector = e.add(twice(low, 0), e.shl(twice(high, 1), 8));
    Value words[] = {thresholds.reachedBy(low.word),
                     thresholds.reachedBy(high.word)};
    return e.permute(words[0], words[1], selector);
  }
};

} // namespace

void fa2::gpu::populateKeepPatterns(TypeConverter &converter,
                                    RewritePatternSet &patterns) {
  patterns.add<KeepLowering>(converter, patterns.getContext());
}
