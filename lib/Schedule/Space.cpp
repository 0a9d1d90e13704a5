//===- Space.cpp - every schedule that a kernel may have ------------------===//

#include "fa2/Schedule/Space.h"
#include "Asked.h"
#include "Check.h"
#include "Rule.h"
#include "Table.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <functional>
#include <map>
#include <unordered_set>

using namespace fa2;
using llvm::StringRef;

std::string fa2::fieldsText(const Schedule &schedule) {
  std::string text;
  forEachScheduleField([&](auto field) {
    text += (text.empty() ? "" : ",") + (field.name + "=").str() +
            field.text(schedule.*field.member);
  });
  return text;
}

std::string fa2::bitsText(const Schedule &schedule) {
  std::string text;
  for (const auto &[name, value] : fieldsOfBits(schedule))
    text += (text.empty() ? "" : ",") + (name + "=" + value).str();
  return text;
}

namespace {
/// The values of each field that are worth a candidate.
class Values {
public:
  Values(const Target &target, const Problem &problem,
         const ScheduleOverrides &asked)
      : target(target), problem(problem), asked(asked) {
    auto table = tableSchedules(target, problem);
    if (!table.empty())
      today = table.front();
  }

  template <typename T> std::vector<T> of(const ScheduleField<T> &field) const {
    if (auto value = asked.*field.asked)
      return {*value};
    if (!applies(field.group))
      return {Schedule().*field.member};
    if constexpr (std::is_same_v<T, bool>)
      return flags(field);
    else if constexpr (std::is_same_v<T, int64_t>)
      return numbers(field);
    else
      return withTodays(field, names(field));
  }

private:
  bool applies(FieldGroup group) const {
    switch (group) {
    case FieldGroup::Every:
      return true;
    case FieldGroup::AnyRoles:
      return target.producerWarps() > 0;
    case FieldGroup::Roles:
      return target.producerWarps() > 0 && !problem.backward;
    case FieldGroup::Gradient:
      return problem.backward;
    case FieldGroup::GradientRoles:
      return problem.backward && target.producerWarps() > 0;
    }
    return false;
  }

  /// What the table has is a candidate, whatever else is.
  template <typename T>
  std::vector<T> withTodays(const ScheduleField<T> &field,
                            std::vector<T> all) const {
    if (!llvm::is_contained(all, today.*field.member))
      all.push_back(today.*field.member);
    return all;
  }

  std::vector<bool> flags(const ScheduleField<bool> &field) const {
    if (field.member == &Schedule::qInRegisters && problem.backward &&
        !target.asynchronousMatmul())
      return {false};
    if (field.member == &Schedule::roundedP) // it costs accuracy
      return {false};
    if (field.member == &Schedule::preloadTerms && !problem.hasTerms())
      return {false};
    // They are measured by themselves.
    if (field.member == &Schedule::directOutput ||
        field.member == &Schedule::fromEnd ||
        field.member == &Schedule::splitScores ||
        field.member == &Schedule::termsRole ||
        field.member == &Schedule::turnsFinish ||
        field.member == &Schedule::turnsResume ||
        field.member == &Schedule::joinLoops ||
        field.member == &Schedule::storesHidden ||
        field.member == &Schedule::dqRole ||
        field.member == &Schedule::roleProducts ||
        field.member == &Schedule::polynomialExp2)
      return {today.*field.member};
    // Backward's blocks are persistent where lengths are short: variants. Its
    // warpgroups' limits are measured by themselves.
    if (problem.backward && (field.member == &Schedule::persistent ||
                             field.member == &Schedule::separateOutput ||
                             field.member == &Schedule::groupLimits))
      return {today.*field.member};
    return {false, true};
  }

