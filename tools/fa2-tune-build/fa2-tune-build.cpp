//===- fa2-tune-build.cpp - the half of fa2-tune that compiles ------------===//
//
// fa2-tune runs it for what needs the compiler: `space` and `build`.
//
//===----------------------------------------------------------------------===//

#include "Bundle.h"
#include "Fit.h"
#include "Ranking.h"
#include "Shapes.h"
#include "Terms.h"
#include "fa2/Compiler/Compiler.h"
#include "fa2/Target/Target.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <tuple>

namespace cl = llvm::cl;
using namespace fa2;
using namespace fa2tune;
using llvm::formatv;

static cl::SubCommand kSpace("space",
                             "how many schedules there are, and why not more");
static cl::SubCommand kBuild("build", "compile candidates into a folder");

static cl::SubCommand kFit("fit", "how far the model is right where it was not "
                                  "fitted");
static cl::opt<std::string>
    measured(cl::Positional, cl::Required,
             cl::desc("rows, as docs/measurements/data/tuning has them"),
             cl::sub(kFit));
static cl::opt<std::string>
    leaveOut("leave-out", cl::init(""),
             cl::desc("fit without each shape, or head_dim, and judge by it"),
             cl::value_desc("shape|head_dim"), cl::sub(kFit));
static cl::opt<int64_t> fitSteps("steps", cl::init(2000),
                                 cl::desc("of a fit's search"), cl::sub(kFit));
static cl::opt<double>
    fitPull("pull", cl::init(0),
            cl::desc("what a number costs that is e times its guess"),
            cl::sub(kFit));
static cl::opt<bool> printNumbers("numbers", cl::desc("print what was fitted"),
                                  cl::sub(kFit));

static cl::opt<unsigned>
    worstCells("worst", cl::init(0),
               cl::desc("print that many cells where the model's own choice "
                        "loses most"),
               cl::sub(kFit));

static cl::opt<std::string>
    terms("terms", cl::value_desc("file"),
          cl::desc("write what the model sees of each row as CSV, and no more"),
          cl::sub(kFit));

static cl::list<std::string>
    specifications(cl::Positional, cl::OneOrMore,
                   cl::desc("'arch=sm_90a head_dim=128 mask=causal' ..., or "
                            "'module=FILE.mlir arch=sm_90a'"),
                   cl::sub(kSpace), cl::sub(kBuild));
static cl::opt<bool> listAll("list",
                             cl::desc("print each schedule, the one that the "
                                      "model puts first at the top"),
                             cl::sub(kSpace));
static cl::opt<bool> examples("examples",
                              cl::desc("print a dropped one for each reason"),
                              cl::sub(kSpace));
static cl::opt<std::string> output("o", cl::desc("the bundle's folder"),
                                   cl::value_desc("folder"), cl::Required,
                                   cl::sub(kBuild));
static cl::opt<int64_t> top("top", cl::init(24),
                            cl::desc("candidates that the model chooses"),
                            cl::sub(kBuild));
static cl::opt<int64_t> others("random", cl::init(0),
                               cl::desc("further ones, at random"),
                               cl::sub(kBuild));
static cl::opt<uint64_t> seed("seed", cl::init(0),
                              cl::desc("of what is random"), cl::sub(kBuild),
                              cl::sub(kFit));
static cl::opt<unsigned> jobs("jobs", cl::init(0),
                              cl::desc("threads (0: one a core)"),
                              cl::sub(kBuild), cl::sub(kFit));
static cl::opt<bool> quiet("quiet", cl::desc("no progress"), cl::sub(kBuild));
static cl::opt<std::string>
    device("on", cl::value_desc("arch"),
           cl::desc("the GPU that the model ranks for, such as sm_90 for an "
                    "H200 (default: the specification's)"),
           cl::sub(kBuild), cl::sub(kSpace));
static cl::list<std::string> shapeTexts(
    "shape", cl::value_desc("batch,heads,heads_kv,seqlen_q,seqlen_k"),
    cl::desc("what to choose and measure for (default: 16384 tokens "
             "of 512, 2048 and 8192, and one sequence of 1024 and of "
             "2048, a width of 2048)"),
    cl::sub(kBuild), cl::sub(kSpace));
static cl::opt<std::string>
    shapeFile("shapes", cl::value_desc("file"),
              cl::desc("the same from a file: a JSON list, or what a program "
                       "launched while FA2RT_RECORD named the file"),
              cl::sub(kBuild), cl::sub(kSpace));
static cl::opt<size_t>
    mostShapes("most-shapes", cl::init(8),
               cl::desc("of what was launched, those with the most work (8)"),
               cl::sub(kBuild), cl::sub(kSpace));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "fa2-tune")
      << shortened(message.str()) << "\n";
  return 1;
}

/// Returns what is wrong, or "".
static std::string shapesOf(const Subject &subject,
                            std::vector<Shape> &shapes) {
  for (const std::string &text : shapeTexts) {
    auto shape = parseShape(text);
    if (!shape)
      return formatv("expected --shape to be batch,heads,heads_kv,seqlen_q,"
                     "seqlen_k, positive integers, heads a multiple of "
                     "heads_kv; got '{0}'",
                     text);
    shapes.push_back(*shape);
  }
  if (!shapeFile.empty()) {
    ShapeFile file;
    std::string wrong = file.read(shapeFile);
    if (wrong.empty())
      wrong = file.shapesOf(subject.spec, subject.problem.needs().empty(),
                            mostShapes, shapes);
    if (file.damaged())
      llvm::WithColor::warning(llvm::errs(), "fa2-tune")
          << formatv("{0}: {1} lines were cut short and are left out\n",
                     shapeFile, file.damaged());
    return wrong;
  }
  if (shapes.empty())
    shapes = defaultShapes(subject.spec);
  return "";
}

