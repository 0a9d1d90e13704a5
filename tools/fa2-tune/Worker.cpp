//===- Worker.cpp - the process that touches the device -------------------===//

#include "Worker.h"

#include "Bundle.h"
#include "Clocks.h"
#include "Doctor.h"
#include "Files.h"
#include "Launch.h"
#include "Parallel.h"
#include "RunCase.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <list>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

namespace {

struct Loaded {
  std::string path;
  Kernel kernel;
  ProgramHandle program;
};

/// Tensors on the device for all candidates that take such: sets that launches
/// take in turn, together more than the L2 cache holds.
struct Bench {
  std::string key;
  std::vector<Tensors> sets;
};

class Worker {
public:
  Worker(const std::string &name, const std::string &cubins)
      : device(openDevice(name)), cubins(cubins) {
    fa2run::check(fa2rtDeviceGetProperties(device.get(), &properties));
  }

  OrderedJson answer(const json &request) {
    std::string what = request.at("do");
    if (what == "hello")
      return hello();
    Loaded &loaded = load(request.at("file"), request.at("hash"));
    if (what == "load")
      return OrderedJson::object();
    if (what == "check")
      return checkOf(loaded);
    return timeOf(loaded, request);
  }

private:
  OrderedJson hello() {
    return {{"device", properties.name},
            {"simulated", properties.is_simulated != 0},
            {"compute_capability", properties.compute_capability},
            {"multiprocessors", properties.multiprocessors},
            {"driver", properties.driver_version}};
  }

  /// The kernel's machine code where it is kept apart from the driver, or "".
  std::string imageOf(const std::string &ptx, const std::string &hash,
                      const std::string &arch) const {
    if (cubins.empty() || properties.is_simulated)
      return "";
    std::string path = cubins + "/" + hash + ".cubin";
    if (access(path.c_str(), R_OK) != 0) {
      std::string ptxas = findPtxas();
      if (ptxas.empty())
        return "";
      // Another worker may be at it: a file appears there whole.
      std::string own = fmt::format("{}.{}", path, getpid());
      // Code of a family is assembled for the device that it is to run on.
      bool family = std::isdigit(static_cast<unsigned char>(arch.back()));
      std::string to =
          family ? fmt::format("sm_{}", properties.compute_capability) : arch;
      Assembled made = assemble(ptxas, ptx, to, own);
      if (!made.good)
        throw Failure(kCheckFailed, "ptxas refuses it: " + made.text);
      std::rename(own.c_str(), path.c_str());
    }
    return readFile(path);
  }

  Loaded &load(const std::string &path, const std::string &hash) {
    for (auto it = programs.begin(); it != programs.end(); ++it)
      if (it->path == path) {
        programs.splice(programs.begin(), programs, it);
        return programs.front();
      }
    std::string ptx = readFile(path);
    if (hashOf(ptx) != hash)
      refuse("{} is damaged: its hash is {}, the bundle's list says {}", path,
             hashOf(ptx), hash);
    Loaded loaded{path, describeKernel(manifestOf(ptx)), nullptr};
    std::string image = imageOf(ptx, hash, loaded.kernel.arch);
    fa2rtProgram *program = nullptr;
    fa2run::check(fa2rtProgramLoad(device.get(), ptx.data(), ptx.size(),
                                   image.empty() ? nullptr : image.data(),
                                   image.size(), &program));
    loaded.program.reset(program);
    programs.push_front(std::move(loaded));
    // As many as a cell has, so that finalists stay.
    constexpr size_t most = 512;
    if (programs.size() > most)
      programs.pop_back();
    return programs.front();
  }

  /// Ragged lengths in several tiles; then, on a GPU, more tiles than
  /// multiprocessors, so that persistent blocks take more than one.
  std::vector<Configuration> checkedShapes(const Kernel &kernel) const {
    Configuration small;
    small.headsKv = 1;
    small.heads = std::max<int64_t>(2, kernel.packedHeads);
    small.seqlenQ = 113;
    small.seqlenK = 200;
    small.rowPadding = 1;
    if (properties.is_simulated)
      return {small};
    Configuration many = small;
    many.seed = 1;
    many.batch = 3;
    many.headsKv = 12;
    many.heads = 24 * std::max<int64_t>(1, kernel.packedHeads);
    many.seqlenQ = 577;
    many.seqlenK = 700;
    return {small, many};
  }

