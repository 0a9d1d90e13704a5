//===- Report.cpp - what fa2-run prints -----------------------------------===//

#include "Report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace fa2run {

std::string jsonText(const nlohmann::ordered_json &json) {
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string headText(const Kernel &kernel, const std::string &deviceName,
                     const fa2rtDeviceProperties &properties,
                     const nlohmann::ordered_json &program) {
  std::string dims =
      kernel.headDim == kernel.headDimV
          ? fmt::format("{}", kernel.headDim)
          : fmt::format("{} (v {})", kernel.headDim, kernel.headDimV);
  std::string text = fmt::format(
      "program    {}, {}, head dim {}, mask {}, {}; by {}\n"
      "device     {} ({})\n",
      kernel.pass + (kernel.pass == "backward" && kernel.deterministic
                         ? " (deterministic)"
                         : ""),
      kernel.dtypeName, dims, kernel.maskName, kernel.arch, kernel.compiler,
      deviceName, properties.name);
  for (const auto &info : program["kernels"]) {
    text += fmt::format("kernel     {}: {} threads, {} bytes of shared memory",
                        info["name"].get<std::string>(),
                        info["threads"].get<int64_t>(),
                        info["shared_bytes"].get<int64_t>() +
                            info.value("static_shared_bytes", int64_t(0)));
    if (info.contains("registers"))
      text += fmt::format("; driver: {} registers, {} local bytes{}",
                          info["registers"].get<int64_t>(),
                          info["local_bytes"].get<int64_t>(),
                          info["local_bytes"] > 0 ? " (spills)" : "");
    if (info.contains("when"))
      text += fmt::format("; where {}", info["when"].get<std::string>());
    text += "\n";
  }
  return text;
}

std::string caseText(const Kernel &kernel, const Configuration &configuration,
                     const RunOptions &options, const CaseResult &result) {
  std::string text = fmt::format("case       {}, seed {}\n",
                                 describe(configuration), configuration.seed);
  if (!result.launchFailure.empty())
    return text + fmt::format("FAILED     {}\n", result.launchFailure);
  if (kernel.guarded)
    text += fmt::format("ran        {}\n", fmt::join(result.kernels, ", "));
  const CheckResult &check = result.check;
  if (options.check == CheckMode::None) {
    text += "check      none\n";
  } else {
    text += fmt::format(
        "checked    {} of {} rows{}\n", result.sample.rowsChecked,
        result.sample.rowsTotal,
        result.sample.everything
            ? ""
            : ": a seeded sample with first, last and tile-edge rows");
    if (check.emptyRows)
      text +=
          fmt::format("           {} of them see no key\n", check.emptyRows);
    for (const GradientVerdict &g : check.gradients)
      text += fmt::format(
          "{}         max error {:.3g} (standard attention in {}: {:.3g}); "
          "worst row has {:.2f} of what is allowed\n",
          g.name, g.maxError, kernel.dtypeName, g.maxStandardError,
          g.worstRatio);
    bool forward = check.gradients.empty();
    if (forward && check.worstHead >= 0)
      text += fmt::format(
          "out        max error {:.3g} (standard attention in {}: {:.3g}); "
          "worst row has {:.2f} of what is allowed\n",
          check.maxError, kernel.dtypeName, check.maxStandardError,
          check.worst.worstRatio);
    if (forward && check.worstHead >= 0 && kernel.hasLse)
      text += fmt::format(
          "lse        max error {:.3g}; worst row has {:.2f} of what is "
          "allowed\n",
          check.lseMaxError, check.lseWorstRatio);
    for (const std::string &failure : check.failures)
      text += fmt::format("FAILED     {}\n", failure);
    if (check.failedRows)
      text += fmt::format("FAILED     {} rows in all\n", check.failedRows);
  }
  if (!result.disturbed.empty())
    text += fmt::format("FAILED     {}\n", result.disturbed);
  if (!result.times.empty()) {
    double median = result.medianTime();
    text += fmt::format(
        "time       {:.4f} ms, median of {} launches ({:.4f} to {:.4f}); "
        "{:.1f} TFLOP/s\n",
        median, result.times.size(), result.times.front(), result.times.back(),
        median > 0 ? result.flops / median / 1e9 : 0.0);
  }
  if (options.check != CheckMode::None)
    text += result.passed ? "passed\n" : "failed\n";
  return text;
}

namespace {

/// What the lines of one origin did together.
struct Tally {
  int64_t executions = 0, globalBytes = 0, sharedBytes = 0, conflicts = 0,
          tensorOperations = 0;
};

/// By the operation of the IR that the line information names; instructions
/// without it, by opcode.
std::vector<std::pair<std::string, Tally>>
tallyLines(const nlohmann::ordered_json &lines) {
  std::map<std::string, Tally> tallies;
  for (const auto &line : lines) {
    int64_t source = line["source_line"];
    std::string origin =
        source > 0 ? fmt::format("{}:{}:{}", line["file"].get<std::string>(),
                                 source, line["source_column"].get<int64_t>())
                   : line["opcode"].get<std::string>();
    Tally &tally = tallies[origin];
    tally.executions += line["executions"].get<int64_t>();
    tally.globalBytes += line["global_bytes"].get<int64_t>();
    tally.sharedBytes += line["shared_bytes"].get<int64_t>();
    tally.conflicts += line["bank_conflicts"].get<int64_t>();
    tally.tensorOperations += line["tensor_operations"].get<int64_t>();
  }
  std::vector<std::pair<std::string, Tally>> sorted(tallies.begin(),
                                                    tallies.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto &a, const auto &b) {
                     return a.second.executions > b.second.executions;
                   });
  return sorted;
}

} // namespace

std::string profileText(const nlohmann::ordered_json &result, bool verbose) {
  auto found = result.find("profile");
  if (found == result.end())
    return "";
  const nlohmann::ordered_json &profile = *found;
  std::string text = "profile\n";
  for (const auto &[name, value] : profile.items()) {
    if (value.is_number())
      text += fmt::format("  {:<26} {:>16}\n", name, value.dump());
    else if (name == "instructions")
      for (const auto &[category, count] : value.items())
        text += fmt::format("  {:<26} {:>16}\n", "instructions: " + category,
                            count.dump());
  }
  auto lines = profile.find("lines");
  if (lines == profile.end())
    return text;
  constexpr size_t kShown = 20;
  auto tallies = tallyLines(*lines);
  text += fmt::format("  {:<52} {:>10} {:>11} {:>11} {:>9} {:>12}\n",
                      "operation, or opcode", "executions", "global B",
                      "shared B", "conflicts", "tensor ops");
  for (size_t i = 0; i < tallies.size() && (verbose || i < kShown); ++i) {
    const auto &[origin, tally] = tallies[i];
    text += fmt::format("  {:<52} {:>10} {:>11} {:>11} {:>9} {:>12}\n", origin,
                        tally.executions, tally.globalBytes, tally.sharedBytes,
                        tally.conflicts, tally.tensorOperations);
  }
  if (!verbose && tallies.size() > kShown)
    text += fmt::format("  and {} more (--verbose)\n", tallies.size() - kShown);
  return text;
}

} // namespace fa2run