  /// What a user asks for because of what it means, not of its speed, and what
  /// one problem has no choice of, stays as it is.
  std::vector<Partition> names(const ScheduleField<Partition> &) const {
    if (problem.backward)
      return {Partition::Keys};
    return {Partition::SplitQ, Partition::SplitK};
  }
  std::vector<GradQ> names(const ScheduleField<GradQ> &) const {
    std::vector<GradQ> all{GradQ::Atomic, GradQ::AtomicV4};
    // Up to 128 columns additions cost less than two more products.
    if (target.producerWarps() > 0 && !problem.storesScores &&
        std::max(problem.headDim, problem.headDimV) > 128)
      all.push_back(GradQ::Recompute);
    return all;
  }
  std::vector<TileOrder> names(const ScheduleField<TileOrder> &) const {
    if (!problem.masked)
      return {TileOrder::Ascending};
    bool persistent = !problem.backward && target.producerWarps() > 0;
    return {TileOrder::Ascending, longestFirst(problem, persistent)};
  }
  std::vector<Preload> names(const ScheduleField<Preload> &) const {
    if (!problem.backward || problem.slope)
      return {Preload::Delta};
    return {Preload::Delta, Preload::None, Preload::Both};
  }
  std::vector<TurnChange> names(const ScheduleField<TurnChange> &) const {
    return {today.turns};
  }
  /// What happens between kernels, and in caches, is measured by itself.
  std::vector<Chain> names(const ScheduleField<Chain> &) const {
    return {today.chained};
  }
  std::vector<CacheHint> names(const ScheduleField<CacheHint> &field) const {
    return {today.*field.member};
  }
  std::vector<LoopOrder> names(const ScheduleField<LoopOrder> &) const {
    if (!problem.backward)
      return {LoopOrder::Written};
    return {LoopOrder::Written,         LoopOrder::ScoresFirst,
            LoopOrder::KeysBehind,      LoopOrder::KeysBehindLean,
            LoopOrder::GradientsBehind, LoopOrder::ValuesFirst};
  }

  std::vector<int64_t> numbers(const ScheduleField<int64_t> &field) const {
    auto is = [&](int64_t Schedule::*member) { return field.member == member; };
    if (is(&Schedule::warps))
      return target.warpChoices().vec();
    // Slack either lets a maximum lag as far as its type allows or not at all.
    if (is(&Schedule::lazyRescale) || is(&Schedule::speculateMax))
      return problem.backward ? std::vector<int64_t>{0}
                              : std::vector<int64_t>{0, problem.maxSlack};
    // Roles share out registers themselves.
    if (is(&Schedule::minBlocks))
      return target.producerWarps() ? std::vector<int64_t>{1}
                                    : std::vector<int64_t>{1, 2, 3, 4};
    // Rings of one depth; heads are packed where a guard says that there are
    // few queries.
    if (is(&Schedule::slotsReads) && !problem.tileReads)
      return {0};
    if (is(&Schedule::sumTurns))
      return problem.batchSums ? std::vector<int64_t>{0, 4, 8}
                               : std::vector<int64_t>{0};
    if (problem.backward && (is(&Schedule::slotsK) || is(&Schedule::slotsV)))
      return withTodays(field, std::vector<int64_t>{0});
    if (is(&Schedule::slotsK) || is(&Schedule::slotsV) ||
        is(&Schedule::packedHeads) || is(&Schedule::turnTiles) ||
        is(&Schedule::producerRegisters))
      return {Schedule().*field.member};
    if (is(&Schedule::slotsDout) || is(&Schedule::rotateQueries) ||
        is(&Schedule::keysInRegisters) || is(&Schedule::valuesInRegisters) ||
        is(&Schedule::queriesInRegisters) || is(&Schedule::roleColumns))
      return withTodays(field, std::vector<int64_t>{0});
    if (is(&Schedule::keyWarps) || is(&Schedule::dqWarps))
      return {0, 1, 2, 4, 8};
    // Pieces of dQ are no wider than it is; two blocks have as many columns.
    int64_t most = field.range.to;
    if (is(&Schedule::dqColumns))
      most = std::min<int64_t>(most, (problem.headDim + 63) / 64 * 64);
    if (is(&Schedule::cluster) && problem.headDim < 64)
      most = 1;
    std::vector<int64_t> all;
    for (int64_t n = field.range.from; n <= most; ++n)
      if (field.range.contains(n))
        all.push_back(n);
    return all;
  }

  const Target &target;
  const Problem &problem;
  const ScheduleOverrides &asked;
  Schedule today; // the first of the table
};

/// A field's values as steps of the search.
struct Choice {
  int64_t count;
  std::function<void(Schedule &, int64_t)> set;
};

/// What tilesAreWhole() reads: chosen first, so that what it refuses is refused
/// once for all values of the other fields.
bool shapesTiles(StringRef field) {
  return llvm::is_contained({"block_q", "block_kv", "warps", "partition",
                             "q_in_registers", "key_warps", "dq_warps",
                             "dq_by_producer"},
                            field);
}

/// Whether warps share tiles evenly, and, where they multiply by four, in
/// fours.
bool tilesAreWhole(const Target &target, const Schedule &s) {
  if (!isWhole(target, s))
    return false;
  if (!target.asynchronousMatmul() || s.partition != Partition::Keys)
    return true;
  int64_t along = s.derived().keyWarps, down = s.derived().dqWarps;
  if (s.warps % 4 != 0 || along % 4 != 0 || down % 4 != 0)
    return false;
  return s.warps % along == 0 && s.warpsOfGradQ() % down == 0 &&
         s.blockQ % (16 * (s.warps / along)) == 0 &&
         (s.blockQ & (s.blockQ - 1)) == 0;
}

/// What gradientSumsError() reads besides: chosen next.
bool shapesSums(StringRef field) {
  return llvm::is_contained({"dq", "dq_columns", "cluster"}, field);
}

/// A message without its numbers and what follows them: candidates that it
/// drops for other numbers are of one kind.
std::string kindOf(StringRef message) {
  std::string kind;
  for (char c : message.take_until([](char c) { return c == ';' || c == '('; }))
    if (!llvm::isDigit(c))
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  return StringRef(kind).rtrim().str();
}

struct HashSchedule {
  size_t operator()(const Schedule &s) const { return hash_value(s); }
};

class Search {
public:
  Search(const Target &target, const Problem &problem,
         const ScheduleOverrides &asked, SearchSpace &space)
      : target(target), problem(problem), space(space) {
    Values values(target, problem, asked);
    forEachScheduleField([&]<typename T>(const ScheduleField<T> &field) {
      add(field, values.of(field));
    });
    for (auto *more : {&sums, &inner})
      choices.insert(choices.end(), more->begin(), more->end());
  }

