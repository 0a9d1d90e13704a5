//===- ModuloStages.h - stages of a loop's steps ----------------*- C++ -*-===//
#ifndef FA2_LIB_SCHEDULE_MODULOSTAGES_H
#define FA2_LIB_SCHEDULE_MODULOSTAGES_H

#include "fa2/Schedule/Modulo.h"

namespace fa2::modulo {

/// What a search has still to spend. Loops of kernels take a hundredth.
class Work {
public:
  bool take(int64_t units) { return (left -= units) >= 0; }
  bool isTooMuch() const { return left < 0; }

private:
  int64_t left = 20'000'000; // some tenths of a second
};

/// All stages that dependences allow, those with the fewest late steps first.
std::vector<std::vector<int64_t>> stagesOf(const Graph &graph, Work &work);

} // namespace fa2::modulo

#endif
