//===- Choose.cpp - results become rows of a database ---------------------===//

#include "Choose.h"
#include "Cover.h"
#include "Show.h"
#include "Statistics.h"

#include "Failure.h"
#include "Files.h"

#include <algorithm>
#include <sstream>

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
  return key + row.value("needs", "");
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

/// Of a variant's schedule, what differs from the main one, as --variants takes
/// it; where nothing does, because shorter and longer launches want the same,
/// its first field.
std::string differing(const std::string &schedule, const std::string &main) {
  auto fields = fieldsOf(main);
  std::string text;
  std::istringstream parts(schedule);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t equals = part.find('=');
    if (fields[part.substr(0, equals)] != part.substr(equals + 1))
      text += (text.empty() ? "" : ",") + part;
  }
  return text.empty() ? schedule.substr(0, schedule.find(',')) : text;
}

/// A choice for a problem: by shape, the kernels and what they were.
struct Choice {
  std::vector<std::string> kernels; // of each cell
  std::string main;                 // where no guard holds
  std::string variants;             // "guard: fields; ...", or ""
  double loss = INFINITY;
};

OrderedJson rowOf(const Results &results, const Cells &cells,
                  const Choice &choice, double today) {
  const Contestant &c = results.contestants.at(choice.main);
  OrderedJson row = c.problem.toJson();
  row["device"] = results.device;
  row["schedule"] = c.schedule;
  if (!choice.variants.empty())
    row["variants"] = choice.variants;
  OrderedJson times = OrderedJson::object();
  std::vector<double> spreads, clocks;
  size_t candidates = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    const Timing &t = cells[i]->timings.at(choice.kernels[i]);
    times[cells[i]->shape] = t.milliseconds();
    spreads.push_back(t.spread());
    candidates = std::max(candidates, cells[i]->timings.size());
    for (const Visit &v : t.visits)
      if (v.clock > 0)
        clocks.push_back(v.clock);
  }
  row["ms"] = times;
  row["spread"] = std::round(1e4 * quantile(spreads, 0.5)) / 1e4;
  row["of_best"] = std::round(1e3 / choice.loss) / 1e3;
  if (std::isfinite(today))
    row["over_before"] = std::round(1e3 * today / choice.loss) / 1e3;
  row["candidates"] = candidates;
  row["clock_mhz"] = int(quantile(clocks, 0.5));
  row["date"] = results.date.substr(0, 10);
  row["compiler"] = c.compiler;
  row["checked"] = "float64";
  if (!c.bits.empty())
    row["bits"] = c.bits;
  return row;
}

/// Those that were measured somewhere, in one order.
std::vector<std::string> candidatesOf(const Results &results,
                                      const Cells &cells) {
  std::vector<std::string> list;
  for (const Cell *cell : cells)
    for (const std::string &kernel : results.ranking(*cell))
      if (std::find(list.begin(), list.end(), kernel) == list.end())
        list.push_back(kernel);
  return list;
}

/// Losses of what is on a cell not slower than today's, which stands as it is.
Landscape landscapeOf(const Results &results, const Cells &cells,
                      const std::vector<std::string> &candidates,
                      const std::string &today) {
  Landscape l;
  l.multiprocessors = results.multiprocessors;
  l.backward =
      results.contestants.at(candidates.front()).problem.pass == "backward";
  for (const std::string &kernel : candidates)
    l.bits.push_back(results.contestants.at(kernel).bits);
  for (const Cell *cell : cells) {
    l.shapes.push_back(parseShape(cell->shape));
    double best = timeOf(*cell, results.ranking(*cell).front());
    std::vector<double> &losses = l.losses.emplace_back();
    for (const std::string &kernel : candidates) {
      bool serves =
          today.empty() || kernel == today || isSafe({cell}, kernel, today);
      double time =
          kernel == today ? fastestOf(*cell, kernel) : timeOf(*cell, kernel);
      losses.push_back(serves ? std::log(time / best) : INFINITY);
    }
  }
  return l;
}

/// Several kernels where they are worth it.
Choice chooseSeveral(const Results &results, const Cells &cells,
                     const std::string &today, size_t most) {
  std::vector<std::string> candidates = candidatesOf(results, cells);
  Cover cover = findCover(landscapeOf(results, cells, candidates, today), most,
                          std::log(kNoise));
  Choice choice;
  if (cover.parts.empty())
    return choice;
  choice.main = candidates[cover.parts.back().candidate];
  const auto schedule = [&](const std::string &kernel) {
    return results.contestants.at(kernel).schedule;
  };
  for (const Cover::Part &part : cover.parts)
    if (!part.guard.empty())
      choice.variants += (choice.variants.empty() ? "" : "; ") + part.guard +
                         ": " +
                         differing(schedule(candidates[part.candidate]),
                                   schedule(choice.main));
  for (size_t candidate : cover.of)
    choice.kernels.push_back(candidates[candidate]);
  choice.loss = std::exp(cover.loss);
  return choice;
}

} // namespace

std::vector<OrderedJson> chooseRows(const Results &results, size_t kernels) {
  std::map<std::string, Cells> problems;
  for (const auto &[key, cell] : results.cells) {
    std::vector<std::string> order = results.ranking(cell);
    // A named group's candidates differ in what they compute.
    if (!order.empty() &&
        results.contestants.at(order.front()).problem.group.empty())
      problems[key.first].push_back(&cell);
  }
  std::vector<OrderedJson> rows;
  for (const auto &[problem, cells] : problems) {
    std::vector<std::string> candidates = candidatesOf(results, cells);
    auto found = std::find_if(
        candidates.begin(), candidates.end(), [&](const std::string &kernel) {
          return results.contestants.at(kernel).source == "today";
        });
    std::string today = found == candidates.end() ? "" : *found;
    double before =
        today.empty() ? INFINITY : lossOf(results, cells, today, fastestOf);
    if (!std::isfinite(before))
      today.clear(); // on some shape it was not measured
    Choice choice = chooseSeveral(results, cells, today, kernels);
    // What does not gain more than noise changes nothing.
    if (!today.empty() && choice.loss >= before / kNoise)
      choice = {std::vector<std::string>(cells.size(), today), today, "",
                lossOf(results, cells, today, timeOf)};
    if (std::isfinite(choice.loss))
      rows.push_back(
          rowOf(results, cells, choice, std::max(choice.loss, before)));
  }
  return rows;
}

std::vector<OrderedJson> readDatabase(const std::string &path) {
  std::string text = readFile(path);
  try {
    OrderedJson document = OrderedJson::parse(text);
    if (!document.is_object() || !document.contains("fa2_schedules"))
      refuse("{} is not a database of schedules", path);
    if (const auto &version = document["fa2_schedules"];
        version < 1 || version > kDatabaseVersion)
      refuse("{}: its version is {}, this fa2-tune reads 1 to {}", path,
             version.dump(), kDatabaseVersion);
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
  bool plain =
      std::none_of(rows.begin(), rows.end(), [](const OrderedJson &row) {
        return row.contains("needs");
      });
  std::string text = fmt::format("{{\"fa2_schedules\": {},\n \"rows\": [",
                                 plain ? 1 : kDatabaseVersion);
  for (size_t i = 0; i < rows.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + rows[i].dump();
  return text + "]}\n";
}

} // namespace fa2tune
