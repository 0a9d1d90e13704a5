//===- TileNumbers.cpp - in which order a kernel's blocks take tiles ------===//
//
// Tiles are numbered as their blocks start. A launch passes how many heads
// start side by side; a kernel finds its tile of a number.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {
/// What all tiles of a head read: the other sequence of its attention.
struct OtherSequence {
  OtherSequence(KernelOp op, StringRef rows);

  std::string length; // the name of its extent
  bool sums;          // queries, of which dQ is summed
  int64_t rowBytes;   // of what is read, and of the sum
  int64_t ofScores;   // arguments that have an element for each score
};

OtherSequence::OtherSequence(KernelOp op, StringRef rows) {
  auto rowsOf = [](ArgumentAttr arg) {
    return arg.getDims().size() > 1 ? dimName(arg, 1) : std::string();
  };
  ArrayAttr arguments = op.getArguments();
  std::string first = rowsOf(cast<ArgumentAttr>(arguments[0]));
  length = first;
  for (auto arg : arguments.getAsRange<ArgumentAttr>())
    if (length == rows)
      length = rowsOf(arg);
  ofScores = llvm::count_if(
      arguments.getAsRange<ArgumentAttr>(), [&](ArgumentAttr arg) {
        auto names =
            llvm::map_range(llvm::seq<int64_t>(arg.getDims().size()),
                            [&](int64_t d) { return dimName(arg, d); });
        return llvm::is_contained(names, rows) &&
               llvm::is_contained(names, length);
      });
  SpecAttr spec = op.getSpec();
  sums = length == first;
  rowBytes = (spec.getHeadDim() + spec.getHeadDimV()) * 2 +
             (sums ? spec.getHeadDim() * 4 : 0);
}

/// As many heads as have at once in the level-2 cache what all tiles of a head
/// read: in 32 MB keys and values, a power of two, or in 34 queries, dO and the
/// sum of dQ. Blocks that add in turns wait for those of their head: without a
/// mask all would do so at the start, so that there should be four heads, if 48
/// MB have them; and what they wait for is slow where the cache is full of
/// tiles of scores that a program reads, or reads and stores, which leaves half
/// of it or a quarter.
std::string headsInCache(KernelOp op, const OtherSequence &other) {
  auto headsIn = [&](int64_t megabytes) -> std::string {
    return llvm::formatv("{0} / max(1, {1} * {2})", megabytes << 20,
                         other.length, other.rowBytes);
  };
  bool turns = op.getSchedule().getDq() == GradQ::Ordered;
  int64_t megabytes = !other.sums                     ? 32
                      : !turns || other.ofScores == 0 ? 34
                      : other.ofScores == 1           ? 16
                                                      : 8;
  std::string fits = "max(1, " + headsIn(megabytes) + ")";
  if (!other.sums)
    return "pow2floor(" + fits + ")";
  if (turns && !op.getSpec().getMask() && other.ofScores == 0)
    return llvm::formatv("max({0}, min(4, {1}))", fits, headsIn(48));
  return fits;
}

/// Heads of which tiles may start side by side, in a section: as many as the
/// cache has. With few tiles a head, of roles, which leave no room for a second
/// block, a section is instead one tile a multiprocessor at most: where the
/// longest tiles of many heads run at once they wait for memory, and later the
/// short ones for the tensor cores
/// (docs/decisions/2026-11-26-sections-of-short-sequences.md).
std::string mostHeads(KernelOp op, const TileSource &source,
                      ArrayRef<std::string> extents) {
  OtherSequence other(op, extents[0]);
  std::string fits = headsInCache(op, other);
  constexpr int64_t mostRowBytes = 512; // of keys and values: as measured
  if (op.getOps<RolesOp>().empty() ||
      (!other.sums && other.rowBytes > mostRowBytes))
    return fits;
  std::string tiles =
      llvm::formatv("ceildiv({0}, {1})", extents[0], source.block);
  std::string heads = llvm::formatv("{0} * {1}", extents[2], extents[1]);
  std::string blocks = "device.multiprocessors";
  std::string taken = tiles; // multiprocessors, by a head
  if (source.cluster > 1)
    taken = llvm::formatv("{0} * {1}", source.cluster, tiles);
  std::string narrow =
      llvm::formatv("pow2floor(max(1, {0} / max(1, {1})))", blocks, taken);
  bool turns = op.getSchedule().getDq() == GradQ::Ordered;
  std::string few =
      turns ? "{0} <= 4" : "{0} <= 4 || {0} <= 8 && {1} * {0} > 5 * {2}";
  return llvm::formatv(("if(" + few + ", min({3}, {4}), {4})").c_str(), tiles,
                       heads, blocks, narrow, fits);
}

