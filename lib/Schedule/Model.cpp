//===- Model.cpp - what a schedule's time is made of ----------------------===//

#include "fa2/Schedule/Model.h"
#include "fa2/Schedule/Dispatch.h"
#include "fa2/Target/Target.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace fa2;

namespace {
double up(int64_t n, int64_t m) { return double((n + m - 1) / m * m); }

class Model {
public:
  Model(const Target &target, const Rates &rates, const Problem &problem,
        const Schedule &schedule, const Shape &shape,
        const ModelNumbers &numbers)
      : target(target), p(problem), s(schedule), shape(shape), rates(rates),
        n(numbers), f(footprint(target, problem, schedule)) {}

  Estimate run() {
    double scores = double(s.blockQ) * double(s.blockKV);
    e.shape = shape;
    e.device = rates.device;
    e.blocksPerMultiprocessor =
        std::max<int64_t>(1, blocksPerMultiprocessor(target, f));
    e.exponential = scores / rates.exponentials;
    if (p.backward)
      backwardStep(scores);
    else
      forwardStep(scores);
    overlapStep();
    countSteps();
    ends();
    shareOut();
    return e;
  }

private:
  double d() const { return up(p.headDim, 16); }
  double dv() const { return up(p.headDimV, 16); }
  double clocksOfFlops(double flops) const { return flops / rates.tensorFlops; }

  void forwardStep(double scores) {
    double rows = double(s.blockQ), keys = double(s.blockKV);
    e.tensor = clocksOfFlops(2 * scores * (d() + dv()));
    if (target.asynchronousMatmul())
      e.tensor *= 1 + n.lostColumns / keys;
    double lanes = scores * n.forwardInstructions;
    // What is rescaled by need is rescaled almost never.
    if (s.lazyRescale == 0 && s.speculateMax == 0)
      lanes += rows * dv() * n.rescaleInstructions;
    e.arithmetic = lanes / rates.lanes;
    // Each warp, or each warpgroup, reads all keys and values.
    double readers =
        target.asynchronousMatmul() ? rows / kGroupRows : double(s.warps);
    if (s.partition == Partition::SplitK)
      readers = 1;
    double bytes = 2 * keys * (d() + dv()) * readers;
    if (!s.qInRegisters)
      bytes += 2 * rows * (d() - double(s.queriesInRegisters)) *
               (s.partition == Partition::SplitK ? double(s.warps) : 1);
    double copied = 2 * keys * double(p.headDim + p.headDimV);
    copied += readBytes(rows * keys);
    e.shared = (bytes + copied + readBytes(rows * keys)) / rates.sharedBytes;
    e.global = copied / rates.globalBytes;
  }

  /// Bytes of the tiles that a program reads of so many scores, which come to
  /// shared memory and go from there to the threads.
  double readBytes(double scores) const {
    return s.slotsReads ? 2 * scores * double(p.tileReads + p.wideReads) : 0;
  }

  /// What warpgroups' matmuls read besides: keys and values that are left
  /// operands in shared memory, dS again for each further piece of dQ's
  /// columns, statistics, of which every lane reads its own, and what
  /// reductions into dQ pass through the same pipe. m64nNk16 reads 2 KiB of a
  /// left operand there, and 32 N bytes of the right one. Profiles of 64, 128
  /// and 256 on an H200 count as much within 5 percent.
  double operandBytes(double scores) const {
    double rows = double(s.blockQ), keys = double(s.blockKV);
    double warps = double(s.warps);
    double held = double(s.keysInRegisters + s.valuesInRegisters);
    double bytes = s.qInRegisters ? 0 : 2 * keys * (d() + dv() - held);
    double columns = s.dqColumns ? double(s.dqColumns) : d();
    bytes += 2 * scores * (std::ceil(d() / columns) - 1);
    constexpr double lanes = 32, lanesOfRow = 4, floatBytes = 4;
    bytes += 2 * floatBytes * rows / lanesOfRow * warps * lanes;
    if (s.dq != GradQ::Recompute)
      bytes += floatBytes * rows * d() / double(s.cluster);
    return bytes;
  }

  /// S and dP, dV, dK and dQ; a block keeps its keys and takes tiles of rows.
  void backwardStep(double scores) {
    double rows = double(s.blockQ), keys = double(s.blockKV);
    e.tensor = clocksOfFlops(2 * scores * (3 * d() + 2 * dv()));
    e.arithmetic = scores * n.backwardInstructions / rates.lanes;
    Schedule derived = s.derived();
    double along = double(derived.keyWarps), warps = double(s.warps);
    bool groups = target.asynchronousMatmul();
    // Of two programs each multiplies tiles of rows for its own products.
    double rowReaders = !groups ? along : s.hasTwoPrograms() ? 1 : warps / 4;
    double dqReaders = groups ? 1 : double(derived.dqWarps);
    // Q and dO for the scores and for their gradients; dS comes; for dQ it goes
    // to all warps that share its rows, and the keys to all that share columns.
    double bytes = 2 * rows * (d() + dv()) * 2 * rowReaders + 2 * scores +
                   2 * keys * d() * dqReaders;
    if (groups) {
      bytes += 2 * scores + operandBytes(scores);
    } else {
      double sharing = warps / along; // their keys: P and dS go to all of them
      bytes +=
          2 * scores * warps / dqReaders + 2 * keys * (d() + dv()) * sharing;
      if (sharing > 1)
        bytes += 2 * scores * (1 + 2 * sharing);
    }
    double copied = 2 * rows * double(p.headDim + p.headDimV);
    copied += readBytes(scores);
    e.shared = (bytes + copied + readBytes(scores)) / rates.sharedBytes;
    double sum =
        s.dq == GradQ::Recompute
            ? 0
            : 4 * rows * d() / double(s.cluster) *
                  (s.dq != GradQ::Atomic && target.hasVectorReductions()
                       ? n.vectorReductionCost
                       : n.reductionCost);
    e.global = (copied + sum) / rates.globalBytes;
  }

