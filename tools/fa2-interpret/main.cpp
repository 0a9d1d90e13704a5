//===- main.cpp - fa2-interpret -------------------------------------------===//
//
// Runs the kernels of tiles that a stage of the pipeline left, on the CPU, and
// says where their results are wrong, or part from those of another stage.
//
//===----------------------------------------------------------------------===//

#include "Compare.h"
#include "Report.h"
#include "Stages.h"

#include "fa2rt/fa2rt.h"

#include <CLI/CLI.hpp>

using namespace fa2run;
using namespace fa2interpret;

namespace {

const char *const kDescription =
    R"(Runs the kernels of tiles in a file of MLIR on the CPU, operation by operation,
and compares the outputs with a float64 reference by fa2-run's rule; of a folder,
those of every stage, until one is wrong. Or compares two files, such as those
before and after a pass, and says where they part.

  fa2-compile --head-dim 64 --save-temps=stages -o attention.ptx
  fa2-interpret stages --seqlen-q 100 --seqlen-k 130
  fa2-interpret stages/*-fa2-tile.mlir --seqlen-q 100 --seqlen-k 130
  fa2-interpret stages/*-fa2-tile.mlir --compare stages/*-fa2gpu-verify.mlir)";

const char *const kFooter = R"(
Files are of the stages from fa2-tile to fa2gpu-verify. A tile is an array, blocks
run one after the other; roles, warpgroups and the two blocks of a cluster take
turns: which thread holds what, and what asynchronous copies and matmuls may not do,
is for fa2gpu-verify and for the simulator (fa2-run). Rings are checked: that a use
is filled before it is read, and not overwritten while it is; a wait without end is
an error with its places.

A product is summed in float64 and rounded to f32 once; exponentials are rounded
once. So two stages that compute the same give the same bits, unless a pass changes
what is rounded, as fa2gpu-speculate-max does: --tolerance then. Tiles are compared
where both files have as many of one name for a tile of the grid.

Exit status: 0 the outputs are right, or the same; 1 they are not, or a kernel
cannot be run; 2 bad input.)";

struct Arguments {
  Options options; // fa2-run's, of the case
  std::string file, other;
  std::vector<std::string> kernels;
  double tolerance = 0;
};

std::optional<int> parse(int argc, char **argv, Arguments &a) {
  CLI::App app(kDescription, "fa2-interpret");
  app.footer(kFooter);
  app.set_version_flag("--version",
                       std::string("fa2-interpret ") + fa2rtVersion());
  app.option_defaults()->take_last(); // of an option given twice
  app.get_formatter()->column_width(34);
  app.add_option("file", a.file,
                 "MLIR of a stage, - for standard input, or the folder of "
                 "fa2-compile --save-temps")
      ->required();
  app.add_option("--compare", a.other,
                 "another file: say where its tiles and outputs part from the "
                 "first one's")
      ->group("Comparing");
  app.add_option("--tolerance", a.tolerance,
                 "numbers that are no further apart than so much of the larger "
                 "one, or of 1, are the same (default: 0)")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Comparing");
  app.add_option("--kernel", a.kernels,
                 "run these kernels (default: those whose guards hold)")
      ->take_all();
  addCaseOptions(app, a.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0)
      refuse("{}", error.what());
    app.exit(error); // --help and --version
    return kPassed;
  }
  return std::nullopt;
}

/// The element of each output that is furthest beyond what is allowed.
std::string worstText(const CheckResult &check) {
  auto line = [](const std::string &name, int64_t batch, int64_t head,
                 int64_t row, int64_t column) {
    return fmt::format("{:<10} worst at batch {}, head {}, row {}, column {}\n",
                       name, batch, head, row, column);
  };
  std::string text;
  if (check.gradients.empty() && check.worst.worstRow >= 0)
    text += line("out", check.worstBatch, check.worstHead, check.worst.worstRow,
                 check.worst.worstColumn);
  for (const GradientVerdict &g : check.gradients)
    if (g.worst.row >= 0)
      text += line(g.name, g.worst.batch, g.worst.head, g.worst.row,
                   g.worst.column);
  return text;
}

CaseResult judge(Run &run, const Configuration &c, RunOptions inputs) {
  inputs.check = CheckMode::Full;
  CaseResult result;
  result.kernels = run.ran;
  checkCase(run.kernel, c, inputs, tensorCoreOf(run.kernel.computeCapability),
            run.tensors, result);
  result.passed = result.check.passed && result.disturbed.empty();
  return result;
}

std::string describeCase(const Run &run, const Configuration &c,
                         const RunOptions &inputs, const CaseResult &result) {
  Kernel told = run.kernel;
  told.guarded = true; // so that what ran is said
  std::string text = caseText(told, c, inputs, result);
  size_t verdict = text.rfind('\n', text.size() - 2) + 1;
  return text.insert(verdict, worstText(result.check));
}

int checkOne(const Arguments &a, Run &run, const Configuration &c,
             const RunOptions &inputs) {
  interpretCase(run, c, inputs, a.kernels, nullptr);
  CaseResult result = judge(run, c, inputs);
  fmt::print("{}", describeCase(run, c, inputs, result));
  saveArrays(a.options, run.kernel, c, run.tensors);
  return result.passed ? kPassed : kCheckFailed;
}

int compareTwo(const Arguments &a, Run &first, const Configuration &c,
               const RunOptions &inputs) {
  Run second = readStage(a.other);
  checkSameProgram(first, second);
  Trace ours, theirs;
  interpretCase(first, c, inputs, a.kernels,
                [&](const auto &event) { ours.note(event); });
  interpretCase(second, c, inputs, a.kernels,
                [&](const auto &event) { theirs.note(event); });
  std::string outputs;
  bool same = compareOutputs(first, second, a.tolerance, outputs);
  auto parting = ours.partsFrom(theirs, a.tolerance);
  fmt::print("case       {}, seed {}\n{}tiles      {} compared\n{}",
             describe(c), c.seed, outputs, ours.comparedWith(theirs),
             parting ? describeParting(*parting) : "");
  fmt::print("{}\n", same ? "the same" : "they part");
  return same ? kPassed : kCheckFailed;
}

/// A stage's results, and every tile on the way to them.
struct Stage {
  Run run;
  Trace trace;
};

/// Every stage of a folder that has tiles, until one is wrong.
int checkStages(const Arguments &a, const RunOptions &inputs) {
  std::optional<Stage> before;
  for (const std::string &path : stagesIn(a.file)) {
    Stage stage{readStage(path), {}};
    Run &run = stage.run;
    Configuration c = completeConfiguration(a.options, inputs, run.kernel,
                                            /*simulated=*/true);
    interpretCase(run, c, inputs, a.kernels,
                  [&](const auto &event) { stage.trace.note(event); });
    CaseResult result = judge(run, c, inputs);
    std::string ignored;
    bool same = before && compareOutputs(before->run, run, 0, ignored);
    fmt::print("{:<8} {}\n",
               !result.passed ? "WRONG"
               : same         ? "the same"
                              : "right",
               path);
    std::fflush(stdout); // what follows may take long
    if (!result.passed) {
      auto parting = before ? before->trace.partsFrom(stage.trace, a.tolerance)
                            : std::nullopt;
      fmt::print("{}{}", describeCase(run, c, inputs, result),
                 parting ? describeParting(*parting) : "");
      return kCheckFailed;
    }
    before.emplace(std::move(stage));
  }
  return kPassed;
}

int interpretFiles(const Arguments &a) {
  RunOptions inputs = readInputs(a.options);
  if (isFolder(a.file) && !a.other.empty())
    refuse("--compare: expected a file to compare with, got the folder {}",
           a.file);
  if (isFolder(a.file))
    return checkStages(a, inputs);
  Run run = readStage(a.file);
  Configuration c =
      completeConfiguration(a.options, inputs, run.kernel, /*simulated=*/true);
  return a.other.empty() ? checkOne(a, run, c, inputs)
                         : compareTwo(a, run, c, inputs);
}

} // namespace

int main(int argc, char **argv) {
  try {
    Arguments arguments;
    if (std::optional<int> done = parse(argc, argv, arguments))
      return *done;
    return interpretFiles(arguments);
  } catch (const Failure &failure) {
    fmt::print(stderr, "fa2-interpret: {}\n", failure.what());
    return failure.code;
  } catch (const std::exception &exception) {
    fmt::print(stderr, "fa2-interpret: {}\n", exception.what());
    return kBadInput;
  }
}
