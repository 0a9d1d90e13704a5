//===- Fields.cpp - fields of a schedule, said and asked for -----------===//

#include "Check.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using llvm::formatv;

Schedule Schedule::fromAttr(ScheduleAttr a) {
  Schedule s;
  s.blockQ = a.getBlockQ();
  s.blockKV = a.getBlockKv();
  s.warps = a.getWarps();
  s.stages = a.getStages();
  s.partition = a.getPartition();
  s.qInRegisters = a.getQInRegisters();
  s.lazyRescale = a.getLazyRescale();
  s.minBlocks = a.getMinBlocks();
  s.order = a.getOrder();
  s.overlap = a.getOverlap();
  s.pingPong = a.getPingPong();
  s.persistent = a.getPersistent();
  s.separateOutput = a.getSeparateOutput();
  s.groupLimits = a.getGroupLimits();
  s.speculateMax = a.getSpeculateMax();
  s.querySlots = a.getQuerySlots();
  s.packedHeads = a.getPackedHeads();
  s.keyWarps = a.getKeyWarps();
  s.dqWarps = a.getDqWarps();
  s.dq = a.getDq();
  return s;
}

FailureOr<ScheduleAttr> Schedule::toAttr(MLIRContext *context, StringRef target,
                                         std::string &error) const {
  ScopedDiagnosticHandler capture(context, [&](Diagnostic &d) {
    error = d.str();
    return success();
  });
  ScheduleAttr attr = ScheduleAttr::getChecked(
      [&] { return mlir::emitError(UnknownLoc::get(context)); }, context,
      target, blockQ, blockKV, warps, stages, partition, qInRegisters,
      lazyRescale, minBlocks, order, overlap, pingPong, persistent,
      separateOutput, groupLimits, speculateMax, querySlots, packedHeads,
      keyWarps, dqWarps, dq);
  if (!attr)
    return failure();
  return attr;
}

void ScheduleOverrides::completeRows(const Target &target) {
  if (!target.hasRoles() || blockQ.has_value() == warps.has_value())
    return;
  if (blockQ)
    warps = *blockQ / 16;
  else
    blockQ = *warps * 16;
}

Schedule ScheduleOverrides::applyTo(Schedule s) const {
  s.blockQ = blockQ.value_or(s.blockQ);
  s.blockKV = blockKV.value_or(s.blockKV);
  s.warps = warps.value_or(s.warps);
  s.stages = stages.value_or(s.stages);
  s.partition = partition.value_or(s.partition);
  s.qInRegisters = qInRegisters.value_or(s.qInRegisters);
  s.lazyRescale = lazyRescale.value_or(s.lazyRescale);
  s.minBlocks = minBlocks.value_or(s.minBlocks);
  s.order = order.value_or(s.order);
  s.overlap = overlap.value_or(s.overlap);
  s.pingPong = pingPong.value_or(s.pingPong);
  s.persistent = persistent.value_or(s.persistent);
  s.separateOutput = separateOutput.value_or(s.separateOutput);
  s.groupLimits = groupLimits.value_or(s.groupLimits);
  s.speculateMax = speculateMax.value_or(s.speculateMax);
  s.querySlots = querySlots.value_or(s.querySlots);
  s.packedHeads = packedHeads.value_or(s.packedHeads);
  // Fields that exclude each other: what was not asked for gives way.
  if (!s.persistent && s.querySlots > 1) {
    if (!querySlots)
      s.querySlots = 1;
    else if (!persistent)
      s.persistent = true;
  }
  if (!s.overlap && s.speculateMax > 0) {
    if (!speculateMax)
      s.speculateMax = 0;
    else if (!overlap)
      s.overlap = true;
  }
  if (turnsBlock(s)) {
    if (!pingPong)
      s.pingPong = false;
    else if (!groupLimits)
      s.groupLimits = false;
  }
  s.keyWarps = keyWarps.value_or(s.keyWarps);
  s.dqWarps = dqWarps.value_or(s.dqWarps);
  s.dq = dq.value_or(s.dq);
  return s;
}
