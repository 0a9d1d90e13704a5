//===- Report.h - what fa2-run prints ---------------------------*- C++ -*-===//
#ifndef FA2RUN_REPORT_H
#define FA2RUN_REPORT_H

#include "Kernel.h"
#include "RunCase.h"

#include <nlohmann/json.hpp>

#include <string>

namespace fa2run {

/// JSON text, whatever bytes names hold.
std::string jsonText(const nlohmann::ordered_json &json);

/// The kernel, the device, and what the driver says of the kernel.
std::string headText(const Kernel &kernel, const std::string &deviceName,
                     const fa2rtDeviceProperties &properties,
                     const nlohmann::ordered_json &program);

/// The case, its errors and its time.
std::string caseText(const Kernel &kernel, const Configuration &configuration,
                     const RunOptions &options, const CaseResult &result);

/// The simulator's profile: totals, and sums by operation of the IR where the
/// PTX has line information, else by opcode (all of them with `verbose`).
std::string profileText(const nlohmann::ordered_json &profile, bool verbose);

} // namespace fa2run

#endif // FA2RUN_REPORT_H
