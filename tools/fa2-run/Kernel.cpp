//===- Kernel.cpp - a program as fa2-run sees it --------------------------===//

#include "Kernel.h"

#include <cmath>
#include <sstream>

namespace fa2run {

using Json = nlohmann::json;

namespace {

const Json *argumentNamed(const Json &manifest, const char *name) {
  for (const Json &argument : manifest["arguments"])
    if (argument["name"] == name)
      return &argument;
  return nullptr;
}

Kernel::TensorRule tensorRule(const Json &manifest, const char *name) {
  const Json *argument = argumentNamed(manifest, name);
  if (!argument || (*argument)["kind"] != "tensor")
    refuse("the kernel has no tensor '{}'; fa2-run runs forward kernels with "
           "q, k, v, out, lse and scale, and backward ones with dout, dq, dk "
           "and dv besides",
           name);
  return {(*argument)["alignment"], (*argument)["stride_multiple"]};
}

Kernel::ExtraRule extraRule(const Json &argument) {
  static const std::map<std::string, fa2rtDType> dtypes = {{"bf16", FA2RT_BF16},
                                                           {"f16", FA2RT_F16},
                                                           {"f32", FA2RT_F32},
                                                           {"i32", FA2RT_I32}};
  Kernel::ExtraRule rule;
  rule.name = argument["name"];
  rule.tensor = argument["kind"] == "tensor";
  auto dtype = dtypes.find(argument["dtype"].get<std::string>());
  if (dtype == dtypes.end())
    refuse("the argument '{}' is of {}, which fa2-run does not draw", rule.name,
           argument["dtype"].dump());
  rule.dtype = dtype->second;
  rule.broadcast = argument.value("broadcast", false);
  if (rule.tensor)
    for (const Json &extent : argument["shape"])
      rule.shape.push_back(extent.is_string() ? extent.get<std::string>()
                                              : extent.dump());
  return rule;
}

void addExtra(const Json &manifest, const Json &argument, Kernel &kernel) {
  kernel.extras.push_back(extraRule(argument));
  Kernel::ExtraRule &rule = kernel.extras.back();
  const Json *gradient = argumentNamed(manifest, ("d" + rule.name).c_str());
  rule.hasGradient = gradient && gradient->value("direction", "") == "out";
  rule.summed.assign(rule.shape.size(), false);
  if (!rule.hasGradient)
    return;
  Kernel::ExtraRule of = extraRule(*gradient);
  rule.wholeGradient = of.dtype != FA2RT_F32;
  for (size_t d = 0; rule.wholeGradient && d < rule.shape.size(); ++d)
    rule.summed[d] = of.shape[d] == "1" && rule.shape[d] != "1";
}

/// Unless it is one of the operands that programs of older files have under any
/// name.
void readSink(const Json &manifest, Kernel &kernel) {
  const Json *argument = argumentNamed(manifest, "sink");
  kernel.hasSink = argument != nullptr;
  for (const Kernel::ExtraRule &rule : kernel.extras)
    kernel.hasSink &= rule.name != "sink";
  if (kernel.hasSink)
    addExtra(manifest, *argument, kernel);
}

void readDropout(const Json &manifest, Kernel &kernel) {
  const Json *p = argumentNamed(manifest, "dropout"),
             *rng = argumentNamed(manifest, "rng");
  kernel.hasDropout = p && rng;
  for (const Kernel::ExtraRule &rule : kernel.extras)
    kernel.hasDropout &= rule.name != "dropout" && rule.name != "rng";
  if (!kernel.hasDropout)
    return;
  addExtra(manifest, *p, kernel);
  kernel.extras.back().draw = Kernel::ExtraRule::Draw::Probability;
  addExtra(manifest, *rng, kernel);
  kernel.extras.back().draw = Kernel::ExtraRule::Draw::Words;
}

void readProgram(const Json &manifest, Kernel &kernel) {
  const Json &specification = manifest["specification"];
  kernel.hasScoreProgram = specification.value("score_program", false);
  auto program = specification.find("program");
  if (program == specification.end())
    return;
  kernel.hasScoreProgram = true;
  kernel.program = ScoreProgram::parse(*program);
  for (const std::string &name : kernel.program->reads()) {
    const Json *argument = argumentNamed(manifest, name.c_str());
    if (!argument)
      refuse("the manifest's program reads '{}', which is not an argument",
             name);
    addExtra(manifest, *argument, kernel);
  }
  std::map<std::string, size_t> ranks;
  for (const Kernel::ExtraRule &rule : kernel.extras)
    ranks[rule.name] = rule.shape.size();
  kernel.program->checkOperands(ranks);
}

int64_t scheduleField(const Json &schedule, const char *name) {
  auto field = schedule.find(name);
  return field != schedule.end() && field->is_number_integer()
             ? field->get<int64_t>()
             : 0;
}

} // namespace

std::optional<Dropout> dropoutOf(const Kernel &kernel, const Operands &operands,
                                 int64_t heads) {
  if (!kernel.hasDropout)
    return std::nullopt;
  std::array<uint32_t, 4> words;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = uint32_t(int64_t(operands.at("rng").elements[i]));
  return Dropout::of(operands.at("dropout").elements[0], words, heads);
}

double sinkOf(const Kernel &kernel, const Operands &operands, int64_t head) {
  return kernel.hasSink ? operands.at("sink").elements[size_t(head)]
                        : -std::numeric_limits<double>::infinity();
}

Kernel describeKernel(const std::string &text) {
  Json manifest = Json::parse(text);
  const Json &specification = manifest["specification"];
  Kernel kernel;
  kernel.pass = specification["pass"];
  bool backward = kernel.pass == "backward";
  if (kernel.pass != "forward" && !backward)
    refuse("the program's pass is '{}'; fa2-run runs 'forward' and 'backward'",
           kernel.pass);
  kernel.deterministic = specification.value("deterministic", !backward);
  kernel.compiler = manifest["compiler"];
  kernel.arch = manifest["target"]["arch"];
  kernel.computeCapability = manifest["target"]["min_compute_capability"];
  kernel.dtypeName = specification["dtype"];
  kernel.maskName = specification["mask"];
  kernel.headDim = specification["head_dim"];
  kernel.headDimV = specification["head_dim_v"];
  if (kernel.dtypeName == "bf16")
    kernel.precision = Precision::BF16;
  else if (kernel.dtypeName == "f16")
    kernel.precision = Precision::F16;
  else
    refuse("the program's dtype is '{}'; fa2-run knows bf16 and f16",
           kernel.dtypeName);
  if (kernel.maskName == "none")
    kernel.mask = Mask::None;
  else if (kernel.maskName == "causal")
    kernel.mask = Mask::Causal;
  else if (kernel.maskName == "causal_top_left")
    kernel.mask = Mask::CausalTopLeft;
  else if (kernel.maskName == "strictly_causal")
    kernel.mask = Mask::StrictlyCausal;
  else
    refuse("the program's mask is '{}'; fa2-run knows none, causal, "
           "causal_top_left and strictly_causal",
           kernel.maskName);
  readProgram(manifest, kernel);
  readSink(manifest, kernel);
  readDropout(manifest, kernel);
  kernel.packedHeads =
      std::max<int64_t>(1, scheduleField(manifest["schedule"], "packed_heads"));
  kernel.blockQ =
      scheduleField(manifest["schedule"], "block_q") / kernel.packedHeads;
  kernel.blockKv = scheduleField(manifest["schedule"], "block_kv");
  kernel.order = manifest["schedule"].value("order", std::string());
  kernel.q = tensorRule(manifest, "q");
  kernel.k = tensorRule(manifest, "k");
  kernel.v = tensorRule(manifest, "v");
  kernel.out = tensorRule(manifest, "out");
  if (backward) {
    kernel.dout = tensorRule(manifest, "dout");
    kernel.hasDlse = argumentNamed(manifest, "dlse") != nullptr;
    if (kernel.hasDlse)
      kernel.dlse = tensorRule(manifest, "dlse");
    kernel.dq = tensorRule(manifest, "dq");
    kernel.dk = tensorRule(manifest, "dk");
    kernel.dv = tensorRule(manifest, "dv");
  }
  kernel.hasLse = backward || argumentNamed(manifest, "lse") != nullptr;
  if (kernel.hasLse)
    kernel.lse = tensorRule(manifest, "lse");
  for (const Json &launch : manifest["launches"]) {
    kernel.guarded |= launch.contains("when");
    if (auto own = launch.find("schedule"); own != launch.end())
      kernel.tiles[launch["kernel"]] = {
          scheduleField(*own, "block_q") /
              std::max<int64_t>(1, scheduleField(*own, "packed_heads")),
          scheduleField(*own, "block_kv")};
  }
  const Json *scale = argumentNamed(manifest, "scale");
  kernel.hasScale = scale != nullptr;
  kernel.defaultScale = scale && scale->contains("default")
                            ? (*scale)["default"].get<double>()
                            : 1 / std::sqrt(double(kernel.headDim));
  return kernel;
}

std::string manifestOf(const std::string &ptx) {
  check(fa2rtManifestCheck(ptx.data(), ptx.size()));
  std::istringstream lines(ptx);
  std::string line, json;
  std::getline(lines, line); // the begin mark, as just checked
  while (std::getline(lines, line) && line.rfind("// fa2-manifest-end", 0) != 0)
    json += line.substr(std::min<size_t>(3, line.size())) + "\n";
  return json;
}

nlohmann::ordered_json kernelReport(const fa2rtProgram *program) {
  auto kernels = nlohmann::ordered_json::array();
  const Json manifest = Json::parse(fa2rtProgramManifest(program));
  for (int32_t i = 0; i < fa2rtProgramKernelCount(program); ++i) {
    fa2rtKernelInfo info;
    check(fa2rtProgramGetKernel(program, i, &info));
    nlohmann::ordered_json kernel;
    kernel["name"] = info.name;
    if (const Json &launch = manifest["launches"][size_t(i)];
        launch.contains("when"))
      kernel["when"] = launch["when"];
    kernel["threads"] = info.threads;
    kernel["shared_bytes"] = info.dynamic_shared_bytes;
    if (info.registers >= 0) {
      kernel["registers"] = info.registers;
      kernel["local_bytes"] = info.local_bytes;
    }
    if (info.static_shared_bytes >= 0)
      kernel["static_shared_bytes"] = info.static_shared_bytes;
    kernels.push_back(kernel);
  }
  return kernels;
}

} // namespace fa2run
