//===- RunCase.cpp - launches one case and checks it ----------------------===//

#include "RunCase.h"

#include "Launch.h"
#include "Parallel.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace fa2run {

namespace {

/// Multiply-adds of the reference in a second or two, all threads together.
double defaultBudget() { return 1.5e9 * threadCount(); }

/// The kernels that a launch with these arguments runs.
std::vector<std::string>
kernelsOf(const fa2rtProgram *program,
          const std::vector<fa2rtArgument> &arguments) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < fa2rtProgramKernelCount(program); ++i) {
    int32_t runs = 0;
    check(
        fa2rtKernelRuns(program, i, arguments.data(), arguments.size(), &runs));
    fa2rtKernelInfo info;
    check(fa2rtProgramGetKernel(program, i, &info));
    if (runs)
      names.emplace_back(info.name);
  }
  return names;
}

/// Notes zeros that a launch was to leave and did not.
void noteWorkspace(CaseResult &result, const Workspace &workspace) {
  if (result.disturbed.empty())
    result.disturbed = workspace.leftovers();
}

/// Notes what was written outside a tensor's elements.
void notePadding(CaseResult &result, const char *name, const Tensor &tensor) {
  std::string where = tensor.disturbedPadding();
  if (!where.empty() && result.disturbed.empty())
    result.disturbed = fmt::format(
        "the memory between the elements of {} was written: {}", name, where);
}

/// Launches again and again; says which launch gave other bits, or "".
std::string otherBits(fa2rtDevice *device, const fa2rtProgram *program,
                      const std::vector<fa2rtArgument> &arguments,
                      const Workspace &workspace,
                      const std::vector<Tensor *> &outputs, int launches) {
  for (int i = 1; i <= launches; ++i) {
    checkLaunch(fa2rtLaunch(program, arguments.data(), arguments.size(),
                            workspace.data(), workspace.bytes, nullptr));
    checkLaunch(fa2rtDeviceSynchronize(device));
    for (Tensor *tensor : outputs)
      if (tensor->changedOnDevice())
        return fmt::format("launch {} of {} with the same inputs gave other "
                           "bits of {}",
                           i, launches, tensor->nameOf());
  }
  return "";
}

} // namespace

double countFlops(const Kernel &kernel, const Configuration &c) {
  double pairs = 0;
  if (kernel.mask != Mask::None && c.seqlenQ == c.seqlenK) {
    pairs = double(c.seqlenQ) * double(c.seqlenK) / 2;
  } else {
    for (int64_t row = 0; row < c.seqlenQ; ++row)
      pairs += double(visibleKeys(kernel.mask, row, c.seqlenQ, c.seqlenK));
  }
  // Backward: S and dP once more, then dV, dQ and dK.
  double products = kernel.pass == "backward"
                        ? double(3 * kernel.headDim + 2 * kernel.headDimV)
                        : double(kernel.headDim + kernel.headDimV);
  return 2.0 * products * pairs * double(c.batch) * double(c.heads);
}

Tensors prepareCase(const Kernel &kernel, const Configuration &configuration,
                    const RunOptions &options) {
  validate(configuration);
  if (kernel.hasScoreProgram && !kernel.program &&
      options.check != CheckMode::None)
    refuse("the kernel has a score program that its manifest, of version 1, "
           "does not hold; --check none runs it");
  Tensors t = makeTensors(kernel, configuration, options.extras);
  auto set = [&](const std::optional<Array> &given, Tensor &tensor,
                 const char *name) {
    if (given)
      setElements(tensor, *given, kernel.precision, configuration.layout, name);
  };
  set(options.q, t.q, "--q");
  set(options.k, t.k, "--k");
  set(options.v, t.v, "--v");
  if (options.dout && kernel.pass != "backward")
    refuse("--dout needs a backward program");
  set(options.dout, t.dout, "--dout");
  if (kernel.pass != "backward")
    return t;
  if (options.check == CheckMode::None)
    drawForward(kernel, configuration, t);
  else
    fillForward(kernel, configuration, t);
  return t;
}

void checkCase(const Kernel &kernel, const Configuration &configuration,
               const RunOptions &options, TensorCore core, Tensors &t,
               CaseResult &result) {
  for (Extra &gradient : t.dextras)
    if (!gradient.download() && result.disturbed.empty())
      result.disturbed =
          fmt::format("the memory between the elements of {} was written",
                      gradient.nameOf());
  Kernel ran = kernel; // with the tiles of what was launched
  for (const std::string &name : result.kernels)
    if (auto own = kernel.tiles.find(name); own != kernel.tiles.end())
      std::tie(ran.blockQ, ran.blockKv) =
          std::tie(own->second[0], own->second[1]);
  double budget =
      options.checkBudget > 0 ? options.checkBudget : defaultBudget();
  bool backward = kernel.pass == "backward";
  result.sample =
      backward ? chooseGradientRows(ran, configuration, options.check, budget)
               : chooseRows(ran, configuration, options.check, budget);
  if (options.check == CheckMode::None)
    return;
  result.check =
      backward ? checkGradients(kernel, configuration, t, result.sample, core)
               : checkOutputs(kernel, configuration, t, result.sample, core);
  if (backward)
    result.sample.rowsChecked = result.check.rowsCompared;
  if (result.sample.everything)
    checkExtraGradients(kernel, configuration, t, core, result.check);
  for (Tensor *tensor : outputsOf(kernel, t))
    notePadding(result, tensor->nameOf().c_str(), *tensor);
}

