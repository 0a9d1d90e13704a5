//===- Footprint.cpp - what one block of a schedule takes -----------------===//

#include "fa2/Schedule/Footprint.h"
#include "fa2/Schedule/Placement.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstdlib>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

int64_t fa2::blocksPerMultiprocessor(const Target &t, const Footprint &f) {
  const TargetLimits &l = t.limits();
  int64_t registers =
      std::min((f.registers() + 7) / 8 * 8, l.registersPerThread + 1);
  return std::min(
      {l.sharedBytesPerMultiprocessor / (f.sharedBytes + l.sharedBytesReserved),
       l.threadsPerMultiprocessor / f.threads,
       l.registersPerMultiprocessor / (registers * f.threads), int64_t(32)});
}

static constexpr int64_t kElementBytes = 2, kFloatBytes = 4;
static constexpr int64_t kLanes = fa2::gpu::kWarpLanes;
/// Registers that hold what a program reads of a tile until it is added.
static constexpr int64_t kReadAhead = 16;

static int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

/// How warps share rows: the parts that the columns of dK and dV, and of dQ,
/// are split into. What does not divide is refused later.
static int64_t partsOfGradKV(const Schedule &s) {
  if (s.hasTwoPrograms())
    return 1;
  return std::max<int64_t>(s.warps / s.derived().keyWarps, 1);
}
static int64_t partsOfGradQ(const Schedule &s) {
  return std::max<int64_t>(s.warpsOfGradQ() / s.derived().dqWarps, 1);
}

bool fa2::padsColumns(const Target &t, const Problem &p, const Schedule &s) {
  auto pads = [](int64_t dim, int64_t parts) {
    return !fa2::gpu::SharedLayout(16, dim, kElementBytes)
                .canSplitColumns(parts);
  };
  // Tiles in uniform panels are padded whatever the warps split.
  return p.backward && !t.sharedPanelBytes() &&
         (pads(p.headDim, partsOfGradKV(s)) ||
          pads(p.headDimV, partsOfGradKV(s)) ||
          pads(p.headDim, partsOfGradQ(s)));
}

/// Whether pieces of so many columns all begin where a matmul can: with a
/// panel, or in its middle where no more than half a panel is left.
static bool piecesBeginInPanels(int64_t headDim, int64_t columns,
                                int64_t panel) {
  return columns % panel == 0 || columns == panel / 2 ||
         columns >= headDim - panel / 2;
}

/// Whether the parts of a piece hold its columns alone. The padding of the last
/// piece lies behind all columns; that of another would lie where the next one
/// begins.
static bool piecesAreWhole(int64_t headDim, int64_t columns, int64_t parts,
                           int64_t panel) {
  return columns >= headDim ||
         parts * fa2::gpu::columnsPerPart(columns, parts, panel) == columns;
}

llvm::SmallVector<GradQPiece> fa2::gradQPieces(int64_t headDim,
                                               const Schedule &s) {
  constexpr int64_t panel = GradQPiece::kPanelColumns;
  int64_t columns = s.dqColumns ? s.dqColumns : headDim;
  llvm::SmallVector<GradQPiece> pieces;
  for (int64_t first = 0, taken; first < headDim; first += taken) {
    int64_t left = headDim - first, own = std::max(columns, panel);
    if (s.cluster == 1) {
      taken = std::min(columns, left);
      pieces.push_back({first, taken, taken, first, 0});
    } else if (left >= s.cluster * own) {
      taken = s.cluster * own;
      for (int64_t at = first; at < first + own; at += columns)
        pieces.push_back({at, columns, own, first, own});
    } else {
      // Of both as many, in instructions of 8 columns: of an odd number of
      // eights the other block's last eight are none of dQ's.
      taken = std::min(left, panel);
      int64_t half = up(taken, 8 * s.cluster) / s.cluster;
      pieces.push_back({first, half, half, first, s.cluster * half});
    }
  }
  return pieces;
}

