//===- Options.h - fa2-run's command line -----------------------*- C++ -*-===//
#ifndef FA2RUN_OPTIONS_H
#define FA2RUN_OPTIONS_H

#include "Check.h"
#include "Configuration.h"

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace fa2run {

struct Options {
  std::string ptx;   // a path, or "-"
  std::string image; // a cubin
  std::string device;
  std::string pass;           // what the program must be
  bool deterministic = false; // and that it must be so
  bool doctor = false, json = false, verbose = false, profile = false;

  std::optional<int64_t> batch, heads, headsKv, seqlen, seqlenQ, seqlenK;
  Configuration configuration;     // layout, padding, scales, seed
  std::string q, k, v, dout;       // .npy inputs
  std::vector<std::string> extras; // NAME=VALUE or NAME=FILE.npy
  std::string saveOut, saveLse, saveQ, saveK, saveV, saveDq, saveDk, saveDv;
  CheckMode check = CheckMode::Auto;
  std::optional<int> repeats;
  int sameBits = 0;

  std::string sweep; // a file of configurations
  int64_t cases = 0;
  std::optional<int64_t> maxSeqlen;
};

/// The options that say what is computed on which data.
void addCaseOptions(CLI::App &app, Options &options);

/// Parses the command line. Returns an exit status when there is nothing left
/// to do (--help, --version). Throws Failure.
std::optional<int> parseOptions(int argc, char **argv, Options &options);

} // namespace fa2run

#endif // FA2RUN_OPTIONS_H
