//===- Candidates.cpp - which schedules of a space are compiled -----------===//

#include "Candidates.h"
#include "Ranking.h"

#include "fa2/Compiler/Compiler.h"
#include "fa2/Schedule/Database.h"
#include "fa2/Target/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace fa2;
using namespace fa2tune;
using llvm::formatv;

std::string Subject::readModule(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return formatv("cannot read '{0}': {1}", path, file.getError().message());
  module = (*file)->getBuffer().str();
  moduleName = llvm::sys::path::stem(path).str();
  return "";
}

std::string Subject::read(llvm::StringRef text) {
  constexpr llvm::StringRef key = "module=", blanks = " \t\r\n,";
  std::string rest = text.str(), error;
  if (size_t at = text.find(key);
      at == 0 || (at != text.npos && blanks.contains(text[at - 1]))) {
    llvm::StringRef path =
        text.drop_front(at + key.size()).take_until([&](char c) {
          return blanks.contains(c);
        });
    if (error = readModule(path); !error.empty())
      return error;
    rest.erase(at, key.size() + path.size());
  }
  error = spec.setAll(rest);
  if (llvm::StringRef said = spec.saidOfOperation();
      error.empty() && module && !said.empty())
    return formatv("expected no {0} beside a file, whose operation says it",
                   said);
  if (error.empty())
    error = spec.check();
  if (error.empty())
    error = asked.setFields("schedule", spec.schedule);
  if (error.empty())
    error = asked.check();
  if (!error.empty() || !(target = lookupTarget(spec.arch, error)))
    return error;
  auto found = fa2::problemOf(spec, error, module);
  if (mlir::failed(found))
    return error;
  problem = *found;
  if (module) {
    spec.headDim = problem.headDim;
    spec.headDimV = problem.headDimV;
    spec.mask = problem.masked ? "causal" : "none";
    spec.dtype = problem.maxSlack == 60 ? "bf16" : "f16";
  }
  return "";
}

std::string Subject::name() const {
  return spec.kernelName() + (module ? "_" + moduleName : "");
}

Rates fa2tune::ratesOn(const Target &target, llvm::StringRef device) {
  std::string error;
  const Target *other = device.empty() ? &target : lookupTarget(device, error);
  // A family's code has the family's matmuls on any device.
  for (const Target *t : allTargets())
    if (other && t->asynchronousMatmul() == target.asynchronousMatmul() &&
        t->computeCapability() == other->computeCapability())
      return ratesOf(*t);
  return ratesOf(target);
}

namespace {
auto tileOf(const Schedule &s) {
  return std::tuple(s.blockQ, s.blockKV, s.warps,
                    s.slotsOf("k", /*inLoop=*/true));
}

/// In how many fields two schedules differ.
int64_t distance(const Schedule &a, const Schedule &b) {
  Schedule da = a.derived(), db = b.derived();
  int64_t n = 0;
  forEachScheduleField([&](auto f) { n += da.*f.member != db.*f.member; });
  return n;
}

/// The schedules that the compiler takes when nothing is asked.
std::vector<std::string> todaysChoices(const Subject &subject,
                                       std::string &error) {
  CompileOptions options;
  options.emit = OutputKind::FA2;
  auto compiled = compile(subject.spec, options, error, subject.module);
  if (mlir::failed(compiled))
    return {};
  std::vector<std::string> fields;
  for (llvm::StringRef choice : compiled->choices)
    fields.push_back(choice.rsplit(": ").second.empty()
                         ? choice.str()
                         : choice.rsplit(": ").second.str());
  return fields;
}

/// What the shipped database has of the target for other head dims, or for
/// kernels that need less, the nearest first, and of them what this problem can
/// have too.
std::vector<Schedule> rowsBeside(const Target &target, const Problem &problem,
                                 const ScheduleOverrides &asked,
                                 std::string &error) {
  auto database = ScheduleDatabase::shipped(error);
  if (mlir::failed(database))
    return {};
  auto farness = [&](const ScheduleRow *row) {
    return std::abs(row->problem.headDim - problem.headDim);
  };
  std::vector<const ScheduleRow *> rows;
  for (const ScheduleRow &row : database->rows())
    if (row.arch == target.name() && row.problem.masked == problem.masked &&
        row.problem.backward == problem.backward &&
        (farness(&row) > 0 || row.problem.needs() != problem.needs()))
      rows.push_back(&row);
  llvm::stable_sort(rows,
                    [&](auto *a, auto *b) { return farness(a) < farness(b); });
  std::vector<Schedule> schedules;
  for (const ScheduleRow *row : rows) {
    Schedule schedule = scheduleOf(*row, target, problem);
    ScheduleOverrides fields;
    error = fields.setFields("schedule", fieldsText(schedule));
    if (!error.empty())
      return {};
    if (asked.applyTo(schedule) == schedule)
      llvm::append_range(schedules, searchSpace(target, problem, fields).fits);
  }
  return schedules;
}

class Picker {
public:
  Picker(const Target &target, const Rates &rates, const Problem &problem,
         const std::vector<Shape> &shapes, std::vector<Candidate> &picked)
      : target(target), rates(rates), problem(problem), shapes(shapes),
        picked(picked) {}