std::string fa2::gradQColumnsError(const Target &t, int64_t headDim,
                                   const Schedule &s) {
  int64_t panel = t.sharedPanelBytes() / kElementBytes;
  int64_t columns = s.dqColumns, parts = partsOfGradQ(s);
  if (columns == 0 || panel == 0 || s.dq == GradQ::Recompute)
    return "";
  auto begins = [&](int64_t n) {
    return piecesBeginInPanels(headDim, n, panel);
  };
  auto whole = [&](int64_t n) {
    return piecesAreWhole(headDim, n, parts, panel);
  };
  if (begins(columns) && whole(columns)) {
    for (const GradQPiece &piece : gradQPieces(headDim, s))
      if (s.cluster > 1 && !piecesAreWhole(headDim, piece.count, parts, panel))
        return formatv("expected cluster = 1, role_columns or dq_by_producer "
                       "with a head dim of {0}, of whose last panel a block "
                       "sums {1} columns, which {2} warpgroups cannot share; "
                       "got cluster = {3}",
                       headDim, piece.count, parts, s.cluster);
    return "";
  }
  // Of two as near the narrower, which takes no more registers.
  int64_t nearest = up(headDim, panel);
  for (int64_t n = nearest - panel / 2; n > 0; n -= panel / 2)
    if (begins(n) && whole(n) && s.cluster * n <= headDim &&
        std::abs(n - columns) <= std::abs(nearest - columns))
      nearest = n;
  if (!begins(columns))
    return formatv("expected dq_columns to be {0}, a multiple of {1} or at "
                   "least {2}, because a piece of dQ's columns begins with a "
                   "panel of {1}, or has the half of one; got {3}; the nearest "
                   "is {4}",
                   panel / 2, panel, headDim - panel / 2, columns, nearest);
  return formatv("expected dq_columns / {0} to be 16, 32 or a multiple of {1}, "
                 "or dq_columns to be at least {2}, the head dim, because {0} "
                 "warpgroups split each piece of dQ's columns and the next one "
                 "lies right behind it; got dq_columns = {3}; the nearest is "
                 "{4}",
                 parts, panel, headDim, columns, nearest);
}

namespace {

using fa2::gpu::SharedLayout;

/// When a block's tiles are used: before and in the loop, behind it, and then
/// one result after the other.
enum Moment : int64_t { Before, Loop, Behind, Results };

/// The tiles of a plan, in the order in which rings are made.
class Plan {
public:
  Plan(const Target &target, Footprint &f)
      : roles(target.producerWarps() > 0), f(f) {}

  /// Without roles their tiles are waited for by barriers of the block.
  void add(int64_t Footprint::*part, int64_t slots, const SharedLayout &tile,
           Moment first, Moment last, int64_t barriers = 0) {
    if (slots == 0)
      return;
    Piece piece;
    piece.bytes = slots * tile.pitch();
    piece.alignment = tile.alignment();
    piece.first = first;
    piece.last = last;
    piece.barriers = roles ? barriers * 2 * fa2::gpu::kBarrierBytes : 0;
    f.*part += piece.bytes;
    f.barrierBytes += piece.barriers;
    pieces.push_back(piece);
  }
  void ring(int64_t Footprint::*part, int64_t slots, const SharedLayout &tile) {
    add(part, slots, tile, Loop, Loop, slots);
  }
  /// What stays for the loop: each warpgroup may wait for rows of its own.
  void stays(int64_t slots, const SharedLayout &tile) {
    int64_t parts = std::max<int64_t>(tile.rows() / kGroupRows, 1);
    add(&Footprint::queryBytes, slots, tile, Before, Loop, slots * parts);
  }
  /// With roles, a result without a ring of its own has the slot of a tile that
  /// was read; else it takes the bytes of what has been used.
  void result(const SharedLayout &tile, bool own) {
    f.outputBytes += tile.pitch();
    if (!roles || own)
      add(&Footprint::ownOutputBytes, 1, tile, next, next);
    next = Moment(next + 1);
  }
  /// From which persistent blocks take their tiles.
  void queue() {
    Piece piece;
    piece.isQueue = true;
    piece.alignment = fa2::gpu::kQueueSlotBytes;
    piece.bytes = fa2::gpu::kQueueSlots * fa2::gpu::kQueueSlotBytes;
    piece.barriers = fa2::gpu::kQueueSlots * 2 * fa2::gpu::kBarrierBytes;
    f.barrierBytes += piece.bytes + piece.barriers;
    pieces.push_back(piece);
  }
  void place() {
    f.sharedBytes = roles ? placeSideBySide(pieces) : placeByLife(pieces);
  }

private:
  bool roles;
  Footprint &f;
  std::vector<Piece> pieces;
  Moment next = Results;
};

} // namespace

