//===- fa2-grid.cpp - every kernel of a list over many configurations -----===//
//
// fa2-grid --compiler fa2-compile --kernels FILE [--unexecuted FILE]
//          [--at-least N] [--every N] [--only TEXT] [--threads N] [--seed N]
//          [--verbose]
//
// Compiles each kernel of the list once and runs its configurations on the
// simulator under three schedules with all checks, warnings as errors: every
// row of the outputs by the accuracy rule, the same bits from each schedule.
// Every PTX line must be executed by some lane in some configuration, or match
// a line of the --unexecuted file; a line of that file that nothing needs is an
// error too, unless --only leaves kernels out.
//
// With --every N a kernel runs every N-th of its configurations, the empty
// ones among them, and then others only until every PTX line has been executed.
//
//===----------------------------------------------------------------------===//

#include "KernelList.h"
#include "Parallel.h"
#include "Plan.h"
#include "RunCase.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <set>

using namespace fa2grid;
using namespace fa2run;

namespace {

struct Settings {
  std::string compiler = "fa2-compile", kernels, unexecuted, only;
  int64_t atLeast = 0;
  int64_t every = 1;
  unsigned threads = threadCount();
  uint64_t seed = 1;
  bool verbose = false;
};

struct Verdict {
  std::string text; ///< of the list
  Reached reached;
  int64_t runs = 0;
  double worst = 0, seconds = 0;
  size_t lines = 0;
  std::vector<std::pair<unsigned, std::string>> unexecuted; ///< PTX lines
  std::vector<std::string> failures;
};

constexpr size_t kMaxFailures = 5;

/// Adds the launch's PTX lines, and those that some lane executed.
void addExecuted(const fa2rtProgram *program, std::set<unsigned> &all,
                 std::set<unsigned> &executed) {
  const char *text = nullptr;
  check(fa2rtProgramProfile(program, &text));
  const nlohmann::json result = nlohmann::json::parse(text);
  for (const auto &line : result["profile"]["lines"]) {
    unsigned number = line["line"];
    all.insert(number);
    // A branch that no lane takes has been executed.
    if (line["threads"] > 0 ||
        (line["class"] == "control" && line["executions"] > 0))
      executed.insert(number);
  }
}

std::string unlike(const Kernel &kernel, const Configuration &c,
                   const Tensors &a, const Tensors &b) {
  auto same = [](const Array &x, const Array &y) {
    return std::memcmp(x.values.data(), y.values.data(),
                       x.values.size() * sizeof(float)) == 0;
  };
  std::vector<std::pair<const char *, Tensor Tensors::*>> outputs = {
      {"out", &Tensors::out}};
  if (kernel.pass == "backward")
    outputs = {{"dk", &Tensors::dk}, {"dv", &Tensors::dv}};
  // Elsewhere dq is a sum in any order.
  if (kernel.pass == "backward" && kernel.deterministic)
    outputs.emplace_back("dq", &Tensors::dq);
  for (auto [name, member] : outputs)
    if (!same(getElements(a.*member, kernel.precision, c.layout),
              getElements(b.*member, kernel.precision, c.layout)))
      return fmt::format("{} has other bits under another schedule", name);
  if (kernel.pass != "backward" && kernel.hasLse &&
      !same(getVectors(a.lse), getVectors(b.lse)))
    return "lse has other bits under another schedule";
  return "";
}

/// The number of the exemption that covers a PTX line, if one does.
std::optional<unsigned> exemptionFor(const std::string &kernel,
                                     const std::string &line,
                                     const std::vector<Exemption> &exemptions) {
  for (const Exemption &e : exemptions)
    if (std::regex_match(kernel, e.kernel) &&
        std::regex_match(normalised(line), e.instruction))
      return e.line;
  return std::nullopt;
}

void runKernel(const Settings &settings, const KernelEntry &entry,
               const std::vector<Exemption> &exemptions, Verdict &verdict) {
  std::string ptx = ptxOf(entry, settings.compiler);
  Kernel kernel = describeKernel(manifestOf(ptx));
  const uint64_t seed = entry.seed() + settings.seed;
  auto devices = devicesOf(kernel, seed);
  std::vector<DeviceHandle> handles;
  std::vector<ProgramHandle> programs;
  for (const std::string &name : devices) {
    handles.push_back(openDevice(name));
    fa2rtProgram *program = nullptr;
    check(fa2rtProgramLoad(handles.back().get(), ptx.data(), ptx.size(),
                           nullptr, 0, &program));
    programs.emplace_back(program);
  }
  RunOptions options;
  options.check = CheckMode::Full;
  std::set<unsigned> all, executed;
  std::set<std::string> ran;
  std::vector<std::string> text;
  std::istringstream stream(ptx);
  for (std::string line; std::getline(stream, line);)
    text.push_back(line);
  // Every PTX line of every kernel, but the exempted.
  auto covered = [&] {
    for (const auto &info : kernelReport(programs[0].get()))
      if (!ran.count(info["name"]))
        return false;
    return std::ranges::all_of(all, [&](unsigned number) {
      return executed.count(number) ||
             exemptionFor(entry.text, text[number - 1], exemptions);
    });
  };
  auto [configurations, sampled] =
      sampleOf(configurationsOf(kernel, seed), settings.every, seed);
  for (size_t i = 0; i < configurations.size(); ++i) {
    if (i >= sampled && covered())
      break;
    const Configuration &c = configurations[i];
    verdict.reached.add(kernel, c);
    std::optional<Tensors> first; // none of a launch that failed
    for (size_t d = 0; d < devices.size(); ++d) {
      std::string failure;
      try {
        Tensors tensors;
        CaseResult result = runCase(handles[d].get(), programs[d].get(), kernel,
                                    c, options, &tensors);
        ++verdict.runs;
        ran.insert(result.kernels.begin(), result.kernels.end());
        verdict.worst = std::max(verdict.worst, result.check.worst.worstRatio);
        if (!result.launchFailure.empty())
          failure = result.launchFailure;
        else if (!result.passed)
          failure = result.check.failures.empty() ? result.disturbed
                                                  : result.check.failures[0];
        else if (first)
          failure = unlike(kernel, c, *first, tensors);
        // A launch without blocks has no profile; one of an empty batch may
        // have some that store zeros.
        if (devices[d].find("profile") != std::string::npos &&
            result.launchFailure.empty() && !result.kernels.empty())
          addExecuted(programs[d].get(), all, executed);
        if (d == 0 && result.launchFailure.empty())
          first = std::move(tensors);
      } catch (const Failure &refusal) {
        failure = refusal.what();
      }
      if (!failure.empty() && verdict.failures.size() < kMaxFailures)
        verdict.failures.push_back(
            fmt::format("{}\n    --device '{}' --sweep with {}", failure,
                        devices[d], toJson(c).dump()));
    }
  }
  // Lines of a kernel that no configuration chose are not in the profiles.
  for (const auto &info : kernelReport(programs[0].get()))
    if (!ran.count(info["name"]))
      verdict.failures.push_back(fmt::format("no configuration runs {}",
                                             info["name"].get<std::string>()));
  verdict.lines = all.size();
  for (unsigned number : all)
    if (!executed.count(number))
      verdict.unexecuted.emplace_back(number, text[number - 1]);
}

/// Moves what an exemption covers out of the list; notes which were of use.
void exempt(Verdict &verdict, const std::vector<Exemption> &exemptions,
            std::set<unsigned> &used) {
  std::erase_if(verdict.unexecuted, [&](const auto &line) {
    auto found = exemptionFor(verdict.text, line.second, exemptions);
    if (found)
      used.insert(*found);
    return found.has_value();
  });
}

void print(const Verdict &v, bool verbose) {
  bool good = v.failures.empty() && v.unexecuted.empty();
  fmt::print("{} {}: {} configurations, {} runs in {:.1f} s, largest error "
             "{:.2f} of the allowed, {} PTX lines, {} of them unexecuted\n",
             good ? "ok  " : "FAIL", v.text, v.reached.configurations, v.runs,
             v.seconds, v.worst, v.lines, v.unexecuted.size());
  for (const std::string &failure : v.failures)
    fmt::print("  {}\n", failure);
  size_t shown = 0;
  for (const auto &[number, line] : v.unexecuted)
    if (verbose || shown++ < 20)
      fmt::print("  never executed: line {}: {}\n", number, normalised(line));
  std::fflush(stdout);
}

int go(const Settings &settings) {
  std::vector<KernelEntry> entries = readKernelList(settings.kernels);
  std::erase_if(entries, [&](const KernelEntry &entry) {
    return entry.text.find(settings.only) == std::string::npos;
  });
  std::vector<Exemption> exemptions;
  if (!settings.unexecuted.empty())
    exemptions = readExemptions(settings.unexecuted);
  std::set<unsigned> used;
  std::mutex mutex;
  Reached reached;
  int64_t runs = 0, failed = 0;
  auto begin = std::chrono::steady_clock::now();
  auto since = [](auto start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  // A thread a kernel: the loops in runCase are too short for threads.
  threadLimit = 1;
  parallelFor(
      int64_t(entries.size()),
      [&](int64_t i) {
        auto start = std::chrono::steady_clock::now();
        Verdict verdict;
        verdict.text = entries[size_t(i)].text;
        try {
          runKernel(settings, entries[size_t(i)], exemptions, verdict);
        } catch (const Failure &failure) {
          verdict.failures.push_back(failure.what());
        }
        verdict.seconds = since(start);
        std::lock_guard lock(mutex);
        exempt(verdict, exemptions, used);
        print(verdict, settings.verbose);
        reached += verdict.reached;
        runs += verdict.runs;
        failed += !verdict.failures.empty() || !verdict.unexecuted.empty();
      },
      settings.threads);
  fmt::print("{} kernels, {} configurations, {} runs in {:.1f} s ({:.1f} s of "
             "CPU time): {}\n",
             entries.size(), reached.configurations, runs, since(begin),
             double(std::clock()) / CLOCKS_PER_SEC, reached.text());
  bool good = failed == 0;
  if (failed)
    fmt::print("{} kernels FAILED\n", failed);
  if (reached.configurations < settings.atLeast) {
    fmt::print("FAIL: fewer than {} configurations\n", settings.atLeast);
    good = false;
  }
  for (const Exemption &e : exemptions)
    if (settings.only.empty() && !used.count(e.line)) {
      fmt::print("FAIL: {}, line {}: nothing needs it any more\n",
                 settings.unexecuted, e.line);
      good = false;
    }
  return good ? kPassed : kCheckFailed;
}

} // namespace

int main(int argc, char **argv) {
  Settings s;
  CLI::App app("fa2-grid: every kernel of a list over many configurations");
  app.add_option("--compiler", s.compiler, "fa2-compile's path");
  app.add_option("--kernels", s.kernels, "the list of kernels")->required();
  app.add_option("--unexecuted", s.unexecuted,
                 "PTX lines that need not be executed, and why");
  app.add_option("--only", s.only, "kernels whose text contains this");
  app.add_option("--at-least", s.atLeast, "fail with fewer configurations");
  app.add_option("--every", s.every, "a sample: every N-th configuration")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", s.threads, "kernels at once");
  app.add_option("--seed", s.seed, "of the configurations and schedules");
  app.add_flag("--verbose,-v", s.verbose, "every unexecuted line");
  CLI11_PARSE(app, argc, argv);
  try {
    return go(s);
  } catch (const Failure &failure) {
    fmt::print(stderr, "fa2-grid: {}\n", failure.what());
    return failure.code;
  }
}
