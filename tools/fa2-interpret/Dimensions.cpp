//===- Dimensions.cpp - expressions of a case's lengths -------------------===//

#include "Dimensions.h"

#include "Expression.h"

#include <fmt/format.h>

#include <stdexcept>

using namespace fa2run;

namespace fa2interpret {

std::optional<int64_t> extentNamed(const std::string &name,
                                   const Configuration &c) {
  if (name == "batch")
    return c.batch;
  if (name == "heads")
    return c.heads;
  if (name == "heads_kv")
    return c.headsKv;
  if (name == "seqlen_q")
    return c.seqlenQ;
  if (name == "seqlen_k")
    return c.seqlenK;
  return std::nullopt;
}

/// CUDA C++ Programming Guide, "Compute Capabilities", and the data sheets.
static std::optional<int64_t> deviceField(const std::string &name,
                                          const Kernel &kernel) {
  bool hopper = kernel.computeCapability >= 90;
  if (name == "device.multiprocessors")
    return hopper ? 132 : 108;
  if (name == "device.l2_bytes")
    return (hopper ? 50 : 40) << 20;
  if (name == "device.shared_bytes_per_block")
    return (hopper ? 227 : 163) << 10;
  if (name == "device.compute_capability")
    return kernel.computeCapability;
  return std::nullopt;
}

/// How an argument lies, NAME.stride[D] and NAME.misalignment, and an extent of
/// its own, NAME_D.
static std::optional<int64_t>
layoutNamed(std::string_view name,
            const std::vector<fa2::interpreter::Argument> &arguments) {
  for (const auto &argument : arguments) {
    if (name == argument.name + ".misalignment")
      return int64_t(reinterpret_cast<uintptr_t>(argument.data) % 16);
    for (size_t d = 0; d < argument.strides.size(); ++d) {
      if (name == fmt::format("{}.stride[{}]", argument.name, d))
        return argument.strides[d];
      if (name == fmt::format("{}_{}", argument.name, d))
        return argument.shape[d];
    }
  }
  return std::nullopt;
}

int64_t evaluate(const std::string &text, const Kernel &kernel,
                 const Configuration &c,
                 const std::vector<fa2::interpreter::Argument> &arguments) {
  std::vector<std::optional<int64_t>> values;
  auto lookup = [&](std::string_view view) -> std::optional<uint32_t> {
    std::string name(view);
    auto value = extentNamed(name, c);
    if (!value)
      value = deviceField(name, kernel);
    if (!value)
      value = layoutNamed(view, arguments);
    if (!value)
      return std::nullopt;
    values.push_back(value);
    return uint32_t(values.size() - 1);
  };
  try {
    auto expression = fa2rt::Expression::parse(text, lookup);
    return expression.evaluate(values);
  } catch (const std::logic_error &fault) {
    refuse("the expression '{}': {}", text, fault.what());
  }
}

void checkRequirements(const std::string &manifest, const Kernel &kernel,
                       const Configuration &c) {
  for (const auto &each : nlohmann::json::parse(manifest)["requires"])
    if (!evaluate(each["that"], kernel, c))
      refuse("{} ({})", each["message"].get<std::string>(), describe(c));
}

} // namespace fa2interpret
