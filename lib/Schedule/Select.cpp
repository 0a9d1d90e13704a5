//===- Select.cpp - the choice of a schedule ---------------------------===//

#include "Check.h"
#include "Rule.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

static void explainAsked(const ScheduleOverrides &a,
                         std::vector<std::string> &reasons) {
  auto add = [&](const char *name, auto value, auto print) {
    if (value)
      reasons.push_back(formatv("{0} = {1} as asked", name, print(*value)));
  };
  auto number = [](int64_t n) { return std::to_string(n); };
  auto flag = [](bool b) { return std::string(b ? "true" : "false"); };
  add("block_q", a.blockQ, number);
  add("block_kv", a.blockKV, number);
  add("warps", a.warps, number);
  add("stages", a.stages, number);
  add("partition", a.partition,
      [](Partition p) { return stringifyPartition(p).str(); });
  add("q_in_registers", a.qInRegisters, flag);
  add("lazy_rescale", a.lazyRescale, number);
  add("min_blocks", a.minBlocks, number);
  add("key_warps", a.keyWarps, number);
  add("dq_warps", a.dqWarps, number);
  add("dq", a.dq, [](GradQ q) { return stringifyGradQ(q).str(); });
  add("order", a.order,
      [](TileOrder o) { return stringifyTileOrder(o).str(); });
  add("overlap", a.overlap, flag);
  add("ping_pong", a.pingPong, flag);
  add("persistent", a.persistent, flag);
  add("separate_output", a.separateOutput, flag);
  add("group_limits", a.groupLimits, flag);
  add("speculate_max", a.speculateMax, number);
  add("query_slots", a.querySlots, number);
  add("packed_heads", a.packedHeads, number);
}

FailureOr<Selection> fa2::selectSchedule(MLIRContext *context,
                                         const Target &target,
                                         const Problem &problem,
                                         const ScheduleOverrides &askedFields,
                                         std::string &error) {
  if (problem.backward && !target.gradQSchedule(problem)) {
    error = noBackwardError(target);
    return failure();
  }
  if (auto p = askedFields.partition;
      p && problem.backward != (*p == Partition::Keys)) {
    error = formatv("expected partition {0} for {1}, got {2}",
                    problem.backward ? "keys" : "split_q or split_k",
                    problem.backward ? "backward" : "forward",
                    stringifyPartition(*p));
    return failure();
  }
  ScheduleOverrides asked = askedFields;
  std::vector<std::string> reasons;
  explainAsked(asked, reasons);
  bool free = reasons.empty();
  if (!asked.dq && problem.backward && target.hasVectorReductions()) {
    asked.dq = GradQ::AtomicV4;
    reasons.push_back("dq = atomic_v4: one reduction adds four elements");
  }
  // Values out of range are refused by name before any arithmetic on them.
  // Whether warps and rows go together is seen later, when all are known.
  Schedule plain;
  if (problem.backward)
    plain.partition = Partition::Keys;
  Schedule rows = asked.applyTo(plain), warps = plain;
  warps.warps = rows.warps;
  warps.blockQ = 16 * std::clamp<int64_t>(rows.warps, 1, 16);
  rows.warps = 1;
  if (problem.backward) {
    warps.blockKV = warps.blockQ;
    warps.blockQ = 16;
    rows.keyWarps = rows.dqWarps = 0;
  }
  for (const Schedule &s : {rows, warps})
    if (failed(s.toAttr(context, target.name(), error)))
      return failure();
  asked.completeRows(target);
  if (asked.warps != askedFields.warps || asked.blockQ != askedFields.blockQ)
    reasons.push_back(formatv("block_q = {0} and warps = {1}: a warp takes 16 "
                              "rows",
                              *asked.blockQ, *asked.warps));
  if (!asked.order && problem.masked && !problem.backward) {
    asked.order = TileOrder::LongestFirst;
    reasons.push_back(
        "order = longest_first: the mask gives later queries more "
        "keys, so they start first");
  }

  auto trySchedule = [&](const Schedule &s) -> FailureOr<Selection> {
    auto attr = s.toAttr(context, target.name(), error);
    if (failed(attr))
      return failure();
    return checkSchedule(target, problem, *attr, error);
  };
  FailureOr<Selection> chosen = failure(), padded = failure();
  std::string source, paddedSource, tableError = "it has no entry";
  for (const auto &[i, tuned] :
       llvm::enumerate(target.tunedSchedules(problem))) {
    Schedule s = asked.applyTo(tuned);
    auto tried = trySchedule(s);
    std::string wrong = failed(tried)             ? error
                        : tried->warnings.empty() ? std::string()
                                                  : tried->warnings.front();
    std::string from =
        formatv("schedule from {0}'s table for head dims {1} and {2}",
                target.name(), problem.headDim, problem.headDimV);
    if (i > 0)
      from += ", for where its first does not serve: " + tableError;
    if (wrong.empty())
      tried->tuned = free;
    if (wrong.empty() && padsColumns(problem, s)) {
      wrong = formatv("its warps split {0} and {1} columns only with padding",
                      problem.headDim, problem.headDimV);
      if (failed(padded)) {
        padded = tried;
        paddedSource = from;
      }
    }
    if (i > 0 && !wrong.empty())
      continue;
    chosen = std::move(tried);
    source = from;
    tableError = wrong;
    if (wrong.empty())
      break;
  }
  // Where the table does not serve, the rule may still find something that
  // does. Padding is work thrown away, and what spills is only better than
  // nothing.
  if (!tableError.empty()) {
    auto ruled = ruleSchedule(target, problem, asked, Rule::Rows);
    bool pads = !ruled && succeeded(padded);
    if (!ruled && !pads && problem.backward)
      ruled = ruleSchedule(target, problem, asked, Rule::Columns);
    if (!ruled && !pads && failed(chosen))
      ruled = ruleSchedule(target, problem, asked, Rule::Spilling);
    if (pads) {
      chosen = std::move(padded);
      source = paddedSource + ", with padding so that warps split the columns";
    } else if (ruled) {
      chosen = trySchedule(*ruled);
      source = "schedule by rule, the largest tile that fits, because the "
               "table's does not serve: " +
               tableError;
    }
  }
  if (failed(chosen)) {
    error = tableError;
    return failure();
  }
  reasons.insert(reasons.begin(), source);
  reasons.insert(reasons.end(), chosen->reasons.begin(), chosen->reasons.end());
  chosen->reasons = std::move(reasons);
  return chosen;
}

FailureOr<ScheduleAttr> fa2::gradQSchedule(MLIRContext *context,
                                           const Target &target,
                                           const Problem &problem,
                                           std::string &error) {
  auto table = target.gradQSchedule(problem);
  if (!table) {
    error = noBackwardError(target);
    return failure();
  }
  Schedule s = *table;
  // What the table asks for may be more than a smaller chip has.
  Problem forward = problem;
  forward.backward = false;
  gpu::SharedLayout dout(s.blockQ, problem.headDimV, /*elementBytes=*/2);
  while (footprint(target, forward, s).sharedBytes() + dout.pitch() >
             target.limits().sharedBytesPerBlock &&
         s.blockKV > 16)
    s.blockKV -= 16;
  return s.toAttr(context, target.name(), error);
}
