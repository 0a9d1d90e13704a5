//===- Table.cpp - schedules of problems that were not measured -----------===//

#include "Table.h"
#include "FewTiles.h"
#include "Shipped.h"

#include "fa2/Dialect/FA2/Guard.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace fa2;
using llvm::formatv;
using llvm::StringRef;
namespace json = llvm::json;

namespace {
/// Fields that are set where a condition holds, both as they are written: a
/// compilation needs few of them.
struct Setting {
  std::string when, fields;
};

struct Entry {
  std::string family, pass;
  Setting first;
  std::vector<Setting> also;
  /// Of a variant: when it is launched, "" always; whether before those of a
  /// database's row; the rows of its tiles, where it is for few of them; and
  /// one part in how many it is to gain where it takes what whole rounds leave.
  std::string launch;
  bool before = false;
  int64_t rows = 0, parts = 0;
  int64_t weight = 0; // of weights alone
};

/// A condition that others may have by its name, those behind it.
struct Condition {
  std::string name, when;
};

struct Table {
  std::vector<Condition> conditions;
  std::vector<Entry> lines, fields, variants, weights;
};

std::string textOf(const json::Object &object, StringRef name) {
  return object.getString(name).value_or("").str();
}

Setting settingOf(const json::Object &object) {
  return {object.getString("when").value_or("1").str(),
          textOf(object, "schedule")};
}

/// Returns what is wrong, or "".
std::string readEntry(const json::Object *object, Entry &entry) {
  if (!object)
    return "expected an object";
  for (const auto &member : *object)
    if (StringRef name = member.first; !llvm::is_contained(
            {"family", "pass", "when", "schedule", "also", "launch", "before",
             "rows", "parts", "weight", "why"},
            name))
      return formatv("unknown member '{0}'", name);
  entry.family = textOf(*object, "family");
  entry.pass = textOf(*object, "pass");
  entry.first = settingOf(*object);
  if (const json::Array *also = object->getArray("also"))
    for (const json::Value &value : *also) {
      const json::Object *setting = value.getAsObject();
      if (!setting)
        return "expected also to have objects";
      entry.also.push_back(settingOf(*setting));
    }
  entry.launch = textOf(*object, "launch");
  entry.before = object->getBoolean("before").value_or(false);
  entry.rows = object->getInteger("rows").value_or(0);
  entry.parts = object->getInteger("parts").value_or(0);
  entry.weight = object->getInteger("weight").value_or(0);
  return "";
}

/// Returns what is wrong, or "".
std::string readConditions(const json::Object &document, Table &table) {
  const json::Array *values = document.getArray("conditions");
  if (!values)
    return document.get("conditions") ? "expected an array of conditions" : "";
  for (const json::Value &value : *values) {
    const json::Object *object = value.getAsObject();
    if (!object || textOf(*object, "name").empty() ||
        textOf(*object, "when").empty())
      return "expected conditions to be objects with name and when";
    table.conditions.push_back(
        {textOf(*object, "name"), textOf(*object, "when")});
  }
  return "";
}

/// Returns what is wrong, or "".
std::string readTable(StringRef text, Table &table) {
  auto document = json::parse(text);
  if (!document)
    return llvm::toString(document.takeError());
  const json::Object *object = document->getAsObject();
  if (!object || object->getInteger("fa2_tables") != 1)
    return "expected an object with fa2_tables = 1";
  if (std::string wrong = readConditions(*object, table); !wrong.empty())
    return wrong;
  std::pair<StringRef, std::vector<Entry> *> lists[] = {
      {"lines", &table.lines},
      {"fields", &table.fields},
      {"variants", &table.variants},
      {"weights", &table.weights}};
  for (auto [name, list] : lists) {
    const json::Array *values = object->getArray(name);
    if (!values)
      return formatv("expected an array of {0}", name);
    for (const json::Value &value : *values) {
      std::string wrong = readEntry(value.getAsObject(), list->emplace_back());
      if (!wrong.empty())
        return formatv("{0} {1}: {2}", name, list->size(), wrong);
    }
  }
  return "";
}

/// What a condition is over: a problem, a schedule's numbers and, of weights,
/// rows.
struct Numbers {
  const Problem &problem;
  const Schedule &schedule;
  int64_t rows;

