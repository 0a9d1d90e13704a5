//===- Sweep.h - many cases of one program ----------------------*- C++ -*-===//
#ifndef FA2RUN_SWEEP_H
#define FA2RUN_SWEEP_H

#include "RunCase.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fa2run {

/// A case from a line of a sweep, one JSON object. Throws Failure.
Configuration parseConfiguration(std::string_view line);

/// The configurations in a file of JSON lines ("#" begins a comment line).
/// Throws Failure with the line's number.
std::vector<Configuration> readSweep(const std::string &path);

struct SweepResult {
  int64_t passed = 0, failed = 0;
  double worstRatio = 0, lseWorstRatio = 0; // over the passed cases
  std::map<std::string, int64_t> kernels;   // how often each ran
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
};

/// Runs all; a failed case is printed to standard error as it comes, with the
/// JSON line that repeats it. A refused launch is a failed case.
SweepResult runSweep(fa2rtDevice *device, const fa2rtProgram *program,
                     const Kernel &kernel,
                     const std::vector<Configuration> &cases,
                     const RunOptions &options, bool verbose);

} // namespace fa2run

#endif // FA2RUN_SWEEP_H