  double groups() const {
    double groups = double(s.warps) / 4;
    if (s.overlap)
      groups *= n.overlap;
    if (s.loopOrder == LoopOrder::ScoresFirst)
      groups *= n.scoresFirst;
    if (s.pingPong)
      groups += n.turns;
    return std::max(groups, 0.25);
  }

  double serialPart(double groups) const {
    double kind = p.backward
                      ? (target.producerWarps() > 0 ? n.backwardRoleSerial
                                                    : n.backwardSerial)
                      : (target.producerWarps() > 0 ? n.roleSerial : 1);
    return kind * n.serial / (groups + n.serialGroups);
  }

  double stepOf(double groups) const {
    double softmax = e.exponential + e.arithmetic;
    double longest = std::max({e.tensor, softmax, e.shared, e.global});
    // Shared memory and copies are the matmuls' own and run beside them.
    double others = e.tensor + softmax - std::min(longest, e.tensor + softmax);
    double step = longest + others * serialPart(groups) +
                  (target.producerWarps() > 0 ? n.roleStep
                   : p.backward               ? n.backwardBarrier
                                              : n.barrier) /
                      groups;
    if (target.producerWarps() > 0)
      step = std::hypot(step, n.roleChain);
    return step * spillFactor();
  }

  /// Matmuls in flight hold their registers: what lacks is spilled around them.
  double spillFactor() const {
    if (!p.backward || !target.asynchronousMatmul())
      return 1;
    RoleRegisters budget = target.roleRegisters(s);
    double tile = double(kGroupRows * s.blockQ) / 128;
    double wanted = double(f.registers()) + n.spareRegisters;
    if (s.loopOrder == LoopOrder::ScoresFirst)
      wanted += tile;
    double lacks = std::max(0.0, wanted / double(budget.consumer) - 1);
    if (s.dqByProducer) {
      double columns = s.dqColumns ? std::min(double(s.dqColumns), d()) : d();
      double rows = double(std::min(s.blockQ, 16 * s.derived().dqWarps));
      double own = rows * columns / 128 + n.producerRegisters;
      int64_t given = s.dqRole ? budget.sums : budget.producer;
      lacks += std::max(0.0, own / double(given) - 1);
    }
    return 1 + n.spillCost * 10 * lacks / (1 + lacks);
  }

  void overlapStep() {
    double blocks = double(e.blocksPerMultiprocessor);
    e.stepAlone = stepOf(groups());
    // Copies run that many steps ahead; a producer starts one as soon as a slot
    // is free.
    llvm::StringRef moving = s.partition == Partition::Keys ? "q" : "k";
    double ahead = double(s.slotsOf(moving, /*inLoop=*/true) - 1) +
                   (target.copyEngine() ? n.producerAhead : 0);
    double copy = rates.copyLatency + (target.copyEngine() ? e.global : 0);
    double wait = std::max(0.0, copy - ahead * e.stepAlone);
    e.step = stepOf(groups() * blocks) + n.unhidden * wait / blocks;
    e.stepAlone += wait;
    e.step = std::max(e.step, e.stepAlone / blocks);
  }

  /// Rows that a block keeps and those of a step, and of them all.
  struct Sides {
    double own, other, length, through;
  };
  Sides sides() const {
    Sides forward{double(s.blockQ), double(s.blockKV), double(shape.seqlenQ),
                  double(shape.seqlenK)};
    return p.backward ? Sides{forward.other, forward.own, forward.through,
                              forward.length}
                      : forward;
  }

  /// A block's steps. Under a mask the diagonal's tiles count whole.
  void countSteps() {
    auto [own, other, length, through] = sides();
    e.blocks = int64_t(std::ceil(length / own)) * shape.batch * shape.heads /
               s.packedHeads;
    e.longest = std::ceil(through / other);
    e.steps = e.longest;
    if (p.masked)
      e.steps =
          std::min(e.longest, through / other / 2 + own / other / 2 + 0.5);
    // A warpgroup stops at its own keys: the rows' staircase is finer.
    if (p.masked && s.groupLimits)
      e.steps -= (own - double(kGroupRows)) / other / 4;
  }

