//===- Schedule.cpp - footprint, check and choice of schedules ------------===//

#include "fa2/Target/Schedule.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <tuple>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

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

int64_t fa2::maxSlack(mlir::Type dtype) { return dtype.isBF16() ? 60 : 15; }

/// Whether a warpgroup in its turn would wait for keys whose slot one that
/// skips tiles frees in a later turn (fa2gpu-verify finds it in any kernel).
static bool turnsBlock(const Schedule &s) {
  return s.stages < 2 && s.overlap && s.pingPong && s.groupLimits &&
         s.blockQ > kGroupRows;
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

//===----------------------------------------------------------------------===//
// Check
//===----------------------------------------------------------------------===//

static std::string scratchText(const Footprint &f) {
  return f.scratchBytes ? formatv(", split-K scratch {0}", f.scratchBytes).str()
                        : "";
}

/// Registers a multiplying thread may have.
static int64_t budgetOf(const Target &t, const Footprint &f,
                        const Schedule &s) {
  return t.hasRoles() ? t.roleRegisters(s.warps).consumer
                      : t.registerBudget(f.threads, s.minBlocks);
}

std::string fa2::describeShared(const Problem &p, const Schedule &s,
                                const Footprint &f) {
  const char *ending = s.stages == 1 ? "" : "s";
  if (p.backward)
    return formatv("keys and values {0}, {1} stage{2} of queries and dO {3}, "
                   "exchange of dS {4}",
                   f.queryBytes, s.stages, ending, f.ringBytes,
                   f.exchangeBytes);
  return formatv("queries {0}, {1} stage{2} of keys and values {3}, output "
                 "{4}{5}",
                 f.queryBytes, s.stages, ending, f.ringBytes, f.outputBytes,
                 scratchText(f));
}

static std::string fitError(const Target &t, const Problem &p,
                            const Schedule &s, const Footprint &f) {
  if (s.dq == GradQ::AtomicV4 && !t.hasVectorReductions())
    return formatv("expected dq = atomic or recompute on {0}, whose reductions "
                   "add one element; got dq = atomic_v4",
                   t.name());
  if (t.hasRoles() && (s.warps % 4 != 0 || s.blockQ != 16 * s.warps))
    return formatv("expected warps to be a multiple of 4 and block_q to be 16 "
                   "* warps on {0}, whose matmuls take 64 rows of four warps; "
                   "got warps = {1} and block_q = {2}",
                   t.name(), s.warps, s.blockQ);
  if (t.hasRoles() && (s.partition != Partition::SplitQ || s.qInRegisters))
    return formatv("expected partition = split_q and q_in_registers = false on "
                   "{0}",
                   t.name());
  // The output takes the place of one tile of queries.
  if (int64_t place = f.queryBytes / s.querySlots;
      t.hasRoles() && !s.separateOutput && f.outputBytes > place)
    return formatv("expected separate_output because the output of {0} bytes "
                   "does not fit the {1} bytes of the queries",
                   f.outputBytes, place);
  if (s.querySlots > 1 && !s.persistent)
    return formatv("expected query_slots = 1 without persistent, whose blocks "
                   "have one tile of queries; got {0}",
                   s.querySlots);
  for (auto [name, slack] : {std::pair{"lazy_rescale", s.lazyRescale},
                             {"speculate_max", s.speculateMax}})
    if (slack > p.maxSlack)
      return formatv("expected {0} to be at most {1}, the powers of two that "
                     "probabilities of this element type may reach; got {2}",
                     name, p.maxSlack, slack);
  if (s.speculateMax > 0 && !s.overlap)
    return formatv("expected speculate_max = 0 without overlap, got {0}",
                   s.speculateMax);
  if (turnsBlock(s))
    return formatv("expected stages to be at least 2 with overlap, ping_pong "
                   "and group_limits, whose warpgroups would wait for each "
                   "other; got {0}",
                   s.stages);
  if (!t.hasRoles() &&
      (s.overlap || s.pingPong || s.persistent || s.separateOutput ||
       s.groupLimits || s.speculateMax || s.packedHeads > 1))
    return formatv("expected overlap, ping_pong, persistent, separate_output, "
                   "group_limits, speculate_max and packed_heads to be off on "
                   "{0}, which has no roles",
                   t.name());
  if (f.threads > t.limits().threadsPerBlock)
    return formatv("the schedule has {0} threads a block of {1} that {2} "
                   "allows; lower warps",
                   f.threads, t.limits().threadsPerBlock, t.name());
  if (f.sharedBytes() > t.limits().sharedBytesPerBlock)
    return formatv("the schedule needs {0} bytes of shared memory of {1} that "
                   "{2} allows a block ({3}); lower "
                   "block_q = {4}, block_kv = {5} or stages = {6}",
                   f.sharedBytes(), t.limits().sharedBytesPerBlock, t.name(),
                   describeShared(p, s, f), s.blockQ, s.blockKV, s.stages);
  // ptxas C7602: an instruction's accumulators, and 32 registers beside them,
  // must fit what a thread has at entry, before roles share out registers.
  int64_t entry = t.registerBudget(f.threads, 1) / 8 * 8;
  if (int64_t widest = std::max(p.headDimV, s.blockKV);
      t.hasRoles() && widest / 2 + 32 > entry)
    return formatv("expected {0} to be at most {1} with {2} threads a block, "
                   "whose {3} registers a thread must hold a matmul's "
                   "accumulators; got {4}; the nearest with it is block_q = "
                   "{5}",
                   s.blockKV == widest ? "block_kv" : "head_dim_v",
                   (entry - 32) * 2, f.threads, entry, widest,
                   s.blockQ - kGroupRows);
  // Matmuls in flight cannot be spilled: ptxas runs them one by one (C7512).
  if (int64_t budget = budgetOf(t, f, s);
      t.hasRoles() && f.registers() > budget)
    return formatv("expected block_kv = {0} and warps = {1} to want at most "
                   "{2} registers a thread, because matmuls in flight cannot "
                   "be spilled; got about {3}; lower either",
                   s.blockKV, s.warps, budget, f.registers());
  return "";
}

static void explainFootprint(const Target &t, const Problem &p,
                             const Schedule &s, Selection &sel) {
  const Footprint &f = sel.footprint;
  int64_t budget = budgetOf(t, f, s);
  sel.blocksPerMultiprocessor =
      std::max<int64_t>(1, t.blocksPerMultiprocessor(f));
  sel.reasons.push_back(formatv("shared memory: {0} of {1} bytes a block ({2})",
                                f.sharedBytes(), t.limits().sharedBytesPerBlock,
                                describeShared(p, s, f)));
  sel.reasons.push_back(
      formatv("registers: about {0} of {1} a thread (accumulator {2}, scores "
              "{3}, queries {4}, other {5})",
              f.registers(), budget, f.accumulatorRegisters, f.scoreRegisters,
              f.queryRegisters, f.otherRegisters));
  sel.reasons.push_back(
      formatv("{0} threads a block, about {1} block{2} a multiprocessor",
              f.threads, sel.blocksPerMultiprocessor,
              sel.blocksPerMultiprocessor == 1 ? "" : "s"));
  if (f.registers() > budget)
    sel.warnings.push_back(
        formatv("about {0} registers a thread are wanted of {1}: the kernel "
                "will probably spill",
                f.registers(), budget));
}

static std::string noBackwardError(const Target &t) {
  return formatv("backward kernels are not generated for {0}; the nearest "
                 "supported is sm_{1}, whose code runs on it",
                 t.name(), t.computeCapability());
}

FailureOr<Selection> fa2::checkSchedule(const Target &target,
                                        const Problem &problem,
                                        ScheduleAttr attr, std::string &error) {
  if (problem.backward && !target.gradQSchedule(problem)) {
    error = noBackwardError(target);
    return failure();
  }
  Schedule s = Schedule::fromAttr(attr);
  Selection sel;
  sel.schedule = attr;
  sel.footprint = footprint(target, problem, s);
  if (problem.backward != (s.partition == Partition::Keys)) {
    error = formatv("the schedule's partition is {0}; {1} takes {2}",
                    stringifyPartition(s.partition),
                    problem.backward ? "backward" : "forward",
                    problem.backward ? "keys" : "split_q or split_k");
    return failure();
  }
  error = fitError(target, problem, s, sel.footprint);
  if (!error.empty())
    return failure();
  explainFootprint(target, problem, s, sel);
  return sel;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static bool isWhole(const Target &t, const Schedule &s) {
  if (t.hasRoles())
    return s.blockQ == 16 * s.warps && s.warps % 4 == 0 && !s.qInRegisters;
  if (s.partition == Partition::Keys) {
    int64_t along = s.keyWarps ? s.keyWarps : s.warps;
    int64_t rows = s.dqWarps ? s.dqWarps : 1;
    return along > 0 && rows > 0 && s.warps % along == 0 &&
           s.warps % rows == 0 && s.blockKV % (16 * along) == 0 &&
           s.blockQ % (16 * rows) == 0 &&
           s.blockQ % (16 * (s.warps / along)) == 0 &&
           (s.blockQ & (s.blockQ - 1)) == 0;
  }
  int64_t split = s.partition == Partition::SplitQ ? s.blockQ : s.blockKV;
  return split % (16 * s.warps) == 0;
}

namespace {
/// What the rule may try. Splitting columns costs an exchange through shared
/// memory, so rows alone come first; past both, what spills least is better
/// than nothing.
enum class Rule { Rows, Columns, Spilling };
} // namespace

/// What a warp of backward reads of shared memory for the products with dK and
/// dV: least where its parts of them are square.
static int64_t edgeOfGradKV(const Problem &p, const Schedule &s) {
  int64_t along = s.keyWarps ? s.keyWarps : s.warps, across = s.warps / along;
  return 2 * s.blockKV / along + gpu::columnsPerPart(p.headDim, across) +
         gpu::columnsPerPart(p.headDimV, across);
}

/// The rule: of all schedules that fit shared memory and registers, the one
/// with the largest tile; then the one with most stages; then, of those that
/// split columns, the squarest parts; then by the target's choice of warps;
/// then queries in registers.
static std::optional<Schedule> ruleSchedule(const Target &t, const Problem &p,
                                            const ScheduleOverrides &asked,
                                            Rule rule) {
  auto choices = [](std::optional<int64_t> value,
                    llvm::ArrayRef<int64_t> otherwise) {
    return value ? llvm::SmallVector<int64_t>{*value}
                 : llvm::to_vector(otherwise);
  };
  static constexpr int64_t all[] = {192, 128, 112, 96, 80, 64, 48, 32, 16};
  llvm::ArrayRef<int64_t> rows = all;
  if (!t.hasRoles())
    rows = rows.drop_front();
  static constexpr int64_t stages[] = {2, 1};
  static constexpr int64_t splits[] = {0, 8, 4, 2, 1};
  bool columns = p.backward && rule != Rule::Rows;
  auto warps = choices(asked.warps, t.warpChoices());
  auto keyWarps =
      choices(asked.keyWarps, llvm::ArrayRef(splits, columns ? 5 : 1));
  std::optional<Schedule> best;
  auto rank = [&](const Schedule &s) {
    Footprint f = footprint(t, p, s);
    int64_t spilled = std::max<int64_t>(f.registers() - budgetOf(t, f, s), 0);
    // Square tiles move the fewest bytes a product.
    return std::tuple(-spilled, s.blockQ * s.blockKV,
                      std::min(s.blockQ, s.blockKV), s.blockQ, s.stages,
                      columns ? -edgeOfGradKV(p, s) : 0);
  };
  auto consider = [&](Schedule s) {
    if (p.backward) {
      s.partition = Partition::Keys;
      s.qInRegisters = false;
      s.lazyRescale = 0;
    }
    s = asked.applyTo(s);
    if (s.warps < 1 || !isWhole(t, s) || (!columns && padsColumns(p, s)))
      return;
    Footprint f = footprint(t, p, s);
    if (!fitError(t, p, s, f).empty() ||
        (rule != Rule::Spilling && f.registers() > budgetOf(t, f, s)))
      return;
    if (!best || rank(s) > rank(*best))
      best = s;
  };
  for (int64_t w : warps)
    for (int64_t q : choices(asked.blockQ, rows))
      for (int64_t kv : choices(asked.blockKV, rows))
        for (int64_t st : choices(asked.stages, stages))
          for (int64_t along : keyWarps)
            for (bool inRegisters : {true, false}) {
              Schedule s = t.ruleBase(p);
              s.blockQ = q;
              s.blockKV = kv;
              s.warps = w;
              s.stages = st;
              s.keyWarps = along;
              s.qInRegisters = inRegisters;
              consider(s);
            }
  return best;
}

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
