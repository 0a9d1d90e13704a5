//===- fa2-sim-mutation.cpp - Proof that the checks can fail --------------===//
//
// fa2-sim-mutation [options] KERNEL.ptx CASE...
//   --extra FILE.ptx    further modules of the launch list
//   --every N           every Nth mutant only
//   --expect-sync F     fail when a smaller share of the synchronisation
//                       mutants is caught
//   --expect-all F      the same for all mutants
//   --allow-warnings    warnings of the unmutated kernel are no catch
//   --kind TEXT         only mutants of this kind
//   --verbose
//
// The unmutated kernel must pass every case first. A mutant is caught by a
// report, by a deadlock or another error, or by its numbers.
//
//===----------------------------------------------------------------------===//

#include "Case.h"
#include "Mutants.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

using namespace fa2::sim;
using namespace fa2::sim::mutation;

namespace {

std::string fileText(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Tally {
  unsigned total = 0, report = 0, error = 0, numbers = 0, survived = 0,
           unexecuted = 0;
};

struct Settings {
  std::string kernel, kind;
  std::vector<std::string> extra, cases;
  unsigned every = 1;
  double expectSync = 0, expectAll = 0;
  bool allowWarnings = false, verbose = false;
  unsigned capability = 80;
};

using Key = std::tuple<unsigned, unsigned, int>; // rule, line, severity

std::set<Key> keysOf(const Result &r) {
  std::set<Key> keys;
  for (const Report &report : r.reports)
    if (report.severity != Severity::Deviation)
      keys.insert({report.rule, report.line, int(report.severity)});
  return keys;
}

struct Run {
  Completion completion;
  uint64_t seed;
  Data data;
  unsigned resident;
};
const Run kRuns[] = {{Completion::Late, 1, Data::Normal, 0},
                     {Completion::Random, 2, Data::OneSided, 1},
                     {Completion::Early, 3, Data::Normal, 2},
                     {Completion::Random, 4, Data::Normal, 0}};

Options optionsOf(const Settings &s, const Run &run) {
  Options o;
  o.capability = s.capability;
  o.completion = run.completion;
  o.seed = run.seed;
  o.residentBlocks = run.resident;
  o.maxReports = 2000;
  return o;
}

/// How a mutant fares: "report", "error", "numbers" or "survived".
std::string judge(const Settings &s, const std::string &text,
                  std::vector<Case> &cases, const std::set<Key> &known,
                  uint64_t budget, std::string &detail) {
  for (Case &c : cases)
    for (const Run &run : kRuns) {
      Options o = optionsOf(s, run);
      o.instructionBudget = budget;
      Outcome out = c.run(text, s.extra, o, run.data);
      if (!out.parsed) {
        detail = out.error;
        return "malformed";
      }
      for (const Report &r : out.result.reports)
        if (r.severity != Severity::Deviation &&
            !known.count({r.rule, r.line, int(r.severity)})) {
          detail = toString(r);
          return "report";
        }
      if (!out.result.error.empty()) {
        detail = out.result.error;
        return "error";
      }
      if (!out.numbersGood) {
        detail = "error " + std::to_string(out.worst) + " times its bound";
        return "numbers";
      }
    }
  return "survived";
}

int go(const Settings &s) {
  std::string text = fileText(s.kernel);
  std::vector<Case> cases;
  for (const std::string &path : s.cases)
    cases.emplace_back(path);
  // Unmutated: every run passes; with --allow-warnings what it reports is
  // known and no catch.
  std::set<Key> known;
  std::set<unsigned> executed;
  uint64_t longest = 0;
  for (Case &c : cases) {
    c.calibrate(text, s.extra, optionsOf(s, kRuns[0]));
    for (const Run &run : kRuns) {
      Options o = optionsOf(s, run);
      o.profile = true;
      Outcome out = c.run(text, s.extra, o, run.data);
      std::set<Key> keys = keysOf(out.result);
      if (!out.result.error.empty() || !out.numbersGood ||
          (!keys.empty() && !s.allowWarnings)) {
        std::cerr << "the unmutated kernel fails " << c.name << ": "
                  << out.result.error << toJson(out.result).substr(0, 2000)
                  << "\n";
        return 1;
      }
      known.insert(keys.begin(), keys.end());
      longest = std::max(longest, out.result.warpInstructions);
      for (const LineProfile &line : out.result.profile.lines)
        if (line.executions)
          executed.insert(line.line);
    }
  }
  std::map<std::string, Tally> table;
  Tally sync, all;
  unsigned index = 0;
  for (const Mutant &m : mutantsOf(text)) {
    if ((!s.kind.empty() && m.kind != s.kind) || index++ % s.every)
      continue;
    std::string detail, fate;
    if (!executed.count(m.line))
      fate = "unexecuted";
    else
      fate = judge(s, replaceLine(text, m.line, m.text), cases, known, longest * 20 + 100000,
                   detail);
    if (fate == "malformed")
      continue; // no mutant: the text is not PTX any more
    Tally *tallies[] = {&table[m.kind], &all, m.synchronisation ? &sync : &all};
    for (unsigned k = 0; k < (m.synchronisation ? 3u : 2u); ++k) {
      Tally &t = *tallies[k];
      ++t.total;
      t.report += fate == "report";
      t.error += fate == "error";
      t.numbers += fate == "numbers";
      t.survived += fate == "survived";
      t.unexecuted += fate == "unexecuted";
    }
    if (s.verbose || fate == "survived")
      std::cout << fate << ": line " << m.line << ", " << m.kind << ": "
                << m.text << (detail.empty() ? "" : "\n    ") << detail << "\n";
  }
  std::printf("| mutants | number | report | error | numbers | survived | "
              "unexecuted |\n|---|---|---|---|---|---|---|\n");
  auto row = [](const std::string &name, const Tally &t) {
    std::printf("| %s | %u | %u | %u | %u | %u | %u |\n", name.c_str(), t.total,
                t.report, t.error, t.numbers, t.survived, t.unexecuted);
  };
  for (const auto &[kind, tally] : table)
    row(kind, tally);
  row("synchronisation", sync);
  row("all", all);
  auto share = [](const Tally &t) {
    unsigned live = t.total - t.unexecuted;
    return live ? double(live - t.survived) / live : 1;
  };
  std::printf("caught: %.1f%% of synchronisation, %.1f%% of all\n",
              100 * share(sync), 100 * share(all));
  bool good = share(sync) >= s.expectSync && share(all) >= s.expectAll;
  return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Settings s;
  try {
    for (int k = 1; k < argc; ++k) {
      std::string word = argv[k];
      auto next = [&]() -> std::string {
        if (k + 1 >= argc)
          throw std::runtime_error(word + " needs a value");
        return argv[++k];
      };
      if (word == "--extra")
        s.extra.push_back(fileText(next()));
      else if (word == "--every")
        s.every = unsigned(std::max(1, std::stoi(next())));
      else if (word == "--expect-sync")
        s.expectSync = std::stod(next());
      else if (word == "--expect-all")
        s.expectAll = std::stod(next());
      else if (word == "--capability")
        s.capability = unsigned(std::stoi(next()));
      else if (word == "--kind")
        s.kind = next();
      else if (word == "--allow-warnings")
        s.allowWarnings = true;
      else if (word == "--verbose")
        s.verbose = true;
      else if (word.substr(0, 2) == "--")
        throw std::runtime_error("unknown option " + word);
      else if (s.kernel.empty())
        s.kernel = word;
      else
        s.cases.push_back(word);
    }
    if (s.cases.empty())
      throw std::runtime_error(
          "usage: fa2-sim-mutation [options] KERNEL.ptx CASE...");
    return go(s);
  } catch (const std::exception &error) {
    std::cerr << "fa2-sim-mutation: " << error.what() << "\n";
    return 2;
  }
}
