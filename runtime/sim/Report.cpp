//===- Report.cpp - Reports, profiles, JSON -------------------------------===//

#include "Machine.h"

#include <cstdio>

namespace fa2::sim {

namespace {
const char *nameOf(Severity severity) {
  static const char *const names[] = {"error", "warning", "deviation"};
  return names[int(severity)];
}

/// What .loc says of an instruction, into a Report or a LineProfile.
template <class T>
void setSource(T &to, const Kernel &kernel, const Inst &inst) {
  if (inst.location == kNone)
    return;
  const Location &place = kernel.locations[inst.location];
  to.file = place.file;
  to.sourceLine = place.line;
  to.sourceColumn = place.column;
}

/// The counters of a line, as JSON names them.
constexpr std::pair<const char *, uint64_t LineProfile::*> kCounters[] = {
    {"executions", &LineProfile::executions},
    {"threads", &LineProfile::threads},
    {"global_bytes", &LineProfile::globalBytes},
    {"global_sectors", &LineProfile::globalSectors},
    {"shared_bytes", &LineProfile::sharedBytes},
    {"bank_conflicts", &LineProfile::bankConflicts},
    {"tensor_operations", &LineProfile::tensorOperations}};
} // namespace

void Machine::report(Severity severity, unsigned rule, const Warp *warp,
                     const Inst *inst, int lane, const char *space, u64 address,
                     const std::string &text, const Inst *other) {
  if (options.strict && severity == Severity::Warning)
    severity = Severity::Error;
  Report r;
  r.severity = severity;
  r.rule = rule;
  r.lane = lane;
  r.space = space;
  r.address = address;
  r.text = text;
  const Kernel *kernel = nullptr;
  if (warp) {
    kernel = warp->block->kernel;
    r.kernel = kernel->info.name;
    r.block = warp->block->id;
    r.warp = int(warp->id);
  }
  if (inst) {
    r.line = inst->line;
    if (warp)
      r.instruction = warp->block->grid->program->lineText(inst->line);
    if (kernel)
      setSource(r, *kernel, *inst);
  }
  if (other)
    r.otherLine = other->line;
  std::string key = std::to_string(rule) + '|' + r.kernel + '|' +
                    std::to_string(r.line) + '|' + std::to_string(r.otherLine) +
                    '|' + std::to_string(int(severity));
  auto [it, fresh] = reportIndex.try_emplace(key, result.reports.size());
  if (!fresh) {
    if (it->second < result.reports.size())
      ++result.reports[it->second].count;
    else
      ++result.suppressedReports;
    return;
  }
  // Errors are kept even when warnings have filled the list.
  if (result.reports.size() >= options.maxReports) {
    it->second = ~size_t(0);
    ++result.suppressedReports;
    if (severity != Severity::Error || hasError())
      return;
    it->second = result.reports.size();
  }
  result.reports.push_back(std::move(r));
}

bool Machine::hasError() const {
  for (const Report &r : result.reports)
    if (r.severity == Severity::Error)
      return true;
  return false;
}

void Machine::fatal(unsigned rule, const Warp &warp, const Inst &inst, int lane,
                    const char *space, u64 address, const std::string &text) {
  report(Severity::Error, rule, &warp, &inst, lane, space, address, text);
  throw Fatal{"'" + warp.block->kernel->info.name + "' line " +
              std::to_string(inst.line) + ": " + text};
}

// What is known only at the end: outputs that were never stored, the profile.
void Machine::finishRun() {
  if (options.checks)
    for (const RegionState &state : global.regions) {
      if (!state.region->storedOnce)
        continue;
      u64 missing = 0, first = 0;
      const Region &region = *state.region;
      u64 columns = region.shape.empty() ? 1 : u64(region.shape.back());
      u64 needed = columns - u64(region.paddedBy);
      for (u64 k = state.stores.size(); k-- > 0;)
        if (!state.stores[k] && k % columns < needed) {
          ++missing;
          first = k;
        }
      if (missing) {
        Report r;
        r.rule = 11;
        r.space = "global";
        r.address = state.low;
        r.kernel = grids.empty() ? "" : grids.back().kernel->info.name;
        r.text = std::to_string(missing) + " of " +
                 std::to_string(state.elements) + " elements of '" +
                 state.region->name + "' were never stored, the first is " +
                 std::to_string(first);
        result.reports.push_back(r);
      }
    }
  if (!options.profile)
    return;
  Profile &profile = result.profile;
  std::map<const Inst *, size_t> seen;
  for (Grid &grid : grids) {
    const Kernel &kernel = *grid.kernel;
    for (size_t k = 0; k < kernel.code.size(); ++k) {
      const Inst &inst = kernel.code[k];
      LineProfile line = grid.profile[k];
      auto [it, fresh] = seen.try_emplace(&inst, profile.lines.size());
      if (!fresh) {
        for (auto [name, counter] : kCounters)
          profile.lines[it->second].*counter += line.*counter;
      } else {
        line.kernel = kernel.info.name;
        line.line = inst.line;
        line.opcode = grid.program->opcodeOf(inst);
        line.category = nameOf(inst.category);
        setSource(line, kernel, inst);
        profile.lines.push_back(std::move(line));
      }
      profile.instructions[std::string(nameOf(inst.category))] +=
          grid.profile[k].executions;
      profile.warpInstructions += grid.profile[k].executions;
      profile.threadInstructions += grid.profile[k].threads;
    }
  }
}

bool Result::ok() const {
  if (!error.empty())
    return false;
  for (const Report &r : reports)
    if (r.severity == Severity::Error)
      return false;
  return true;
}

std::string toString(const Report &r) {
  std::string s = nameOf(r.severity);
  s += ": rule " + std::to_string(r.rule) + ": " + r.kernel + ":" +
       std::to_string(r.line) + ": " + r.text;
  if (r.otherLine)
    s += " (line " + std::to_string(r.otherLine) + ")";
  if (r.warp >= 0) {
    s += " [block (" + std::to_string(r.block[0]) + "," +
         std::to_string(r.block[1]) + "," + std::to_string(r.block[2]) +
         ") warp " + std::to_string(r.warp);
    if (r.lane >= 0)
      s += " lane " + std::to_string(r.lane);
    s += "]";
  }
  if (!r.space.empty()) {
    char text[32];
    std::snprintf(text, sizeof text, " 0x%llx", (unsigned long long)r.address);
    s += " " + r.space + text;
  }
  if (!r.instruction.empty())
    s += " in '" + r.instruction + "'";
  if (!r.file.empty())
    s += " from " + r.file + ":" + std::to_string(r.sourceLine) + ":" +
         std::to_string(r.sourceColumn);
  if (r.count > 1)
    s += " (" + std::to_string(r.count) + " times)";
  return s;
}

namespace {
/// Enough of a JSON writer for numbers, strings, arrays and objects.
class Json {
public:
  std::string text;
  void key(const char *name) {
    comma();
    quote(name);
    text += ':';
    first = true;
  }
  void open(char c) {
    comma();
    text += c;
    first = true;
  }
  void close(char c) {
    text += c;
    first = false;
  }
  template <class T> void number(T v) {
    comma();
    text += std::to_string(v);
  }
  void string(std::string_view v) {
    comma();
    quote(v);
  }
  template <class T> void field(const char *name, const T &value) {
    key(name);
    if constexpr (std::is_integral_v<T>)
      number(value);
    else
      string(value);
  }

private:
  bool first = true;
  void comma() {
    if (!first)
      text += ',';
    first = false;
  }
  void quote(std::string_view s) {
    text += '"';
    for (char c : s) {
      if (c == '"' || c == '\\') {
        text += '\\';
        text += c;
      } else if (u8(c) < 0x20 || u8(c) >= 0x7f) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(u8(c)));
        text += escape;
      } else {
        text += c;
      }
    }
    text += '"';
  }
};
} // namespace

