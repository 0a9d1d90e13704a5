//===- Asked.cpp - a schedule with fields that were asked for -------------===//

#include "Asked.h"
#include "Check.h"

using namespace fa2;

void fa2::completeRows(ScheduleOverrides &asked, const Target &target,
                       const Problem &problem) {
  if (problem.backward || !target.asynchronousMatmul() ||
      asked.blockQ.has_value() == asked.warps.has_value())
    return;
  if (asked.blockQ)
    asked.warps = *asked.blockQ / 16;
  else
    asked.blockQ = *asked.warps * 16;
}

TileOrder fa2::longestFirst(const Problem &problem, bool persistent) {
  bool large = std::max(problem.headDim, problem.headDimV) > 64;
  return persistent && large ? TileOrder::Balanced : TileOrder::LongestFirst;
}

/// Of two fields that exclude each other the one that nobody asked for gives
/// way, the first before the second.
static void giveWay(bool &first, std::optional<bool> askedFirst, bool &second,
                    std::optional<bool> askedSecond) {
  if (!askedFirst)
    first = false;
  else if (!askedSecond)
    second = false;
}

Schedule fa2::withAsked(const Schedule &standing,
                        const ScheduleOverrides &asked) {
  Schedule s = asked.applyTo(standing);
  if (!s.persistent && s.querySlots > 1) {
    if (!asked.querySlots)
      s.querySlots = 1;
    else if (!asked.persistent)
      s.persistent = true;
  }
  if (!s.overlap && s.speculateMax > 0) {
    if (!asked.speculateMax)
      s.speculateMax = 0;
    else if (!asked.overlap)
      s.overlap = true;
  }
  if (s.splitScores && s.speculateMax == 0 && !asked.splitScores)
    s.splitScores = false;
  if (s.termsRole && !s.preloadTerms && !asked.termsRole)
    s.termsRole = false;
  // A role leaves no kernel in front.
  if (s.termsRole && s.chained != Chain::None) {
    if (!asked.chained)
      s.chained = Chain::None;
    else if (!asked.termsRole)
      s.termsRole = false;
  }
  if (s.fromEnd && s.packedHeads > 1 && !asked.fromEnd)
    s.fromEnd = false;
  if (s.directOutput && s.separateOutput)
    giveWay(s.separateOutput, asked.separateOutput, s.directOutput,
            asked.directOutput);
  // Programs of which each has columns of dQ, or neither.
  if (s.roleColumns && s.roleProducts) {
    if (!asked.roleProducts)
      s.roleProducts = false;
    else if (!asked.roleColumns)
      s.roleColumns = 0;
  }
  if (s.roleColumns && !asked.dqByProducer)
    s.dqByProducer = false;
  if (s.roleProducts && s.dq != GradQ::Recompute && !s.dqByProducer &&
      !asked.roleProducts)
    s.roleProducts = false;
  if (s.dqRole && (!s.dqByProducer || s.dq == GradQ::Recompute) &&
      !asked.dqRole)
    s.dqRole = false;
  if (s.joinLoops && s.dqRole)
    giveWay(s.joinLoops, asked.joinLoops, s.dqRole, asked.dqRole);
  // A persistent block waits for turns of its second tile.
  if (s.dq == GradQ::Ordered && asked.dq && !asked.persistent)
    s.persistent = false;
  if (s.partition == Partition::Keys && !s.persistent) {
    s.slotsK = asked.slotsK.value_or(0);
    s.slotsV = asked.slotsV.value_or(0);
  }
  if (s.partition == Partition::Keys && !groupsGoAlone(s) && !asked.groupLimits)
    s.groupLimits = false;
  if (turnsBlock(s))
    giveWay(s.pingPong, asked.pingPong, s.groupLimits, asked.groupLimits);
  return s;
}