  void ends() {
    double rows = double(p.backward ? s.blockKV : s.blockQ);
    double read = 2 * rows * double(p.headDim + (p.backward ? p.headDimV : 0));
    double write = 2 * rows * double(p.headDimV + (p.backward ? p.headDim : 0));
    double load = rates.copyLatency + read / rates.globalBytes;
    double store =
        write / rates.globalBytes + rows * double(p.headDimV) * 2 / rates.lanes;
    if (s.persistent) {
      // The next queries come while this tile ends.
      bool own = s.separateOutput || s.directOutput;
      load *= s.querySlots > 1 ? n.loadOfTwo
              : own            ? n.loadOfOwn
                               : n.loadOfShared;
      store *= own ? n.storeOfOwn : 1;
    }
    e.ends = load + store + (s.persistent ? n.barrier : n.blockStart);
    if (s.partition == Partition::SplitK)
      e.ends += double(f.scratchBytes) * 2 / rates.sharedBytes;
  }

  bool longestFirst() const {
    return s.order == TileOrder::LongestFirst ||
           s.order == TileOrder::Balanced ||
           s.order == TileOrder::LongestBatchesAbreast;
  }

  /// Blocks a multiprocessor up to which they are placed one by one: with more,
  /// what the last ones leave idle is little, and placing them takes long.
  static constexpr double kPlacedOneByOne = 8;

  /// A mask's blocks in the order in which they start. Ascending: head by head,
  /// in which the last queries, or in backward the first keys, have the most
  /// steps. Longest first: all heads' longest ones.
  double placeBlocks() const {
    auto [own, other, length, through] = sides();
    int64_t heads = shape.batch * shape.heads / s.packedHeads;
    int64_t tiles = e.blocks / std::max<int64_t>(heads, 1);
    // What of a block no step is, as steps: blocks that share a multiprocessor
    // wait side by side.
    double average = double(e.blocks) / double(rates.multiprocessors);
    double sharing =
        std::min(double(e.blocksPerMultiprocessor), std::ceil(average));
    double around = e.ends / std::max(e.stepAlone, e.step * sharing);
    std::vector<double> head;
    for (int64_t i = 0; i < tiles; ++i) {
      double seen =
          p.backward ? through - std::floor(double(i) * own / other) * other
                     : std::min(double(i + 1) * own, length) + through - length;
      head.push_back(std::clamp(std::ceil(seen / other), 1.0, e.longest) +
                     around);
    }
    std::vector<double> all;
    all.reserve(size_t(e.blocks));
    if (longestFirst()) {
      llvm::sort(head, std::greater<>());
      for (double steps : head)
        all.insert(all.end(), size_t(heads), steps);
    } else {
      for (int64_t i = 0; i < heads; ++i)
        all.insert(all.end(), head.begin(), head.end());
    }
    BlockRates blocks{rates.multiprocessors, e.blocksPerMultiprocessor,
                      e.stepAlone, e.step};
    return s.persistent
               ? clocksOfPersistent(all, blocks, s.order == TileOrder::Balanced)
               : clocksOfBlocks(all, blocks);
  }

  void shareOut() {
    double perBlock =
        e.steps * e.step + e.ends / double(e.blocksPerMultiprocessor);
    double longest = e.longest * e.stepAlone + e.ends;
    double average = double(e.blocks) / double(rates.multiprocessors);
    double clocks = 0;
    if (p.masked && average <= kPlacedOneByOne) {
      clocks = placeBlocks();
    } else if (p.masked) {
      // In backward the first keys of each head have the most queries.
      bool sorted = longestFirst() || (p.backward && target.producerWarps());
      clocks = std::max(average * perBlock +
                            (sorted ? n.sortedTail : n.unsortedTail) * longest *
                                std::min(1.0, average),
                        longest);
    } else {
      clocks = std::max(std::ceil(average) * perBlock, longest);
    }
    e.imbalance = clocks / std::max(average * perBlock, 1.0);
    clocks += rates.launchClocks;
    if (p.backward)
      clocks += otherKernels();
    e.milliseconds = clocks / (rates.clockGHz * 1e6);
  }

  /// Backward's statistics read out and dO, the last kernel rounds dQ, whose
  /// sum was zeroed: bytes that come from memory.
  double otherKernels() const {
    double rows =
        double(shape.batch) * double(shape.heads) * double(shape.seqlenQ);
    double bytes = rows * (10 * double(p.headDim) + 4 * double(p.headDimV));
    constexpr double kHits = 0.5; // of L2's rate
    return 2 * rates.launchClocks +
           bytes / (rates.globalBytes * kHits * double(rates.multiprocessors));
  }

  const Target &target;
  const Problem &p;
  const Schedule &s;
  const Shape &shape;
  const Rates &rates;
  const ModelNumbers &n;
  Footprint f;
  Estimate e;
};
} // namespace

Estimate fa2::estimate(const Target &target, const Rates &rates,
                       const Problem &problem, const Schedule &schedule,
                       const Shape &shape, const ModelNumbers &numbers) {
  return Model(target, rates, problem, schedule, shape, numbers).run();
}