/// Keys and values stay in shared memory, dK and dV in registers.
static Footprint backwardFootprint(const Target &t, const Problem &p,
                                   const Schedule &s) {
  int64_t across = partsOfGradKV(s), along = s.derived().keyWarps;
  bool roles = s.hasTwoPrograms(); // and so direct outputs
  int64_t panel = t.sharedPanelBytes();
  auto tile = [&](int64_t rows, int64_t cols, int64_t parts = 1) {
    return SharedLayout::splitBy(panel ? across : parts, rows, cols,
                                 kElementBytes, panel);
  };
  int64_t d = p.headDim, dv = p.headDimV;
  SharedLayout vector(1, s.blockQ, kFloatBytes);
  SharedLayout scores = tile(s.blockKV, s.blockQ);

  Footprint f;
  f.threads = (s.warps + (t.producerWarps() ? s.otherWarps() : 0)) * kLanes;
  Plan plan(t, f);
  // Keys that another role reads too leave no place to dK.
  bool sharedKeys = s.dqByProducer && s.dq != GradQ::Recompute;
  if (!roles && !s.directOutput) {
    plan.result(tile(s.blockKV, dv, across), s.separateOutput);
    plan.result(tile(s.blockKV, d, across), s.separateOutput || sharedKeys);
  }
  if (across > 1 || roles) // P
    plan.ring(&Footprint::exchangeBytes, s.exchangeSlots, scores);
  if (across > 1 || roles || s.dq != GradQ::Recompute)
    plan.ring(&Footprint::exchangeBytes, s.exchangeSlots, scores);
  if (s.cluster > 1) // the other block's dS
    plan.ring(&Footprint::exchangeBytes, s.exchangeSlots, scores);
  if (s.storesHidden) // zeros, for what a mask hides of dS
    plan.ring(&Footprint::exchangeBytes, s.exchangeSlots, scores);
  int64_t slotsQ = s.slotsOf("q", /*inLoop=*/true),
          slotsDout = s.slotsOf("dout", /*inLoop=*/true);
  plan.ring(&Footprint::ringBytes, slotsQ, vector);
  plan.ring(&Footprint::ringBytes, slotsDout, tile(s.blockQ, dv, across));
  plan.ring(&Footprint::ringBytes, slotsQ, vector);
  plan.ring(&Footprint::ringBytes, slotsQ, tile(s.blockQ, d, across));
  for (int64_t i = 0; s.slotsReads && i < p.tileReads; ++i)
    plan.ring(&Footprint::ringBytes, s.slotsReads, tile(s.blockQ, s.blockKV));
  if (s.cluster > 1) // of the other block's keys
    for (const GradQPiece &piece : gradQPieces(d, s))
      if (piece.begins())
        plan.stays(1, tile(s.blockKV, piece.loaded, partsOfGradQ(s)));
  plan.stays(s.slotsOf("v", /*inLoop=*/false), tile(s.blockKV, dv));
  plan.stays(s.slotsOf("k", /*inLoop=*/false),
             tile(s.blockKV, d, partsOfGradQ(s)));
  if (s.persistent)
    plan.queue();
  if (s.turns == TurnChange::ByRoles)
    for (int i = 0; i < (s.roleColumns ? 3 : 2); ++i) // come, and tiles added
      plan.ring(&Footprint::ringBytes, kTurnSlots,
                SharedLayout(1, 1, kFloatBytes));
  plan.place();
  // One warp's part of a product with so many rows and columns.
  auto part = [&](int64_t rows, int64_t cols, int64_t along, int64_t across) {
    int64_t each =
        fa2::gpu::columnsPerPart(cols, across, panel / kElementBytes);
    return rows / along * up(each, 8) / kLanes;
  };
  f.accumulatorRegisters =
      part(s.blockKV, d, along, across) + part(s.blockKV, dv, along, across);
  if (s.roleProducts) // those of the one that has more
    f.accumulatorRegisters =
        std::max(part(s.blockKV, d, along, 1), part(s.blockKV, dv, along, 1));
  else if (roles)
    f.accumulatorRegisters =
        std::max(2 * part(s.blockKV, s.roleColumns, along, 1),
                 part(s.blockKV, d - s.roleColumns, along, 1) +
                     part(s.blockKV, dv - s.roleColumns, along, 1));
  // S^T becomes P^T, beside dP^T; P^T once more, packed, or packed alone where
  // nothing packed is in flight beside both. (As written, dV's product has
  // ended before dP's begins; without dQ's, that leaves room for what waits.)
  // Then dQ, whose reductions wait for all of it.
  int64_t share = s.blockKV * s.blockQ / (s.warps * kLanes);
  bool one = s.loopOrder == LoopOrder::Written ||
             s.loopOrder == LoopOrder::ValuesFirst; // tile of scores at a time
  bool ended = s.dqRole && s.loopOrder == LoopOrder::Written;
  bool alone = ended || (s.roundedP && one);
  f.scoreRegisters = 2 * share + (alone ? 0 : share / 2);
  if (roles) // S becomes P, or dP dS, beside P
    f.scoreRegisters = 3 * share;
  if (s.dq != GradQ::Recompute && !s.dqByProducer)
    f.scoreRegisters = std::max(
        f.scoreRegisters,
        part(s.blockQ, s.dqColumns ? std::min(s.dqColumns, d) : d,
             std::max<int64_t>(s.warps / partsOfGradQ(s), 1), partsOfGradQ(s)));
  if (s.qInRegisters) // left operands that stay: keys and values
    f.queryRegisters =
        s.blockKV / along * (up(d, 16) + up(dv, 16)) / 2 / kLanes;
  else
    f.queryRegisters = s.blockKV / along *
                       (roles ? std::max(s.keysInRegisters, s.valuesInRegisters)
                              : s.keysInRegisters + s.valuesInRegisters) /
                       2 / kLanes;
  f.otherRegisters = t.copyEngine() ? 16 : 24;
  return f;
}

