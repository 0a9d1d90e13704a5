//===- SampleCall.h - arguments of the sample manifest ----------*- C++ -*-===//
#ifndef FA2_TEST_UNIT_RUNTIME_SAMPLECALL_H
#define FA2_TEST_UNIT_RUNTIME_SAMPLECALL_H

#include "Support.h"

#include <array>
#include <stdexcept>

namespace fa2rt::test {

/// A launch of the sample that is accepted; tests spoil one thing.
struct SampleCall {
  std::array<int64_t, 4> qShape, kShape, qStrides, kStrides;
  std::vector<fa2rtArgument> arguments;

  SampleCall() { reset(); }
  SampleCall(const SampleCall &) = delete; // the arguments point into it

  void reset() {
    qShape = {2, 300, 8, 64};
    kShape = {2, 500, 4, 64};
    qStrides = {153600, 512, 64, 1};
    kStrides = {128000, 256, 64, 1};
    auto address = [](uintptr_t at) { return reinterpret_cast<void *>(at); };
    arguments = {fa2rtTensor("q", address(0x10000), FA2RT_BF16, 4,
                             qShape.data(), qStrides.data()),
                 fa2rtTensor("k", address(0x20000), FA2RT_BF16, 4,
                             kShape.data(), kStrides.data()),
                 fa2rtTensor("out", address(0x30000), FA2RT_BF16, 4,
                             qShape.data(), qStrides.data()),
                 fa2rtInteger("offset", 21)};
  }
  fa2rtArgument &operator[](const char *name) {
    for (fa2rtArgument &argument : arguments)
      if (std::string(argument.name) == name)
        return argument;
    throw std::logic_error(name);
  }
};

} // namespace fa2rt::test

#endif // FA2_TEST_UNIT_RUNTIME_SAMPLECALL_H
