//===- Candidates.h - which schedules of a space are compiled ---*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_CANDIDATES_H
#define FA2_TOOLS_TUNEBUILD_CANDIDATES_H

#include "fa2/Compiler/Specification.h"
#include "fa2/Schedule/Model.h"
#include "fa2/Schedule/Space.h"

#include <string>
#include <vector>

namespace fa2tune {

struct Candidate {
  std::string schedule; // as --schedule takes it
  std::string source;   // "today", "variant" (of it), "row" (of another head
                        // dim), "neighbour", "model" or "random"
  std::string bits;     // what a row's bits follow from
  std::vector<double> milliseconds; // estimated, a shape each
};

struct Amounts {
  int64_t top = 24;   // by the model
  int64_t random = 0; // of the others
  uint64_t seed = 0;
};

/// What schedules of a specification are chosen for, and the space of those
/// with what its `schedule` asks for. Returns what is wrong, or "".
std::string problemOf(const fa2::Specification &spec,
                      const fa2::Target *&target, fa2::Problem &problem,
                      fa2::ScheduleOverrides &asked);

/// The rates of an architecture's device, or where that is "" of the
/// target's: those of its matmuls.
fa2::Rates ratesOn(const fa2::Target &target, llvm::StringRef device);

/// Today's choice and its variants; a sixth from the database's rows of other
/// head dims, the nearest first; then, by the model, a third from what differs
/// from it in one field, a third from all and a sixth from tiles that no other
/// has; then others at random. Fails with `error` set where the
/// specification has no schedule.
/// `device` is an architecture whose GPU they are to run on, or "" for the
/// specification's.
std::vector<Candidate> chooseCandidates(const fa2::Specification &spec,
                                        llvm::StringRef device,
                                        const std::vector<fa2::Shape> &shapes,
                                        const Amounts &amounts,
                                        std::string &error);

} // namespace fa2tune

#endif
