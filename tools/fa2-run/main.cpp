//===- main.cpp - fa2-run -------------------------------------------------===//
//
// Runs a kernel on random or given inputs and checks the result.
//
//===----------------------------------------------------------------------===//

#include "Case.h"
#include "Doctor.h"
#include "Files.h"
#include "Options.h"
#include "Parallel.h"
#include "Patience.h"
#include "Report.h"
#include "RunCase.h"
#include "Sweep.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>

using namespace fa2run;
using OrderedJson = nlohmann::ordered_json;

namespace {

/// The device's name: what was asked for, else cuda, else sim, else "".
std::string chooseDevice(const Options &options) {
  std::string name = options.device;
  if (name.empty()) {
    int32_t count = 0;
    if (fa2rtCudaDeviceCount(&count) == FA2RT_OK && count > 0)
      name = "cuda";
    else if (fa2rtHasSimulator())
      name = "sim";
  }
  return name;
}

/// A simulator without a name is the oldest that the kernel runs on.
std::string withModel(std::string name, const Kernel &kernel) {
  bool plain = name == "sim" || name.rfind("sim?", 0) == 0;
  return plain && kernel.computeCapability > 80 ? name.insert(3, ":sm_90")
                                                : name;
}

/// Without a device: says so, and assembles the PTX where ptxas is.
int assembleOnly(const std::string &ptx, const Kernel &kernel,
                 const Options &options) {
  std::string ptxas = findPtxas();
  std::string why = "there is no CUDA driver or no device, and this build has "
                    "no simulator";
  OrderedJson json = {{"ran", false}, {"why", why}};
  if (ptxas.empty()) {
    json["assembled"] = nullptr;
    fmt::print(stderr,
               "fa2-run: {}; ptxas was not found either, so nothing "
               "was checked\n",
               why);
  } else {
    Assembled assembled = assemble(ptxas, ptx, kernel.arch);
    json["assembled"] = assembled.good;
    fmt::print(stderr, "fa2-run: {}; {} {} for {}\n", why, ptxas,
               assembled.good ? "assembles the PTX" : "REFUSES the PTX",
               kernel.arch);
    if (options.verbose || !assembled.good)
      fmt::print(stderr, "{}", assembled.text);
    if (!assembled.good) {
      if (options.json)
        fmt::print("{}", jsonText(json));
      return kCheckFailed;
    }
  }
  if (options.json)
    fmt::print("{}", jsonText(json));
  return kNotRun;
}

int runOne(const Options &options, fa2rtDevice *device,
           const fa2rtProgram *program, const Kernel &kernel, bool simulated,
           OrderedJson &json) {
  RunOptions run = readInputs(options);
  run.repeats = options.repeats.value_or(simulated ? 0 : 30);
  run.sameBits = options.sameBits;
  Configuration configuration =
      completeConfiguration(options, run, kernel, simulated);
  std::optional<Patience> patience;
  if (simulated)
    patience.emplace(simulatedSeconds(kernel, configuration) *
                     (1 + run.repeats));
  Tensors tensors;
  CaseResult result =
      runCase(device, program, kernel, configuration, run, &tensors);
  patience.reset();
  json["configuration"] = toJson(configuration);
  json["check"] = toJson(result);
  if (run.check == CheckMode::None)
    json["check"]["passed"] = nullptr;
  if (options.profile && result.launchFailure.empty()) {
    const char *profile = nullptr;
    check(fa2rtProgramProfile(program, &profile));
    json["profile"] = OrderedJson::parse(profile);
  }
  if (!options.json)
    fmt::print("{}", caseText(kernel, configuration, run, result));
  if (!options.json && json.contains("profile"))
    fmt::print("{}", profileText(json["profile"], options.verbose));
  if (result.launchFailure.empty())
    saveArrays(options, kernel, configuration, tensors);
  return result.passed ? kPassed : kCheckFailed;
}

int runMany(const Options &options, fa2rtDevice *device,
            const fa2rtProgram *program, const Kernel &kernel, bool simulated,
            OrderedJson &json) {
  if (options.check == CheckMode::None)
    refuse("--check none and a sweep leave nothing to do");
  std::vector<Configuration> cases;
  if (!options.sweep.empty())
    cases = readSweep(options.sweep);
  int64_t most = options.maxSeqlen.value_or(simulated ? 160 : 2100);
  double work = simulated ? 2e7 : 4e10;
  for (int64_t i = 0; i < options.cases; ++i) {
    Configuration c =
        randomConfiguration(kernel, options.configuration.seed, i, most, work);
    // Programs with exponentials bear no wide scores.
    if (kernel.program && c.randomScale != 1 &&
        !scoresFitFloat32(kernel, c, makeTensors(kernel, c, {})))
      c.randomScale = 1;
    cases.push_back(c);
  }
  RunOptions run;
  run.check = options.check;
  run.checkBudget = 0.5e9 * threadCount(); // some tenths of a second a case
  run.repeats = options.repeats.value_or(0);
  run.sameBits = options.sameBits;
  auto begin = std::chrono::steady_clock::now();
  SweepResult sweep =
      runSweep(device, program, kernel, cases, run, options.verbose);
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  json["sweep"] = {{"passed", sweep.passed},
                   {"failed", sweep.failed},
                   {"seconds", seconds},
                   {"kernels", sweep.kernels},
                   {"worst_ratio", sweep.worstRatio},
                   {"lse_worst_ratio", sweep.lseWorstRatio},
                   {"failures", sweep.failures}};
  if (!options.json)
    fmt::print("sweep      {} of {} cases passed in {:.1f} s; largest error "
               "{:.2f} of the allowed (lse {:.2f})\n",
               sweep.passed, sweep.passed + sweep.failed, seconds,
               sweep.worstRatio, sweep.lseWorstRatio);
  if (!options.json && kernel.guarded)
    for (const auto &[name, count] : sweep.kernels)
      fmt::print("ran        {}: {} times\n", name, count);
  return sweep.failed ? kCheckFailed : kPassed;
}

int run(const Options &options) {
  if (options.doctor) {
    OrderedJson findings = examine();
    fmt::print("{}", options.json ? jsonText(findings)
                                  : describeExamination(findings));
    return kPassed;
  }
  if (options.ptx.empty())
    refuse("no PTX file was named (a path, or - for standard input; "
           "--help says more)");
  std::string ptx = readFile(options.ptx);
  if (ptx.empty())
    refuse("{} is empty", options.ptx == "-" ? "standard input" : options.ptx);
  Kernel kernel = describeKernel(manifestOf(ptx));

  if (!options.pass.empty() && options.pass != kernel.pass)
    refuse("--pass: the program's pass is '{}', not '{}'", kernel.pass,
           options.pass);
  if (options.deterministic && !kernel.deterministic)
    refuse("--deterministic: the program sums dq in any order; compile it with "
           "--dq ordered or --dq recompute");

  if (options.sameBits && !kernel.deterministic)
    refuse("--same-bits: the program sums dq in any order; compile it with "
           "--dq ordered or --dq recompute");

  std::string name = withModel(chooseDevice(options), kernel);
  if (name.empty())
    return assembleOnly(ptx, kernel, options);
  DeviceHandle device =
      openDevice(options.profile ? withOption(name, "profile") : name);
  fa2rtDeviceProperties properties;
  check(fa2rtDeviceGetProperties(device.get(), &properties));
  if (options.profile && !properties.is_simulated)
    refuse("--profile needs --device sim");

  std::string image;
  if (!options.image.empty()) {
    image = readFile(options.image);
    if (image.empty())
      refuse("{} is empty", options.image);
  }
  fa2rtProgram *loaded = nullptr;
  check(fa2rtProgramLoad(device.get(), ptx.data(), ptx.size(),
                         image.empty() ? nullptr : image.data(), image.size(),
                         &loaded));
  ProgramHandle program(loaded);

  OrderedJson json;
  json["program"] = {
      {"compiler", kernel.compiler}, {"pass", kernel.pass},
      {"arch", kernel.arch},         {"dtype", kernel.dtypeName},
      {"head_dim", kernel.headDim},  {"head_dim_v", kernel.headDimV},
      {"mask", kernel.maskName},     {"kernels", kernelReport(program.get())}};
  json["device"] = {{"name", name}, {"model", properties.name}};
  if (!options.json) {
    fmt::print("{}", headText(kernel, name, properties, json["program"]));
    std::fflush(stdout); // what follows may take long
  }
  bool many = options.cases > 0 || !options.sweep.empty();
  int status = many ? runMany(options, device.get(), program.get(), kernel,
                              properties.is_simulated, json)
                    : runOne(options, device.get(), program.get(), kernel,
                             properties.is_simulated, json);
  if (options.json)
    fmt::print("{}", jsonText(json));
  return status;
}

/// Runs `body`, which returns an exit status; what it throws becomes one, and
/// a text.
template <typename Body> int guarded(Body body, std::string &error) {
  try {
    return body();
  } catch (const Failure &failure) {
    error = failure.what();
    return failure.code;
  } catch (const std::bad_alloc &) {
    error = "out of host memory";
  } catch (const std::exception &exception) {
    error = exception.what();
  }
  return kBadInput;
}

} // namespace

int main(int argc, char **argv) {
  guardStandardStreams();
  Options options;
  std::string error, lost;
  int status = guarded(
      [&] {
        std::optional<int> done = parseOptions(argc, argv, options);
        return done ? *done : run(options);
      },
      error);
  int written = guarded(
      [&] {
        if (!error.empty() && options.json)
          fmt::print("{}", jsonText({{"error", error}, {"status", status}}));
        finishOutput();
        return 0;
      },
      lost);
  if (written != 0 || !options.json)
    for (const std::string &text : {error, lost})
      if (!text.empty())
        std::fputs(("fa2-run: " + text + "\n").c_str(), stderr);
  return written ? written : status;
}
