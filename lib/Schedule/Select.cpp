//===- Select.cpp - the choice of a schedule ---------------------------===//

#include "Asked.h"
#include "Check.h"
#include "Rule.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

namespace {
/// One choice: what is asked for in the table's schedules, then the rule.
class Choice {
public:
  Choice(MLIRContext *context, const Target &target, const Problem &problem,
         const ScheduleOverrides &asked, std::string &error,
         const ScheduleRow *measured)
      : context(context), target(target), problem(problem), asked(asked),
        error(error), measured(measured) {}
  FailureOr<Selection> run();

private:
  /// A schedule and where it comes from.
  struct Candidate {
    FailureOr<Selection> selection = failure();
    std::string source;
  };

  LogicalResult checkAsked();
  void explainAsked();
  void complete();
  FailureOr<Selection> tryOut(const Schedule &schedule);
  bool tryMeasured();
  bool tryTable();
  bool tryEntry(const Schedule &tuned, bool first);
  std::string flawOf(const Schedule &schedule,
                     const FailureOr<Selection> &tried) const;
  void applyRule();

  MLIRContext *context;
  const Target &target;
  const Problem &problem;
  ScheduleOverrides asked;
  std::string &error;
  const ScheduleRow *measured;
  std::vector<std::string> reasons;
  Candidate chosen;
  /// The first entry whose only flaw is that it pads columns.
  Candidate padded;
  /// Why the database does not serve; empty where it does.
  std::string missing;
  /// Why the table does not serve; empty where it does.
  std::string tableError = "it has no entry";
};
} // namespace

/// Values out of range are refused by name before any arithmetic on them.
/// Whether they go together is seen later, when all are known.
LogicalResult Choice::checkAsked() {
  auto p = asked.partition;
  if (std::string wrong =
          problem.backward ? target.backwardError(problem) : std::string();
      !wrong.empty()) {
    error = wrong;
    return failure();
  }
  if (p && problem.backward != (*p == Partition::Keys))
    error = formatv("expected partition {0} for {1}, got {2}",
                    problem.backward ? "keys" : "split_q or split_k",
                    problem.backward ? "backward" : "forward",
                    stringifyPartition(*p));
  else
    error = asked.check();
  return success(error.empty());
}

void Choice::explainAsked() {
  forEachScheduleField([&](auto field) {
    if (auto value = asked.*field.asked)
      reasons.push_back(
          formatv("{0} = {1} as asked", field.name, field.text(*value)));
  });
}

/// Fields that follow from the problem, the target or what is asked for.
void Choice::complete() {
  if (!asked.dq && problem.backward && target.hasVectorReductions()) {
    asked.dq = GradQ::AtomicV4;
    reasons.push_back("dq = atomic_v4: one reduction adds four elements");
  }
  ScheduleOverrides before = asked;
  if (!problem.backward)
    completeRows(asked, target);
  if (asked != before)
    reasons.push_back(formatv("block_q = {0} and warps = {1}: a warp takes 16 "
                              "rows",
                              *asked.blockQ, *asked.warps));
  if (!asked.order && problem.masked && !problem.backward) {
    asked.order = TileOrder::LongestFirst;
    reasons.push_back(
        "order = longest_first: the mask gives later queries more "
        "keys, so they start first");
  }
}

FailureOr<Selection> Choice::tryOut(const Schedule &schedule) {
  auto attr = schedule.toAttr(context, target.name(), error);
  if (failed(attr))
    return failure();
  return checkSchedule(target, problem, *attr, error);
}

/// Why another schedule may be better, or an empty string.
std::string Choice::flawOf(const Schedule &schedule,
                           const FailureOr<Selection> &tried) const {
  if (failed(tried))
    return error;
  if (!tried->warnings.empty())
    return tried->warnings.front();
  if (padsColumns(target, problem, schedule))
    return formatv("its warps split {0} and {1} columns only with padding",
                   problem.headDim, problem.headDimV);
  return "";
}