  /// False where it is picked already.
  bool add(const Schedule &schedule, llvm::StringRef source) {
    std::string text = fieldsText(schedule);
    if (!texts.insert(text).second)
      return false;
    Candidate &c = picked.emplace_back();
    c.schedule = text;
    c.source = source.str();
    c.bits = bitsText(schedule);
    for (const Shape &shape : shapes)
      c.milliseconds.push_back(
          estimate(target, rates, problem, schedule, shape).milliseconds);
    ++tiles[tileOf(schedule)];
    return true;
  }
  int64_t ofTile(const Schedule &s) const {
    auto found = tiles.find(tileOf(s));
    return found == tiles.end() ? 0 : found->second;
  }

private:
  const Target &target;
  const Rates &rates;
  const Problem &problem;
  const std::vector<Shape> &shapes;
  std::vector<Candidate> &picked;
  std::set<std::string> texts;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int64_t> tiles;
};
} // namespace

std::vector<Candidate>
fa2tune::chooseCandidates(const Subject &subject, llvm::StringRef device,
                          const std::vector<Shape> &shapes,
                          const Amounts &amounts, std::string &error) {
  std::vector<Candidate> picked;
  const Target &target = *subject.target;
  const Problem &problem = subject.problem;
  Rates rates = ratesOn(target, device);
  Picker picker(target, rates, problem, shapes, picked);
  std::optional<Schedule> standing;
  for (const std::string &fields : todaysChoices(subject, error)) {
    ScheduleOverrides today;
    if (error = today.setFields("schedule", fields); !error.empty())
      return {};
    // Packed heads are for launches that a guard picks.
    if (today.packedHeads.value_or(1) != 1)
      continue;
    picker.add(today.applyTo(Schedule()), standing ? "variant" : "today");
    if (!standing)
      standing = today.applyTo(Schedule());
  }
  if (!error.empty())
    return {};
  SearchSpace space = searchSpace(target, problem, subject.asked);
  auto order = rankSchedules({target, rates, problem, shapes}, space.fits);
  // Those for which `wanted` holds, as many as are left, the best first.
  auto pick = [&](int64_t most, llvm::StringRef source, auto wanted) {
    for (size_t i : order)
      if (most > 0 && wanted(space.fits[i]) &&
          picker.add(space.fits[i], source))
        --most;
  };
  int64_t third = amounts.top / 3, todays = int64_t(picked.size());
  int64_t rows = amounts.top / 6;
  for (const Schedule &s : rowsBeside(target, problem, subject.asked, error))
    if (rows > 0 && picker.add(s, "row"))
      --rows;
  if (!error.empty())
    return {};
  pick(third, "neighbour", [&](const Schedule &s) {
    return standing && distance(s, *standing) == 1;
  });
  constexpr int64_t alike = 3;
  pick(third, "model",
       [&](const Schedule &s) { return picker.ofTile(s) < alike; });
  pick(amounts.top / 6, "model",
       [&](const Schedule &s) { return picker.ofTile(s) == 0; });
  // There may be fewer neighbours or tiles than that: more of each tile.
  auto left = [&] { return todays + amounts.top - int64_t(picked.size()); };
  for (int64_t most = 2 * alike; left() > 0 && most < 2 * int64_t(order.size());
       most *= 2)
    pick(left(), "model",
         [&](const Schedule &s) { return picker.ofTile(s) < most; });
  std::mt19937_64 random(amounts.seed);
  std::shuffle(order.begin(), order.end(), random);
  pick(amounts.random, "random", [](const Schedule &) { return true; });
  return picked;
}
