//===- Patience.cpp - simulations that take long say so -------------------===//

#include "Patience.h"

#include "RunCase.h"

#include <chrono>
#include <cmath>
#include <cstdio>

namespace fa2run {

namespace {

/// Said before a launch that is to take longer, and first said after it.
constexpr double kLong = 30;
/// One core, release build: 1024 x 1024, head dim 128, one head in 1.4 s.
constexpr double kFlopsPerSecond = 4e8;

void say(const std::string &text) {
  std::fputs(("fa2-run: " + text + "\n").c_str(), stderr);
}

} // namespace

double simulatedSeconds(const Kernel &kernel, const Configuration &c) {
  return countFlops(kernel, c) / kFlopsPerSecond;
}

std::string roughTime(double seconds) {
  struct Unit {
    double seconds;
    const char *name;
  };
  for (Unit unit : {Unit{86400, "days"}, {3600, "hours"}, {60, "minutes"}})
    if (seconds >= 2 * unit.seconds)
      return fmt::format("{:.0f} {}", seconds / unit.seconds, unit.name);
  return fmt::format("{:.0f} s", seconds);
}

Patience::Patience(double estimate) {
  if (estimate > kLong)
    say("the simulator will take about " + roughTime(estimate) +
        " for this; a GPU (--device cuda), fewer heads and shorter sequences "
        "take less");
  thread = std::thread([this] { remind(); });
}

Patience::~Patience() {
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  ended.notify_all();
  thread.join();
}

void Patience::remind() {
  auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  for (double after = kLong;; after *= 2) {
    auto until =
        begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(after));
    if (ended.wait_until(lock, until, [this] { return over; }))
      return;
    say("still simulating after " + roughTime(after) +
        "; a kernel that does not end is stopped after 2e10 warp instructions, "
        "or as many as --device 'sim?budget=N' says");
  }
}

} // namespace fa2run
