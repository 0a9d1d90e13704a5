//===- RunCase.h - launches one case and checks it --------------*- C++ -*-===//
#ifndef FA2RUN_RUNCASE_H
#define FA2RUN_RUNCASE_H

#include "Check.h"
#include "Runtime.h"
#include "Tensors.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace fa2run {

struct RunOptions {
  CheckMode check = CheckMode::Auto;
  double checkBudget = 0; // multiply-adds; 0: what takes a second or two
  int repeats = 0;        // timed launches; 0: none
  int sameBits = 0;       // launches more, each compared with the first
  /// Arrays in the configuration's layout in place of drawn ones.
  std::optional<Array> q, k, v, dout;
  GivenExtras extras;
};

struct CaseResult {
  std::vector<std::string> kernels; // that the launch ran
  RowSample sample;
  CheckResult check;
  std::string disturbed;     // what was written outside the outputs' elements
  std::string launchFailure; // the simulator's reports, or the driver's error
  std::vector<float> times;  // milliseconds, ascending
  double flops = 0;          // of one launch
  bool passed = false;

  double medianTime() const {
    return times.empty() ? 0 : times[times.size() / 2];
  }
};

/// Draws the data, or takes what is given; outputs are poisoned.
Tensors prepareCase(const Kernel &kernel, const Configuration &configuration,
                    const RunOptions &options);
/// Compares the outputs, as the host has them, with the reference.
void checkCase(const Kernel &kernel, const Configuration &configuration,
               const RunOptions &options, TensorCore core, Tensors &tensors,
               CaseResult &result);

/// Draws the data, launches, checks. `tensors`, when not null, receives the
/// tensors with the outputs. Failed checks are in the result; refusals throw
/// Failure.
CaseResult runCase(fa2rtDevice *device, const fa2rtProgram *program,
                   const Kernel &kernel, const Configuration &configuration,
                   const RunOptions &options, Tensors *tensors = nullptr);

/// 2 (d + d_v) for each pair of a query and a key that it sees, backward
/// 2 (3 d + 2 d_v); a square causal mask counts half of all pairs, as papers
/// do.
double countFlops(const Kernel &kernel, const Configuration &configuration);

nlohmann::ordered_json toJson(const CaseResult &result);

} // namespace fa2run

#endif // FA2RUN_RUNCASE_H
