//===- Choose.cpp - results become rows of a database ---------------------===//

#include "Choose.h"
#include "Statistics.h"

#include "Failure.h"
#include "Files.h"

#include <set>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

namespace {

/// What a row is for: of two that agree in it one is taken.
std::string keyOf(const OrderedJson &row) {
  std::string key;
  for (const char *name :
       {"pass", "arch", "dtype", "head_dim", "head_dim_v", "mask", "device"})
    key += row.at(name).dump() + " ";
  return key;
}

using Cells = std::vector<const Cell *>;

/// On a shape, milliseconds; infinity where it was not measured.
double timeOf(const Cell &cell, const std::string &kernel) {
  auto timing = cell.timings.find(kernel);
  bool measured =
      timing != cell.timings.end() && !timing->second.visits.empty();
  return measured ? timing->second.milliseconds() : INFINITY;
}

/// The fastest visit of any round. What stands is judged by it, what would
/// replace it by its median: a visit that something disturbed is no gain.
double fastestOf(const Cell &cell, const std::string &kernel) {
  double fastest = timeOf(cell, kernel);
  if (std::isfinite(fastest))
    for (const Visit &v : cell.timings.at(kernel).visits)
      fastest = std::min(fastest, v.milliseconds);
  return fastest;
}

/// How much slower than the best of each cell, as a geometric mean.
template <typename Time>
double lossOf(const Results &results, const Cells &cells,
              const std::string &kernel, Time time) {
  double sum = 0;
  for (const Cell *cell : cells)
    sum += std::log(time(*cell, kernel) /
                    timeOf(*cell, results.ranking(*cell).front()));
  return std::exp(sum / double(cells.size()));
}

/// What differences of measurements mean nothing.
constexpr double kNoise = 1.005;

/// Whether it is nowhere slower than another one.
bool isSafe(const Cells &cells, const std::string &kernel,
            const std::string &other) {
  return std::all_of(cells.begin(), cells.end(), [&](const Cell *cell) {
    return timeOf(*cell, kernel) <= kNoise * fastestOf(*cell, other);
  });
}

OrderedJson rowOf(const Results &results, const Cells &cells,
                  const std::string &kernel, double loss, double today) {
  const Contestant &c = results.contestants.at(kernel);
  OrderedJson row = c.problem.toJson();
  row["device"] = results.device;
  row["schedule"] = c.schedule;
  OrderedJson times = OrderedJson::object();
  std::vector<double> spreads, clocks;
  size_t candidates = 0;
  for (const Cell *cell : cells) {
    const Timing &t = cell->timings.at(kernel);
    times[cell->shape] = t.milliseconds();
    spreads.push_back(t.spread());
    candidates = std::max(candidates, cell->timings.size());
    for (const Visit &v : t.visits)
      if (v.clock > 0)
        clocks.push_back(v.clock);
  }
  row["ms"] = times;
  row["spread"] = std::round(1e4 * quantile(spreads, 0.5)) / 1e4;
  row["of_best"] = std::round(1e3 / loss) / 1e3;
  if (std::isfinite(today))
    row["over_before"] = std::round(1e3 * today / loss) / 1e3;
  row["candidates"] = candidates;
  row["clock_mhz"] = int(quantile(clocks, 0.5));
  row["date"] = results.date.substr(0, 10);
  row["compiler"] = c.compiler;
  row["checked"] = "float64";
  return row;
}

} // namespace

std::vector<OrderedJson> chooseRows(const Results &results) {
  std::map<std::string, Cells> problems;
  for (const auto &[key, cell] : results.cells)
    if (!results.ranking(cell).empty())
      problems[key.first].push_back(&cell);
  std::vector<OrderedJson> rows;
  for (const auto &[problem, cells] : problems) {
    auto candidates = results.ranking(*cells.front());
    auto today = std::find_if(
        candidates.begin(), candidates.end(), [&](const std::string &kernel) {
          return results.contestants.at(kernel).source == "today";
        });
    std::string best = today == candidates.end() ? "" : *today;
    double before =
        best.empty() ? INFINITY : lossOf(results, cells, best, fastestOf);
    double least = before / kNoise;
    for (const std::string &kernel : candidates)
      if (double loss = lossOf(results, cells, kernel, timeOf);
          loss < least &&
          (before == INFINITY || isSafe(cells, kernel, *today))) {
        least = loss;
        best = kernel;
      }
    double loss =
        best.empty() ? INFINITY : lossOf(results, cells, best, timeOf);
    if (std::isfinite(loss))
      rows.push_back(rowOf(results, cells, best, loss, std::max(loss, before)));
  }
  return rows;
}

std::vector<OrderedJson> readDatabase(const std::string &path) {
  std::string text = readFile(path);
  try {
    OrderedJson document = OrderedJson::parse(text);
    if (!document.is_object() || !document.contains("fa2_schedules"))
      refuse("{} is not a database of schedules", path);
    if (document["fa2_schedules"] != kDatabaseVersion)
      refuse("{}: its version is {}, this fa2-tune reads {}", path,
             document["fa2_schedules"].dump(), kDatabaseVersion);
    std::vector<OrderedJson> rows = document.at("rows");
    for (const OrderedJson &row : rows)
      keyOf(row);
    return rows;
  } catch (const nlohmann::json::exception &error) {
    refuse("{} is damaged: {}", path,
           std::string_view(error.what()).substr(0, 200));
  }
}

std::vector<OrderedJson>
mergeRows(const std::vector<std::vector<OrderedJson>> &databases) {
  std::map<std::string, OrderedJson> rows;
  for (const auto &database : databases)
    for (const OrderedJson &row : database) {
      auto [at, isNew] = rows.try_emplace(keyOf(row), row);
      if (!isNew && at->second.value("date", "") <= row.value("date", ""))
        at->second = row;
    }
  std::vector<OrderedJson> list;
  for (auto &[key, row] : rows)
    list.push_back(std::move(row));
  return list;
}

std::string databaseText(const std::vector<OrderedJson> &rows) {
  std::string text =
      fmt::format("{{\"fa2_schedules\": {},\n \"rows\": [", kDatabaseVersion);
  for (size_t i = 0; i < rows.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + rows[i].dump();
  return text + "]}\n";
}

} // namespace fa2tune
