//===- main.cpp - fa2-run -------------------------------------------------===//
//
// Runs a kernel on random or given inputs and checks the result.
//
//===----------------------------------------------------------------------===//

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

/// Options of the simulator that other options ask for.
std::string withProfile(std::string name, bool profile) {
  if (profile && name.rfind("sim", 0) == 0)
    name += name.find('?') == std::string::npos ? "?profile" : "&profile";
  return name;
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

/// Extents of .npy inputs, shapes of the command line, or a default case.
Configuration completeConfiguration(const Options &o, const RunOptions &run,
                                    const Kernel &kernel, bool simulated) {
  Configuration c = o.configuration;
  int64_t packed = kernel.packedHeads;
  bool given = o.batch || o.heads || o.headsKv || o.seqlenQ || o.seqlenK;
  if (run.q || run.k || run.v) {
    auto take = [&](const Array &array, const char *name, int64_t &batch,
                    int64_t &length, int64_t &heads, int64_t dim) {
      if (array.shape.size() != 4)
        refuse("{}: the array has {} dimensions; expected 4, in the order of "
               "--layout",
               name, array.shape.size());
      batch = array.shape[0];
      length = array.shape[c.layout == Layout::BSHD ? 1 : 2];
      heads = array.shape[c.layout == Layout::BSHD ? 2 : 1];
      if (array.shape[3] != dim)
        refuse("{}: the last extent is {}, the kernel was compiled for {}",
               name, array.shape[3], dim);
    };
    // Without q: one query a key, one head a key head.
    int64_t batch = 1, length = 128, heads = 1;
    if (run.k)
      take(*run.k, "--k", batch, length, heads, kernel.headDim);
    else if (run.v)
      take(*run.v, "--v", batch, length, heads, kernel.headDimV);
    c.batch = batch;
    c.seqlenQ = c.seqlenK = length;
    c.heads = c.headsKv = heads;
    if (run.q) {
      take(*run.q, "--q", c.batch, c.seqlenQ, c.heads, kernel.headDim);
      if (!run.k && !run.v) {
        c.seqlenK = c.seqlenQ;
        c.headsKv = c.heads;
      }
    }
  } else if (given) {
    c.batch = 1;
    c.headsKv = o.headsKv.value_or(1);
    c.heads = c.headsKv * packed;
    c.seqlenQ = c.seqlenK = 512;
  } else if (simulated) {
    c.batch = 1;
    c.heads = std::max<int64_t>(2, packed);
    c.headsKv = 1;
    c.seqlenQ = 113;
    c.seqlenK = 200;
  } else {
    c.batch = 2;
    c.headsKv = 2;
    c.heads = std::max<int64_t>(8, c.headsKv * packed);
    c.seqlenQ = 1023;
    c.seqlenK = 1025;
  }
  auto replace = [](std::optional<int64_t> from, int64_t &to) {
    to = from.value_or(to);
  };
  replace(o.batch, c.batch);
  replace(o.heads, c.heads);
  if (o.heads && !run.k && !run.v)
    c.headsKv = c.heads % packed ? c.heads : c.heads / packed;
  replace(o.headsKv, c.headsKv);
  replace(o.seqlenQ, c.seqlenQ);
  replace(o.seqlenK, c.seqlenK);
  if (given && !o.seqlenK && o.seqlenQ && !run.k && !run.v)
    c.seqlenK = c.seqlenQ;
  if (given && !o.seqlenQ && o.seqlenK && !run.q)
    c.seqlenQ = c.seqlenK;
  validate(c);
  return c;
}

void saveArrays(const Options &o, const Kernel &kernel,
                const Configuration &configuration, const Tensors &tensors) {
  bool f16 = kernel.precision == Precision::F16;
  auto save = [&](const std::string &path, const Tensor &tensor) {
    if (!path.empty())
      writeFile(path, formatNpy(getElements(tensor, kernel.precision,
                                            configuration.layout),
                                f16));
  };
  save(o.saveOut, tensors.out);
  save(o.saveQ, tensors.q);
  save(o.saveK, tensors.k);
  save(o.saveV, tensors.v);
  if (kernel.pass == "backward") {
    save(o.saveDq, tensors.dq);
    save(o.saveDk, tensors.dk);
    save(o.saveDv, tensors.dv);
  } else if (!(o.saveDq + o.saveDk + o.saveDv).empty()) {
    refuse("--save-dq, --save-dk and --save-dv need a backward program");
  }
  if (!o.saveLse.empty())
    writeFile(o.saveLse, formatNpy(getVectors(tensors.lse), false));
}

int runOne(const Options &options, fa2rtDevice *device,
           const fa2rtProgram *program, const Kernel &kernel, bool simulated,
           OrderedJson &json) {
  RunOptions run;
  run.check = options.check;
  run.repeats = options.repeats.value_or(simulated ? 0 : 30);
  if (!options.q.empty())
    run.q = readNpy(options.q);
  if (!options.k.empty())
    run.k = readNpy(options.k);
  if (!options.v.empty())
    run.v = readNpy(options.v);
  if (!options.dout.empty())
    run.dout = readNpy(options.dout);
  for (const std::string &text : options.extras) {
    size_t equals = text.find('=');
    if (equals == std::string::npos)
      refuse("--extra: expected NAME=VALUE or NAME=FILE.npy, got '{}'", text);
    run.extras[text.substr(0, equals)] = text.substr(equals + 1);
  }
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
  for (int64_t i = 0; i < options.cases; ++i)
    cases.push_back(
        randomConfiguration(kernel, options.configuration.seed, i, most, work));
  RunOptions run;
  run.check = options.check;
  run.checkBudget = 0.5e9 * threadCount(); // some tenths of a second a case
  run.repeats = options.repeats.value_or(0);
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
           "--dq recompute");

  std::string name = withModel(chooseDevice(options), kernel);
  if (name.empty())
    return assembleOnly(ptx, kernel, options);
  DeviceHandle device = openDevice(withProfile(name, options.profile));
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
