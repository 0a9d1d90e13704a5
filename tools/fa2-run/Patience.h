//===- Patience.h - simulations that take long say so -----------*- C++ -*-===//
#ifndef FA2RUN_PATIENCE_H
#define FA2RUN_PATIENCE_H

#include "Configuration.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace fa2run {

/// About how long the simulator takes for a launch: it depends on the machine
/// and the kernel, by a factor of some three.
double simulatedSeconds(const Kernel &kernel, const Configuration &c);

/// "40 s", "3 minutes", "12 days"
std::string roughTime(double seconds);

/// While it lives, says on standard error that a simulation takes long: at
/// once where the estimate says so, and then after 30 s, 1 minute, 2, 4, ...
class Patience {
public:
  explicit Patience(double estimate);
  ~Patience();
  Patience(const Patience &) = delete;

private:
  void remind();

  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::thread thread;
};

} // namespace fa2run

#endif // FA2RUN_PATIENCE_H
