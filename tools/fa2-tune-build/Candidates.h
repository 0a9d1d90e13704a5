//===- Candidates.h - which schedules of a space are compiled ---*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_CANDIDATES_H
#define FA2_TOOLS_TUNEBUILD_CANDIDATES_H

#include "fa2/Compiler/Specification.h"
#include "fa2/Schedule/Model.h"
#include "fa2/Schedule/Space.h"

#include <optional>
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

/// What schedules are chosen for: a specification, or the operation in a file
/// for its arch, pass and schedule.
struct Subject {
  fa2::Specification spec;
  std::optional<std::string> module; // the file's text
  std::string moduleName;            // the file's, without folder and ending
  const fa2::Target *target = nullptr;
  fa2::Problem problem{0, 0};
  fa2::ScheduleOverrides asked;

  /// From "arch=sm_90a head_dim=64", or "module=bias.mlir arch=sm_90a": head
  /// dims, mask and type are then what the file says. Returns what is wrong, or
  /// "".
  std::string read(llvm::StringRef text);
  /// "fa2_forward_bf16_d64_causal"; of a module with its name behind it.
  std::string name() const;

private:
  std::string readModule(llvm::StringRef path);
};

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
std::vector<Candidate> chooseCandidates(const Subject &subject,
                                        llvm::StringRef device,
                                        const std::vector<fa2::Shape> &shapes,
                                        const Amounts &amounts,
                                        std::string &error);

} // namespace fa2tune

#endif
