//===- Plan.h - the configurations of the grid ------------------*- C++ -*-===//
#ifndef FA2_TEST_GRID_PLAN_H
#define FA2_TEST_GRID_PLAN_H

#include "Configuration.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace fa2grid {

/// The configurations of a kernel: each residue of the keys modulo the tile at
/// least once, over 0 to 2 whole tiles and now and then enough of them for the
/// rings to wrap; few queries, most at tile edges; empty sequences and batches;
/// wide scores over several tiles. Of backward kernels with large tiles every
/// third residue, and queries in every residue of theirs.
std::vector<fa2run::Configuration>
configurationsOf(const fa2run::Kernel &kernel, uint64_t seed);

/// The configurations with a sample of them in front, and its size: every
/// `every`-th, and those with an empty sequence or batch. `first` shifts the
/// places, so that kernels with the same tiles meet different residues. A step
/// that 2 and 3 do not divide leaves no kind of length out.
std::pair<std::vector<fa2run::Configuration>, size_t>
sampleOf(std::vector<fa2run::Configuration> list, int64_t every,
         uint64_t first);

/// The schedules under which each runs: with 1, 2 and all blocks resident,
/// late, random and early completion, each with seeds of its own.
/// The first profiles.
std::array<std::string, 3> devicesOf(const fa2run::Kernel &kernel,
                                     uint64_t seed);

/// What of the contract a configuration reaches, for the summary.
struct Reached {
  int64_t configurations = 0, backward = 0, hopper = 0, emptyRows = 0,
          emptySequences = 0, grouped = 0, oneSided = 0, large = 0, scaled = 0,
          padded = 0, bhsd = 0;
  void add(const fa2run::Kernel &kernel, const fa2run::Configuration &c);
  Reached &operator+=(const Reached &other);
  std::string text() const;
};

} // namespace fa2grid

#endif // FA2_TEST_GRID_PLAN_H
