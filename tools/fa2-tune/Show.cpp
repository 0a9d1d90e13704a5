//===- Show.cpp - results for people --------------------------------------===//

#include "Show.h"
#include "Statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

namespace fa2tune {

std::map<std::string, std::string> fieldsOf(const std::string &schedule) {
  std::map<std::string, std::string> fields;
  std::istringstream parts(schedule);
  for (std::string part; std::getline(parts, part, ',');)
    if (size_t equals = part.find('='); equals != std::string::npos)
      fields[part.substr(0, equals)] = part.substr(equals + 1);
  return fields;
}

namespace {

std::string nameOf(const std::pair<std::string, std::string> &key) {
  return key.first + " " + key.second;
}

/// The fields in which a cell's candidates differ, in the schedule's order.
std::vector<std::string> varied(const Results &results, const Cell &cell) {
  std::map<std::string, std::set<std::string>> values;
  std::string any;
  for (const auto &[kernel, timing] : cell.timings) {
    any = results.contestants.at(kernel).schedule;
    for (const auto &[name, value] : fieldsOf(any))
      values[name].insert(value);
  }
  std::vector<std::string> names;
  std::istringstream parts(any);
  for (std::string part; std::getline(parts, part, ',');)
    if (std::string name = part.substr(0, part.find('='));
        values[name].size() > 1)
      names.push_back(name);
  return names;
}

std::string shortened(const std::string &schedule,
                      const std::vector<std::string> &names) {
  auto fields = fieldsOf(schedule);
  std::string text;
  for (const std::string &name : names)
    if (const std::string &value = fields[name];
        value != "false" && !value.empty())
      text += (text.empty() ? "" : " ") + name +
              (value == "true" ? "" : "=" + value);
  return text;
}

std::string table(const Results &results,
                  const std::pair<std::string, std::string> &key,
                  const Cell &cell, size_t most) {
  auto order = results.ranking(cell);
  std::string text = fmt::format("{} ({}): {} candidates\n", nameOf(key),
                                 results.device, cell.timings.size());
  text += "        ms  spread  TFLOP/s     of best  model ms  schedule\n";
  auto names = varied(results, cell);
  size_t shown = 0;
  for (const std::string &kernel : order) {
    const Timing &t = cell.timings.at(kernel);
    const Contestant &c = results.contestants.at(kernel);
    if (shown++ >= most && c.source != "today")
      continue;
    double best = cell.timings.at(order.front()).milliseconds();
    text += fmt::format(
        "{:10.4f}  {:5.1f}%  {:7.0f}  {:10.3f}  {:8.4f}  {}{}\n",
        t.milliseconds(), 100 * t.spread(), t.flops / t.milliseconds() / 1e9,
        best / t.milliseconds(), t.model, shortened(c.schedule, names),
        c.source == "today" ? "  (today's)" : "");
  }
  return text;
}

/// What the estimates were worth in a cell.
struct Quality {
  double first, firstEight, correlation;
};

std::optional<Quality> qualityOf(const Results &results, const Cell &cell) {
  std::vector<std::pair<double, double>> estimated; // and measured
  for (const std::string &kernel : results.ranking(cell)) {
    const Timing &t = cell.timings.at(kernel);
    if (t.model > 0)
      estimated.push_back({t.model, t.milliseconds()});
  }
  if (estimated.size() < 2)
    return std::nullopt;
  std::sort(estimated.begin(), estimated.end());
  std::vector<double> model, measured;
  for (auto [m, t] : estimated) {
    model.push_back(m);
    measured.push_back(t);
  }
  double best = *std::min_element(measured.begin(), measured.end());
  double eight = *std::min_element(
      measured.begin(),
      measured.begin() + ptrdiff_t(std::min<size_t>(8, measured.size())));
  return Quality{best / measured.front(), best / eight,
                 rankCorrelation(model, measured)};
}

bool isShown(const std::pair<std::string, std::string> &key,
             const ShowOptions &options) {
  return nameOf(key).find(options.only) != std::string::npos;
}

/// One panel of a landscape.
class Panel {
public:
  Panel(const Results &results, const Cell &cell) {
    double best = INFINITY;
    for (const std::string &kernel : results.ranking(cell)) {
      auto fields = fieldsOf(results.contestants.at(kernel).schedule);
      int q = std::atoi(fields["block_q"].c_str());
      int kv = std::atoi(fields["block_kv"].c_str());
      double time = cell.timings.at(kernel).milliseconds();
      auto [at, isNew] = times.try_emplace({q, kv}, time);
      at->second = std::min(at->second, time);
      best = std::min(best, time);
      rows.insert(q);
      columns.insert(kv);
    }
    for (auto &[tile, time] : times)
      time = best / time;
  }

  int width() const { return kLeft + int(columns.size()) * kCell + 20; }
  int height() const { return kTop + int(rows.size()) * kCell + 20; }

