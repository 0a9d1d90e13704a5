//===- Sweep.cpp - many cases of one program ------------------------------===//

#include "Sweep.h"

#include "Files.h"

#include <fmt/core.h>

#include <cstdio>
#include <sstream>

namespace fa2run {

Configuration parseConfiguration(std::string_view line) {
  try {
    Configuration c = fromJson(nlohmann::json::parse(line));
    validate(c);
    return c;
  } catch (const nlohmann::json::exception &error) {
    refuse("not valid JSON: {}", std::string_view(error.what()).substr(0, 200));
  }
}

std::vector<Configuration> readSweep(const std::string &path) {
  std::istringstream lines(readFile(path));
  std::vector<Configuration> cases;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#')
      continue;
    try {
      cases.push_back(parseConfiguration(line));
    } catch (const Failure &failure) {
      refuse("{}, line {}: {}", path, number, failure.what());
    }
  }
  if (cases.empty())
    refuse("{}: no configurations", path);
  return cases;
}

SweepResult runSweep(fa2rtDevice *device, const fa2rtProgram *program,
                     const Kernel &kernel,
                     const std::vector<Configuration> &cases,
                     const RunOptions &options, bool verbose) {
  SweepResult sweep;
  for (const Configuration &configuration : cases) {
    std::vector<std::string> failures;
    double ratio = 0;
    try {
      CaseResult result =
          runCase(device, program, kernel, configuration, options);
      ratio = result.check.worst.worstRatio;
      for (const std::string &name : result.kernels)
        ++sweep.kernels[name];
      if (result.passed) {
        sweep.worstRatio = std::max(sweep.worstRatio, ratio);
        sweep.lseWorstRatio =
            std::max(sweep.lseWorstRatio, result.check.lseWorstRatio);
      } else {
        failures = result.check.failures;
        for (const std::string &text : {result.disturbed, result.launchFailure})
          if (!text.empty())
            failures.push_back(text);
      }
    } catch (const Failure &failure) {
      failures.push_back(failure.what());
    }
    std::string line = toJson(configuration).dump();
    if (verbose)
      fmt::print(stderr, "{} {} (error {:.2f} of the allowed)\n",
                 failures.empty() ? "pass" : "FAIL", line, ratio);
    if (failures.empty()) {
      ++sweep.passed;
      continue;
    }
    ++sweep.failed;
    fmt::print(stderr, "failed: {}\n", line);
    for (const std::string &text : failures)
      fmt::print(stderr, "  {}\n", text);
    sweep.failures.push_back(
        {{"configuration", toJson(configuration)}, {"failures", failures}});
  }
  return sweep;
}

} // namespace fa2run
