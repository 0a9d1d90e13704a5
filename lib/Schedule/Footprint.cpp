//===- Footprint.cpp - what one block of a schedule takes -----------------===//

#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Target.h"

#include <algorithm>

using namespace mlir;
using namespace fa2;

int64_t Footprint::sharedBytes() const {
  if (separateOutput)
    return queryBytes + ringBytes + outputBytes + barrierBytes;
  return std::max({queryBytes + ringBytes + exchangeBytes, outputBytes,
                   scratchBytes}) +
         barrierBytes;
}

int64_t fa2::blocksPerMultiprocessor(const Target &t, const Footprint &f) {
  const TargetLimits &l = t.limits();
  int64_t registers =
      std::min((f.registers() + 7) / 8 * 8, l.registersPerThread + 1);
  return std::min({l.sharedBytesPerMultiprocessor /
                       (f.sharedBytes() + l.sharedBytesReserved),
                   l.threadsPerMultiprocessor / f.threads,
                   l.registersPerMultiprocessor / (registers * f.threads),
                   int64_t(32)});
}

static constexpr int64_t kElementBytes = 2, kFloatBytes = 4;
static constexpr int64_t kLanes = fa2::gpu::kWarpLanes;

static int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

/// How warps share rows: the parts that the columns of dK and dV, and of dQ,
/// are split into. What does not divide is refused later.
static int64_t partsOfGradKV(const Schedule &s) {
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

/// Keys and values stay in shared memory, dK and dV in registers.
static Footprint backwardFootprint(const Target &t, const Problem &p,
                                   const Schedule &s) {
  int64_t across = partsOfGradKV(s), along = s.warps / across;
  int64_t panel = t.sharedPanelBytes();
  auto bytes = [&](int64_t rows, int64_t cols, int64_t parts = 1) {
    return fa2::gpu::SharedLayout::splitBy(panel ? across : parts, rows, cols,
                                           kElementBytes, panel)
        .pitch();
  };
  int64_t d = p.headDim, dv = p.headDimV;
  int64_t vector = fa2::gpu::SharedLayout(1, s.blockQ, kFloatBytes).pitch();

  Footprint f;
  f.threads = (s.warps + (t.hasRoles() ? kProducerWarps : 0)) * kLanes;
  if (t.hasRoles())
    f.barrierBytes = fa2::gpu::SharedLayout::kAlignment;
  f.queryBytes = bytes(s.blockKV, d, partsOfGradQ(s)) + bytes(s.blockKV, dv);
  if (s.cluster > 1) // of the other block's keys
    f.queryBytes += bytes(s.blockKV, d / s.cluster, partsOfGradQ(s));
  f.ringBytes =
      s.slotsOf("q", /*inLoop=*/true) *
          (bytes(s.blockQ, d, across) + 2 * vector) +
      s.slotsOf("dout", /*inLoop=*/true) * bytes(s.blockQ, dv, across);
  bool shareP = across > 1;
  int64_t scores = bytes(s.blockKV, s.blockQ);
  f.exchangeBytes = scores * s.exchangeSlots *
                    (shareP                     ? 2
                     : s.dq != GradQ::Recompute ? 1
                                                : 0);
  if (s.cluster > 1)
    f.exchangeBytes += scores * s.exchangeSlots;
  f.outputBytes = bytes(s.blockKV, d, across) + bytes(s.blockKV, dv, across);
  // Keys that another role reads too leave no place to one of dK and dV.
  if (s.separateOutput)
    f.exchangeBytes += f.outputBytes;
  else if (s.dqByProducer)
    f.exchangeBytes += bytes(s.blockKV, std::max(d, dv));
  // One warp's part of a product with so many rows and columns.
  auto part = [&](int64_t rows, int64_t cols, int64_t along, int64_t across) {
    int64_t each =
        fa2::gpu::columnsPerPart(cols, across, panel / kElementBytes);
    return rows / along * up(each, 8) / kLanes;
  };
  f.accumulatorRegisters =
      part(s.blockKV, d, along, across) + part(s.blockKV, dv, along, across);
  // S^T becomes P^T, beside dP^T; P^T once more, packed, or packed alone where
  // nothing packed is in flight beside both. Then dQ, whose reductions wait for
  // all of it.
  int64_t tile = s.blockKV * s.blockQ / (s.warps * kLanes);
  bool one = s.loopOrder == LoopOrder::Written ||
             s.loopOrder == LoopOrder::ValuesFirst; // tile of scores at a time
  f.scoreRegisters = 2 * tile + (s.roundedP && one ? 0 : tile / 2);
  if (s.dq != GradQ::Recompute && !s.dqByProducer)
    f.scoreRegisters = std::max(
        f.scoreRegisters,
        part(s.blockQ, s.dqColumns ? std::min(s.dqColumns, d) : d,
             std::max<int64_t>(s.warps / partsOfGradQ(s), 1), partsOfGradQ(s)));
  if (s.qInRegisters) // left operands that stay: keys and values
    f.queryRegisters =
        s.blockKV / along * (up(d, 16) + up(dv, 16)) / 2 / kLanes;
  f.otherRegisters = t.hasRoles() ? 16 : 24;
  return f;
}

Footprint fa2::footprint(const Target &t, const Problem &p, const Schedule &s) {
  if (p.backward)
    return backwardFootprint(t, p, s);
  auto tileBytes = [&](int64_t rows, int64_t cols, int64_t elementBytes) {
    return fa2::gpu::SharedLayout(rows, cols, elementBytes,
                                  t.sharedPanelBytes())
        .pitch();
  };
  bool splitK = s.partition == Partition::SplitK;
  // What one warp holds: rows of queries, and keys of each tile.
  int64_t rows = splitK ? s.blockQ : s.blockQ / s.warps;
  int64_t keys = splitK ? s.blockKV / s.warps : s.blockKV;

  Footprint f;
  f.threads = (s.warps + (t.hasRoles() ? kProducerWarps : 0)) * kLanes;
  f.separateOutput = s.separateOutput;
  if (t.hasRoles())
    f.barrierBytes = gpu::SharedLayout::kAlignment;
  f.queryBytes = s.querySlots * tileBytes(s.blockQ, p.headDim, kElementBytes);
  Schedule rings = s.derived();
  f.ringBytes = rings.slotsK * tileBytes(s.blockKV, p.headDim, kElementBytes) +
                rings.slotsV * tileBytes(s.blockKV, p.headDimV, kElementBytes) +
                s.slotsOf("columns", /*inLoop=*/true) * p.columnVectors *
                    gpu::SharedLayout(1, s.blockKV, kFloatBytes).pitch();
  // Rows of packed heads are read element by element.
  int64_t tiles = s.slotsReads && s.packedHeads == 1 ? p.tileReads : 0;
  if (tiles)
    f.ringBytes += tiles * s.slotsReads *
                   fa2::gpu::SharedLayout(s.blockQ, s.blockKV, kElementBytes,
                                          t.sharedPanelBytes())
                       .pitch();
  f.outputBytes = tileBytes(s.blockQ, p.headDimV, kElementBytes);
  if (splitK) // o of every warp, m and l in two more columns
    f.scratchBytes = tileBytes(s.warps * s.blockQ, p.headDimV + 2, kFloatBytes);
  f.accumulatorRegisters = rows * up(p.headDimV, 8) / kLanes;
  // P takes the place of S, but for the tile before's beside the next scores.
  f.scoreRegisters = rows * keys / kLanes;
  int64_t packed = f.scoreRegisters / 2;
  if (s.overlap)
    f.scoreRegisters += packed;
  f.scoreRegisters += tiles * packed;
  if (s.qInRegisters)
    f.queryRegisters = rows * up(p.headDim, 16) / 2 / kLanes;
  // Row maxima and sums (two a fragment of 16 rows, over four lanes), addresses
  // of the copies, fragments of keys and values in flight.
  f.otherRegisters = 3 * (rows / 8) + (t.hasRoles() ? 26 : 32);
  return f;
}