  std::string svg(const std::string &title, int x, int y) const {
    std::string text = fmt::format(
        "<g transform=\"translate({},{})\"><text x=\"0\" y=\"14\" "
        "font-weight=\"bold\">{}</text>\n<text x=\"0\" y=\"32\">rows: block_q, "
        "columns: block_kv; speed over the best</text>\n",
        x, y, title);
    int column = 0, row = 0;
    for (int kv : columns)
      text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n",
                          kLeft + column++ * kCell + 4, kTop - 4, kv);
    for (int q : rows) {
      text += fmt::format("<text x=\"0\" y=\"{}\">{}</text>\n",
                          kTop + row * kCell + 18, q);
      column = 0;
      for (int kv : columns) {
        if (auto at = times.find({q, kv}); at != times.end())
          text +=
              square(kLeft + column * kCell, kTop + row * kCell, at->second);
        ++column;
      }
      ++row;
    }
    return text + "</g>\n";
  }

private:
  static constexpr int kCell = 40, kLeft = 36, kTop = 56;

  /// From white at half the speed to blue at the best's.
  static std::string square(int x, int y, double speed) {
    double depth = std::clamp(2 * speed - 1, 0.0, 1.0);
    int light = int(255 - 175 * depth);
    return fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "fill=\"rgb({},{},255)\"/><text x=\"{}\" y=\"{}\">{:.2f}</text>\n",
        x, y, kCell - 2, kCell - 12, light, light, x + 4, y + 18, speed);
  }

  std::map<std::pair<int, int>, double> times;
  std::set<int> rows, columns;
};

std::string rowOf(const Contestant &c, const Cell &cell, const Timing &timing) {
  std::vector<double> times;
  for (const Visit &visit : timing.visits)
    if (visit.round == timing.round())
      times.push_back(visit.milliseconds);
  auto [least, most] = std::minmax_element(times.begin(), times.end());
  std::string schedule = c.schedule;
  std::replace(schedule.begin(), schedule.end(), ',', ';');
  const Problem &p = c.problem;
  return fmt::format("{},{},{},{},{},{},{},{},{:.5f},{:.5f},{:.5f},{}\n",
                     p.pass, p.arch, p.headDim, p.mask, cell.shape, c.source,
                     timing.round(), times.size(), timing.milliseconds(),
                     *least, *most, schedule);
}

} // namespace

std::string measuredRows(const Results &results, const ShowOptions &options) {
  std::string text = "pass,arch,head_dim,mask,shape,source,round,visits,ms,"
                     "least,most,schedule\n";
  for (const auto &[key, cell] : results.cells) {
    if (nameOf(key).find(options.only) == std::string::npos)
      continue;
    for (const std::string &kernel : results.ranking(cell)) {
      const Contestant &c = results.contestants.at(kernel);
      // What fits read: kernels without a program, of one head dim.
      if (c.problem.group.empty() && c.problem.needs.empty() &&
          c.problem.headDim == c.problem.headDimV)
        text += rowOf(c, cell, cell.timings.at(kernel));
    }
  }
  return text;
}

std::string tables(const Results &results, const ShowOptions &options) {
  std::string text;
  for (const auto &[key, cell] : results.cells)
    if (isShown(key, options) && !results.ranking(cell).empty())
      text += table(results, key, cell, options.most) + "\n";
  size_t dropped = 0;
  for (const auto &[kernel, c] : results.contestants)
    if (!c.passed) {
      ++dropped;
      text += fmt::format("dropped: {}: {}: {}\n", c.problem.text(), c.schedule,
                          c.why);
    }
  return text + fmt::format("{} cells, {} candidates, {} dropped\n",
                            results.cells.size(), results.contestants.size(),
                            dropped);
}

std::string modelQuality(const Results &results, const ShowOptions &options) {
  std::map<std::string, std::vector<Quality>> groups;
  for (const auto &[key, cell] : results.cells) {
    if (!isShown(key, options))
      continue;
    auto quality = qualityOf(results, cell);
    if (!quality)
      continue;
    // "forward sm_90a", and all.
    size_t second = key.first.find(' ', key.first.find(' ') + 1);
    groups[key.first.substr(0, second)].push_back(*quality);
    groups["all"].push_back(*quality);
  }
  std::string text =
      fmt::format("{:<18} {:>6} {:>14} {:>14} {:>14} {:>14} {:>12}\n",
                  "the model's", "cells", "first, median", "first, 5%",
                  "of 8, median", "of 8, 5%", "correlation");
  for (const auto &group : groups) {
    const std::vector<Quality> &list = group.second;
    auto of = [&](double Quality::*member) {
      std::vector<double> values;
      for (const Quality &q : list)
        values.push_back(q.*member);
      return values;
    };
    text += fmt::format(
        "{:<18} {:>6} {:>14.3f} {:>14.3f} {:>14.3f} {:>14.3f} {:>12.2f}\n",
        group.first, list.size(), quantile(of(&Quality::first), 0.5),
        quantile(of(&Quality::first), 0.05),
        quantile(of(&Quality::firstEight), 0.5),
        quantile(of(&Quality::firstEight), 0.05),
        quantile(of(&Quality::correlation), 0.5));
  }
  return text;
}

std::string landscapeSvg(const Results &results, const ShowOptions &options) {
  std::string body;
  int y = 10, width = 400;
  for (const auto &[key, cell] : results.cells) {
    if (!isShown(key, options) || results.ranking(cell).empty())
      continue;
    Panel panel(results, cell);
    body += panel.svg(nameOf(key), 10, y);
    y += panel.height() + 20;
    width = std::max(width, panel.width() + 20);
  }
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" "
                     "height=\"{}\" font-family=\"sans-serif\" "
                     "font-size=\"12\">\n{}</svg>\n",
                     width, y, body);
}

} // namespace fa2tune
