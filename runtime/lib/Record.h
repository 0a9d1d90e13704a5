//===- Record.h - the launches that a process makes, in a file --*- C++ -*-===//
//
// FA2RT_RECORD=FILE: lines of JSON that fa2-tune takes for shapes. Several
// processes may write one file; what a process that dies had written stays.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_RECORD_H
#define FA2RT_LIB_RECORD_H

#include "Arguments.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace fa2rt {

/// Launches of one specification with one shape. Lives as long as the process.
class LaunchCount {
public:
  explicit LaunchCount(std::string line) : head(std::move(line)) {}
  /// One launch more. It is written when their number is a power of two, so
  /// that a process that dies has written half of them or more.
  void add() noexcept {
    int64_t n = ++launches;
    if ((n & (n - 1)) == 0)
      write();
  }
  /// Writes those that are not written.
  void write() noexcept;
  /// Those of the parent are the parent's to write.
  void forget() noexcept { written = launches.load(); }

private:
  std::string head; // all of the line but their number
  std::atomic<int64_t> launches{0}, written{0};
};

/// What lines of a program begin with; empty where nothing is recorded.
std::string recordedAs(const Manifest &manifest,
                       const DeviceProperties &device);

/// Where launches of that shape are counted, or null where nothing is recorded.
LaunchCount *countOf(const std::string &recordedAs, const Manifest &manifest,
                     const Bindings &bindings);

} // namespace fa2rt

#endif // FA2RT_LIB_RECORD_H
