//===- Failure.h - how fa2-run ends -----------------------------*- C++ -*-===//
#ifndef FA2RUN_FAILURE_H
#define FA2RUN_FAILURE_H

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fa2run {

enum ExitCode {
  kPassed = 0,
  kCheckFailed = 1, // wrong numbers, or the simulator's reports
  kBadInput = 2,    // refused; nothing was launched
  kNotRun = 3       // no device; at most assembled
};

class Failure : public std::runtime_error {
public:
  Failure(ExitCode code, const std::string &text)
      : std::runtime_error(text), code(code) {}
  ExitCode code;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(kBadInput, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace fa2run

#endif // FA2RUN_FAILURE_H
