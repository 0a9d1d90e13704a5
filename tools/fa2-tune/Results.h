//===- Results.h - what was measured, cell by cell --------------*- C++ -*-===//
#ifndef FA2TUNE_RESULTS_H
#define FA2TUNE_RESULTS_H

#include "Journal.h"

#include <map>
#include <string>
#include <vector>

namespace fa2tune {

/// One candidate as a journal knows it.
struct Contestant {
  Problem problem;
  std::string schedule, source, compiler;
  std::string bits; // what a row's bits follow from; "": not known
  bool checked = false, passed = false;
  std::string why; // it did not pass
};

/// A visit of a candidate in a round of a cell.
struct Visit {
  int round = 0;
  double milliseconds = 0;
  int clock = 0; // MHz, 0: unknown
};

/// A candidate's visits on a shape.
struct Timing {
  std::vector<Visit> visits;
  double model = 0; // milliseconds
  double flops = 0;

  /// The visits of the highest round that has any; their median and spread.
  int round() const;
  double milliseconds() const;
  double spread() const;
};

/// A problem on a shape: candidates by their hash.
struct Cell {
  std::string shape;
  std::map<std::string, Timing> timings;
};

struct Results {
  std::string device, date;
  int64_t multiprocessors = 0;
  std::map<std::string, Contestant> contestants;
  /// By Problem::text() and shape.
  std::map<std::pair<std::string, std::string>, Cell> cells;

  /// Takes a line of a journal. Throws nlohmann's exceptions.
  void add(const nlohmann::json &line);
  static Results of(const std::vector<nlohmann::json> &lines,
                    const std::string &path);

  /// The cell's candidates by time, those of later rounds first.
  std::vector<std::string> ranking(const Cell &cell) const;
};

} // namespace fa2tune

#endif // FA2TUNE_RESULTS_H