/// Where the model puts what the compiler chooses today.
static void printToday(const Subject &subject, const std::vector<Shape> &shapes,
                       const std::vector<Schedule> &fits) {
  std::string error;
  auto today = chooseCandidates(subject, device, shapes,
                                {/*top=*/0, /*random=*/0}, error);
  ScheduleOverrides asked;
  if (today.empty() || fits.empty() ||
      !asked.setFields("schedule", today.front().schedule).empty())
    return;
  const Target &target = *subject.target;
  const Problem &problem = subject.problem;
  Rates rates = ratesOn(target, device);
  std::vector<Schedule> all(1, asked.applyTo(Schedule()));
  all.insert(all.end(), fits.begin(), fits.end());
  auto order = rankSchedules({target, rates, problem, shapes}, all);
  size_t place = llvm::find(order, size_t(0)) - order.begin();
  double ratio = 1;
  for (const Shape &shape : shapes)
    ratio *=
        estimate(target, rates, problem, all[0], shape).milliseconds /
        estimate(target, rates, problem, all[order[0]], shape).milliseconds;
  llvm::outs() << formatv(
      "  the model puts today's choice at place {0}, {1:f3} "
      "times the estimated time of its first\n",
      place + 1, std::pow(ratio, 1.0 / shapes.size()));
}

static int printSpace(const Subject &subject) {
  std::vector<Shape> shapes;
  if (std::string wrong = shapesOf(subject, shapes); !wrong.empty())
    return fail(wrong);
  const Target &target = *subject.target;
  const Problem &problem = subject.problem;
  SearchSpace space = searchSpace(target, problem, subject.asked);
  llvm::raw_ostream &os = llvm::outs();
  if (listAll) {
    for (size_t i : rankSchedules(
             {target, ratesOn(target, device), problem, shapes}, space.fits))
      os << fieldsText(space.fits[i]) << "\n";
    return 0;
  }
  os << formatv("{0} on {1}: {2} of {3} candidates fit\n", subject.name(),
                subject.spec.arch, space.fits.size(), space.candidates);
  for (const SearchSpace::Axis &axis : space.axes)
    os << formatv("  {0}: {1}\n", axis.field, axis.values);
  for (const SearchSpace::Drop &drop : space.dropped) {
    os << formatv("  {0,8} dropped: {1}\n", drop.count, drop.reason);
    if (examples)
      os << "           " << drop.example << "\n";
  }
  printToday(subject, shapes, space.fits);
  return 0;
}

/// Results tell problems apart by what schedules are chosen for: kernels that
/// compute different things must not compete. Returns what is wrong, or "".
static std::string checkDistinct(const std::vector<Subject> &subjects) {
  auto problemOf = [](const Subject &s) {
    return std::tuple(s.spec.pass, s.spec.arch, s.spec.dtype, s.problem.headDim,
                      s.problem.headDimV, s.spec.mask, s.problem.needs());
  };
  for (const Subject &a : subjects)
    for (const Subject &b : subjects)
      if (problemOf(a) == problemOf(b) && a.name() != b.name())
        return formatv("expected problems that results tell apart, got {0} and "
                       "{1}, of which each needs '{2}'; build a bundle of each",
                       a.name(), b.name(), a.problem.needs());
  return "";
}

static int build(const std::vector<Subject> &subjects) {
  if (std::string wrong = checkDistinct(subjects); !wrong.empty())
    return fail(wrong);
  std::vector<Wanted> wanted;
  for (const Subject &subject : subjects) {
    Wanted &w = wanted.emplace_back();
    w.subject = subject;
    if (std::string wrong = shapesOf(subject, w.shapes); !wrong.empty())
      return fail(wrong);
    std::string error;
    w.candidates =
        chooseCandidates(subject, device, w.shapes, {top, others, seed}, error);
    if (!error.empty())
      return fail(error);
  }
  std::string wrong = writeBundle(output, wanted, jobs, quiet);
  return wrong.empty() ? 0 : fail(wrong);
}

int main(int argc, char **argv) {
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &os) { os << "fa2-tune " FA2_VERSION "\n"; });
  cl::ParseCommandLineOptions(argc, argv,
                              "fa2-tune: what of tuning needs the compiler\n",
                              nullptr, nullptr, nullptr,
                              /*LongOptionsUseDoubleDash=*/true);
  std::string error;
  if (kFit && !terms.empty()) {
    error = writeTerms(measured, terms);
    return error.empty() ? 0 : fail(error);
  }
  if (kFit) {
    error = reportFit(measured, leaveOut, {fitSteps, fitPull, seed},
                      printNumbers, worstCells, jobs);
    return error.empty() ? 0 : fail(error);
  }
  if (!device.empty() && !lookupTarget(device, error))
    return fail(error);
  std::vector<Subject> subjects;
  for (const std::string &text : specifications)
    if (std::string wrong = subjects.emplace_back().read(text); !wrong.empty())
      return fail(wrong);
  if (kBuild)
    return build(subjects);
  if (!kSpace)
    return fail("expected space or build");
  for (const Subject &subject : subjects)
    if (int status = printSpace(subject))
      return status;
  return 0;
}
