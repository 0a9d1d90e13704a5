//===- TileAttention.cpp - fa2-tile ---------------------------------------===//
//
// A function that is one fa2.attention becomes kernels over tiles: one for its
// schedule and each variant, and others beside one that loads tiles of what a
// program reads, for launches where the copy engine cannot bring them.
//
//===----------------------------------------------------------------------===//

#include "ForwardTiler.h"
#include "fa2/Schedule/Footprint.h"
#include "fa2/Target/Target.h"
#include "fa2/Transforms/Passes.h"
#include "fa2/Transforms/ProblemOf.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace fa2 {
#define GEN_PASS_DEF_TILEATTENTION
#include "fa2/Transforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;

namespace {

/// The same bits with rows of two warpgroups at most. Addresses of elements
/// take registers, of which their threads have more than those of three.
ScheduleAttr fewerRows(ScheduleAttr schedule) {
  Schedule fields = schedule.getFields();
  if (int64_t rows = 2 * kGroupRows; fields.blockQ > rows) {
    fields.warps = fields.warps * rows / fields.blockQ;
    fields.blockQ = rows;
  }
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// What leaves registers for addresses where a thread has many outputs: half of
/// the keys, where those are many too, and above 128 no guess of the maximum,
/// which there costs more than it saves. Neither gives the schedule's bits.
ScheduleAttr forAddresses(ScheduleAttr schedule, int64_t headDimV) {
  constexpr int64_t manyKeys = 128, manyOutputs = 128, fragment = 16;
  Schedule fields = schedule.getFields();
  if (fields.blockKV >= manyKeys && headDimV >= manyOutputs) {
    fields.blockKV = fields.blockKV / 2 / fragment * fragment;
    fields.stages *= 2;
    fields.slotsReads *= 2;
  }
  if (headDimV > manyOutputs)
    fields.speculateMax = 0;
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// The same without copies of tiles. Where those were there is room for an
/// output of its own, which takes fewer registers than one that goes straight
/// to memory, and shared memory is the bound no more, for which registers held
/// queries.
ScheduleAttr byElements(ScheduleAttr schedule, int64_t headDimV) {
  Schedule fields = forAddresses(fewerRows(schedule), headDimV).getFields();
  fields.slotsReads = fields.queriesInRegisters = 0;
  if (fields.directOutput) {
    fields.directOutput = false;
    fields.separateOutput = true;
  }
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// What schedules have in common that give the same bits with other rows.
ScheduleAttr withoutRows(ScheduleAttr schedule) {
  Schedule fields = schedule.getFields();
  fields.blockQ = fields.warps = 0;
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// For so many tiles of so many bytes of each read a block has room beside what
/// it has without them.
int64_t slotsWithRoom(const Target &target, const Problem &problem,
                      Schedule fields, int64_t bytes) {
  constexpr int64_t align = fa2::gpu::SharedLayout::kAlignment;
  fields.slotsReads = 0;
  int64_t room = target.limits().sharedBytesPerBlock - align -
                 footprint(target, problem, fields).sharedBytes;
  return std::max<int64_t>(
      room / (problem.tileReads * llvm::alignTo(bytes, align)), 0);
}

/// The same with tiles whose rows begin anywhere, as many in a ring as lie in
/// the place of the schedule's, or as the block of fewer rows has room for:
/// maybe none.
ScheduleAttr unaligned(const Problem &problem, ScheduleAttr schedule) {
  using fa2::gpu::SharedLayout;
  constexpr int64_t elementBytes = 2;
  Schedule fields =
      forAddresses(fewerRows(schedule), problem.headDimV).getFields();
  int64_t rows =
      SharedLayout::ofUnaligned(fields.blockQ, fields.blockKV, elementBytes)
          .pitch();
  int64_t boxes =
      SharedLayout(schedule.getBlockQ(), schedule.getBlockKv(), elementBytes)
          .pitch();
  int64_t slots = schedule.getSlotsReads() * boxes / rows;
  std::string error;
  if (const Target *target = lookupTarget(schedule.getTarget(), error);
      target && problem.tileReads > 0 && problem.wideReads == 0)
    slots = std::max(slots, slotsWithRoom(*target, problem, fields, rows));
  fields.slotsReads = std::min(fields.slotsReads, slots);
  // Before a turn is passed a slot is waited for that is released behind it.
  fields.pingPong &= fields.slotsReads > 1;
  // Addresses take the place of some of the queries beside so many outputs.
  if (constexpr int64_t manyOutputs = 128, mostQueries = 64;
      problem.headDimV > manyOutputs)
    fields.queriesInRegisters =
        std::min(fields.queriesInRegisters, mostQueries);
  return ScheduleAttr::get(schedule.getContext(), schedule.getTarget(), fields);
}

/// Writes the kernels of one operation.
class Kernels {
public:
  Kernels(func::FuncOp func, AttentionOp op, const Problem &problem,
          ForwardProgram &scores)
      : func(func), op(op), problem(problem), scores(scores) {
    if (!scores)
      return;
    tiles = copied = scores->program().loadsTiles();
    there = scores->program().loadsTiles(/*unaligned=*/true);
    if (scores.hasEntries())
      for (std::string *guard : {&copied, &there})
        *guard = guard->empty() ? scores.entriesFit()
                                : *guard + " && " + scores.entriesFit();
  }

  /// The kernel of a schedule, for launches where `when` holds (empty: always)
  /// and for parts of the rows besides.
  void add(ScheduleAttr schedule, const Twine &name, StringRef when,
           ArrayRef<Attribute> parts) {
    if (copied.empty() || !loads(schedule))
      return tile(name, schedule, Loads::None, when, parts);
    tile(name, schedule, Loads::Aligned, both(when, copied), /*parts=*/{},
         scores.hasEntries());
    Schedule fields = byElements(schedule, problem.headDimV).getFields();
    fields.querySlots = 1;
    auto alike =
        ScheduleAttr::get(op.getContext(), schedule.getTarget(), fields);
    for (Other &other : others)
      if (other.alike == alike) {
        other.when = llvm::formatv("({0}) || ({1})", other.when, when);
        return;
      }
    others.push_back({schedule, alike, name.str(), when.str()});
  }

  /// Beside those that load tiles of what the program reads others: for where
  /// rows begin anywhere, for a table that shared memory does not hold, and for
  /// where nothing can be copied. They are shared by schedules that differ in
  /// nothing of theirs, the last by all, whatever rows they have.
  void addOthers() {
    SmallVector<Other> last;
    for (const Other &other : others) {
      std::string when = both(other.when, "!(" + copied + ")");
      if (ScheduleAttr fewer = unaligned(problem, other.schedule);
          there != copied && fewer.getSlotsReads() > 0) {
        tile(other.name + "_unaligned", fewer, Loads::Unaligned,
             when + " && " + there, /*parts=*/{}, scores.hasEntries());
        when += " && !(" + there + ")";
      }
      if (scores.hasEntries() && !tiles.empty()) {
        tile(other.name + "_large", fewerRows(other.schedule), Loads::Aligned,
             when + " && " + tiles);
        when += " && !(" + tiles + ")";
      }
      ScheduleAttr alike = withoutRows(other.alike);
      auto same =
          llvm::find_if(last, [&](const Other &l) { return l.alike == alike; });
      if (same == last.end()) {
        last.push_back({other.schedule, alike, other.name, when});
        continue;
      }
      same->when = llvm::formatv("({0}) || ({1})", same->when, when);
      if (other.schedule.getBlockQ() > same->schedule.getBlockQ())
        same->schedule = other.schedule;
    }
    for (const Other &other : last)
      tile(other.name + "_elements",
           byElements(other.schedule, problem.headDimV), Loads::None,
           other.when);
  }

private:
  using Loads = ScorePlace::Loads;
  struct Other {
    ScheduleAttr schedule, alike;
    std::string name, when;
  };

  /// Whether a kernel loads what a program reads: tiles, or a table. The rows
  /// of packed heads are not one after the other, and of several heads.
  bool loads(ScheduleAttr schedule) const {
    return schedule.getPackedHeads() == 1 &&
           (schedule.getSlotsReads() > 0 || tiles.empty());
  }

  static std::string both(StringRef when, const std::string &also) {
    return when.empty() ? also
                        : llvm::formatv("({0}) && {1}", when, also).str();
  }

  void tile(const Twine &name, ScheduleAttr schedule, Loads loads,
            StringRef guard, ArrayRef<Attribute> parts = {},
            bool loadsTable = false) {
    MLIRContext *ctx = op.getContext();
    ForwardTiler(func, op, schedule, scores, loads, loadsTable)
        .run(name, guard.empty() ? GuardAttr() : GuardAttr::get(ctx, guard),
             parts.empty() ? ArrayAttr() : ArrayAttr::get(ctx, parts));
  }

  func::FuncOp func;
  AttentionOp op;
  const Problem &problem;
  ForwardProgram &scores;
  // Where tiles are aligned, and a table fits besides; and where it does and
  // tiles may be unaligned.
  std::string tiles, copied, there;
  SmallVector<Other> others;
};

/// What is launched when: a schedule's kernel.
struct Launched {
  ScheduleAttr schedule;
  std::string name, when;
  SmallVector<Attribute> parts;
};

/// The schedule's and one for each variant; those that share the rows of a
/// launch one behind the other, the schedule's first.
SmallVector<Launched> launchedKernels(AttentionOp op, StringRef name,
                                      ArrayRef<VariantAttr> variants) {
  MLIRContext *ctx = op.getContext();
  GuardedVariants guarded(variants);
  SmallVector<Launched> all{
      {op.getScheduleAttr(), name.str(), guarded.otherwise, {}}};
  auto add = [&](size_t i, StringRef when) -> Launched & {
    return all.emplace_back(Launched{variants[i].getSchedule(),
                                     (name + "_variant" + Twine(i + 1)).str(),
                                     when.str(),
                                     {}});
  };
  for (size_t i = 0; i < variants.size(); ++i)
    if (!variants[i].getAfter())
      add(i, guarded.when[i]);
  for (size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i].getAfter())
      continue;
    StringRef after = variants[i].getAfter().getExpression();
    auto when = GuardAttr::get(ctx, guarded.when[i]);
    auto rows = [&](const Twine &from, const Twine &count) {
      return RowsAttr::get(ctx, when, GuardAttr::get(ctx, from.str()),
                           GuardAttr::get(ctx, count.str()));
    };
    all.front().parts.push_back(rows("0", after));
    auto rest = llvm::find_if(llvm::drop_begin(all), [&](const Launched &l) {
      return l.schedule == variants[i].getSchedule();
    });
    Launched &taken = rest == all.end() ? add(i, "0") : *rest;
    taken.parts.push_back(rows(after, "seqlen_q - (" + after + ")"));
  }
  std::stable_partition(all.begin() + 1, all.end(),
                        [](const Launched &l) { return !l.parts.empty(); });
  return all;
}

/// Where a kernel runs that takes what scores begin with from a vector, in
/// launches where `when` holds: rows of packed heads read it by elements.
/// Empty: always.
GuardAttr whenVectors(MLIRContext *ctx, ArrayRef<Launched> launched,
                      std::string when = "") {
  SmallVector<std::string> packed;
  for (const Launched &l : launched)
    if (l.schedule.getPackedHeads() > 1)
      packed.push_back("(" + l.when + ")");
  if (!packed.empty())
    when += (when.empty() ? "!(" : " && !(") + llvm::join(packed, " || ") + ")";
  return when.empty() ? GuardAttr() : GuardAttr::get(ctx, when);
}

/// A kernel for the schedule and one for each variant.
LogicalResult tileAttention(func::FuncOp func, AttentionOp op) {
  SmallVector<VariantAttr> variants;
  if (ArrayAttr attrs = op.getVariantsAttr())
    llvm::append_range(variants, attrs.getAsRange<VariantAttr>());
  StringRef name = func.getName();
  SmallVector<ScheduleAttr> schedules{op.getScheduleAttr()};
  for (VariantAttr variant : variants)
    schedules.push_back(variant.getSchedule());
  ForwardProgram scores(op, schedules);
  if (schedules[0].getPreloadTerms() && !scores.start())
    return op.emitOpError() << "expected preload_terms = false where a score "
                               "program does not add terms of keys, of "
                               "distances, or of entries of a table, and "
                               "nothing else";
  if (schedules[0].getTermsRole() && !scores.byRoles())
    return op.emitOpError() << "expected terms_role = false but where products "
                               "of scores begin with what a score program adds "
                               "for a key or a distance (preload_terms)";
  if (scores.hasColumns())
    ForwardTiler(func, op, schedules[0], scores).runColumns(name);
  SmallVector<Launched> launched = launchedKernels(op, name, variants);
  if (scores.hasDistances())
    ForwardTiler(func, op, schedules[0], scores)
        .runDistances(name, whenVectors(op.getContext(), launched));
  if (scores.hasEntries())
    ForwardTiler(func, op, schedules[0], scores)
        .runEntries(
            name, whenVectors(op.getContext(), launched, scores.entriesFit()));
  FailureOr<Problem> problem = problemOf(op);
  if (failed(problem))
    return failure();
  Kernels kernels(func, op, *problem, scores);
  for (const Launched &each : launched)
    kernels.add(each.schedule, each.name, each.when, each.parts);
  kernels.addOthers();
  return success();
}

struct TileAttentionPass
    : public fa2::impl::TileAttentionBase<TileAttentionPass> {
  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops) {
      SmallVector<Value> inputs{op.getQ(), op.getK(), op.getV()};
      if (op.getScale())
        inputs.push_back(op.getScale());
      if (op.getSink())
        inputs.push_back(op.getSink());
      if (op.getDropout())
        inputs.append({op.getDropout(), op.getRng()});
      llvm::append_range(inputs, op.getExtras());
      auto func = functionOf(op, inputs, "q, k, v");
      if (failed(func))
        return signalPassFailure();
      if (!op.getSchedule()) {
        op.emitOpError() << "expected a schedule; run fa2-select-schedule";
        return signalPassFailure();
      }
      if (!op.getScore().empty() && (failed(programOf(op).check()) ||
                                     failed(programOf(op).checkReadsScore())))
        return signalPassFailure();
      if (failed(tileAttention(*func, op)))
        return signalPassFailure();
      func->erase();
    }
  }
};

} // namespace
