//===- Configuration.h - what one run computes ------------------*- C++ -*-===//
#ifndef FA2RUN_CONFIGURATION_H
#define FA2RUN_CONFIGURATION_H

#include "Kernel.h"
#include "Random.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2run {

enum class Layout {
  BSHD, // memory order batch, sequence, head, element
  BHSD  // memory order batch, head, sequence, element
};

/// One case: shapes, memory layout and how the data are drawn.
struct Configuration {
  int64_t batch = 1, heads = 1, headsKv = 1, seqlenQ = 1, seqlenK = 1;
  Layout layout = Layout::BSHD;
  /// Poisoned elements after each row, in units of the tensor's
  /// stride_multiple; poisoned rows after each sequence.
  int64_t rowPadding = 0, tailRows = 0;
  double randomScale = 1;      // q is drawn normal times this
  bool sign = false;           // q >= 0 and k <= 0: every score is negative
  std::optional<double> scale; // the kernel's argument; none: its default
  uint64_t seed = 0;
};

nlohmann::ordered_json toJson(const Configuration &configuration);
/// Fields that are missing keep their defaults; unknown ones are refused.
Configuration fromJson(const nlohmann::json &json);

/// Refuses shapes that no kernel takes, before memory is allocated for them.
void validate(const Configuration &configuration);

/// "batch 2 heads 4 (kv 2) seqlen 113 x 129 …"
std::string describe(const Configuration &configuration);

/// A random case for sweeps: lengths around tile edges and odd ones up to
/// `maxSeqlen`, grouped heads, layouts, padding, scales; its work (products of
/// queries, keys, heads and dims) at most `maxWork`.
Configuration randomConfiguration(const Kernel &kernel, uint64_t seed,
                                  int64_t index, int64_t maxSeqlen,
                                  double maxWork);

} // namespace fa2run

#endif // FA2RUN_CONFIGURATION_H
