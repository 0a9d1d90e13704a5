//===- Fit.cpp - the model's numbers from what was measured ---------------===//

#include "Fit.h"
#include "Candidates.h"
#include "Forest.h"

#include "fa2/Target/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

using namespace fa2;
using namespace fa2tune;
using llvm::formatv;
using llvm::StringRef;

namespace {

/// "4x16/16x4096x4096"
bool readShape(StringRef text, Shape &shape) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, 'x');
  if (parts.size() != 4)
    return false;
  auto [heads, headsKv] = parts[1].split('/');
  return !parts[0].getAsInteger(10, shape.batch) &&
         !heads.getAsInteger(10, shape.heads) &&
         !headsKv.getAsInteger(10, shape.headsKv) &&
         !parts[2].getAsInteger(10, shape.seqlenQ) &&
         !parts[3].getAsInteger(10, shape.seqlenK);
}

constexpr StringRef kHeader =
    "pass,arch,head_dim,mask,shape,source,round,visits,ms,least,most,schedule";

/// What a row says of its cell. Returns what is wrong, or an empty string.
std::string readCell(llvm::ArrayRef<StringRef> columns, MeasuredCell &cell) {
  std::string wrong;
  cell.target = lookupTarget(columns[1], wrong);
  if (!cell.target)
    return wrong;
  cell.rates = ratesOn(*cell.target, "sm_90");
  int64_t dim = 0;
  if (columns[2].getAsInteger(10, dim) || !readShape(columns[4], cell.shape))
    return "expected a head dim and a shape";
  cell.problem = Problem{dim, dim, columns[3] != "none",
                         columns[0] == "backward", /*maxSlack=*/60};
  return "";
}

/// How much choosing by the model loses: over the candidates that it takes for
/// about as fast as its first one, so that small changes of numbers show.
double lossOf(const MeasuredCell &cell, const ModelNumbers &numbers) {
  constexpr double alike = 0.02;
  std::vector<double> estimates;
  for (const Schedule &s : cell.schedules)
    estimates.push_back(std::log(
        estimate(*cell.target, cell.rates, cell.problem, s, cell.shape, numbers)
            .milliseconds));
  double least = *std::min_element(estimates.begin(), estimates.end());
  double best =
      *std::min_element(cell.milliseconds.begin(), cell.milliseconds.end());
  double loss = 0, weights = 0;
  for (size_t i = 0; i < estimates.size(); ++i) {
    double weight = std::exp((least - estimates[i]) / alike);
    loss += weight * std::log(cell.milliseconds[i] / best);
    weights += weight;
  }
  loss /= weights;
  // What is far off counts more: the worst cells are what matters.
  return loss + 3 * loss * loss;
}

double *numberOf(ModelNumbers &numbers, size_t index) {
  double *all[] = {
#define FA2_MODEL_NUMBER(NAME, VALUE, GUESS) &numbers.NAME,
#include "fa2/Schedule/ModelNumbers.def"
  };
  return all[index];
}

constexpr size_t kNumbers = 0
#define FA2_MODEL_NUMBER(NAME, VALUE, GUESS) +1
#include "fa2/Schedule/ModelNumbers.def"
    ;

} // namespace

std::string fa2tune::readMeasured(const std::string &path,
                                  std::vector<MeasuredCell> &cells) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return formatv("cannot read '{0}': {1}", path, file.getError().message());
  llvm::SmallVector<StringRef> lines;
  (*file)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  if (lines.empty() || lines.front() != kHeader)
    return formatv("expected {0} to begin with the line '{1}'", path, kHeader);
  std::map<std::string, size_t> places;
  for (size_t i = 1; i < lines.size(); ++i) {
    llvm::SmallVector<StringRef> columns;
    lines[i].split(columns, ',');
    auto wrong = [&](const llvm::Twine &why) {
      return formatv("{0}, line {1}: {2}", path, i + 1, why.str()).str();
    };
    double milliseconds = 0;
    if (columns.size() != 12 || columns[8].getAsDouble(milliseconds) ||
        milliseconds <= 0)
      return wrong("expected 12 columns, the ninth of milliseconds");
    std::string key = llvm::join(llvm::ArrayRef(columns).take_front(5), ",");
    auto [place, isNew] = places.try_emplace(key, cells.size());
    if (isNew)
      if (std::string why = readCell(columns, cells.emplace_back());
          !why.empty())
        return wrong(why);
    ScheduleOverrides asked;
    std::string fields = columns[11].str();
    std::replace(fields.begin(), fields.end(), ';', ',');
    if (std::string why = asked.setFields("schedule", fields); !why.empty())
      return wrong(why);
    Schedule schedule;
    if (columns[0] == "backward")
      schedule.partition = Partition::Keys;
    MeasuredCell &cell = cells[place->second];
    cell.schedules.push_back(asked.applyTo(schedule));
    cell.milliseconds.push_back(milliseconds);
  }
  return cells.empty() ? path + " has no rows" : "";
}

static CellQuality
qualityBy(const MeasuredCell &cell,
          llvm::function_ref<double(const Schedule &)> loss) {
  std::vector<double> losses;
  for (const Schedule &s : cell.schedules)
    losses.push_back(loss(s));
  std::vector<size_t> order(losses.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  auto fastest =
      std::min_element(cell.milliseconds.begin(), cell.milliseconds.end());
  double eight = INFINITY;
  for (size_t i = 0; i < std::min<size_t>(8, order.size()); ++i)
    eight = std::min(eight, cell.milliseconds[order[i]]);
  return {*fastest / cell.milliseconds[order.front()], *fastest / eight,
          order.front(), size_t(fastest - cell.milliseconds.begin())};
}

CellQuality fa2tune::qualityOf(const MeasuredCell &cell,
                               const ModelNumbers &numbers) {
  return qualityBy(cell, [&](const Schedule &s) {
    return estimate(*cell.target, cell.rates, cell.problem, s, cell.shape,
                    numbers)
        .milliseconds;
  });
}

CellQuality fa2tune::qualityByTrees(const MeasuredCell &cell) {
  return qualityBy(cell, [&](const Schedule &s) {
    Estimate e =
        estimate(*cell.target, cell.rates, cell.problem, s, cell.shape);
    return Forest::shipped().loss(
        {*cell.target, cell.problem, s, cell.shape, e});
  });
}

ModelNumbers fa2tune::fit(const std::vector<const MeasuredCell *> &cells,
                          const FitOptions &options) {
  ModelNumbers guesses = ModelNumbers::guesses(), best = guesses;
  auto cost = [&](ModelNumbers &numbers) {
    double loss = 0, away = 0;
    for (const MeasuredCell *cell : cells)
      loss += lossOf(*cell, numbers);
    for (size_t i = 0; i < kNumbers; ++i)
      away +=
          std::pow(std::log(*numberOf(numbers, i) / *numberOf(guesses, i)), 2);
    return loss / double(cells.size()) + options.pull * away;
  };
  double least = cost(best);
  std::mt19937_64 random(options.seed);
  std::normal_distribution<double> normal;
  for (int64_t step = 0; step < options.steps; ++step) {
    ModelNumbers tried = best;
    // Long steps and short ones, of few numbers at a time.
    double length = 0.6 * std::pow(0.05, double(random() % 1000) / 1000);
    for (size_t n = 1 + random() % 4; n > 0; --n)
      *numberOf(tried, random() % kNumbers) *=
          std::exp(length * normal(random));
    if (double now = cost(tried); now < least) {
      least = now;
      best = tried;
    }
  }
  return best;
}
