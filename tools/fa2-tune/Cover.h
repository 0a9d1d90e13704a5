//===- Cover.h - few kernels for many shapes --------------------*- C++ -*-===//
//
// Which schedule is best depends on lengths. A program may hold several, each
// for launches where a guard holds: here the guards and the schedules are found
// that together lose least over what was measured.
//
//===----------------------------------------------------------------------===//
#ifndef FA2TUNE_COVER_H
#define FA2TUNE_COVER_H

#include "Configuration.h"

#include <string>
#include <vector>

namespace fa2tune {

/// What was measured of one problem.
struct Landscape {
  std::vector<fa2run::Configuration> shapes;
  /// Of each shape, how much slower each candidate is than the best, as a
  /// logarithm; infinity where it may not be taken.
  std::vector<std::vector<double>> losses;
  /// Candidates of one text give a row the same bits; "" is not known.
  std::vector<std::string> bits;
  int64_t multiprocessors = 0;
  bool backward = false; // a block has a tile of keys, not of queries
};

struct Cover {
  /// A candidate for launches where no guard before this one holds. The last
  /// has none.
  struct Part {
    std::string guard;
    size_t candidate;
  };
  std::vector<Part> parts;
  std::vector<size_t> of; // the candidate of each shape
  double loss = 0;        // the mean over the shapes
};

/// The cover of at most that many kernels that loses least, one kernel more
/// being worth it where the mean falls by `gain`. Guards compare one quantity
/// with numbers: the queries, the keys or, between candidates of the same bits,
/// all rows of a launch that blocks have tiles of. Without parts where no
/// candidate may be taken.
Cover findCover(const Landscape &landscape, size_t most, double gain);

} // namespace fa2tune

#endif // FA2TUNE_COVER_H
