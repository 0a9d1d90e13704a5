//===- Problem.h - what a schedule is chosen for ----------------*- C++ -*-===//
#ifndef FA2_TARGET_PROBLEM_H
#define FA2_TARGET_PROBLEM_H

#include "fa2/Dialect/FA2/FA2.h"

#include <optional>
#include <string>

namespace fa2 {

/// What of a kernel its schedule depends on. Elements have 16 bits.
struct Problem {
  int64_t headDim, headDimV;
  bool masked = false;
  bool backward = false;
  /// Powers of two that probabilities may reach: #fa2.schedule, lazy_rescale.
  int64_t maxSlack = 15;
  /// Whether scores pass through a program.
  bool program = false;
  /// Whether it does more than add to the score: backward multiplies with the
  /// program's derivative, which is not 1.
  bool slope = false;
  /// Whether forward's program asks the unit of exponentials for something of
  /// each score.
  bool transcendental = false;
  /// Whether backward sums gradients of what the program reads.
  bool sums = false;
  /// Whether some of them are a query's, to which each tile of queries adds in
  /// memory.
  bool rowSums = false;
  /// Whether some are a key's.
  bool keySums = false;
  /// Whether some are summed over the batch alone, by tiles of dS.
  bool batchSums = false;
  /// Whether it stores tiles of dS as such a gradient.
  bool storesScores = false;
  /// Whether probabilities are dropped: their numbers take registers.
  bool dropout = false;
  /// Vectors of one f32 a key that a forward loop brings for it.
  int64_t columnVectors = 0;
  /// Whether one of them differs from head to head, so that packed heads read
  /// it by elements.
  bool headColumns = false;
  /// Whether all that the forward program does is add what depends on a key
  /// alone (columnVectors), on the distance alone, or on the entry of a table
  /// at a place that differs from score to score: products of scores may begin
  /// with it.
  bool termsOfKeys = false, termsOfDistances = false, termsOfEntries = false;
  bool hasTerms() const {
    return termsOfKeys || termsOfDistances || termsOfEntries;
  }
  /// Tiles that it reads (rings.reads), and those among them whose elements
  /// have 32 bits, not 16.
  int64_t tileReads = 0, wideReads = 0;
  /// Whether it reads something else for each score.
  bool elementReads = false;
  /// Whether the distance of row and column alone chooses what that is, in
  /// forward and in backward.
  bool distanceReads = false;
  /// Whether the program computes with that distance.
  bool distance = false;

  /// What of it is not the head dims, the mask, the pass and the type, as
  /// databases have it: "program,column_vectors=1"; empty without a program and
  /// dropout.
  std::string needs() const;
  /// Reads that. Returns what is wrong, or an empty string.
  std::string setNeeds(llvm::StringRef text);
  /// A number of it by its name in tables: "head_dim", "masked" (0 or 1),
  /// "slope"; "dim" is the larger head dim. Nothing for an unknown name.
  std::optional<int64_t> number(llvm::StringRef name) const;
};
/// So many entries of such a table may lie in shared memory.
constexpr int64_t kTableEntries = 4096;
/// That of probabilities of an element type.
int64_t maxSlack(mlir::Type dtype);

/// A second schedule, for launches where a guard (#fa2.guard) holds: that of
/// all others with these fields in place. Where `after` is not empty, it takes
/// the rows behind so many (#fa2.variant). Of the table, whether it stands
/// before what a row of the database has.
struct Variant {
  std::string when;
  ScheduleOverrides fields;
  std::string after = {};
  bool beforeRow = false;
};

} // namespace fa2

#endif
