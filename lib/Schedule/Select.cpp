//===- Select.cpp - the choice of a schedule ---------------------------===//

#include "Asked.h"
#include "Check.h"
#include "Rule.h"
#include "Table.h"

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
    std::string source; // "database", "table" or "rule"
    std::string reason;
    Decision::Metrics metrics;
  };

  LogicalResult checkAsked();
  void explainAsked();
  void complete();
  FailureOr<Selection> tryOut(const Schedule &schedule);
  bool tryMeasured();
  bool tryTable();
  bool tryEntry(const Schedule &tuned, bool first);
  Schedule askedOf(Schedule schedule) const;
  std::string flawOf(const Schedule &schedule,
                     const FailureOr<Selection> &tried,
                     bool paddingCounts = true) const;
  void applyRule();
  void takeDeterministic();
  void orderSums();

  MLIRContext *context;
  const Target &target;
  const Problem &problem;
  ScheduleOverrides asked;
  std::string &error;
  const ScheduleRow *measured;
  void drop(StringRef source, std::string why, const Schedule &schedule);
  void passed(StringRef name, std::string reason,
              Decision::Metrics metrics = {});

  /// Why the fields are what they are, and the candidates that were dropped.
  std::vector<Decision> reasons;
  std::vector<std::pair<Schedule, Decision>> dropped;
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
  if (p && problem.backward != (*p == Partition::Keys))
    error = formatv("expected partition {0} for {1}, got {2}",
                    problem.backward ? "keys" : "split_q or split_k",
                    problem.backward ? "backward" : "forward",
                    stringifyPartition(*p));
  else
    error = asked.check();
  return success(error.empty());
}

void Choice::passed(StringRef name, std::string reason,
                    Decision::Metrics metrics) {
  reasons.push_back({Decision::Kind::Passed, name.str(), std::move(reason),
                     std::move(metrics), ""});
}

void Choice::explainAsked() {
  forEachScheduleField([&](auto field) {
    if (auto value = asked.*field.asked)
      passed("field",
             formatv("{0} = {1} as asked", field.name, field.text(*value)),
             {{field.name.str(), field.text(*value)}});
  });
}

/// Fields that follow from the problem, the target or what is asked for.
void Choice::complete() {
  ScheduleOverrides before = asked;
  completeRows(asked, target, problem);
  if (asked != before)
    passed("field",
           formatv("block_q = {0} and warps = {1}: a warp takes 16 rows",
                   *asked.blockQ, *asked.warps),
           {{"block_q", std::to_string(*asked.blockQ)},
            {"warps", std::to_string(*asked.warps)}});
  // Of backward the table says it, but for what reads tiles on targets whose
  // blocks have roles.
  bool longest = problem.masked, roles = target.producerWarps() > 0;
  bool says = problem.backward ? problem.tileReads && roles
                               : longest || problem.tileReads;
  if (asked.order || !says)
    return;
  bool persistent = asked.persistent.value_or(roles);
  asked.order = !problem.tileReads ? longestFirst(problem, persistent)
                : longest          ? TileOrder::LongestBatchesAbreast
                                   : TileOrder::BatchesAbreast;
  StringRef name = stringifyTileOrder(*asked.order);
  passed("field",
         formatv("order = {0}: {1}{2}{3}", name,
                 !longest           ? ""
                 : problem.backward ? "the mask gives earlier keys more "
                                      "queries, so they start first"
                                    : "the mask gives later queries more keys, "
                                      "so they start first",
                 longest && problem.tileReads ? "; " : "",
                 problem.tileReads ? "of a tile that all entries of the batch "
                                     "share, one is read"
                                   : ""),
         {{"order", name.str()}});
}

/// Of what gives gradients the same bits in each run, the faster.
void Choice::takeDeterministic() {
  if (asked.dq != GradQ::Deterministic)
    return;
  asked.dq.reset();
  if (!problem.backward)
    return;
  ScheduleOverrides table = tableDeterministic(target, problem);
  forEachScheduleField([&](auto field) {
    if (asked.*field.asked || !(table.*field.asked))
      return;
    auto value = *(table.*field.asked);
    asked.*field.asked = value;
    passed("field",
           formatv("{0} = {1}, by which deterministic gradients are the "
                   "fastest",
                   field.name, field.text(value)),
           {{field.name.str(), field.text(value)}});
  });
}

/// Sums in one order have a block of keys wait for those whose blocks start
/// before. One that starts with the first queries that see its keys finds that
/// those which lie behind have added to them: they start first.
void Choice::orderSums() {
  if (asked.dq != GradQ::Ordered || asked.order || !problem.masked)
    return;
  asked.order = TileOrder::ShortestFirst;
  passed("field",
         "order = shortest_first: the last keys are seen by the fewest "
         "queries, and no block waits for one that has more of them",
         {{"order", "shortest_first"}});
}

FailureOr<Selection> Choice::tryOut(const Schedule &schedule) {
  auto attr = schedule.toAttr(context, target.name(), error);
  if (failed(attr))
    return failure();
  return checkSchedule(target, problem, *attr, error);
}

