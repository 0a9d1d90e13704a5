//===- FitReport.cpp - how far the model is right -------------------------===//

#include "Fit.h"

#include "fa2/Schedule/Space.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <functional>
#include <map>

using namespace fa2;
using namespace fa2tune;
using llvm::formatv;

namespace {

using Cells = std::vector<const MeasuredCell *>;

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  double at = part * double(values.size() - 1);
  size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - double(low)) * (values[high] - values[low]);
}

/// A line of the table: of qualities, the medians and what 5 percent are below.
void printLine(llvm::StringRef name, const std::vector<CellQuality> &all) {
  std::vector<double> first, eight;
  for (const CellQuality &q : all) {
    first.push_back(q.first);
    eight.push_back(q.firstEight);
  }
  llvm::outs() << formatv(
      "{0,-36} {1,6} {2,13:f3} {3,9:f3} {4,13:f3} {5,9:f3}\n", name, all.size(),
      quantile(first, 0.5), quantile(first, 0.05), quantile(eight, 0.5),
      quantile(eight, 0.05));
}

std::vector<CellQuality> judge(const Cells &cells,
                               const ModelNumbers &numbers) {
  std::vector<CellQuality> all;
  for (const MeasuredCell *cell : cells)
    all.push_back(qualityOf(*cell, numbers));
  return all;
}

std::vector<CellQuality> judgeTrees(const Cells &cells) {
  std::vector<CellQuality> all;
  for (const MeasuredCell *cell : cells)
    all.push_back(qualityByTrees(*cell));
  return all;
}

/// The cells where the first choice loses most: it, and what is faster.
void printWorst(const Cells &cells, size_t count) {
  std::vector<std::pair<CellQuality, const MeasuredCell *>> all;
  for (const MeasuredCell *cell : cells)
    all.push_back({qualityOf(*cell, {}), cell});
  std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) {
    return a.first.first < b.first.first;
  });
  all.resize(std::min(count, all.size()));
  for (const auto &[quality, cell] : all)
    llvm::outs() << formatv(
        "{0:f3}  {1} {2} {3}{4}, {5} x {6} x {7} x {8}\n  chosen {9}\n  best   "
        "{10}\n",
        quality.first, cell->problem.backward ? "backward" : "forward",
        cell->target->name(), cell->problem.headDim,
        cell->problem.masked ? " causal" : "", cell->shape.batch,
        cell->shape.heads, cell->shape.seqlenQ, cell->shape.seqlenK,
        fieldsText(cell->schedules[quality.chosen]),
        fieldsText(cell->schedules[quality.best]));
}

/// What a cell is left out by: its head dim, or its lengths.
std::string groupOf(const MeasuredCell &cell, llvm::StringRef by) {
  if (by == "head_dim")
    return formatv("head dim {0,3}", cell.problem.headDim);
  return formatv("{0} x {1} queries", cell.shape.batch, cell.shape.seqlenQ);
}

/// Each group's cells, by a fit to all others.
void printLeftOut(const Cells &cells, llvm::StringRef by,
                  const FitOptions &options, unsigned jobs) {
  std::map<std::string, Cells> groups;
  for (const MeasuredCell *cell : cells)
    groups[groupOf(*cell, by)].push_back(cell);
  std::map<std::string, std::vector<CellQuality>> qualities;
  for (const auto &group : groups)
    qualities[group.first];
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
  for (auto &[name, quality] : qualities)
    pool.async([&, name = name, quality = &quality] {
      Cells others;
      for (const MeasuredCell *cell : cells)
        if (groupOf(*cell, by) != name)
          others.push_back(cell);
      *quality = judge(groups.at(name), fit(others, options));
    });
  pool.wait();
  std::vector<CellQuality> all;
  for (const auto &[name, quality] : qualities) {
    printLine("  without " + name, quality);
    all.insert(all.end(), quality.begin(), quality.end());
  }
  printLine(("each left out by " + by).str(), all);
}

void printNumbers(const ModelNumbers &n) {
#define FA2_MODEL_NUMBER(NAME, VALUE, GUESS)                                   \
  llvm::outs() << formatv("FA2_MODEL_NUMBER({0}, {1:f3}, {2})\n", #NAME,       \
                          n.NAME, GUESS);
#include "fa2/Schedule/ModelNumbers.def"
}

} // namespace

std::string fa2tune::reportFit(const std::string &path,
                               const std::string &leaveOut,
                               const FitOptions &options, bool numbers,
                               size_t worst, unsigned jobs) {
  if (!leaveOut.empty() && leaveOut != "shape" && leaveOut != "head_dim")
    return formatv("expected --leave-out to be shape or head_dim, got '{0}'",
                   leaveOut);
  std::vector<MeasuredCell> measured;
  if (std::string wrong = readMeasured(path, measured); !wrong.empty())
    return wrong;
  Cells cells;
  for (const MeasuredCell &cell : measured)
    if (cell.schedules.size() > 1)
      cells.push_back(&cell);
  llvm::outs() << formatv("{0,-36} {1,6} {2,13} {3,9} {4,13} {5,9}\n",
                          "the model's numbers", "cells", "first, median",
                          "first, 5%", "of 8, median", "of 8, 5%");
  printLine("as they are", judge(cells, {}));
  printWorst(cells, worst);
  printLine("with the trees", judgeTrees(cells));
  printLine("guesses", judge(cells, ModelNumbers::guesses()));
  ModelNumbers fitted = fit(cells, options);
  printLine("fitted to all", judge(cells, fitted));
  if (!leaveOut.empty())
    printLeftOut(cells, leaveOut, options, jobs);
  if (numbers)
    printNumbers(fitted);
  return "";
}
