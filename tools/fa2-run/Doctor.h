//===- Doctor.h - what this machine allows ----------------------*- C++ -*-===//
#ifndef FA2RUN_DOCTOR_H
#define FA2RUN_DOCTOR_H

#include <nlohmann/json.hpp>

#include <string>

namespace fa2run {

/// Where ptxas is: FA2_PTXAS, then PATH, then /usr/local/cuda/bin. "" if
/// nowhere.
std::string findPtxas();

struct Assembled {
  bool good = false;
  std::string text; // ptxas's words
};

/// Assembles a PTX text for `arch`; the cubin goes to `output`.
Assembled assemble(const std::string &ptxas, const std::string &ptx,
                   const std::string &arch,
                   const std::string &output = "/dev/null");

/// Driver, devices, ptxas and simulator, and what each allows.
nlohmann::ordered_json examine();
std::string describeExamination(const nlohmann::ordered_json &findings);

} // namespace fa2run

#endif // FA2RUN_DOCTOR_H
