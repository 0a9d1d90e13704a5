//===- Progress.h - how far, and how long still -----------------*- C++ -*-===//
#ifndef FA2TUNE_PROGRESS_H
#define FA2TUNE_PROGRESS_H

#include <chrono>
#include <mutex>
#include <string>

namespace fa2tune {

/// A bar with the time left on a terminal, else lines. Safe from any thread.
class Progress {
public:
  /// `seconds`: the budget, or 0.
  Progress(size_t total, double seconds, bool quiet);
  ~Progress();
  Progress(const Progress &) = delete;

  /// One more is done.
  void advance();
  /// A line that stays.
  void say(const std::string &line);

private:
  void draw();
  double elapsed() const;

  std::mutex mutex;
  size_t done = 0, total;
  double budget;
  bool quiet, terminal, drawn = false;
  std::chrono::steady_clock::time_point begin, last;
};

} // namespace fa2tune

#endif // FA2TUNE_PROGRESS_H
