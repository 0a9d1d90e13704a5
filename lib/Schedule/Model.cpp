//===- Model.cpp - what a schedule's time is made of ----------------------===//

#include "fa2/Schedule/Model.h"
#include "fa2/Target/Target.h"

#include <algorithm>
#include <cmath>

using namespace fa2;

namespace {
// The numbers were fitted to what was measured on an H200
// (docs/measurements/2026-11-23-tuning.md): they stand for what the formulas
// leave out as much as for what they are named after.
//
// Instructions of a lane for each score: scaled, compared, subtracted, summed
// and rounded; backward has two tiles of scores, their product and a second
// rounding. A rescaled accumulator has a multiplication an element.
constexpr double kForwardInstructions = 1.1, kBackwardInstructions = 2.2;
constexpr double kRescaleInstructions = 1;
// Of the units that do not bound a step, what their work still adds to it: a
// warp's softmax waits for its scores, and other warps fill the gap, the more
// of them there are. Matmuls that run beside the softmax, and turns, count as
// further warps. In backward every product waits for one before it.
constexpr double kSerial = 2, kSerialGroups = 0.61;
constexpr double kRoleSerial = 2.1, kBackwardSerial = 0.7,
                 kBackwardRoleSerial = 0.45;
constexpr double kOverlap = 2.7, kTurns = 0.12, kScoresFirst = 1.4;
// Clocks of a barrier, or of waiting for one; of a step in which a role waits
// for copies and for its own asynchronous matmuls.
constexpr double kBarrier = 280, kRoleStep = 650;
// The least that a step of asynchronous matmuls takes: scores, softmax and the
// second product follow each other, however small they are.
constexpr double kRoleChain = 540;
// An asynchronous matmul of few columns does not fill its pipeline: as many
// columns as are lost each time.
constexpr double kLostColumns = 1.1;
// What of waiting for copies other blocks do not fill; steps that a producer is
// ahead with one slot, which it fills as soon as it is free.
constexpr double kUnhidden = 0.74, kProducerAhead = 0.43;
// What starting a block takes, its indices and barriers; and what of loading
// and storing remains where a persistent block has them run beside others.
constexpr double kBlockStart = 2600;
constexpr double kLoadOfTwo = 0.6, kLoadOfOwn = 0.12, kLoadOfShared = 0.23;
constexpr double kStoreOfOwn = 0.54;
// Under a mask the last blocks to end are short ones where the longest start
// first: what of the longest the others wait for.
constexpr double kSortedTail = 0.28, kUnsortedTail = 0.48;
// A reduction in global memory takes as long as that many plain bytes.
constexpr double kReductionCost = 4.4, kVectorReductionCost = 4.7;
// Registers that backward's roles need beyond the footprint's, and how much
// slower one is that has a tenth too few.
constexpr double kSpareRegisters = 49, kProducerRegisters = 9.9,
                 kSpillCost = 0.5;

double up(int64_t n, int64_t m) { return double((n + m - 1) / m * m); }

class Model {
public:
  Model(const Target &target, const Rates &rates, const Problem &problem,
        const Schedule &schedule, const Shape &shape)
      : target(target), p(problem), s(schedule), shape(shape), rates(rates),
        f(footprint(target, problem, schedule)) {}

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
    if (target.hasRoles())
      e.tensor *= 1 + kLostColumns / keys;
    double lanes = scores * kForwardInstructions;
    // What is rescaled by need is rescaled almost never.
    if (s.lazyRescale == 0 && s.speculateMax == 0)
      lanes += rows * dv() * kRescaleInstructions;
    e.arithmetic = lanes / rates.lanes;
    // Each warp, or each warpgroup, reads all keys and values.
    double readers = target.hasRoles() ? rows / kGroupRows : double(s.warps);
    if (s.partition == Partition::SplitK)
      readers = 1;
    double bytes = 2 * keys * (d() + dv()) * readers;
    if (!s.qInRegisters)
      bytes += 2 * rows * d() *
               (s.partition == Partition::SplitK ? double(s.warps) : 1);
    double copied = 2 * keys * double(p.headDim + p.headDimV);
    e.shared = (bytes + copied) / rates.sharedBytes;
    e.global = copied / rates.globalBytes;
  }

  /// S and dP, dV, dK and dQ; a block keeps its keys and takes tiles of rows.
  void backwardStep(double scores) {
    double rows = double(s.blockQ), keys = double(s.blockKV);
    e.tensor = clocksOfFlops(2 * scores * (3 * d() + 2 * dv()));
    e.arithmetic = scores * kBackwardInstructions / rates.lanes;
    Schedule derived = s.derived();
    double along = double(derived.keyWarps), warps = double(s.warps);
    double readers = target.hasRoles() ? warps / 4 : along;
    // Q and dO for the scores and for their gradients; dS comes and goes.
    double bytes = 2 * rows * (d() + dv()) * 2 * readers + 4 * scores;
    double dqReaders = target.hasRoles() ? 1 : double(derived.dqWarps);
    bytes += 2 * keys * d() * dqReaders;
    if (!target.hasRoles())
      bytes += 2 * keys * (d() + dv()) * warps / along;
    double copied = 2 * rows * double(p.headDim + p.headDimV);
    e.shared = (bytes + copied) / rates.sharedBytes;
    double sum = s.dq == GradQ::Recompute
                     ? 0
                     : 4 * rows * d() *
                           (s.dq == GradQ::AtomicV4 ? kVectorReductionCost
                                                    : kReductionCost);
    e.global = (copied + sum) / rates.globalBytes;
  }

