//===- Ranges.cpp - ranges of tiles, and masks ----------------------------===//
//
// What a range or a mask is, it says as arithmetic; that is put before the
// range, or into a block of the mask's own, and evaluated like any other.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

void interpreter::expandRanges(KernelState &program) {
  program.kernel.walk<WalkOrder::PreOrder>([&](RangeOfTiles range) {
    OpBuilder b(range);
    program.ranges[range->getResult(0)] = range.places(
        b, [&](Value other) { return program.ranges.lookup(other); });
  });
}

namespace {
/// A range's numbers.
struct Places {
  int64_t first, end, count, fullBegin, fullEnd;
  bool falls;
  int64_t rotation = 0;
  int64_t tile(int64_t place) const {
    if (rotation > 0)
      return first + (place + rotation) % count;
    return falls ? first - place : first + place;
  }
};
} // namespace

static Places placesOf(Frame &f, Value range) {
  const TilePlaces &p = f.block.program.ranges[range];
  int64_t first = f.whole(p.first), end = f.whole(p.end);
  return {first,
          end,
          p.count ? f.whole(p.count) : end - first,
          f.whole(p.fullBegin),
          f.whole(p.fullEnd),
          p.fallsWhere ? f.whole(p.fallsWhere) != 0 : p.falls,
          p.rotation ? f.whole(p.rotation) : 0};
}

int64_t interpreter::countTiles(Frame &f, Value range) {
  return placesOf(f, range).count;
}

int64_t interpreter::tileAt(Frame &f, Value range, int64_t place) {
  return placesOf(f, range).tile(place);
}

void interpreter::run(Frame &f, TileCountOp op) {
  f.set(op.getCount(), countTiles(f, op.getRange()));
}

void interpreter::run(Frame &f, TileAtOp op) {
  f.set(op.getTile(), tileAt(f, op.getRange(), f.whole(op.getPlace())));
}

/// Where both fall the own range's first tile is the one before its end.
static int64_t placesBefore(const Places &own, const Places &all) {
  int64_t before =
      all.falls ? all.first - (own.end - 1) : own.first - all.first;
  return std::max<int64_t>(std::min(before, all.count - 1), 0);
}

void interpreter::run(Frame &f, TilesUntilOp op) {
  f.set(op.getCount(),
        placesBefore(placesOf(f, op.getOwn()), placesOf(f, op.getRange())));
}

void interpreter::run(Frame &f, TilesThroughOp op) {
  Places all = placesOf(f, op.getRange()), own = placesOf(f, op.getOwn());
  int64_t through = placesBefore(own, all) + std::max<int64_t>(own.count, 1);
  f.set(op.getCount(), std::min(through, all.count));
}

void interpreter::run(Frame &f, FullPlacesOp op) {
  Places p = placesOf(f, op.getRange());
  int64_t begin = f.whole(op.getLower()), end = f.whole(op.getUpper());
  int64_t ahead = op.getAhead();
  auto full = [&](int64_t place) {
    int64_t tile = p.tile(place + ahead);
    return tile >= p.fullBegin && tile < p.fullEnd;
  };
  while (begin < end && !full(begin))
    ++begin;
  int64_t last = begin;
  while (last < end && full(last))
    ++last;
  f.set(op.getBegin(), begin);
  f.set(op.getEnd(), last);
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

static MaskProgram &programOf(Frame &f, IntervalMaskAttr mask) {
  std::unique_ptr<MaskProgram> &known = f.block.program.masks[mask];
  if (known)
    return *known;
  known = std::make_unique<MaskProgram>();
  Block &block = known->block;
  OpBuilder b(mask.getContext());
  b.setInsertionPointToStart(&block);
  Location loc = b.getUnknownLoc();
  for (int i = 0; i < 3; ++i)
    block.addArgument(b.getIndexType(), loc);
  Value row = block.getArgument(0), queries = block.getArgument(1),
        keys = block.getArgument(2);
  known->lower = mask.lower(b, loc, row, queries, keys);
  known->upper = mask.upper(b, loc, row, queries, keys);
  return *known;
}

namespace {
/// The keys that a query sees.
struct Seen {
  int64_t lower, upper;
};
} // namespace

static Seen seenBy(Frame &f, IntervalMaskAttr mask, int64_t row,
                   int64_t queries, int64_t keys) {
  Seen seen{0, keys};
  if (!mask)
    return seen;
  MaskProgram &code = programOf(f, mask);
  int64_t given[] = {row, queries, keys};
  for (auto [argument, value] :
       llvm::zip_equal(code.block.getArguments(), given))
    f.set(argument, value);
  f.run(code.block);
  if (code.lower)
    seen.lower = std::max<int64_t>(0, f.whole(code.lower));
  if (code.upper)
    seen.upper = std::min(keys, f.whole(code.upper));
  return seen;
}

/// The query of a row of a tile of so many packed heads.
static int64_t queryOf(int64_t row, int64_t heads) {
  int64_t each = kGroupRows / heads;
  return heads == 1 ? row : row / kGroupRows * each + row % each;
}

void interpreter::run(Frame &f, ApplyMaskOp op) {
  auto result = std::make_shared<Tile>(*f.tile(op.getScores()));
  bool transposed = op.getTransposed();
  int64_t heads = op.getHeads(), queries = f.whole(op.getSeqlenQ()),
          keys = f.whole(op.getSeqlenK());
  int64_t rows = transposed ? result->cols() : result->rows() / heads,
          columns = transposed ? result->rows() : result->cols();
  int64_t lead = op.getLead() ? f.whole(op.getLead()) : 0,
          firstQuery = f.whole(op.getQBlock()) * rows - lead,
          firstKey = f.whole(op.getKvBlock()) * columns;
  for (int64_t r = 0; r < rows * heads; ++r) {
    int64_t query = firstQuery + (transposed ? r : queryOf(r, heads));
    Seen seen = seenBy(f, op.getMaskAttr(), query, queries, keys);
    for (int64_t c = 0; c < columns; ++c)
      if (firstKey + c < seen.lower || firstKey + c >= seen.upper)
        result->real[transposed ? c * result->cols() + r
                                : r * result->cols() + c] =
            -std::numeric_limits<float>::infinity();
  }
  f.set(op.getResult(), Datum(TileRef(result)));
}
