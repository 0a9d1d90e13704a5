//===- Progress.cpp - how far, and how long still -------------------------===//

#include "Progress.h"

#include "Patience.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fa2tune {

using Clock = std::chrono::steady_clock;

Progress::Progress(size_t total, double seconds, bool quiet)
    : total(total), budget(seconds), quiet(quiet), terminal(isatty(2) == 1),
      begin(Clock::now()), last(begin) {}

Progress::~Progress() {
  if (drawn)
    std::fputs("\r\033[K", stderr);
}

double Progress::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Progress::advance() {
  std::lock_guard lock(mutex);
  ++done;
  auto interval = std::chrono::seconds(terminal ? 0 : 10);
  if (quiet || (Clock::now() - last < interval && done != total))
    return;
  last = Clock::now();
  draw();
}

void Progress::say(const std::string &line) {
  std::lock_guard lock(mutex);
  if (drawn)
    std::fputs("\r\033[K", stderr);
  if (!quiet)
    std::fputs((line + "\n").c_str(), stderr);
  if (drawn)
    draw();
}

void Progress::draw() {
  double left = elapsed() / double(done) * double(total - done);
  if (budget > 0)
    left = std::min(left, std::max(0.0, budget - elapsed()));
  std::string text = std::to_string(done) + " of " + std::to_string(total) +
                     ", about " + fa2run::roughTime(left) + " left";
  if (!terminal) {
    std::fputs((text + "\n").c_str(), stderr);
    return;
  }
  constexpr size_t width = 30;
  size_t filled = total ? done * width / total : width;
  std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
  std::fputs(("\r\033[K[" + bar + "] " + text).c_str(), stderr);
  drawn = true;
}

} // namespace fa2tune