/// Of backward, which reads a tile of what its batch shares for each step, one
/// head of all entries at a time measures best, and of one entry as above.
std::string mostInSection(KernelOp op, const TileSource &source,
                          ArrayRef<std::string> extents) {
  std::string most = mostHeads(op, source, extents);
  if (source.order != TileOrder::InterleavedBatchesAbreast)
    return most;
  return llvm::formatv("if({0} > 1, {0}, {1})", extents[2], most);
}

/// What a launch passes of each kernel's sections: of all heads or of each part
/// of them, the two numbers that are `Sections`.
SmallVector<std::string> sectionExpressions(TileOrder order,
                                            ArrayRef<std::string> extents,
                                            std::string most) {
  auto allOf = [&](const std::string &heads) -> std::string {
    return llvm::formatv("({0} * {1})", extents[2], heads);
  };
  auto sectionsOf = [&](const std::string &all) -> std::string {
    return llvm::formatv("max(1, ceildiv({0}, {1}))", all, most);
  };
  SmallVector<std::string> parts{extents[1]};
  if (order == TileOrder::ShortestThenLongest) {
    // No section is larger than an equal share of all heads.
    std::string all = allOf(extents[1]);
    most = llvm::formatv("max(1, ceildiv({0}, {1}))", all, sectionsOf(all));
    std::string others = headsFromStart(extents[1]);
    parts = {llvm::formatv("({0} - {1})", extents[1], others), others};
  }
  SmallVector<std::string> values;
  for (const std::string &heads : parts) {
    std::string all = allOf(heads), sections = sectionsOf(all);
    values.push_back(llvm::formatv("{0} / {1}", all, sections));
    values.push_back(llvm::formatv("{0} % {1}", all, sections));
  }
  assert(values.size() == numSectionArguments(order) && "one number each");
  return values;
}

/// Of the order `balanced`, how many of the longest of `tiles` start before any
/// other: all, but where blocks have between two and three each, a sequence has
/// eight at least and all heads start side by side. With Z tiles more than two
/// for each of W blocks they are W - Z^2 / 2 W, and the shortest follow them
/// until W + Z have started (docs/decisions/2026-11-26-balanced-tiles.md).
std::string longestExpression(const TileSource &source,
                              const std::string &tiles, const std::string &most,
                              ArrayRef<std::string> extents) {
  std::string blocks = "device.multiprocessors";
  std::string more = llvm::formatv("({0} - 2 * {1})", tiles, blocks);
  return llvm::formatv(
      "{0} - ({0} > 2 * {1} && {0} < 3 * {1} && ceildiv({2}, {3}) >= 8 && "
      "{4} * {5} <= {6}) * ({0} - {1} + {7} * {7} / (2 * {1}))",
      tiles, blocks, extents[0], source.block, extents[2], extents[1], most,
      more);
}
} // namespace

SmallVector<std::string>
fa2::gpu::orderExpressions(KernelOp op, const TileSource &source,
                           ArrayRef<std::string> extents,
                           const std::string &tiles) {
  SmallVector<std::string> values;
  if (!hasSections(source.order))
    return values;
  std::string most = mostInSection(op, source, extents);
  if (source.persistent && source.order == TileOrder::Balanced)
    values.push_back(longestExpression(source, tiles, most, extents));
  llvm::append_range(values, sectionExpressions(source.order, extents, most));
  return values;
}

