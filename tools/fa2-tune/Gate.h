//===- Gate.h - checks stand aside while a kernel is timed ------*- C++ -*-===//
#ifndef FA2TUNE_GATE_H
#define FA2TUNE_GATE_H

#include <condition_variable>
#include <mutex>

namespace fa2tune {

/// A lock for many checkers or one clock, who is let in before more of them.
class Gate {
public:
  void lock() {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.wait(lock, [&] { return inside == 0; });
    --waiting;
    inside = -1;
  }
  void unlock() {
    {
      std::lock_guard lock(mutex);
      inside = 0;
    }
    changed.notify_all();
  }
  void lock_shared() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside >= 0 && waiting == 0; });
    ++inside;
  }
  void unlock_shared() {
    {
      std::lock_guard lock(mutex);
      --inside;
    }
    changed.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, waiting = 0;
};

} // namespace fa2tune

#endif // FA2TUNE_GATE_H
