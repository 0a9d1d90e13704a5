//===- Error.h - failures inside the runtime --------------------*- C++ -*-===//
#ifndef FA2RT_LIB_ERROR_H
#define FA2RT_LIB_ERROR_H

#include "fa2rt/fa2rt.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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

/// A text from outside as far as an error shows it.
inline std::string clipped(std::string_view text) {
  constexpr size_t most = 400;
  if (text.size() <= most)
    return std::string(text);
  return fmt::format("{}... ({} bytes)", text.substr(0, most), text.size());
}

template <typename T> auto shownInError(const T &value) {
  if constexpr (std::is_convertible_v<const T &, std::string_view>)
    return clipped(value);
  else
    return value;
}

/// Formats; texts among the arguments are clipped.
template <typename... Args>
std::string formatError(fmt::format_string<Args...> format, Args &&...args) {
  auto values = std::make_tuple(shownInError(args)...);
  return std::apply(
      [&](auto &...value) {
        return fmt::vformat(fmt::string_view(format),
                            fmt::make_format_args(value...));
      },
      values);
}

template <typename... Args>
[[noreturn]] void fail(fa2rtStatus status, fmt::format_string<Args...> format,
                       Args &&...args) {
  throw Error(status, formatError(format, std::forward<Args>(args)...));
}

} // namespace fa2rt

#endif // FA2RT_LIB_ERROR_H