/// Why another schedule may be better, or an empty string.
std::string Choice::flawOf(const Schedule &schedule,
                           const FailureOr<Selection> &tried,
                           bool paddingCounts) const {
  if (failed(tried))
    return error;
  if (!tried->warnings.empty())
    return tried->warnings.front();
  if (paddingCounts && padsColumns(target, problem, schedule))
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
  // Rings and the order are those of blocks in so many, or alone.
  if (asked.cluster && *asked.cluster != measured->schedule.cluster) {
    missing = formatv("the database's schedule has cluster = {0}",
                      measured->schedule.cluster);
    return false;
  }
  // What follows from the problem is in the row already.
  ScheduleOverrides own = asked;
  completeRows(own, target, problem);
  Schedule row = scheduleOf(*measured, target, problem);
  Schedule schedule = withAsked(row, own);
  Candidate tried{tryOut(schedule),
                  "database",
                  formatv("schedule from the database for head dims {0} and "
                          "{1}{2}: the best of {3} on {4}, {5}, {6}, {7}",
                          problem.headDim, problem.headDimV,
                          measured->problem.program == problem.program
                              ? ""
                              : " without a program",
                          measured->candidates, measured->device,
                          measured->arch, measured->dtype, measured->date),
                  {{"Candidates", std::to_string(measured->candidates)},
                   {"Device", measured->device},
                   {"Date", measured->date}}};
  // What padding costs was measured.
  std::string flaw = flawOf(schedule, tried.selection, schedule != row);
  if (flaw.empty()) {
    chosen = std::move(tried);
    chosen.selection->measuredVariants = variantsOf(*measured, problem);
  } else
    missing = "the database's schedule does not serve: " + flaw;
  return flaw.empty();
}

/// A candidate that has a flaw.
void Choice::drop(StringRef source, std::string why, const Schedule &schedule) {
  Decision decision{Decision::Kind::Missed, source.str(), "dropped", {}, ""};
  forEachScheduleField([&](auto field) {
    if (field.shown != FieldShown::Always)
      return;
    std::string value = field.text(schedule.*field.member);
    decision.reason +=
        formatv("{0} {1} = {2}", decision.metrics.empty() ? "" : ",",
                field.name, value);
    decision.metrics.push_back({field.name.str(), value});
  });
  decision.reason += " " + why;
  dropped.push_back({schedule, std::move(decision)});
}

/// An entry's rings and order are those of blocks in so many, or alone: what is
/// asked for is, where an entry has it.
bool Choice::tryTable() {
  bool first = true;
  std::vector<Schedule> entries = tableSchedules(target, problem);
  llvm::stable_sort(entries, [&](const Schedule &a, const Schedule &b) {
    int64_t blocks = asked.cluster.value_or(0);
    return a.cluster == blocks && b.cluster != blocks;
  });
  for (const Schedule &tuned : entries) {
    if (tryEntry(tuned, first))
      return true;
    first = false;
  }
  return false;
}

/// What is asked for in a schedule of a table. That of the sm_80 family has the
/// reductions of its oldest target; later ones have better.
Schedule Choice::askedOf(Schedule schedule) const {
  if (schedule.dq == GradQ::Atomic && problem.backward &&
      !target.asynchronousMatmul() && target.hasVectorReductions())
    schedule.dq = GradQ::AtomicV4;
  return withAsked(schedule, asked);
}

/// Whether an entry of the table serves. The first is kept where it does not:
/// it may still be the best there is.
bool Choice::tryEntry(const Schedule &tuned, bool first) {
  Schedule schedule = askedOf(tuned);
  Candidate tried{tryOut(schedule),
                  "table",
                  formatv("schedule from {0}'s table for head dims {1} and {2}",
                          target.name(), problem.headDim, problem.headDimV),
                  {}};
  if (!first)
    tried.reason += ", for where its first does not serve: " + tableError;
  std::string flaw = flawOf(schedule, tried.selection);
  if (!flaw.empty())
    drop("table", "of the table: " + flaw, schedule);
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
  if (!asked.dq)
    asked.dq = askedOf(target.ruleBase(problem)).dq;
  auto ruled = ruleSchedule(target, problem, asked, Rule::Rows);
  if (!ruled && succeeded(padded.selection)) {
    chosen = std::move(padded);
    chosen.reason += ", with padding so that warps split the columns";
    return;
  }
  if (!ruled && problem.backward)
    ruled = ruleSchedule(target, problem, asked, Rule::Columns);
  if (!ruled && failed(chosen.selection))
    ruled = ruleSchedule(target, problem, asked, Rule::Spilling);
  if (ruled)
    chosen = {tryOut(*ruled),
              "rule",
              "schedule by rule, the largest tile that fits, because the "
              "table's does not serve: " +
                  tableError,
              {}};
}

FailureOr<Selection> Choice::run() {
  if (failed(checkAsked()))
    return failure();
  explainAsked();
  bool free = reasons.empty(), dqAsked = asked.dq.has_value();
  bool deterministic = problem.backward && reasons.size() == 1 &&
                       asked.dq == GradQ::Deterministic;
  takeDeterministic();
  orderSums();
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
  selection.deterministic = deterministic;
  if (chosen.source != "database" && !dqAsked &&
      selection.schedule.getDq() == GradQ::AtomicV4)
    passed("field", "dq = atomic_v4: one reduction adds four elements",
           {{"dq", "atomic_v4"}});
  std::vector<Decision> all;
  all.push_back({Decision::Kind::Passed, chosen.source, chosen.reason,
                 chosen.metrics, ""});
  if (!missing.empty())
    all.push_back({Decision::Kind::Missed,
                   "database",
                   missing,
                   {},
                   "fa2-tune measures schedules on a GPU"});
  // One that has a flaw is taken where nothing is better.
  for (auto &[schedule, decision] : dropped)
    if (schedule != selection.schedule.getFields())
      all.push_back(std::move(decision));
  for (auto *list : {&reasons, &selection.reasons})
    all.insert(all.end(), list->begin(), list->end());
  selection.reasons = std::move(all);
  return chosen.selection;
}

FailureOr<Selection>
fa2::selectSchedule(MLIRContext *context, const Target &target,
                    const Problem &problem, const ScheduleOverrides &asked,
                    std::string &error, const ScheduleRow *measured) {
  return Choice(context, target, problem, asked, error, measured).run();
}
