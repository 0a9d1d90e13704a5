//===- Show.h - results for people ------------------------------*- C++ -*-===//
#ifndef FA2TUNE_SHOW_H
#define FA2TUNE_SHOW_H

#include "Results.h"

namespace fa2tune {

struct ShowOptions {
  std::string only;      // cells whose name has it
  size_t most = 8;       // candidates of a cell
  bool model = false;    // how far the estimates were right, in place of tables
  std::string landscape; // an SVG file
  std::string rows;      // a CSV file
};

/// "block_q=128,block_kv=64" as names and values.
std::map<std::string, std::string> fieldsOf(const std::string &schedule);

std::string tables(const Results &results, const ShowOptions &options);
std::string modelQuality(const Results &results, const ShowOptions &options);

/// A line of CSV for each candidate on each shape, as `fa2-tune fit` reads
/// them: of problems with one head dim. Groups that a person named are left
/// out, since their candidates differ in more than the schedule.
std::string measuredRows(const Results &results, const ShowOptions &options);

/// A panel a cell: the best time of each size of tiles over the cell's best.
std::string landscapeSvg(const Results &results, const ShowOptions &options);

} // namespace fa2tune

#endif // FA2TUNE_SHOW_H
