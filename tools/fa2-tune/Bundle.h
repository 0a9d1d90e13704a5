//===- Bundle.h - compiled candidates, as they are read ---------*- C++ -*-===//
#ifndef FA2TUNE_BUNDLE_H
#define FA2TUNE_BUNDLE_H

#include "Configuration.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace fa2tune {

using OrderedJson = nlohmann::ordered_json;

/// What a kernel computes and for which architecture.
struct Problem {
  std::string pass, arch, dtype, mask;
  int64_t headDim = 0, headDimV = 0;
  /// What a program or dropout needs, as the compiler says it: "" is neither.
  std::string needs;
  /// A comparison that a person named: its candidates compete with each other
  /// alone, may differ in more than the schedule, and are all measured.
  std::string group;

  /// "forward sm_90a bf16 128 causal", or the group's name
  std::string text() const;
  OrderedJson toJson() const;
  static Problem fromJson(const nlohmann::json &json);
};

/// "4x16/16x4096x4096": batch, heads / heads_kv, queries, keys.
std::string shapeText(const fa2run::Configuration &shape);
fa2run::Configuration parseShape(const std::string &text);

struct Candidate {
  Problem problem;
  std::string schedule, source, path, hash;
  std::string bits;                      // what a row's bits follow from
  std::vector<double> modelMilliseconds; // a shape each
  size_t shapes = 0;                     // which list of the bundle's

  /// What results name it by. One kernel may compete in several groups.
  std::string id() const {
    return problem.group.empty() ? hash : hash + " in " + problem.group;
  }
};

struct Bundle {
  std::string compiler;
  std::vector<std::vector<fa2run::Configuration>> shapes;
  std::vector<Candidate> candidates;
};

/// Reads a folder of fa2-tune build. Throws Failure where it is damaged or of
/// another version.
Bundle readBundle(const std::string &folder);

/// FNV-1a, as 16 digits.
std::string hashOf(const std::string &text);

/// Why a device does not run an architecture's code, or "".
std::string archError(const std::string &arch, int computeCapability);

} // namespace fa2tune

#endif // FA2TUNE_BUNDLE_H
