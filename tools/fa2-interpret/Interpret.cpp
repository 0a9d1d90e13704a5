//===- Interpret.cpp - a case through a stage's kernels -------------------===//

#include "Interpret.h"

#include "Dimensions.h"
#include "Launch.h"

#include <algorithm>

using namespace fa2run;
using fa2::interpreter::Argument;
using fa2::interpreter::Observer;
using fa2::interpreter::StageFile;

namespace fa2interpret {

namespace {

/// What the names of an argument's extents stand for: a tensor may have 1 where
/// it repeats.
std::vector<int64_t> describedShape(const Kernel &kernel,
                                    const Configuration &c,
                                    const fa2rtArgument &given) {
  std::vector<int64_t> shape(given.shape, given.shape + given.rank);
  std::string name = given.name;
  for (const Kernel::ExtraRule &rule : kernel.extras) {
    bool gradient = name == "d" + rule.name;
    if ((name != rule.name && !gradient) || rule.shape.size() != shape.size())
      continue;
    for (size_t d = 0; d < shape.size(); ++d)
      shape[d] = extentNamed(rule.shape[d], c).value_or(shape[d]);
  }
  return shape;
}

Argument tensorOf(const Kernel &kernel, const Configuration &c,
                  const fa2rtArgument &given) {
  Argument argument{
      given.name, given.data, describedShape(kernel, c, given),
      std::vector<int64_t>(given.strides, given.strides + given.rank)};
  for (size_t d = 0; d < argument.shape.size(); ++d)
    if (given.shape[d] != argument.shape[d])
      argument.strides[d] = 0;
  return argument;
}

std::vector<Argument> argumentsOf(const Kernel &kernel, const Configuration &c,
                                  const Tensors &tensors) {
  std::vector<Argument> arguments;
  Configuration whole = c; // a launcher puts the default in
  if (kernel.hasScale && !whole.scale)
    whole.scale = kernel.defaultScale;
  for (const fa2rtArgument &given : makeArguments(kernel, whole, tensors))
    if (given.is_tensor)
      arguments.push_back(tensorOf(kernel, c, given));
    else
      arguments.push_back(
          {given.name, nullptr, {}, {}, given.real, given.integer});
  return arguments;
}

/// Memory of the program's own, poisoned as fa2-run's is.
class Workspaces {
public:
  Workspaces(const std::vector<StageFile::Workspace> &all, const Kernel &kernel,
             const Configuration &c, const std::vector<Argument> &arguments)
      : all(all) {
    for (const StageFile::Workspace &each : all) {
      std::vector<int64_t> shape;
      for (const std::string &extent : each.shape)
        shape.push_back(evaluate(extent, kernel, c, arguments));
      add(each.name, shape);
    }
  }
  bool areFor(const std::vector<StageFile::Workspace> &others) const {
    return all == others;
  }
  const std::vector<Argument> &arguments() const { return given; }

private:
  void add(const std::string &name, const std::vector<int64_t> &shape) {
    std::vector<int64_t> strides(shape.size());
    int64_t elements = 1;
    for (size_t d = shape.size(); d-- > 0; elements *= shape[d])
      strides[d] = elements;
    auto &bytes = memory.emplace_back(size_t(elements) * sizeof(float), 0xff);
    given.push_back({name, bytes.data(), shape, strides});
  }

  const std::vector<StageFile::Workspace> &all;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<Argument> given;
};

bool isChosen(const StageFile::Kernel &each, const Run &run,
              const Configuration &c, const std::vector<Argument> &arguments,
              const std::vector<std::string> &only) {
  if (!only.empty()) // of all rows
    return each.count.empty() &&
           std::count(only.begin(), only.end(), each.name) > 0;
  return each.when.empty() || evaluate(each.when, run.kernel, c, arguments);
}

void checkNames(const StageFile &file, const std::vector<std::string> &only) {
  for (const std::string &name : only)
    if (std::none_of(
            file.kernels().begin(), file.kernels().end(),
            [&](const StageFile::Kernel &k) { return k.name == name; }))
      refuse("--kernel: the file has no kernel '{}'; its first is '{}'", name,
             file.kernels().front().name);
}

} // namespace

Run readStage(const std::string &path) {
  Run run;
  run.path = path;
  run.file = StageFile::read(path);
  if (!run.file)
    refuse("{} is no file of kernels of tiles, as said above", path);
  run.kernel = describeKernel(run.file->manifest());
  return run;
}

void interpretCase(Run &run, const Configuration &c, const RunOptions &options,
                   const std::vector<std::string> &only,
                   const Observer &observer) {
  checkRequirements(run.file->manifest(), run.kernel, c);
  checkNames(*run.file, only);
  run.tensors = prepareCase(run.kernel, c, options);
  const std::vector<Argument> given = argumentsOf(run.kernel, c, run.tensors);
  std::vector<Argument> arguments = given;
  std::optional<Workspaces> workspaces;
  const std::vector<StageFile::Kernel> &kernels = run.file->kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!isChosen(kernels[i], run, c, arguments, only))
      continue;
    run.ran.push_back(kernels[i].name);
    // A launch's kernels share it.
    if (!workspaces || !workspaces->areFor(run.file->workspaces(i))) {
      workspaces.emplace(run.file->workspaces(i), run.kernel, c, given);
      arguments = given;
      const auto &own = workspaces->arguments();
      arguments.insert(arguments.end(), own.begin(), own.end());
    }
    std::optional<StageFile::Rows> rows;
    auto valueOf = [&](const std::string &text) {
      return evaluate(text, run.kernel, c, arguments);
    };
    if (!kernels[i].count.empty())
      rows = {valueOf(kernels[i].from), valueOf(kernels[i].count)};
    if (!run.file->run(i, arguments, observer, rows))
      throw Failure(kCheckFailed,
                    kernels[i].name + " cannot be run, as said above");
  }
}

} // namespace fa2interpret
