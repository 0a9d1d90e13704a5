//===- Arguments.cpp - a launch's arguments against the manifest ----------===//

#include "Arguments.h"

#include "Error.h"

#include <cmath>
#include <limits>

namespace fa2rt {

namespace {

constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  fail(FA2RT_ERROR_ARGUMENT, format, std::forward<Args>(args)...);
}

std::string argumentNames(const Manifest &manifest) {
  std::string names;
  for (const Argument &argument : manifest.arguments)
    names += (names.empty() ? "" : ", ") + argument.name;
  return names.empty() ? "none" : names;
}

class Binder {
public:
  explicit Binder(const Manifest &manifest) : manifest(manifest) {}

  Bindings bind(const DeviceProperties &device,
                std::span<const fa2rtArgument> given) {
    result.tensors.resize(manifest.arguments.size());
    result.scalars.resize(manifest.arguments.size());
    result.slots.assign(manifest.slotCount, std::nullopt);
    definedBy.assign(manifest.dimensions.size(), nullptr);
    setDevice(device);

    std::vector<const fa2rtArgument *> byIndex = match(given);
    for (size_t i = 0; i < manifest.arguments.size(); ++i) {
      const Argument &argument = manifest.arguments[i];
      if (!byIndex[i] && !argument.optional)
        refuse("the argument '{}' is missing (a {} of {})", argument.name,
               argument.tensor ? "tensor" : "scalar",
               dtypeName(argument.dtype));
      if (argument.tensor)
        bindTensor(argument, byIndex[i], result.tensors[i]);
      else
        bindScalar(argument, byIndex[i], result.scalars[i]);
    }
    evaluate();
    return std::move(result);
  }

  std::optional<Bindings> bind(const Bindings &bound,
                               std::span<void *const> addresses) {
    bool same = true;
    for (uint32_t i : manifest.misalignmentsRead)
      same &= bound.slots[manifest.arguments[i].misalignmentSlot] ==
              misalignment(bound.tensors[i], addresses[i]);
    if (same)
      return std::nullopt;
    result = bound;
    for (uint32_t i : manifest.misalignmentsRead)
      result.slots[manifest.arguments[i].misalignmentSlot] =
          misalignment(bound.tensors[i], addresses[i]);
    evaluate();
    return std::move(result);
  }

private:
  /// Bytes of an address behind a multiple of 16; 0 where nothing is there.
  static int64_t misalignment(const BoundTensor &tensor, const void *data) {
    bool none = tensor.empty || !tensor.present;
    return none ? 0 : int64_t(reinterpret_cast<uint64_t>(data) % 16);
  }

  /// What is to hold of the values, and what follows from them.
  void evaluate() {
    checkConditions();
    result.workspaceBytes = evaluate(manifest.workspaceBytes);
    if (result.workspaceBytes < 0)
      refuse("the workspace expression '{}' gives {} bytes",
             manifest.workspaceBytes.text(), result.workspaceBytes);
  }

  void setDevice(const DeviceProperties &device) {
    size_t slot = manifest.deviceSlot;
    result.slots[slot++] = device.multiprocessors;
    result.slots[slot++] = device.l2Bytes;
    result.slots[slot++] = device.sharedBytesPerBlock;
    result.slots[slot++] = device.computeCapability;
  }

