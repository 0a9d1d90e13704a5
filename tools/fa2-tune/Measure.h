//===- Measure.h - checks and times a bundle's candidates -------*- C++ -*-===//
#ifndef FA2TUNE_MEASURE_H
#define FA2TUNE_MEASURE_H

#include <string>
#include <vector>

namespace fa2tune {

struct MeasureOptions {
  std::string bundle, results;
  std::vector<std::string> devices = {"cuda:0"};
  std::vector<std::string> shapes; // in place of the bundle's
  std::string shapeList;           // a JSON list of more
  std::string cubins;              // a folder for ptxas's machine code
  double seconds = 0;              // the budget; 0: none
  int checkers = 0;                // processes a device; 0: by its kind
  double patience = 60;            // seconds that a candidate may take
  int finalists = 4, rounds = 5;
  double pause = 0.06; // seconds between visits of finalists
  bool quiet = false;
};

/// Returns an exit status. Throws Failure.
int measure(const MeasureOptions &options);

} // namespace fa2tune

#endif // FA2TUNE_MEASURE_H
