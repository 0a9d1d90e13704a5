//===- Results.cpp - what was measured, cell by cell ----------------------===//

#include "Results.h"

#include "Failure.h"

#include <algorithm>
#include <tuple>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

int Timing::round() const {
  int round = -1;
  for (const Visit &v : visits)
    round = std::max(round, v.round);
  return round;
}

static std::vector<double> lastVisits(const Timing &t) {
  std::vector<double> times;
  for (const Visit &v : t.visits)
    if (v.round == t.round())
      times.push_back(v.milliseconds);
  std::sort(times.begin(), times.end());
  return times;
}

double Timing::milliseconds() const {
  std::vector<double> times = lastVisits(*this);
  return times.empty() ? 0 : times[times.size() / 2];
}

double Timing::spread() const {
  std::vector<double> times = lastVisits(*this);
  return times.empty()
             ? 0
             : (times.back() - times.front()) / times[times.size() / 2];
}

void Results::add(const json &line) {
  if (line.contains("fa2_tune_results")) {
    device = line.at("device");
    date = line.at("date");
    multiprocessors = line.at("multiprocessors");
  } else if (line.contains("check")) {
    const json &check = line.at("check");
    Contestant &c = contestants[check.at("kernel")];
    c.problem = Problem::fromJson(check.at("problem"));
    c.schedule = check.at("schedule");
    c.source = check.at("source");
    c.compiler = check.at("compiler");
    c.bits = check.value("bits", "");
    c.checked = true;
    c.passed = check.at("passed");
    c.why = check.value("why", "");
  } else if (line.contains("time")) {
    const json &time = line.at("time");
    auto contestant = contestants.find(time.at("kernel").get<std::string>());
    if (contestant == contestants.end())
      refuse("a kernel was timed that was not checked");
    std::string shape = time.at("shape");
    Cell &cell = cells[{contestant->second.problem.text(), shape}];
    cell.shape = shape;
    Timing &timing = cell.timings[contestant->first];
    timing.visits.push_back(
        {time.at("round"), time.at("ms"), time.value("clock_mhz", 0)});
    timing.model = time.value("model_ms", 0.0);
    timing.flops = time.at("flops");
  } else if (line.contains("again")) {
    // A group's cell was cut off: all of it is measured anew.
    const json &cell = line.at("again");
    cells.erase({cell.at("group"), cell.at("shape")});
  } else if (line.contains("lost")) {
    // It hung or faulted while it was timed.
    Contestant &c = contestants[line.at("lost").at("kernel")];
    c.passed = false;
    c.why = line.at("lost").at("why");
  }
}

Results Results::of(const std::vector<json> &lines, const std::string &path) {
  Results results;
  size_t number = 0;
  try {
    for (const json &line : lines) {
      ++number;
      results.add(line);
    }
  } catch (const std::exception &error) {
    refuse("{}, line {}: {}", path, number, error.what());
  }
  return results;
}

std::vector<std::string> Results::ranking(const Cell &cell) const {
  std::vector<std::string> order;
  for (const auto &[kernel, timing] : cell.timings)
    if (contestants.at(kernel).passed && !timing.visits.empty())
      order.push_back(kernel);
  std::sort(order.begin(), order.end(), [&](const auto &a, const auto &b) {
    const Timing &ta = cell.timings.at(a), &tb = cell.timings.at(b);
    return std::tuple(-ta.round(), ta.milliseconds(), a) <
           std::tuple(-tb.round(), tb.milliseconds(), b);
  });
  return order;
}

} // namespace fa2tune