  /// The given argument for each of the manifest's, or null.
  std::vector<const fa2rtArgument *>
  match(std::span<const fa2rtArgument> given) {
    std::vector<const fa2rtArgument *> byIndex(manifest.arguments.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].name)
        refuse("argument {} of the call has no name", i);
      std::optional<uint32_t> index = manifest.findArgument(given[i].name);
      if (!index)
        refuse("the kernel has no argument '{}' (it takes: {})", given[i].name,
               argumentNames(manifest));
      if (byIndex[*index])
        refuse("the argument '{}' is given twice", given[i].name);
      bool tensor = manifest.arguments[*index].tensor;
      if (bool(given[i].is_tensor) != tensor)
        refuse("the argument '{}' is a {}, not a {}", given[i].name,
               tensor ? "tensor" : "scalar", tensor ? "scalar" : "tensor");
      byIndex[*index] = &given[i];
      result.order.push_back(*index);
    }
    return byIndex;
  }

  void bindTensor(const Argument &argument, const fa2rtArgument *given,
                  BoundTensor &bound) {
    size_t rank = argument.shape.size();
    bound.name = argument.name;
    bound.dtype = argument.dtype;
    bound.direction = argument.direction;
    bound.sums = argument.broadcast && argument.direction == FA2RT_OUT;
    if (argument.direction == FA2RT_OUT)
      bound.rowMultiple = argument.strideMultiple;
    bound.shape.assign(rank, 0);
    bound.strides.assign(rank, 0);
    if (given) {
      bound.present = true;
      if (given->dtype != argument.dtype)
        refuse("{}: dtype is {}, the kernel was compiled for {}", argument.name,
               dtypeName(given->dtype), dtypeName(argument.dtype));
      if (given->rank != int32_t(rank))
        refuse("{}: rank is {}, the kernel takes {}", argument.name,
               given->rank, rank);
      if (!given->shape)
        refuse("{}: no shape was given", argument.name);
      bindShape(argument, *given, bound);
      bindStrides(argument, *given, bound);
    }
    for (size_t d = 0; d < rank; ++d) {
      // The one element of a broadcast extent stands for all.
      bool repeats = argument.broadcast && bound.shape[d] == 1;
      result.slots[argument.firstStrideSlot + d] =
          repeats ? 0 : bound.strides[d];
    }
    result.slots[argument.misalignmentSlot] =
        misalignment(bound, given ? given->data : nullptr);
  }

  void bindShape(const Argument &argument, const fa2rtArgument &given,
                 BoundTensor &bound) {
    for (size_t d = 0; d < bound.shape.size(); ++d) {
      int64_t extent = bound.shape[d] = given.shape[d];
      if (extent < 0 || extent > kMaxExtent)
        refuse("{}: extent {} is {}; extents are 0 to {}", argument.name, d,
               extent, kMaxExtent);
      const Extent &wanted = argument.shape[d];
      if (wanted.fixed >= 0) {
        if (extent != wanted.fixed)
          refuse("{}: extent {} is {}, the kernel was compiled for {}",
                 argument.name, d, extent, wanted.fixed);
        continue;
      }
      std::optional<int64_t> &value = result.slots[wanted.dimension];
      if (value && extent == 1 && argument.broadcast)
        continue;
      if (!value) {
        value = extent;
        definedBy[wanted.dimension] = argument.name.c_str();
      } else if (*value != extent) {
        refuse("{}: extent {} ({}) is {}, but {} gives {} = {}", argument.name,
               d, manifest.dimensions[wanted.dimension], extent,
               definedBy[wanted.dimension],
               manifest.dimensions[wanted.dimension], *value);
      }
    }
  }

  void bindStrides(const Argument &argument, const fa2rtArgument &given,
                   BoundTensor &bound) {
    size_t rank = bound.shape.size();
    // The span of the tensor in bytes, from its lowest to its highest element.
    __int128 span = 0;
    int64_t packed = 1;
    for (int64_t extent : bound.shape)
      bound.empty |= extent == 0;
    for (size_t back = 0; back < rank; ++back) {
      size_t d = rank - 1 - back;
      int64_t extent = bound.shape[d];
      int64_t stride = given.strides ? given.strides[d] : packed;
      bound.strides[d] = stride;
      if (__builtin_mul_overflow(packed, extent > 0 ? extent : 1, &packed))
        refuse("{}: the shape {} has more than 2^63 elements", argument.name,
               listText(bound.shape));
      if (extent <= 1)
        continue;
      span += __int128(stride < 0 ? -__int128(stride) : stride) * (extent - 1);
      if (!argument.broadcast && back == 0 && stride != 1)
        refuse("{}: stride {} (the innermost) is {}; it must be 1, as rows are "
               "{} whole: pass {}",
               argument.name, d, stride,
               argument.direction == FA2RT_IN ? "read" : "written",
               argument.direction == FA2RT_IN ? "a packed copy of the tensor"
                                              : "memory with packed rows");
      if (!argument.broadcast && back > 0 &&
          stride % argument.strideMultiple != 0)
        refuse("{}: stride {} is {} elements; it must be a multiple of {}",
               argument.name, d, stride, argument.strideMultiple);
      if (stride == 0 && !bound.empty && argument.direction != FA2RT_IN)
        refuse("{}: stride {} is 0 over an extent of {}, so that elements of "
               "an output would share memory",
               argument.name, d, extent);
    }
    // Either factor is below 2^64 here, so the product cannot wrap in 128 bits.
    if ((span + 1) * dtypeBytes(argument.dtype) > __int128(1) << 62)
      refuse("{}: shape {} with strides {} spans more than 2^62 bytes",
             argument.name, listText(bound.shape), listText(bound.strides));
  }

  void bindScalar(const Argument &argument, const fa2rtArgument *given,
                  std::array<std::byte, 8> &bytes) {
    if (argument.dtype == FA2RT_F32) {
      double value = argument.defaultReal;
      if (given)
        value = given->is_integer ? double(given->integer) : given->real;
      float rounded = float(value);
      if (argument.require != Requirement::None && !std::isfinite(rounded))
        refuse("{}: {} is not a finite f32", argument.name, value);
      if (argument.require == Requirement::PositiveFinite && !(rounded > 0))
        refuse("{}: {} is not positive; it must be a positive, finite f32",
               argument.name, value);
      if (argument.require == Requirement::Invertible &&
          !(rounded >= kLeastInvertible))
        refuse(
            "{}: {} is below 2^-100, the least that these kernels, which "
            "divide by it, take; compile with preload = delta, or forward with "
            "preload_terms = false, for less",
            argument.name, value);
      std::memcpy(bytes.data(), &rounded, sizeof rounded);
      return;
    }
    int64_t value = argument.defaultInteger;
    if (given) {
      if (!given->is_integer)
        refuse("{}: expected an integer ({}), got a real number", argument.name,
               dtypeName(argument.dtype));
      value = given->integer;
    }
    if (argument.dtype == FA2RT_I32 && value != int64_t(int32_t(value)))
      refuse("{}: {} is not within i32", argument.name, value);
    result.slots[argument.slot] = value;
    std::memcpy(bytes.data(), &value, sizeof value); // little-endian: low half
  }

  void checkConditions() {
    for (const Condition &condition : manifest.conditions) {
      if (evaluate(condition.that) != 0)
        continue;
      std::string values;
      for (const auto &[name, slot] : condition.that.names())
        if (result.slots[slot])
          values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name,
                                *result.slots[slot]);
      refuse("{} (required: {}; got {})", condition.message,
             condition.that.text(), values.empty() ? "no names" : values);
    }
  }

  int64_t evaluate(const Expression &expression) {
    try {
      return expression.evaluate(result.slots);
    } catch (const std::domain_error &error) {
      throw Error(FA2RT_ERROR_ARGUMENT, error.what());
    }
  }

  const Manifest &manifest;
  Bindings result;
  std::vector<const char *> definedBy; // which argument gave each dimension
};

} // namespace

Bindings bindArguments(const Manifest &manifest, const DeviceProperties &device,
                       std::span<const fa2rtArgument> arguments) {
  return Binder(manifest).bind(device, arguments);
}

std::optional<Bindings> bindAddresses(const Manifest &manifest,
                                      const Bindings &bindings,
                                      std::span<void *const> addresses) {
  return Binder(manifest).bind(bindings, addresses);
}

void checkAddresses(const Manifest &manifest, const Bindings &bindings,
                    std::span<void *const> addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const BoundTensor &tensor = bindings.tensors[i];
    if (!tensor.present)
      continue;
    const Argument &argument = manifest.arguments[i];
    uint64_t address = reinterpret_cast<uint64_t>(addresses[i]);
    if (address % uint64_t(argument.alignment))
      refuse("{}: the address {:#x} is not a multiple of {} bytes",
             argument.name, address, argument.alignment);
    if (!address && !tensor.empty)
      refuse("{}: the address is null, but the shape {} has elements",
             argument.name, listText(tensor.shape));
  }
}

std::string listText(std::span<const int64_t> values) {
  std::string text;
  for (int64_t value : values)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
  return fmt::format("[{}]", text);
}

} // namespace fa2rt