Footprint fa2::footprint(const Target &t, const Problem &p, const Schedule &s) {
  if (p.backward)
    return backwardFootprint(t, p, s);
  auto tile = [&](int64_t rows, int64_t cols, int64_t bytes = kElementBytes) {
    return SharedLayout(rows, cols, bytes, t.sharedPanelBytes());
  };
  bool splitK = s.partition == Partition::SplitK;
  // What one warp holds: rows of queries, and keys of each tile.
  int64_t rows = splitK ? s.blockQ : s.blockQ / s.warps;
  int64_t keys = splitK ? s.blockKV / s.warps : s.blockKV;

  Footprint f;
  f.threads = (s.warps + t.producerWarps()) * kLanes;
  Plan plan(t, f);
  Schedule rings = s.derived();
  // Rows of packed heads are read element by element.
  int64_t reads = s.slotsReads && s.packedHeads == 1 ? p.tileReads : 0;
  if (!s.directOutput)
    plan.result(tile(s.blockQ, p.headDimV), s.separateOutput);
  if (splitK) // o of every warp, m and l in two more columns
    plan.add(&Footprint::scratchBytes, 1,
             tile(s.warps * s.blockQ, p.headDimV + 2, kFloatBytes), Behind,
             Behind);
  plan.ring(&Footprint::ringBytes, rings.slotsV, tile(s.blockKV, p.headDimV));
  int64_t wide = std::min(reads, p.wideReads);
  for (int64_t i = 0; i < reads; ++i)
    plan.ring(
        &Footprint::ringBytes, s.slotsReads,
        tile(s.blockQ, s.blockKV, i < wide ? kFloatBytes : kElementBytes));
  for (int64_t i = 0; i < p.columnVectors; ++i)
    plan.ring(&Footprint::ringBytes, s.slotsOf("columns", /*inLoop=*/true),
              SharedLayout(1, s.blockKV, kFloatBytes));
  if (s.preloadTerms && p.termsOfDistances && s.packedHeads == 1)
    plan.ring(&Footprint::ringBytes, s.slotsOf("columns", /*inLoop=*/true),
              SharedLayout(1, s.blockQ + s.blockKV, kFloatBytes));
  if (s.preloadTerms && p.termsOfEntries && s.packedHeads == 1)
    plan.add(&Footprint::ringBytes, s.querySlots,
             SharedLayout(1, kTableEntries, kFloatBytes), Before, Loop,
             s.querySlots);
  plan.ring(&Footprint::ringBytes, rings.slotsK, tile(s.blockKV, p.headDim));
  plan.stays(s.querySlots, tile(s.blockQ, p.headDim));
  if (s.persistent)
    plan.queue();
  plan.place();
  f.accumulatorRegisters = rows * up(p.headDimV, 8) / kLanes;
  // P takes the place of S, but for the tile before's beside the next scores.
  f.scoreRegisters = rows * keys / kLanes;
  int64_t packed = f.scoreRegisters / 2;
  if (s.overlap)
    f.scoreRegisters += packed;
  // What a program reads of a tile is added piece by piece as it is loaded.
  f.scoreRegisters += (reads + wide) * std::min(packed, kReadAhead);
  f.queryRegisters =
      rows * (s.qInRegisters ? up(p.headDim, 16) : s.queriesInRegisters) / 2 /
      kLanes;
  // Row maxima and sums (two a fragment of 16 rows, over four lanes), addresses
  // of the copies, fragments of keys and values in flight.
  f.otherRegisters = 3 * (rows / 8) + (t.copyEngine() ? 26 : 32);
  return f;
}