  std::optional<int64_t> operator()(StringRef name) const {
    if (name == "rows")
      return rows;
    if (auto number = problem.number(name))
      return number;
    std::optional<int64_t> found;
    forEachScheduleField([&]<typename T>(const ScheduleField<T> &field) {
      if constexpr (!std::is_enum_v<T>)
        if (name == field.name)
          found = int64_t(schedule.*field.member);
    });
    return found;
  }
};

/// Whether a condition holds, which may name some of `known`.
bool holdsOn(StringRef when, const Numbers &numbers,
             llvm::ArrayRef<Condition> known, std::string &error) {
  auto numberOf = [&](StringRef name) -> std::optional<int64_t> {
    for (size_t i = 0; i < known.size(); ++i)
      if (name == known[i].name)
        return holdsOn(known[i].when, numbers, known.take_front(i), error);
    return numbers(name);
  };
  return evaluate(when, numberOf, error).value_or(0) != 0;
}

/// What is wrong with an entry, or an empty string.
std::string entryError(const Entry &entry,
                       llvm::ArrayRef<Condition> conditions) {
  std::string error;
  if (!lookupTarget(entry.family, error))
    return error;
  if (!llvm::is_contained({"forward", "backward", "dq", "deterministic"},
                          entry.pass))
    return formatv("expected pass to be forward, backward, dq or "
                   "deterministic, got '{0}'",
                   entry.pass);
  std::vector<Setting> all = entry.also;
  all.push_back(entry.first);
  for (const Setting &s : all) {
    holdsOn(s.when, {Problem{128, 128}, Schedule(), /*rows=*/64}, conditions,
            error);
    ScheduleOverrides fields;
    if (error.empty())
      error = fields.setFields("schedule", s.fields);
    if (error.empty())
      error = fields.check();
    if (!error.empty())
      return error;
  }
  return "";
}

/// What is wrong with the conditions that have names, or an empty string.
std::string conditionError(llvm::ArrayRef<Condition> conditions) {
  Numbers numbers{Problem{128, 128}, Schedule(), /*rows=*/64};
  std::string error;
  for (size_t i = 0; i < conditions.size() && error.empty(); ++i) {
    const Condition &c = conditions[i];
    if (numbers(c.name))
      error = "expected a name that no number has";
    else
      holdsOn(c.when, numbers, conditions.take_front(i), error);
    if (!error.empty())
      error = formatv("condition '{0}': {1}", c.name, error);
  }
  return error;
}

const Table &shippedTable() {
  static const Table table = [] {
    Table t;
    std::string wrong = readTable(kShippedTables, t);
    if (!wrong.empty())
      llvm::report_fatal_error(llvm::Twine("the shipped tables: ") + wrong);
    return t;
  }();
  return table;
}

/// What of the table is for a problem on a target.
class Lookup {
public:
  Lookup(const Target &target, const Problem &problem, StringRef pass)
      : problem(problem), pass(pass) {
    // A family's code has the family's matmuls.
    for (const Target *t : allTargets())
      if (family.empty() &&
          t->asynchronousMatmul() == target.asynchronousMatmul())
        family = t->name();
  }

  std::vector<Schedule> schedules() const {
    std::vector<Schedule> list;
    for (const Entry &line : shippedTable().lines) {
      if (!isFor(line, Schedule()))
        continue;
      Schedule s;
      set(line, s);
      for (const Entry &fields : shippedTable().fields)
        if (isFor(fields, s))
          set(fields, s);
      list.push_back(s);
    }
    return list;
  }

  /// Of the first line, as what is asked for.
  ScheduleOverrides asked() const {
    ScheduleOverrides all;
    for (const Entry &line : shippedTable().lines) {
      if (!isFor(line, Schedule()))
        continue;
      put(fieldsOf(line.first.fields), all);
      for (const Setting &also : line.also)
        if (holds(also.when, Schedule()))
          put(fieldsOf(also.fields), all);
      break;
    }
    return all;
  }

