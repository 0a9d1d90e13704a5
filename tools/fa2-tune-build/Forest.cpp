//===- Forest.cpp - trees that were fitted to what was measured -----------===//

#include "Forest.h"
#include "ShippedForest.h"

#include "fa2/Target/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace fa2;
using namespace fa2tune;
using llvm::formatv;
using llvm::StringRef;

/// The features' names, in their order.
static std::vector<std::string> featureNames() {
  std::string error;
  const Target *target = lookupTarget("sm_90a", error);
  Problem problem{64, 64};
  Schedule schedule;
  Shape shape;
  Estimate e = estimate(*target, ratesOf(*target), problem, schedule, shape);
  std::vector<std::string> names;
  forEachFeature({*target, problem, schedule, shape, e},
                 [&](StringRef name, double) { names.push_back(name.str()); });
  return names;
}

/// Lines of words: "fa2_forest 1" and the device; "features" and their names;
/// "part" and "loss" or "estimate"; and under it a tree a line, its nodes in
/// prefix order: "feature:threshold", or "=value" for a leaf.
class Forest::Parser {
public:
  explicit Parser(Forest &forest) : forest(forest) {}

  std::string run(StringRef text) {
    llvm::SmallVector<StringRef> lines;
    text.split(lines, '\n', -1, /*KeepEmpty=*/false);
    if (lines.size() < 2 || !lines[0].consume_front("fa2_forest 1 "))
      return "expected the line 'fa2_forest 1' with a device's name";
    forest.of = lines[0].str();
    if (std::string wrong = readFeatures(lines[1]); !wrong.empty())
      return "line 2: " + wrong;
    for (size_t i = 2; i < lines.size(); ++i)
      if (std::string wrong = readLine(lines[i]); !wrong.empty())
        return formatv("line {0}: {1}", i + 1, wrong);
    for (const Part &part : forest.parts)
      if (part.roots.empty())
        return "expected a tree of each part";
    return forest.parts.empty() ? "expected a part" : "";
  }

private:
  /// A field that came since is none of them: all rows had its default.
  std::string readFeatures(StringRef line) {
    std::vector<std::string> own = featureNames();
    if (!line.consume_front("features "))
      return "expected features and their names";
    line.split(words, ' ', -1, /*KeepEmpty=*/false);
    for (StringRef name : words) {
      auto found = llvm::find(own, name);
      if (found == own.end())
        return formatv("feature '{0}' is not one of this version's; "
                       "bench/trees.py fits them anew",
                       name);
      features.push_back(int32_t(found - own.begin()));
    }
    return "";
  }

  std::string readLine(StringRef line) {
    if (line.consume_front("part ")) {
      if (line != "loss" && line != "estimate")
        return formatv("expected part loss or estimate, got '{0}'", line);
      forest.parts.push_back({line == "estimate", {}});
      return "";
    }
    if (forest.parts.empty())
      return "expected a part before the first tree";
    words.clear();
    line.split(words, ' ', -1, /*KeepEmpty=*/false);
    next = 0;
    forest.parts.back().roots.push_back(forest.nodes.size());
    std::string wrong = readNode();
    if (wrong.empty() && next != words.size())
      wrong = formatv("expected one tree, got '{0}' behind it", words[next]);
    return wrong;
  }

  std::string readNode() {
    if (next == words.size())
      return "expected another node of the tree";
    StringRef word = words[next++];
    Node node{-1, 0, 0};
    if (word.consume_front("=")) {
      if (word.getAsDouble(node.threshold))
        return formatv("expected a number behind =, got '{0}'", word);
      forest.nodes.push_back(node);
      return "";
    }
    auto [feature, threshold] = word.split(':');
    if (feature.getAsInteger(10, node.feature) || node.feature < 0 ||
        size_t(node.feature) >= features.size() ||
        threshold.getAsDouble(node.threshold))
      return formatv("expected a feature below {0}, ':' and a number, got "
                     "'{1}'",
                     features.size(), word);
    node.feature = features[size_t(node.feature)];
    size_t place = forest.nodes.size();
    forest.nodes.push_back(node);
    if (std::string wrong = readNode(); !wrong.empty())
      return wrong;
    forest.nodes[place].above = int32_t(forest.nodes.size());
    return readNode();
  }

  Forest &forest;
  std::vector<int32_t> features; // of the file, as forEachFeature counts them
  size_t next = 0;
  llvm::SmallVector<StringRef> words;
};

std::optional<Forest> Forest::parse(StringRef text, std::string &error) {
  Forest forest;
  error = Parser(forest).run(text);
  return error.empty() ? std::optional(std::move(forest)) : std::nullopt;
}

const Forest &Forest::shipped() {
  static const Forest forest = [] {
    std::string error;
    auto parsed = parse(kShippedForest, error);
    if (!parsed)
      llvm::reportFatalInternalError("the shipped forest: " +
                                     llvm::Twine(error));
    return std::move(*parsed);
  }();
  return forest;
}

double Forest::sumOf(const Part &part, llvm::ArrayRef<double> features) const {
  double sum = 0;
  for (size_t at : part.roots) {
    for (; nodes[at].feature >= 0;)
      at = features[nodes[at].feature] <= nodes[at].threshold
               ? at + 1
               : size_t(nodes[at].above);
    sum += nodes[at].threshold;
  }
  return sum;
}

double Forest::loss(const RankedCandidate &candidate) const {
  llvm::SmallVector<double, 128> features;
  forEachFeature(candidate,
                 [&](StringRef, double value) { features.push_back(value); });
  double sum = 0;
  for (const Part &part : parts)
    sum += sumOf(part, features) +
           (part.ofEstimate ? std::log(candidate.estimate.milliseconds) : 0);
  return sum / double(parts.size());
}
