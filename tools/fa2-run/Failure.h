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
  kCheckFailed = 1, // wrong numbers, the simulator's reports, a failed launch
  kBadInput = 2,    // refused, or no memory, or no place for the output
  kNotRun = 3       // no device that runs it; at most assembled
};

class Failure : public std::runtime_error {
public:
  Failure(ExitCode code, const std::string &text)
      : std::runtime_error(text), code(code) {}
  ExitCode code;
};

/// Texts from outside may be of any length: a line shows how they begin.
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  constexpr size_t most = 2000;
  std::string text = fmt::format(format, std::forward<Args>(args)...);
  if (text.size() > most)
    text = fmt::format("{}... ({} bytes)", text.substr(0, most), text.size());
  throw Failure(kBadInput, text);
}

} // namespace fa2run

#endif // FA2RUN_FAILURE_H