CaseResult runCase(fa2rtDevice *device, const fa2rtProgram *program,
                   const Kernel &kernel, const Configuration &configuration,
                   const RunOptions &options, Tensors *keep) {
  CaseResult result;
  Tensors t = prepareCase(kernel, configuration, options);
  std::vector<Tensor *> inputs = inputsOf(kernel, t);
  std::vector<Tensor *> outputs = outputsOf(kernel, t);
  upload(device, kernel, t);

  std::vector<fa2rtArgument> arguments =
      makeArguments(kernel, configuration, t);
  Workspace workspace(device, program, arguments);
  result.kernels = kernelsOf(program, arguments);
  try {
    checkLaunch(fa2rtLaunch(program, arguments.data(), arguments.size(),
                            workspace.data(), workspace.bytes, nullptr));
    checkLaunch(fa2rtDeviceSynchronize(device));
  } catch (const Failure &failure) {
    if (failure.code != kCheckFailed)
      throw;
    result.launchFailure = failure.what();
    return result;
  }

  for (Tensor *tensor : outputs)
    tensor->download();
  fa2rtDeviceProperties properties;
  check(fa2rtDeviceGetProperties(device, &properties));
  checkCase(kernel, configuration, options,
            tensorCoreOf(properties.compute_capability), t, result);
  if (options.check != CheckMode::None) {
    for (Tensor *tensor : inputs)
      if (tensor->changedOnDevice() && result.disturbed.empty())
        result.disturbed = "an input was written";
    for (const Extra &extra : t.extras)
      if (extra.changedOnDevice() && result.disturbed.empty())
        result.disturbed = extra.nameOf() + ", an input, was written";
  }
  noteWorkspace(result, workspace);
  result.passed = result.check.passed && result.disturbed.empty();
  result.flops = countFlops(kernel, configuration);
  if (result.passed && options.sameBits > 0) {
    result.disturbed = otherBits(device, program, arguments, workspace, outputs,
                                 options.sameBits);
    result.passed = result.disturbed.empty();
  }

  if (options.repeats > 0) {
    result.times.resize(size_t(options.repeats));
    checkLaunch(fa2rtMeasure(program, arguments.data(), arguments.size(),
                             workspace.data(), workspace.bytes, nullptr,
                             options.repeats, result.times.data()));
    std::sort(result.times.begin(), result.times.end());
    // One order of every sum gives the same bits each time.
    for (Tensor *tensor : outputs)
      if (kernel.deterministic && tensor->changedOnDevice() &&
          result.disturbed.empty())
        result.disturbed = "a later launch gave other bits";
    for (const Extra &gradient : t.dextras)
      if (kernel.deterministic && gradient.changedOnDevice() &&
          result.disturbed.empty())
        result.disturbed =
            "a later launch gave other bits of " + gradient.nameOf();
    noteWorkspace(result, workspace);
    result.passed &= result.disturbed.empty();
  }
  if (keep)
    *keep = std::move(t);
  return result;
}

namespace {

/// JSON has no infinity.
nlohmann::ordered_json number(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

} // namespace

nlohmann::ordered_json toJson(const CaseResult &result) {
  nlohmann::ordered_json json;
  json["passed"] = result.passed;
  json["kernels"] = result.kernels;
  if (!result.launchFailure.empty()) {
    json["failures"] = {result.launchFailure};
    return json;
  }
  const CheckResult &check = result.check;
  json["rows_checked"] = result.sample.rowsChecked;
  json["rows_total"] = result.sample.rowsTotal;
  json["sampled"] = !result.sample.everything;
  json["out"] = {{"max_error", number(check.maxError)},
                 {"standard_max_error", number(check.maxStandardError)},
                 {"worst_row",
                  {{"batch", check.worstBatch},
                   {"head", check.worstHead},
                   {"row", check.worst.worstRow},
                   {"error", number(check.worst.worstError)},
                   {"allowed", number(check.worst.worstAllowed)},
                   {"ratio", number(check.worst.worstRatio)}}}};
  json["lse"] = {{"max_error", number(check.lseMaxError)},
                 {"worst_ratio", number(check.lseWorstRatio)}};
  for (const GradientVerdict &g : check.gradients)
    json[g.name] = {{"max_error", number(g.maxError)},
                    {"standard_max_error", number(g.maxStandardError)},
                    {"worst_ratio", number(g.worstRatio)}};
  json["failed_rows"] = check.failedRows;
  json["empty_rows"] = check.emptyRows;
  json["unwritten"] = check.unwritten;
  json["not_numbers"] = check.notNumbers;
  auto failures = nlohmann::ordered_json::array();
  for (const std::string &text : check.failures)
    failures.push_back(text);
  if (!result.disturbed.empty())
    failures.push_back(result.disturbed);
  json["failures"] = failures;
  if (!result.times.empty()) {
    double median = result.medianTime();
    json["time"] = {
        {"median_ms", median},
        {"min_ms", result.times.front()},
        {"max_ms", result.times.back()},
        {"launches", result.times.size()},
        {"flops", result.flops},
        {"tflops_per_s", median > 0 ? result.flops / median / 1e9 : 0}};
  }
  return json;
}

} // namespace fa2run
