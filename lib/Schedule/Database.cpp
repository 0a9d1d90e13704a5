//===- Database.cpp - schedules that were measured ------------------------===//

#include "fa2/Schedule/Database.h"
#include "Asked.h"
#include "Shipped.h"
#include "Table.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

using namespace mlir;
using namespace fa2;
using llvm::formatv;
namespace json = llvm::json;

namespace {
/// One row's members; `wrong` says what is wrong with the first bad one.
class Reader {
public:
  explicit Reader(const json::Object &object) : object(object) {}

  std::string text(StringRef name) {
    if (auto value = object.getString(name))
      return value->str();
    return fail(formatv("expected {0} to be a string", name)), "";
  }
  int64_t number(StringRef name) {
    if (auto value = object.getInteger(name))
      return *value;
    return fail(formatv("expected {0} to be an integer", name)), 0;
  }
  void fail(const std::string &message) {
    if (wrong.empty())
      wrong = message;
  }
  std::string wrong;

private:
  const json::Object &object;
};

/// Returns what is wrong, or "".
std::string readVariants(const json::Object &object, ScheduleRow &row) {
  const json::Value *value = object.get("variants");
  if (!value)
    return "";
  auto text = value->getAsString();
  if (!text)
    return "expected variants to be a string";
  std::string wrong;
  auto variants = parseVariants(*text, wrong);
  if (failed(variants))
    return wrong;
  for (const Variant &v : *variants)
    if (wrong = v.fields.applyTo(row.schedule).check(); !wrong.empty())
      return formatv("where {0}: {1}", v.when, wrong);
  row.variants = std::move(*variants);
  return "";
}

/// Returns what is wrong, or "".
std::string readRow(const json::Object &object, ScheduleRow &row) {
  Reader r(object);
  row.arch = r.text("arch");
  row.dtype = r.text("dtype");
  row.device = r.text("device");
  row.date = r.text("date");
  row.candidates = r.number("candidates");
  row.problem.headDim = r.number("head_dim");
  row.problem.headDimV = r.number("head_dim_v");
  std::string pass = r.text("pass"), mask = r.text("mask");
  row.problem.backward = pass == "backward";
  row.problem.masked = mask != "none";
  row.problem.maxSlack = row.dtype == "bf16" ? 60 : 15;
  std::string fields = r.text("schedule");
  if (auto needs = object.getString("needs"))
    if (std::string wrong = row.problem.setNeeds(*needs); !wrong.empty())
      r.fail(wrong);
  if (!r.wrong.empty())
    return r.wrong;
  if (pass != "forward" && pass != "backward")
    return formatv("expected pass to be forward or backward, got '{0}'", pass);
  if (row.dtype != "bf16" && row.dtype != "f16")
    return formatv("expected dtype to be bf16 or f16, got '{0}'", row.dtype);
  std::string wrong;
  if (!lookupTarget(row.arch, wrong))
    return wrong;
  ScheduleOverrides asked;
  if (wrong = asked.setFields("schedule", fields); !wrong.empty())
    return wrong;
  row.schedule = asked.applyTo(Schedule());
  if (wrong = readVariants(object, row); !wrong.empty())
    return wrong;
  return row.schedule.check();
}
} // namespace

FailureOr<ScheduleDatabase>
ScheduleDatabase::parse(StringRef text, StringRef name, std::string &error) {
  auto document = json::parse(text);
  if (!document) {
    error = formatv("{0} is no JSON: {1}", name,
                    llvm::toString(document.takeError()));
    return failure();
  }
  const json::Object *object = document->getAsObject();
  auto version = object ? object->getInteger("fa2_schedules") : std::nullopt;
  if (!version) {
    error = formatv("{0} is not a database of schedules: expected an object "
                    "with fa2_schedules, its version",
                    name);
    return failure();
  }
  if (*version < 1 || *version > kDatabaseVersion) {
    error =
        formatv("expected {0} to be of version 1 to {1}, got {2}; fa2-tune of "
                "the compiler's version writes it",
                name, kDatabaseVersion, *version);
    return failure();
  }
  const json::Array *rows = object->getArray("rows");
  if (!rows) {
    error = formatv("expected {0} to have an array of rows", name);
    return failure();
  }
  ScheduleDatabase database;
  for (const json::Value &value : *rows) {
    ScheduleRow &row = database.all.emplace_back();
    const json::Object *members = value.getAsObject();
    std::string wrong = members ? readRow(*members, row) : "expected an object";
    if (!wrong.empty()) {
      error = formatv("{0}, row {1}: {2}", name, database.all.size(), wrong);
      return failure();
    }
  }
  return database;
}

