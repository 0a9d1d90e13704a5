//===- Forest.h - trees that were fitted to what was measured ---*- C++ -*-===//
//
// Gradient-boosted regression trees (Friedman, Annals of Statistics 29, 2001),
// fitted by bench/trees.py to the rows of docs/measurements/data/tuning.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TOOLS_TUNEBUILD_FOREST_H
#define FA2_TOOLS_TUNEBUILD_FOREST_H

#include "Features.h"

#include <optional>
#include <string>
#include <vector>

namespace fa2tune {

class Forest {
public:
  /// Reads what bench/trees.py wrote. Returns nothing, and what is wrong.
  static std::optional<Forest> parse(llvm::StringRef text, std::string &error);
  /// The one that is a part of this program.
  static const Forest &shipped();

  /// The logarithm of a candidate's time over that of its problem's fastest on
  /// the shape, but for what is the same for all of them.
  double loss(const RankedCandidate &candidate) const;

  /// What its rows were measured on, as Rates name it.
  const std::string &device() const { return of; }

private:
  /// Where a feature is at most `threshold` the next node follows, else that
  /// at `above`. A leaf has no feature and its value as threshold.
  struct Node {
    int32_t feature;
    int32_t above;
    double threshold;
  };
  struct Part {
    /// Its trees say what the estimate is off by, not the loss itself.
    bool ofEstimate;
    std::vector<size_t> roots;
  };
  class Parser;

  double sumOf(const Part &part, llvm::ArrayRef<double> features) const;

  std::string of;
  std::vector<Node> nodes;
  std::vector<Part> parts; // the loss is their mean
};

} // namespace fa2tune

#endif
