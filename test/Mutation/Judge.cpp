//===- Judge.cpp - How a mutant fares, and why one survives ---------------===//

#include "Judge.h"

#include <stdexcept>

namespace fa2::sim::mutation {

namespace {

struct Schedule {
  Completion completion;
  uint64_t seed;
  Data data;
  unsigned resident;
};
const Schedule kSchedules[] = {{Completion::Late, 1, Data::Normal, 0},
                               {Completion::Random, 2, Data::OneSided, 1},
                               {Completion::Early, 3, Data::Large, 2},
                               {Completion::Random, 4, Data::Normal, 0}};
constexpr size_t kRuns = std::size(kSchedules);
/// Of the first cases, and of all others. Values do not depend on schedules
/// beyond the data's kinds; synchronisation does not on the keys' residues.
constexpr size_t kKeyCases = 4;
size_t runsOf(const Mutant &m, size_t c) {
  if (c >= kKeyCases)
    return m.synchronisation ? 0 : 2;
  return m.synchronisation ? kRuns : 3;
}

std::string times(uint64_t n) {
  return n == 1 ? "1 execution" : std::to_string(n) + " executions";
}

} // namespace

Options Judge::optionsOf(size_t run) const {
  const Schedule &schedule = kSchedules[run];
  Options o;
  o.capability = setup.capability;
  o.completion = schedule.completion;
  o.seed = schedule.seed;
  o.residentBlocks = schedule.resident;
  o.maxReports = 2000;
  o.instructionBudget = longest ? longest * 20 + 100000 : o.instructionBudget;
  return o;
}

Programs Judge::programsOf(const std::string &text, std::string &error) const {
  ParseResult parsed = parse(text);
  if (!parsed) {
    error =
        "line " + std::to_string(parsed.error.line) + ": " + parsed.error.text;
    return {};
  }
  Programs programs = {parsed.program};
  programs.insert(programs.end(), setup.extra.begin(), setup.extra.end());
  return programs;
}

Judge::Judge(const Setup &setup) : setup(setup) {
  std::string error;
  Programs programs = programsOf(setup.text, error);
  if (programs.empty())
    throw std::runtime_error("the kernel is refused: " + error);
  for (const std::string &spec : setup.cases)
    cases.emplace_back(spec);
  for (Case &c : cases) {
    c.calibrate(programs, optionsOf(0));
    for (size_t run = 0; run < kRuns; ++run) {
      Options o = optionsOf(run);
      o.instructionBudget = 0;
      o.profile = o.traceWaits = true;
      Outcome out = c.run(programs, o, kSchedules[run].data);
      bool reported = false;
      for (const Report &r : out.result.reports)
        if (r.severity != Severity::Deviation) {
          reported = true;
          known.insert({r.rule, r.line, int(r.severity)});
        }
      if (!out.result.error.empty() || !out.numbersGood ||
          (reported && !setup.allowWarnings))
        throw std::runtime_error("the unmutated kernel fails " + c.name + ": " +
                                 out.result.error +
                                 toJson(out.result).substr(0, 2000));
      longest = std::max(longest, out.result.warpInstructions);
      for (const LineProfile &line : out.result.profile.lines)
        executions[line.line] += line.executions;
      plain.push_back({out.digest, out.result.waits});
    }
  }
}

Verdict Judge::judge(const Mutant &mutant) {
  if (!executions[mutant.line])
    return {"unexecuted", "no run executes the line", ""};
  std::string error;
  Programs programs =
      programsOf(replaceLine(setup.text, mutant.line, mutant.text), error);
  if (programs.empty())
    return {"malformed", error, ""};
  Verdict verdict = run(mutant, programs);
  return verdict.fate == "survived" ? explain(mutant, programs) : verdict;
}

Verdict Judge::run(const Mutant &mutant, const Programs &programs) {
  for (size_t c = 0; c < cases.size(); ++c)
    for (size_t run = 0; run < runsOf(mutant, c); ++run) {
      Outcome out =
          cases[c].run(programs, optionsOf(run), kSchedules[run].data);
      if (Verdict verdict = verdictOf(out); verdict.fate != "survived")
        return verdict;
    }
  return {"survived", "", ""};
}

Verdict Judge::verdictOf(const Outcome &out) const {
  for (const Report &r : out.result.reports)
    if (r.severity != Severity::Deviation &&
        !known.count({r.rule, r.line, int(r.severity)}))
      return {"report", toString(r), ""};
  if (!out.result.error.empty())
    return {"error", out.result.error, ""};
  if (!out.numbersGood)
    return {"numbers",
            "error " + std::to_string(out.worst) + " times its bound", ""};
  return {"survived", "", ""};
}

Verdict Judge::explain(const Mutant &mutant, const Programs &programs) {
  const std::string count = times(executions[mutant.line]);
  std::string error;
  if (!mutant.probe.empty()) {
    Programs probed =
        programsOf(replaceLine(setup.text, mutant.line, mutant.probe), error);
    if (probed.empty())
      throw std::runtime_error("a probe is no PTX: " + error + ": " +
                               mutant.probe);
    bool same = true;
    for (size_t c = 0; same && c < cases.size(); ++c)
      for (size_t run = 0; same && run < kRuns; ++run) {
        Options o = optionsOf(run);
        o.checks = false;
        same =
            cases[c].run(probed, o, kSchedules[run].data).result.error.empty();
      }
    if (same)
      return {"survived", "the same value in all " + count, "implied value"};
  }
  uint64_t completed = 0;
  for (const Plain &p : plain)
    if (auto wait = p.waits.find(mutant.line); wait != p.waits.end())
      completed += wait->second.completed;
  if (mutant.kind == "wait removed" && !completed)
    return {"survived",
            "in " + count + " it completes no copy that is not complete",
            "implied order"};
  bool sameWaits = true, sameBits = true;
  uint64_t waits = 0;
  for (size_t c = 0; c < cases.size(); ++c)
    for (size_t run = 0; run < kRuns; ++run) {
      Options o = optionsOf(run);
      o.traceWaits = true;
      Outcome out = cases[c].run(programs, o, kSchedules[run].data);
      // More cases and schedules than before.
      if (Verdict verdict = verdictOf(out); verdict.fate != "survived")
        return verdict;
      const Plain &before = plain[c * kRuns + run];
      sameBits &= out.digest == before.digest;
      sameWaits &= out.result.waits.size() == before.waits.size();
      for (const auto &[line, trace] : out.result.waits) {
        auto was = before.waits.find(line);
        sameWaits &=
            was != before.waits.end() && was->second.digest == trace.digest;
        waits += trace.executions;
      }
    }
  bool groups = mutant.kind == "commit removed" || mutant.kind == "wait count";
  if (groups && sameWaits && waits)
    return {"survived",
            "all " + std::to_string(waits) +
                " executions of waits complete the same copies",
            "implied order"};
  if (!mutant.synchronisation && sameBits)
    return {"survived", "no bit of the outputs differs after " + count,
            "masked zero"};
  // A copy moves its bytes no sooner than the wait that covers it: what reads
  // them before that reads poison.
  size_t late = 0;
  for (uint64_t seed = 100; mutant.synchronisation && sameBits && seed < 116;
       ++seed)
    for (size_t c = 0; sameBits && c < std::min(kKeyCases, cases.size()); ++c) {
      Options o = optionsOf(0);
      o.seed = seed;
      o.residentBlocks = unsigned(seed % 3);
      Outcome out = cases[c].run(programs, o, kSchedules[0].data);
      if (Verdict verdict = verdictOf(out); verdict.fate != "survived")
        return verdict;
      sameBits = out.digest == plain[c * kRuns].digest && out.result.ok();
      ++late;
    }
  if (late && sameBits)
    return {"survived",
            "every access is ordered without it: no report, and the same bits "
            "in " +
                std::to_string(late) + " more runs with late completion",
            "implied order"};
  return {"survived",
          sameBits ? "no bit of the outputs differs" : "outputs differ",
          "unexplained"};
}

} // namespace fa2::sim::mutation