unsigned fa2::gpu::numSectionArguments(TileOrder order) {
  if (!hasSections(order))
    return 0;
  return order == TileOrder::ShortestThenLongest ? 4 : 2;
}

namespace {
/// A tile of a head, of all heads of a launch or of a part of them.
struct HeadsTile {
  Value tile, head;
};

/// Sections of heads whose tiles start side by side, one after the other: of
/// the first `wider` each has one head more than `heads`.
struct Sections {
  Value heads, wider;
};

/// Section after section; in each, the first tiles of all its heads, then the
/// second, and so on.
HeadsTile decodeInSections(Emit &e, Value number, Value tiles, Sections of) {
  Value wide = e.add(of.heads, 1), heads = e.mul(of.wider, wide);
  Value before = e.mul(heads, tiles);
  Value isWider = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                        number, before);
  Value zero = e.index(0), width = e.select(isWider, wide, of.heads);
  number = e.sub(number, e.select(isWider, zero, before));
  Value perSection = e.mul(width, tiles);
  Value first = e.add(e.select(isWider, zero, heads),
                      e.mul(e.divU(number, perSection), width));
  Value rest = e.remU(number, perSection);
  return {e.divU(rest, width), e.add(first, e.remU(rest, width))};
}
} // namespace

/// Ascending: the tiles of a head are neighbours. Descending: the same from the
/// last tile of all to the first. Interleaved, shortest first: in sections.
/// Longest first: the same from the last to the first. In each, a head's tiles
/// have rising numbers from one end to the other. Abreast: ascending,
/// interleaved or longest first, but a tile of one head in all entries of the
/// batch before the next, so that blocks which run at once share what is the
/// same in all of them. Shortest then longest: the first heads from the last
/// tile to the first, then the others from the first to the last.
TileCoords fa2::gpu::decodeTile(Emit &e, Value number, Value tiles, Value heads,
                                Value batches, TileOrder order,
                                mlir::gpu::GPUFuncOp func) {
  if (order == TileOrder::BatchesAbreast) {
    Value rest = e.divU(number, batches);
    return {e.remU(rest, tiles), e.divU(rest, tiles), e.remU(number, batches)};
  }
  auto fromLast = [&](Value tile) { return e.sub(e.add(tiles, -1), tile); };
  auto sections = func.getArguments().take_back(numSectionArguments(order));
  HeadsTile at;
  Value firstHead, someHeads = heads;
  switch (order) {
  case TileOrder::Ascending:
  case TileOrder::Descending:
    if (order == TileOrder::Descending) {
      Value total = e.mul(e.mul(tiles, heads), batches);
      number = e.sub(e.add(total, -1), number);
    }
    at = {e.remU(number, tiles), e.divU(number, tiles)};
    break;
  case TileOrder::ShortestThenLongest: {
    Value others = headsFromStart(e.b, e.loc, heads);
    Value first = e.sub(heads, others);
    Value before = e.mul(e.mul(first, tiles), batches);
    Value isOther = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::uge,
                                          number, before);
    auto choose = [&](Value x, Value y) { return e.select(isOther, x, y); };
    at = decodeInSections(
        e, choose(e.sub(number, before), number), tiles,
        {choose(sections[2], sections[0]), choose(sections[3], sections[1])});
    at.tile = choose(at.tile, fromLast(at.tile));
    firstHead = choose(first, e.index(0));
    someHeads = choose(others, first);
    break;
  }
  default:
    at = decodeInSections(e, number, tiles, {sections[0], sections[1]});
    if (order == TileOrder::LongestFirst || order == TileOrder::Balanced ||
        order == TileOrder::LongestBatchesAbreast)
      at.tile = fromLast(at.tile);
  }
  if (order == TileOrder::LongestBatchesAbreast ||
      order == TileOrder::InterleavedBatchesAbreast)
    return {at.tile, e.divU(at.head, batches), e.remU(at.head, batches)};
  Value head = e.remU(at.head, someHeads);
  if (firstHead)
    head = e.add(head, firstHead);
  return {at.tile, head, e.divU(at.head, someHeads)};
}