std::string toJson(const Result &result) {
  Json j;
  j.open('{');
  j.field("error", result.error);
  j.key("ok");
  j.text += result.ok() ? "true" : "false";
  j.text += ",\"reports\":[";
  for (size_t k = 0; k < result.reports.size(); ++k) {
    const Report &r = result.reports[k];
    if (k)
      j.text += ',';
    Json o;
    o.open('{');
    o.field("severity", nameOf(r.severity));
    o.field("rule", r.rule);
    o.field("kernel", r.kernel);
    o.field("line", r.line);
    o.field("instruction", r.instruction);
    o.key("block");
    o.open('[');
    for (u32 b : r.block)
      o.number(b);
    o.close(']');
    o.field("warp", r.warp);
    o.field("lane", r.lane);
    o.field("space", r.space);
    o.field("address", r.address);
    o.field("text", r.text);
    o.field("other_line", r.otherLine);
    o.field("file", r.file);
    o.field("source_line", r.sourceLine);
    o.field("source_column", r.sourceColumn);
    o.field("count", r.count);
    o.close('}');
    j.text += o.text;
  }
  j.text += "],";
  Json p;
  p.open('{');
  const Profile &profile = result.profile;
  p.key("instructions");
  p.open('{');
  for (const auto &[name, count] : profile.instructions)
    p.field(name.c_str(), count);
  p.close('}');
  p.field("warp_instructions", profile.warpInstructions);
  p.field("thread_instructions", profile.threadInstructions);
  p.field("global_load_bytes", profile.globalLoadBytes);
  p.field("global_store_bytes", profile.globalStoreBytes);
  p.field("shared_load_bytes", profile.sharedLoadBytes);
  p.field("shared_store_bytes", profile.sharedStoreBytes);
  p.field("bank_conflicts", profile.bankConflicts);
  p.field("tensor_operations", profile.tensorOperations);
  p.field("blocks", profile.blocks);
  p.key("lines");
  p.open('[');
  for (const LineProfile &l : profile.lines) {
    p.open('{');
    p.field("kernel", l.kernel);
    p.field("line", l.line);
    p.field("opcode", l.opcode);
    p.field("class", l.category);
    p.field("file", l.file);
    p.field("source_line", l.sourceLine);
    p.field("source_column", l.sourceColumn);
    for (auto [name, counter] : kCounters)
      p.field(name, l.*counter);
    p.close('}');
  }
  p.close(']');
  p.close('}');
  j.text +=
      "\"suppressed_reports\":" + std::to_string(result.suppressedReports) +
      ",\"warp_instructions\":" + std::to_string(result.warpInstructions) +
      ",\"profile\":" + p.text + "}";
  return j.text;
}

} // namespace fa2::sim
