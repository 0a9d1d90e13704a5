//===- ModuloDraw.cpp - a loop's schedule as text -------------------------===//

#include "fa2/Schedule/Modulo.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fa2::modulo;
using llvm::formatv;

static constexpr int64_t kColumns = 66;
static constexpr std::pair<Resource, const char *> kRows[] = {
    {Resource::Tensor, "tensor cores"},
    {Resource::Exponential, "exponentials"},
    {Resource::Arithmetic, "arithmetic"},
    {Resource::Shared, "shared memory"}};

/// A step's name in brackets as wide as it takes, cut where it does not fit.
static void drawStep(std::string &row, const std::string &name, int64_t begin,
                     int64_t end) {
  end = std::min<int64_t>(std::max(end, begin + 1), kColumns);
  for (int64_t i = begin; i < end; ++i)
    row[i] = i == begin                             ? '|'
             : i - begin - 1 < int64_t(name.size()) ? name[i - begin - 1]
                                                    : '-';
}

std::string fa2::modulo::draw(const Graph &graph, const Times &times) {
  auto column = [&](int64_t clock) {
    return clock * kColumns / times.interval;
  };
  int64_t last = 0;
  for (int i = 0; i < int(graph.steps.size()); ++i)
    last = std::max(last, times.stage(i));
  std::string text = formatv("{0,-14}0{1,65}", "clocks", times.interval);
  for (auto [resource, name] : kRows) {
    std::string row(kColumns, ' ');
    bool any = false;
    for (auto [i, step] : llvm::enumerate(graph.steps)) {
      if (step.resource != resource || !step.clocks)
        continue;
      any = true;
      int64_t begin = times.offset(int(i));
      drawStep(row, step.name + std::string(times.stage(int(i)), '\''),
               column(begin), column(begin + step.clocks));
    }
    if (any)
      text += formatv("\n{0,-14}{1}", name, llvm::StringRef(row).rtrim());
  }
  return text;
}