/// The shipped database's rows of a head dim, as a document. It has a line a
/// row, and few of them are read: a compilation has no time for all.
static std::string shippedRowsOf(int64_t headDim) {
  llvm::SmallVector<StringRef> lines;
  StringRef(kShippedSchedules).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::string member = formatv("\"head_dim\":{0},", headDim);
  std::string text =
      formatv("{{\"fa2_schedules\": {0}, \"rows\": [", kDatabaseVersion);
  StringRef between = "";
  for (StringRef line : lines)
    if (line.contains(member)) {
      line.consume_back("]}") || line.consume_back(",");
      text += (between + line).str();
      between = ",";
    }
  return text + "]}";
}

FailureOr<ScheduleDatabase> ScheduleDatabase::open(StringRef where,
                                                   const Problem &problem,
                                                   std::string &error) {
  if (where == "none")
    return ScheduleDatabase();
  if (where.empty())
    return parse(shippedRowsOf(problem.headDim), "the shipped database", error);
  auto file = llvm::MemoryBuffer::getFile(where, /*IsText=*/true);
  if (!file) {
    error = formatv("cannot read the database '{0}': {1}", where,
                    file.getError().message());
    return failure();
  }
  return parse((*file)->getBuffer(), where, error);
}

FailureOr<ScheduleDatabase> ScheduleDatabase::shipped(std::string &error) {
  return parse(kShippedSchedules, "the shipped database", error);
}

/// How well a row serves: 0 not at all, the larger the better.
static int fitness(const ScheduleRow &row, const Target &target,
                   const Problem &p) {
  const Problem &q = row.problem;
  bool same = q.needs() == p.needs();
  if (q.headDim != p.headDim || q.headDimV != p.headDimV ||
      q.masked != p.masked || q.backward != p.backward)
    return 0;
  if (!same && !(q.needs().empty() && p.backward &&
                 target.asynchronousMatmul() && holds("begins", p)))
    return 0;
  std::string error;
  const Target *measured = lookupTarget(row.arch, error);
  bool family = measured->asynchronousMatmul() == target.asynchronousMatmul() &&
                measured->computeCapability() <= target.computeCapability();
  if (measured != &target && !family)
    return 0;
  return 1 + (same ? 4 : 0) + (measured == &target ? 2 : 0) +
         (q.maxSlack == p.maxSlack ? 1 : 0);
}

const ScheduleRow *ScheduleDatabase::find(const Target &target,
                                          const Problem &problem) const {
  auto best = std::max_element(
      all.begin(), all.end(), [&](const ScheduleRow &a, const ScheduleRow &b) {
        return fitness(a, target, problem) < fitness(b, target, problem);
      });
  bool serves = best != all.end() && fitness(*best, target, problem) > 0;
  return serves ? &*best : nullptr;
}

Schedule fa2::scheduleOf(const ScheduleRow &row, const Target &target,
                         const Problem &problem) {
  Schedule s = row.schedule;
  for (int64_t Schedule::*slack :
       {&Schedule::lazyRescale, &Schedule::speculateMax})
    if (s.*slack > 0 && problem.maxSlack != row.problem.maxSlack)
      s.*slack = problem.maxSlack;
  if (s.dq == GradQ::Atomic && target.name() != row.arch &&
      target.hasVectorReductions())
    s.dq = GradQ::AtomicV4;
  if (row.problem.needs() == problem.needs())
    return s;
  s.preload = Preload::Both;        // "begins" holds
  if (s.roundedP && problem.sums) { // of P in f32, which is kept longer
    s.roundedP = false;
    s.loopOrder = LoopOrder::Written;
  }
  return s;
}

std::optional<std::vector<Variant>> fa2::variantsOf(const ScheduleRow &row,
                                                    const Problem &problem) {
  if (row.problem.needs() != problem.needs())
    return std::nullopt;
  auto variants = row.variants;
  if (!variants || problem.maxSlack == row.problem.maxSlack)
    return variants;
  for (Variant &v : *variants)
    for (auto slack :
         {&ScheduleOverrides::lazyRescale, &ScheduleOverrides::speculateMax})
      if ((v.fields.*slack).value_or(0) > 0)
        v.fields.*slack = problem.maxSlack;
  return variants;
}