  void run() {
    choose(0, Schedule());
    for (auto &entry : drops)
      space.dropped.push_back(entry.second);
    llvm::sort(space.dropped, [](const auto &a, const auto &b) {
      return std::tie(b.count, a.reason) < std::tie(a.count, b.reason);
    });
    space.candidates = sizeFrom(0);
  }

private:
  template <typename T>
  void add(const ScheduleField<T> &field, std::vector<T> values) {
    auto member = field.member;
    Choice choice{
        int64_t(values.size()),
        [member, values](Schedule &s, int64_t i) { s.*member = values[i]; }};
    if (values.size() > 1) {
      std::string text;
      for (T value : values)
        text += (text.empty() ? "" : ", ") + field.text(value);
      space.axes.push_back({field.name.str(), text});
    }
    bool tiles = shapesTiles(field.name);
    tileFields += tiles;
    (tiles ? choices : shapesSums(field.name) ? sums : inner).push_back(choice);
  }

  int64_t sizeFrom(size_t depth) const {
    int64_t size = 1;
    for (size_t i = depth; i < choices.size(); ++i)
      size *= choices[i].count;
    return size;
  }

  void choose(size_t depth, Schedule s) {
    if (depth == tileFields && !tilesAreWhole(target, s))
      return drop(sizeFrom(depth), whyNot(s), s);
    if (depth == tileFields + sums.size() && problem.backward &&
        target.producerWarps() > 0)
      if (std::string wrong = gradientSumsError(target, problem, s);
          !wrong.empty())
        return drop(sizeFrom(depth), wrong, s);
    if (depth == choices.size())
      return consider(s);
    for (int64_t i = 0; i < choices[depth].count; ++i) {
      choices[depth].set(s, i);
      choose(depth + 1, s);
    }
  }

  /// Why a schedule is none, or an empty string.
  std::string whyNot(const Schedule &s) const {
    if (std::string wrong = s.check(); !wrong.empty())
      return wrong;
    return fitError(target, problem, s, footprint(target, problem, s));
  }

  void consider(const Schedule &s) {
    Schedule key = s.derived();
    if (s.dq == GradQ::Recompute) // which has no sum of dQ
      key.dqColumns = key.dqWarps = 0;
    if (seen.count(key))
      return drop(1, "it is another candidate, written otherwise", s);
    if (std::string wrong = whyNot(s); !wrong.empty())
      return drop(1, wrong, s);
    Footprint f = footprint(target, problem, s);
    if (int64_t budget = budgetOf(target, f, s); f.registers() > budget)
      return drop(1,
                  llvm::formatv("about {0} registers a thread are wanted of "
                                "{1}: the kernel would spill",
                                f.registers(), budget),
                  s);
    seen.insert(key);
    space.fits.push_back(s);
  }

  void drop(int64_t count, const std::string &why, const Schedule &s) {
    SearchSpace::Drop &d = drops[kindOf(why)];
    if (d.count == 0) {
      d.reason = kindOf(why);
      d.example = fieldsText(s) + ": " + why;
    }
    d.count += count;
  }

  const Target &target;
  const Problem &problem;
  SearchSpace &space;
  std::vector<Choice> choices, sums, inner; // choices: all in the end
  size_t tileFields = 0;
  std::unordered_set<Schedule, HashSchedule> seen;
  std::map<std::string, SearchSpace::Drop> drops;
};
} // namespace

SearchSpace fa2::searchSpace(const Target &target, const Problem &problem,
                             const ScheduleOverrides &asked) {
  SearchSpace space;
  Search(target, problem, asked, space).run();
  return space;
}