  std::vector<Variant> variants(const Schedule &base) const {
    auto weightOf = [&](int64_t rows) { return this->weightOf(rows, base); };
    FewTiles few(problem, base, weightOf);
    std::vector<Variant> list;
    for (const Entry &entry : shippedTable().variants) {
      if (!isFor(entry, base))
        continue;
      Variant v;
      v.when = entry.launch;
      v.beforeRow = entry.before;
      v.fields = fieldsOf(entry.first.fields);
      for (const Setting &also : entry.also)
        if (holds(also.when, base))
          put(fieldsOf(also.fields), v.fields);
      if (entry.parts > 0) {
        llvm::append_range(list, few.shared(v.fields, entry.parts));
        continue;
      }
      if (entry.rows > 0)
        v.when += (v.when.empty() ? "" : " && ") + few.fastest(entry.rows);
      list.push_back(v);
    }
    return list;
  }

private:
  bool holds(StringRef when, const Schedule &schedule, int64_t rows = 0) const {
    std::string error;
    return holdsOn(when, {problem, schedule, rows}, shippedTable().conditions,
                   error);
  }

  bool isFor(const Entry &entry, const Schedule &schedule,
             int64_t rows = 0) const {
    return entry.pass == pass && entry.family == family &&
           holds(entry.first.when, schedule, rows);
  }

  /// Slack is written as bf16 has it.
  ScheduleOverrides fieldsOf(StringRef text) const {
    ScheduleOverrides fields;
    std::string wrong = fields.setFields("schedule", text);
    assert(wrong.empty() && "a test reads the tables");
    for (auto slack :
         {&ScheduleOverrides::lazyRescale, &ScheduleOverrides::speculateMax})
      if ((fields.*slack).value_or(0) > 0)
        fields.*slack = problem.maxSlack;
    return fields;
  }

  static void put(const ScheduleOverrides &fields, ScheduleOverrides &into) {
    forEachScheduleField([&](auto field) {
      if (auto value = fields.*field.asked)
        into.*field.asked = value;
    });
  }

  void set(const Entry &entry, Schedule &s) const {
    if (!entry.first.fields.empty())
      s = fieldsOf(entry.first.fields).applyTo(s);
    for (const Setting &also : entry.also)
      if (holds(also.when, s))
        s = fieldsOf(also.fields).applyTo(s);
  }

  int64_t weightOf(int64_t rows, const Schedule &base) const {
    for (const Entry &entry : shippedTable().weights)
      if (isFor(entry, base, rows))
        return entry.weight;
    return rows;
  }

  const Problem &problem;
  StringRef pass, family;
};

StringRef passOf(const Problem &problem) {
  return problem.backward ? "backward" : "forward";
}
} // namespace

std::string fa2::tableError(StringRef text) {
  Table table;
  std::string wrong = readTable(text, table);
  if (wrong.empty())
    wrong = conditionError(table.conditions);
  if (!wrong.empty())
    return wrong;
  for (auto *list :
       {&table.lines, &table.fields, &table.variants, &table.weights})
    for (const Entry &entry : *list)
      if (wrong = entryError(entry, table.conditions); !wrong.empty())
        return formatv("where {0}: {1}", entry.first.when, wrong);
  return "";
}

bool fa2::holds(StringRef condition, const Problem &problem) {
  std::string error;
  return holdsOn(condition, {problem, Schedule(), /*rows=*/0},
                 shippedTable().conditions, error);
}

std::vector<Schedule> fa2::tableSchedules(const Target &target,
                                          const Problem &problem) {
  return Lookup(target, problem, passOf(problem)).schedules();
}

Schedule fa2::tableGradQSchedule(const Target &target, const Problem &problem) {
  auto lines = Lookup(target, problem, "dq").schedules();
  assert(!lines.empty() && "the table has lines of dQ for all head dims");
  return lines.front();
}

ScheduleOverrides fa2::tableDeterministic(const Target &target,
                                          const Problem &problem) {
  return Lookup(target, problem, "deterministic").asked();
}

std::vector<Variant> fa2::tableVariants(const Target &target,
                                        const Problem &problem,
                                        const Schedule &base,
                                        bool deterministic) {
  StringRef pass = deterministic ? "deterministic" : passOf(problem);
  return Lookup(target, problem, pass).variants(base);
}
