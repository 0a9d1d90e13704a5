//===- Error.h - failures inside the runtime --------------------*- C++ -*-===//
#ifndef FA2RT_LIB_ERROR_H
#define FA2RT_LIB_ERROR_H

#include "fa2rt/fa2rt.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fa2rt {

/// A failure, thrown inside the library and turned into a status at the C
/// interface. The text is lower case and names the field, value and limit.
class Error : public std::runtime_error {
public:
  Error(fa2rtStatus status, const std::string &text)
      : std::runtime_error(text), status(status) {}
  fa2rtStatus status;
};

template <typename... Args>
[[noreturn]] void fail(fa2rtStatus status, fmt::format_string<Args...> format,
                       Args &&...args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace fa2rt

#endif // FA2RT_LIB_ERROR_H
