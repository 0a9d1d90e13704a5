//===- Dispatch.cpp - when the blocks of a launch end ---------------------===//

#include "fa2/Schedule/Dispatch.h"

#include <algorithm>
#include <queue>

using namespace fa2;

namespace {
/// A multiprocessor with the blocks that it holds. All have done the same steps
/// since they started, so that steps of the multiprocessor serve as their
/// clock.
class Multiprocessor {
public:
  explicit Multiprocessor(const BlockRates &rates) : rates(&rates) {}

  size_t held() const { return ends.size(); }
  void add(double steps) { ends.push(done + steps); }
  /// When the next of its blocks ends.
  double next() const { return now + (ends.top() - done) * clocksOfStep(); }
  /// Proceeds until then.
  void proceed() {
    now = next();
    done = ends.top();
    ends.pop();
  }

private:
  double clocksOfStep() const {
    return std::max(rates->stepAlone, rates->step * double(ends.size()));
  }

  const BlockRates *rates;
  double now = 0, done = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
};
} // namespace

double fa2::clocksOfBlocks(const std::vector<double> &steps,
                           const BlockRates &rates) {
  size_t multiprocessors = size_t(rates.multiprocessors);
  std::vector<Multiprocessor> all(multiprocessors, Multiprocessor(rates));
  size_t next = 0;
  for (int64_t round = 0; round < rates.blocksPerMultiprocessor; ++round)
    for (Multiprocessor &m : all)
      if (next < steps.size())
        m.add(steps[next++]);
  using Event = std::pair<double, size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].held())
      events.push({all[i].next(), i});
  double clocks = 0;
  while (!events.empty()) {
    auto [when, i] = events.top();
    events.pop();
    clocks = when;
    all[i].proceed();
    if (next < steps.size())
      all[i].add(steps[next++]);
    if (all[i].held())
      events.push({all[i].next(), i});
  }
  return clocks;
}

double fa2::clocksOfPersistent(const std::vector<double> &steps,
                               const BlockRates &rates, bool balanced) {
  size_t blocks = size_t(rates.multiprocessors * rates.blocksPerMultiprocessor);
  std::vector<double> all(std::min(blocks, steps.size()), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    size_t turn = i / all.size(), at = i % all.size();
    all[balanced && turn % 2 ? all.size() - 1 - at : at] += steps[i];
  }
  return clocksOfBlocks(all, rates);
}
