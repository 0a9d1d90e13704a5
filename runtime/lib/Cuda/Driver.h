//===- Driver.h - the CUDA driver's functions -------------------*- C++ -*-===//
#ifndef FA2RT_LIB_CUDA_DRIVER_H
#define FA2RT_LIB_CUDA_DRIVER_H

#include "Cuda/DriverTypes.h"
#include "Error.h"

#include <string>

namespace fa2rt::cuda {

/// The driver's functions, from libcuda.so.1 by dlopen.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none.
#define FA2RT_SYMBOL(member, name, parameters) Result(*member) parameters;
#include "Cuda/Symbols.def"
  int version = 0; // 13000 for CUDA 13.0

  /// The driver, opened and initialised at first use. Throws
  /// Error(FA2RT_ERROR_DEVICE) when there is none or it does not start; a
  /// later call tries again.
  static const Driver &get();

  /// "invalid argument (CUDA_ERROR_INVALID_VALUE)"
  std::string describe(Result result) const;

  /// The status of a call that failed.
  static fa2rtStatus statusOf(Result result) {
    return result == kOutOfMemory ? FA2RT_ERROR_MEMORY : FA2RT_ERROR_DRIVER;
  }

  /// Throws when `result` is not 0; the text has the call and its arguments.
  template <typename... Args>
  void check(Result result, fmt::format_string<Args...> call,
             Args &&...args) const {
    if (result == 0)
      return;
    throw Error(statusOf(result),
                fmt::format("{} failed: {}",
                            formatError(call, std::forward<Args>(args)...),
                            describe(result)));
  }
};

} // namespace fa2rt::cuda

#endif // FA2RT_LIB_CUDA_DRIVER_H
