//===- fa2-sim-mutation.cpp - Proof that the checks can fail --------------===//
//
// fa2-sim-mutation [options] KERNEL.ptx CASE...
//   --extra FILE.ptx    further modules of the launch list
//   --every N           every Nth mutant only, from the --first (0) on
//   --expect-sync F     fail when a smaller share of the synchronisation
//                       mutants is caught
//   --expect-all F      the same for all mutants
//   --allow-unexecuted  mutants of lines that no run executes do not count
//   --allow-warnings    warnings of the unmutated kernel are no catch
//   --kind TEXT         only mutants of this kind
//   --synchronisation   only mutants of synchronisation
//   --values            only the others
//   --threads N         mutants at once
//   --list FILE         all mutants, a line each, separated by tabs: kind,
//                       synchronisation, fate, class, PTX line, detail
//   --verbose
//
// The unmutated kernel must pass every case first. A survivor without an
// explanation (Judge.h) fails the test, and so does a mutant that no run
// executes.
//
//===----------------------------------------------------------------------===//

#include "Judge.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

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
  unsigned total = 0, report = 0, error = 0, numbers = 0, explained = 0,
           unexplained = 0, unexecuted = 0;
  void add(const Verdict &v) {
    ++total;
    report += v.fate == "report";
    error += v.fate == "error";
    numbers += v.fate == "numbers";
    unexecuted += v.fate == "unexecuted";
    if (v.fate == "survived")
      ++(v.category == "unexplained" ? unexplained : explained);
  }
  double caught() const {
    unsigned live = total - unexecuted;
    return live ? double(report + error + numbers) / live : 1;
  }
};

struct Settings {
  Setup setup;
  std::string kind, list;
  unsigned every = 1, first = 0, threads = 1;
  double expectSync = 0, expectAll = 0;
  bool verbose = false, allowUnexecuted = false, synchronisation = false,
       values = false;
};

/// The verdicts of all mutants; each thread has a judge of its own.
std::vector<Verdict> judgeAll(const Settings &s,
                              const std::vector<Mutant> &mutants) {
  std::vector<Verdict> verdicts(mutants.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::string failure;
  auto work = [&] {
    try {
      Judge judge(s.setup);
      for (size_t k; (k = next++) < mutants.size();)
        verdicts[k] = judge.judge(mutants[k]);
    } catch (const std::exception &error) {
      std::lock_guard lock(mutex);
      failure = error.what();
      next = mutants.size();
    }
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < s.threads; ++t)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (!failure.empty())
    throw std::runtime_error(failure);
  return verdicts;
}

std::string oneLine(std::string text) {
  for (char &c : text)
    c = c == '\t' || c == '\n' ? ' ' : c;
  return text;
}

int go(const Settings &s) {
  std::vector<Mutant> mutants;
  unsigned index = 0;
  for (const Mutant &m : mutantsOf(s.setup.text))
    if ((s.kind.empty() || m.kind == s.kind) &&
        (m.synchronisation ? !s.values : !s.synchronisation) &&
        index++ % s.every == s.first)
      mutants.push_back(m);
  std::vector<Verdict> verdicts = judgeAll(s, mutants);
  std::map<std::string, Tally> table;
  Tally sync, all;
  std::ofstream list;
  if (!s.list.empty())
    list.open(s.list);
  for (size_t k = 0; k < mutants.size(); ++k) {
    const Mutant &m = mutants[k];
    const Verdict &v = verdicts[k];
    if (v.fate == "malformed")
      continue; // no mutant: the text is not PTX any more
    table[m.kind].add(v);
    all.add(v);
    if (m.synchronisation)
      sync.add(v);
    if (list)
      list << m.kind << "\t" << m.synchronisation << "\t" << v.fate << "\t"
           << v.category << "\t" << m.line << "\t" << oneLine(v.detail) << "\n";
    if (s.verbose || v.fate == "survived")
      std::cout << v.fate << ": line " << m.line << ", " << m.kind << ": "
                << oneLine(m.text) << "\n    "
                << (v.category.empty() ? "" : v.category + ": ") << v.detail
                << "\n";
  }
  std::printf(
      "| mutants | number | report | error | numbers | explained | "
      "unexplained | unexecuted |\n|---|---|---|---|---|---|---|---|\n");
  auto row = [](const std::string &name, const Tally &t) {
    std::printf("| %s | %u | %u | %u | %u | %u | %u | %u |\n", name.c_str(),
                t.total, t.report, t.error, t.numbers, t.explained,
                t.unexplained, t.unexecuted);
  };
  for (const auto &[kind, tally] : table)
    row(kind, tally);
  row("synchronisation", sync);
  row("all", all);
  std::printf("caught: %.1f%% of synchronisation, %.1f%% of all\n",
              100 * sync.caught(), 100 * all.caught());
  if (list && !list.flush())
    throw std::runtime_error("cannot write " + s.list);
  bool good = sync.caught() >= s.expectSync && all.caught() >= s.expectAll &&
              !all.unexplained && (s.allowUnexecuted || !all.unexecuted);
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
      if (word == "--extra") {
        std::string path = next();
        ParseResult parsed = parse(fileText(path));
        if (!parsed)
          throw std::runtime_error(path + ": " + parsed.error.text);
        s.setup.extra.push_back(parsed.program);
      } else if (word == "--every") {
        s.every = unsigned(std::max(1, std::stoi(next())));
      } else if (word == "--first") {
        s.first = unsigned(std::stoul(next()));
      } else if (word == "--expect-sync") {
        s.expectSync = std::stod(next());
      } else if (word == "--expect-all") {
        s.expectAll = std::stod(next());
      } else if (word == "--capability") {
        s.setup.capability = unsigned(std::stoi(next()));
      } else if (word == "--kind") {
        s.kind = next();
      } else if (word == "--threads") {
        s.threads = unsigned(std::max(1, std::stoi(next())));
      } else if (word == "--list") {
        s.list = next();
      } else if (word == "--allow-unexecuted") {
        s.allowUnexecuted = true;
      } else if (word == "--allow-warnings") {
        s.setup.allowWarnings = true;
      } else if (word == "--synchronisation") {
        s.synchronisation = true;
      } else if (word == "--values") {
        s.values = true;
      } else if (word == "--verbose") {
        s.verbose = true;
      } else if (word.substr(0, 2) == "--") {
        throw std::runtime_error("unknown option " + word);
      } else if (s.setup.text.empty()) {
        s.setup.text = fileText(word);
      } else {
        s.setup.cases.push_back(word);
      }
    }
    if (s.setup.cases.empty())
      throw std::runtime_error(
          "usage: fa2-sim-mutation [options] KERNEL.ptx CASE...");
    s.first %= s.every;
    return go(s);
  } catch (const std::exception &error) {
    std::cerr << "fa2-sim-mutation: " << error.what() << "\n";
    return 2;
  }
}
