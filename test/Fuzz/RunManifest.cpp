//===- RunManifest.cpp - manifests, their expressions, their launches -----===//

#include "Targets.h"

#include "Error.h"
#include "LaunchPlan.h"
#include "Program.h"
#include "SimDevice.h"

#include <cstdlib>
#include <limits>
#include <stdexcept>

using namespace fa2rt;

namespace fa2::fuzz {

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kNumbers[] = {1,
                                0,
                                2,
                                3,
                                7,
                                8,
                                64,
                                127,
                                128,
                                129,
                                1024,
                                1 << 20,
                                -1,
                                -8,
                                INT32_MAX,
                                kMax,
                                kMax / 2,
                                kMin,
                                kMin / 2,
                                int64_t(1) << 31,
                                65536,
                                int64_t(1) << 33,
                                int64_t(1) << 40};

/// The arguments that a manifest asks for, some of them wrong.
struct Call {
  std::vector<fa2rtArgument> arguments;
  std::vector<std::vector<int64_t>> shapes, strides;

  /// `memory`: tensors are packed, small and lie there.
  Call(const Manifest &manifest, Choices &choices, std::byte *memory,
       size_t bytes) {
    size_t count = manifest.arguments.size();
    shapes.reserve(count);
    strides.reserve(count);
    std::vector<int64_t> dims;
    for (size_t i = 0; i < manifest.dimensions.size(); ++i)
      dims.push_back(memory ? choices.byte() % 5 : choices.pick(kNumbers));
    for (const Argument &argument : manifest.arguments) {
      if (argument.optional && choices.flag())
        continue;
      if (!argument.tensor) {
        bool integer = argument.dtype != FA2RT_F32;
        int64_t value = choices.pick(kNumbers);
        arguments.push_back(integer ? fa2rtInteger(argument.name.c_str(), value)
                                    : fa2rtReal(argument.name.c_str(),
                                                1 + double(value % 1000)));
        continue;
      }
      std::vector<int64_t> &shape = shapes.emplace_back();
      std::vector<int64_t> &stride = strides.emplace_back();
      for (const Extent &extent : argument.shape) {
        shape.push_back(extent.fixed >= 0 ? extent.fixed
                                          : dims[extent.dimension]);
        stride.push_back(choices.pick(kNumbers));
      }
      size_t needed = size_t(dtypeBytes(argument.dtype));
      bool fits = true;
      for (int64_t extent : shape)
        fits &= !__builtin_mul_overflow(needed, size_t(extent), &needed);
      fits &= needed <= bytes;
      void *data = memory && fits && needed ? memory : nullptr;
      bool packed = memory || choices.flag();
      if (!memory && choices.flag())
        data = reinterpret_cast<void *>(uintptr_t(choices.pick(kNumbers)));
      arguments.push_back(fa2rtTensor(
          argument.name.c_str(), data, argument.dtype, int32_t(shape.size()),
          shape.data(), packed ? nullptr : stride.data()));
      if (data && memory) {
        memory += (needed + 127) / 128 * 128;
        bytes -= std::min(bytes, (needed + 127) / 128 * 128);
      }
    }
  }
};

/// Runs `body`, of which nothing but an Error may come.
template <typename Body> void refusals(Body body) {
  try {
    body();
  } catch (const Error &error) {
    if (error.status == FA2RT_ERROR_INTERNAL || !*error.what())
      std::abort();
  }
}

DeviceProperties someDevice(Choices &choices) {
  DeviceProperties device;
  device.name = "some";
  device.computeCapability = choices.flag() ? 80 : 90;
  device.multiprocessors = 1 + choices.byte();
  device.l2Bytes = 50 << 20;
  device.sharedBytesPerBlock = 232448;
  return device;
}

} // namespace

// The manifest, then two calls' arguments up to the launches.
void runManifest(std::string_view input) {
  Choices choices(input);
  refusals([&] {
    Manifest manifest = Manifest::parse(choices.text);
    for (int call = 0; call < 2; ++call)
      refusals([&] {
        DeviceProperties device = someDevice(choices);
        Call made(manifest, choices, nullptr, 0);
        LaunchPlan plan(manifest,
                        bindArguments(manifest, device, made.arguments));
        const Bindings &bindings = plan.bound();
        std::vector<void *> addresses(manifest.arguments.size());
        for (size_t i = 0; i < bindings.order.size(); ++i)
          if (made.arguments[i].is_tensor)
            addresses[bindings.order[i]] = made.arguments[i].data;
        WorkspaceRegion workspace{reinterpret_cast<void *>(uintptr_t(1) << 32),
                                  size_t(choices.pick(kNumbers))};
        PlacedLaunch placed(
            plan, addresses, workspace,
            [](const TensorMapRequest &) { return TensorMapImage(); });
        for (const KernelLaunch &launch : placed.kernels())
          if (launch.parameterOffsets.size() !=
              manifest.launches[launch.kernel].parameters.size())
            std::abort();
      });
  });
}

// An expression over eight names, evaluated with values that may be missing.
void runExpression(std::string_view input) {
  Choices choices(input);
  auto lookup = [](std::string_view name) -> std::optional<uint32_t> {
    const std::string_view names[] = {
        "a",   "b", "c", "seqlen_q", "heads", "q.stride[0]", "device.l2_bytes",
        "gone"};
    for (uint32_t i = 0; i < 8; ++i)
      if (names[i] == name)
        return i;
    return std::nullopt;
  };
  try {
    Expression expression = Expression::parse(choices.text, lookup);
    for (int round = 0; round < 4; ++round) {
      std::vector<std::optional<int64_t>> values;
      for (int i = 0; i < 7; ++i)
        values.emplace_back(choices.pick(kNumbers));
      values.emplace_back();
      try {
        if (expression.evaluate(values) != expression.evaluate(values))
          std::abort();
      } catch (const std::domain_error &) {
      }
    }
  } catch (const std::invalid_argument &) {
  }
}

// A whole program on the simulator: load, bind, launch, on memory of its own.
void runProgram(std::string_view input) {
  Choices choices(input);
  constexpr size_t kBytes = 1 << 16;
  alignas(256) static std::byte memory[kBytes];
  std::fill_n(memory, kBytes, std::byte(0x3f));
  const char *names[] = {"sm_90?budget=3000", "sm_90?budget=3000&nochecks",
                         "sm_90?budget=3000&strict&completion=late&seed=3",
                         "sm_90?budget=3000&completion=early&resident=2"};
  refusals([&] {
    auto device = openSimDevice(choices.pick(names));
    Program program(*device, choices.text, {});
    Call made(program.manifest(), choices, memory + kBytes / 2, kBytes / 2);
    program.launch(made.arguments, {memory, kBytes / 2}, nullptr);
  });
}

} // namespace fa2::fuzz
