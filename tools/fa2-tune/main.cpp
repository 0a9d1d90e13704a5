//===- main.cpp - fa2-tune ------------------------------------------------===//
//
// Finds schedules. What needs the compiler is another program's, so that this
// one runs where there is only a driver.
//
//===----------------------------------------------------------------------===//

#include "Choose.h"
#include "Failure.h"
#include "Files.h"
#include "Measure.h"
#include "Show.h"
#include "Worker.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

using namespace fa2run;
using namespace fa2tune;

namespace {

/// Becomes fa2-tune-build, which lies beside this program.
int runBuilder(char **argv) {
  std::error_code ec;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  std::string path = (self.parent_path() / "fa2-tune-build").string();
  execv(path.c_str(), argv);
  refuse("{} needs the compiler, and {} cannot be run: {}", argv[1], path,
         std::strerror(errno));
}

Results resultsOf(const std::string &path) {
  return Results::of(readResults(path), path);
}

int show(const std::vector<std::string> &files, const ShowOptions &options) {
  if (files.size() > 1 && !(options.landscape.empty() && options.rows.empty()))
    refuse("--landscape and --rows write a file for one file of results, got "
           "{} of them",
           files.size());
  for (const std::string &path : files) {
    Results results = resultsOf(path);
    fmt::print("{}", options.model ? modelQuality(results, options)
                                   : tables(results, options));
    if (!options.landscape.empty())
      writeFile(options.landscape, landscapeSvg(results, options));
    if (!options.rows.empty())
      writeFile(options.rows, measuredRows(results, options));
  }
  return kPassed;
}

int choose(const std::vector<std::string> &files, const std::string &output,
           size_t kernels) {
  std::vector<std::vector<OrderedJson>> rows;
  for (const std::string &path : files)
    rows.push_back(chooseRows(resultsOf(path), kernels));
  writeFile(output, databaseText(mergeRows(rows)));
  return kPassed;
}

int merge(const std::vector<std::string> &files, const std::string &output) {
  std::vector<std::vector<OrderedJson>> rows;
  for (const std::string &path : files)
    rows.push_back(readDatabase(path));
  writeFile(output, databaseText(mergeRows(rows)));
  return kPassed;
}

int run(int argc, char **argv) {
  CLI::App app("fa2-tune: finds schedules offline.\n"
               "  fa2-tune space 'arch=sm_90a head_dim=128'\n"
               "  fa2-tune build -o bundle 'arch=sm_90a head_dim=128' ...\n"
               "  fa2-tune measure bundle -o results.jsonl --seconds 300\n"
               "  fa2-tune show results.jsonl\n"
               "  fa2-tune choose results.jsonl -o schedules.json");
  app.require_subcommand(1);
  app.set_version_flag("--version", "fa2-tune " FA2_VERSION);
  app.add_subcommand("space", "how many schedules there are, and why not more "
                              "(needs the compiler; space --help)");
  app.add_subcommand("build", "compile candidates into a bundle (needs the "
                              "compiler; build --help)");
  app.add_subcommand("fit", "how far the model is right where it was not "
                            "fitted (needs the compiler; fit --help)");
  MeasureOptions m;
  auto *measureApp =
      app.add_subcommand("measure", "check and time a bundle's candidates");
  measureApp->add_option("bundle", m.bundle, "the folder")->required();
  measureApp
      ->add_option("-o,--results", m.results,
                   "results, appended to; what stands is not measured "
                   "again")
      ->required();
  measureApp
      ->add_option("--devices,--device", m.devices,
                   "cuda:0,cuda:1 or sim:sm_90 (default cuda:0)")
      ->delimiter(',');
  measureApp->add_option("--shape", m.shapes,
                         "BATCHxHEADS/HEADS_KVxQUERIESxKEYS, in place of the "
                         "bundle's; several");
  measureApp->add_option("--shapes", m.shapeList, "a JSON list of them");
  measureApp->add_option("--cubins", m.cubins,
                         "a folder where machine code is kept, by ptxas where "
                         "it is found (default: the driver's cache)");
  measureApp->add_option("--seconds", m.seconds, "stop after so long");
  measureApp->add_option("--checkers", m.checkers,
                         "processes that check, a device (0: by cores)");
  measureApp
      ->add_option("--patience", m.patience,
                   "seconds after which a candidate hangs")
      ->check(CLI::Range(0.1, 3600.0));
  measureApp->add_option("--finalists", m.finalists)->check(CLI::Range(1, 64));
  measureApp->add_option("--rounds", m.rounds, "visits of each finalist")
      ->check(CLI::Range(1, 100));
  measureApp->add_flag("--quiet", m.quiet, "no progress");
  ShowOptions s;
  std::vector<std::string> files;
  std::string output;
  auto *showApp = app.add_subcommand("show", "tables of results");
  showApp->add_option("results", files, "files of fa2-tune measure")
      ->required();
  showApp->add_option("--only", s.only, "cells whose name has this");
  showApp->add_option("--most", s.most, "candidates of a cell (8)");
  showApp->add_flag("--model", s.model, "how far the estimates were right");
  showApp->add_option("--landscape", s.landscape, "draw tiles' speeds (SVG)");
  showApp->add_option("--rows", s.rows,
                      "write what was measured as CSV, which fit reads");
  auto *chooseApp =
      app.add_subcommand("choose", "a database of schedules from results");
  chooseApp->add_option("results", files, "files of fa2-tune measure")
      ->required();
  chooseApp->add_option("-o,--output", output, "the database")->required();
  size_t kernels = kMostKernels;
  chooseApp
      ->add_option("--kernels", kernels,
                   "schedules that a row has at most, by lengths (default: 3)")
      ->check(CLI::Range(size_t(1), kMostKernels));
  auto *mergeApp =
      app.add_subcommand("merge", "one database of several; later rows win");
  mergeApp->add_option("databases", files, "files")->required();
  mergeApp->add_option("-o,--output", output, "the database")->required();
  std::string device, cubins;
  auto *worker = app.add_subcommand("worker", "")->group("");
  worker->add_option("--device", device)->required();
  worker->add_option("--cubins", cubins);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? kPassed : kBadInput;
  }
  if (worker->parsed())
    return runWorker(device, cubins);
  if (showApp->parsed())
    return show(files, s);
  if (chooseApp->parsed())
    return choose(files, output, kernels);
  if (mergeApp->parsed())
    return merge(files, output);
  return measure(m);
}

} // namespace

int main(int argc, char **argv) {
  guardStandardStreams();
  try {
    // Their options are the compiler's.
    if (argc > 1 &&
        (!std::strcmp(argv[1], "space") || !std::strcmp(argv[1], "build") ||
         !std::strcmp(argv[1], "fit")))
      return runBuilder(argv);
    int status = run(argc, argv);
    finishOutput();
    return status;
  } catch (const Failure &failure) {
    std::fputs((std::string("fa2-tune: ") + failure.what() + "\n").c_str(),
               stderr);
    return failure.code;
  } catch (const std::exception &error) {
    std::fputs((std::string("fa2-tune: ") + error.what() + "\n").c_str(),
               stderr);
    return kBadInput;
  }
}
