//===- Parallel.h - loops over threads --------------------------*- C++ -*-===//
#ifndef FA2RUN_PARALLEL_H
#define FA2RUN_PARALLEL_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fa2run {

/// The most threads of a loop; a program with threads of its own sets 1.
inline unsigned threadLimit = 16;

inline unsigned threadCount() {
  return std::clamp(std::thread::hardware_concurrency(), 1u, threadLimit);
}

/// Calls body(i) for each i < count, in any order, on up to `most` threads; an
/// exception of any call is thrown again here.
template <typename Body>
void parallelFor(int64_t count, Body body, unsigned most = threadCount()) {
  int64_t threads = std::min<int64_t>(most, count);
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i)
      body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  auto work = [&] {
    try {
      for (int64_t i = next++; i < count; i = next++)
        body(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  for (int64_t t = 1; t < threads; ++t)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace fa2run

#endif // FA2RUN_PARALLEL_H