  double groups() const {
    double groups = double(s.warps) / 4;
    if (s.overlap)
      groups *= kOverlap;
    if (s.loopOrder == LoopOrder::ScoresFirst)
      groups *= kScoresFirst;
    if (s.pingPong)
      groups += kTurns;
    return std::max(groups, 0.25);
  }

  double serialPart(double groups) const {
    double kind =
        p.backward ? (target.hasRoles() ? kBackwardRoleSerial : kBackwardSerial)
                   : (target.hasRoles() ? kRoleSerial : 1);
    return kind * kSerial / (groups + kSerialGroups);
  }

  double stepOf(double groups) const {
    double softmax = e.exponential + e.arithmetic;
    double longest = std::max({e.tensor, softmax, e.shared, e.global});
    // Shared memory and copies are the matmuls' own and run beside them.
    double others = e.tensor + softmax - std::min(longest, e.tensor + softmax);
    double step = longest + others * serialPart(groups) +
                  (target.hasRoles() ? kRoleStep : kBarrier) / groups;
    if (target.hasRoles())
      step = std::hypot(step, kRoleChain);
    return step * spillFactor();
  }

  /// Matmuls in flight hold their registers: what lacks is spilled around them.
  double spillFactor() const {
    if (!p.backward || !target.hasRoles())
      return 1;
    RoleRegisters budget = target.roleRegisters(s);
    double tile = double(kGroupRows * s.blockQ) / 128;
    double wanted = double(f.registers()) + kSpareRegisters;
    if (s.loopOrder == LoopOrder::ScoresFirst)
      wanted += tile;
    double lacks = std::max(0.0, wanted / double(budget.consumer) - 1);
    if (s.dqByProducer) {
      double columns = s.dqColumns ? std::min(double(s.dqColumns), d()) : d();
      double own = double(s.blockQ) * columns / 128 + kProducerRegisters;
      lacks += std::max(0.0, own / double(budget.producer) - 1);
    }
    return 1 + kSpillCost * 10 * lacks / (1 + lacks);
  }

  void overlapStep() {
    double blocks = double(e.blocksPerMultiprocessor);
    e.stepAlone = stepOf(groups());
    // Copies run that many steps ahead; a producer starts one as soon as a slot
    // is free.
    llvm::StringRef moving = s.partition == Partition::Keys ? "q" : "k";
    double ahead = double(s.slotsOf(moving, /*inLoop=*/true) - 1) +
                   (target.hasRoles() ? kProducerAhead : 0);
    double copy = rates.copyLatency + (target.hasRoles() ? e.global : 0);
    double wait = std::max(0.0, copy - ahead * e.stepAlone);
    e.step = stepOf(groups() * blocks) + kUnhidden * wait / blocks;
    e.stepAlone += wait;
    e.step = std::max(e.step, e.stepAlone / blocks);
  }

  /// A block's steps. Under a mask the diagonal's tiles count whole.
  void countSteps() {
    double own = double(p.backward ? s.blockKV : s.blockQ);
    double other = double(p.backward ? s.blockQ : s.blockKV);
    double length = double(p.backward ? shape.seqlenK : shape.seqlenQ);
    double through = double(p.backward ? shape.seqlenQ : shape.seqlenK);
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
      load *= s.querySlots > 1   ? kLoadOfTwo
              : s.separateOutput ? kLoadOfOwn
                                 : kLoadOfShared;
      store *= s.separateOutput ? kStoreOfOwn : 1;
    }
    e.ends = load + store + (s.persistent ? kBarrier : kBlockStart);
    if (s.partition == Partition::SplitK)
      e.ends += double(f.scratchBytes) * 2 / rates.sharedBytes;
  }

  void shareOut() {
    double perBlock =
        e.steps * e.step + e.ends / double(e.blocksPerMultiprocessor);
    double longest = e.longest * e.stepAlone + e.ends;
    double average = double(e.blocks) / double(rates.multiprocessors);
    double clocks = 0;
    if (p.masked) {
      bool sorted = s.order == TileOrder::LongestFirst || p.backward;
      clocks =
          std::max(average * perBlock + (sorted ? kSortedTail : kUnsortedTail) *
                                            longest * std::min(1.0, average),
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
  Footprint f;
  Estimate e;
};
} // namespace

Estimate fa2::estimate(const Target &target, const Rates &rates,
                       const Problem &problem, const Schedule &schedule,
                       const Shape &shape) {
  return Model(target, rates, problem, schedule, shape).run();
}