/// Whether the database has what serves. Where it has not, a reason says so.
bool Choice::tryMeasured() {
  if (!measured) {
    missing = "the database of measured schedules has none for it";
    return false;
  }
  // What follows from the problem is in the row already.
  ScheduleOverrides own = asked;
  if (!problem.backward)
    completeRows(own, target);
  Schedule schedule = withAsked(scheduleOf(*measured, target, problem), own);
  Candidate tried{tryOut(schedule),
                  formatv("schedule from the database for head dims {0} and "
                          "{1}: the best of {2} on {3}, {4}, {5}, {6}",
                          problem.headDim, problem.headDimV,
                          measured->candidates, measured->device,
                          measured->arch, measured->dtype, measured->date)};
  std::string flaw = flawOf(schedule, tried.selection);
  if (flaw.empty())
    chosen = std::move(tried);
  else
    missing = "the database's schedule does not serve: " + flaw;
  return flaw.empty();
}

bool Choice::tryTable() {
  bool first = true;
  for (const Schedule &tuned : target.tunedSchedules(problem)) {
    if (tryEntry(tuned, first))
      return true;
    first = false;
  }
  return false;
}

/// Whether an entry of the table serves. The first is kept where it does not:
/// it may still be the best there is.
bool Choice::tryEntry(const Schedule &tuned, bool first) {
  Schedule schedule = withAsked(tuned, asked);
  Candidate tried{tryOut(schedule),
                  formatv("schedule from {0}'s table for head dims {1} and {2}",
                          target.name(), problem.headDim, problem.headDimV)};
  if (!first)
    tried.source += ", for where its first does not serve: " + tableError;
  std::string flaw = flawOf(schedule, tried.selection);
  bool fits = succeeded(tried.selection) && tried.selection->warnings.empty();
  if (fits && !flaw.empty() && failed(padded.selection))
    padded = tried;
  if (first || flaw.empty()) {
    chosen = std::move(tried);
    tableError = flaw;
  }
  return flaw.empty();
}

/// Where the table does not serve, the rule may still find something that does.
/// Padding is work thrown away, and what spills is only better than nothing.
void Choice::applyRule() {
  auto ruled = ruleSchedule(target, problem, asked, Rule::Rows);
  if (!ruled && succeeded(padded.selection)) {
    chosen = std::move(padded);
    chosen.source += ", with padding so that warps split the columns";
    return;
  }
  if (!ruled && problem.backward)
    ruled = ruleSchedule(target, problem, asked, Rule::Columns);
  if (!ruled && failed(chosen.selection))
    ruled = ruleSchedule(target, problem, asked, Rule::Spilling);
  if (ruled)
    chosen = {tryOut(*ruled),
              "schedule by rule, the largest tile that fits, because the "
              "table's does not serve: " +
                  tableError};
}

FailureOr<Selection> Choice::run() {
  if (failed(checkAsked()))
    return failure();
  explainAsked();
  bool free = reasons.empty();
  bool serves = tryMeasured();
  if (!serves) {
    complete();
    serves = tryTable();
  }
  if (serves)
    chosen.selection->tuned = free;
  else
    applyRule();
  if (failed(chosen.selection)) {
    error = tableError;
    return failure();
  }
  Selection &selection = *chosen.selection;
  if (!missing.empty())
    reasons.insert(reasons.begin(), missing);
  reasons.insert(reasons.begin(), chosen.source);
  reasons.insert(reasons.end(), selection.reasons.begin(),
                 selection.reasons.end());
  selection.reasons = std::move(reasons);
  return chosen.selection;
}

FailureOr<Selection>
fa2::selectSchedule(MLIRContext *context, const Target &target,
                    const Problem &problem, const ScheduleOverrides &asked,
                    std::string &error, const ScheduleRow *measured) {
  return Choice(context, target, problem, asked, error, measured).run();
}

FailureOr<ScheduleAttr> fa2::gradQSchedule(MLIRContext *context,
                                           const Target &target,
                                           const Problem &problem,
                                           std::string &error) {
  auto table = target.gradQSchedule(problem);
  if (!table) {
    error = formatv("expected dq = atomic or atomic_v4 on {0}, which has no "
                    "kernel of dQ alone",
                    target.name());
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