  OrderedJson checkOf(const Loaded &loaded) {
    OrderedJson answer = {{"passed", true}};
    double worst = 0;
    for (const Configuration &shape : checkedShapes(loaded.kernel)) {
      RunOptions options;
      options.checkBudget = 3e8;
      CaseResult result = runCase(device.get(), loaded.program.get(),
                                  loaded.kernel, shape, options);
      worst = std::max(worst, result.check.worst.worstRatio);
      if (result.passed)
        continue;
      answer["passed"] = false;
      answer["why"] = !result.launchFailure.empty() ? result.launchFailure
                      : !result.disturbed.empty()   ? result.disturbed
                      : result.check.failures.empty()
                          ? "the check failed"
                          : result.check.failures.front();
      answer["fatal"] = !result.launchFailure.empty();
      break;
    }
    answer["worst_ratio"] = worst;
    return answer;
  }

  /// Draws a set and puts it on the device; its bytes there.
  size_t addSet(const Kernel &kernel, const Configuration &shape,
                Bench &bench) {
    Tensors &t = bench.sets.emplace_back(
        makeTensors(kernel, shape, {}, ExtraStrides::Packed));
    if (kernel.pass == "backward")
      drawForward(kernel, shape, t);
    return upload(device.get(), kernel, t);
  }

  /// The candidates of one comparison may read different things.
  const Bench &benchOf(const Kernel &kernel, const Configuration &shape) {
    std::string key = shapeText(shape) + " " + describeTensors(kernel);
    for (auto it = benches.begin(); it != benches.end(); ++it)
      if (it->key == key) {
        benches.splice(benches.begin(), benches, it);
        return benches.front();
      }
    constexpr size_t most = 3; // of which each may be gigabytes
    if (benches.size() == most)
      benches.pop_back();
    // Kept once it is whole.
    Bench bench{key, {}};
    size_t bytes = addSet(kernel, shape, bench);
    constexpr size_t mostSets = 16;
    size_t wanted = properties.is_simulated
                        ? 1
                        : 1 + 2 * size_t(properties.l2_bytes) / bytes;
    while (bench.sets.size() < std::min(mostSets, wanted))
      addSet(kernel, shape, bench);
    benches.push_front(std::move(bench));
    return benches.front();
  }

  OrderedJson timeOf(const Loaded &loaded, const json &request) {
    const Kernel &kernel = loaded.kernel;
    Configuration shape = parseShape(request.at("shape"));
    std::vector<std::vector<fa2rtArgument>> arguments;
    for (const Tensors &set : benchOf(kernel, shape).sets)
      arguments.push_back(makeArguments(kernel, shape, set));
    std::vector<const fa2rtArgument *> sets;
    for (const auto &set : arguments)
      sets.push_back(set.data());
    Workspace workspace(device.get(), loaded.program.get(), arguments.front());
    auto measure = [&](int repeats) {
      std::vector<float> times(static_cast<size_t>(repeats));
      checkLaunch(fa2rtMeasureInTurn(loaded.program.get(), sets.data(),
                                     sets.size(), arguments.front().size(),
                                     workspace.data(), workspace.bytes, nullptr,
                                     repeats, times.data()));
      std::sort(times.begin(), times.end());
      return times;
    };
    double budget = request.at("milliseconds");
    double once = std::max(1e-4f, measure(1).front());
    std::vector<float> times =
        measure(int(std::clamp(budget / once, 1.0, 400.0)));
    return {{"ms", times[times.size() / 2]},
            {"min", times.front()},
            {"max", times.back()},
            {"launches", times.size()},
            {"clock_mhz", multiprocessorClock(properties.ordinal)},
            {"flops", countFlops(kernel, shape)}};
  }

  DeviceHandle device;
  std::string cubins;
  fa2rtDeviceProperties properties;
  std::list<Loaded> programs;
  std::list<Bench> benches; // the latest first
};

/// Errors of the driver stay with a context, so the process that had one ends.
OrderedJson errorOf(const std::exception &error) {
  auto *failure = dynamic_cast<const Failure *>(&error);
  return {{"error", error.what()},
          {"device_lost", failure && failure->code == kNotRun},
          {"fatal", failure && failure->code != kBadInput}};
}

} // namespace

int runWorker(const std::string &name, const std::string &cubins) {
  // Not to outlive who asked, whatever the kernel does.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Kernels are compiled once for all workers.
  setenv("CUDA_CACHE_MAXSIZE", "4294967296", /*overwrite=*/0);
  std::optional<Worker> worker;
  for (std::string line; std::getline(std::cin, line);) {
    OrderedJson answer;
    try {
      if (!worker)
        worker.emplace(name, cubins);
      answer = worker->answer(json::parse(line));
    } catch (const std::exception &error) {
      answer = errorOf(error);
    }
    std::cout << answer.dump(-1, ' ', false, json::error_handler_t::replace)
              << std::endl;
    if (answer.value("fatal", false))
      std::_Exit(0);
  }
  return 0;
}

} // namespace fa2tune
