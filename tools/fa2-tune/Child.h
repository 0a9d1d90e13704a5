//===- Child.h - a process that may hang or die -----------------*- C++ -*-===//
#ifndef FA2TUNE_CHILD_H
#define FA2TUNE_CHILD_H

#include "Bundle.h"

#include <sys/types.h>

namespace fa2tune {

/// What became of a request.
struct Reply {
  nlohmann::json json; // empty where there is none
  std::string why;     // then: "it did not end within 20 s and was killed"
};

/// This program as a worker, in a process group of its own, which is killed
/// where it does not answer in time. Started again by the next request.
class Child {
public:
  explicit Child(std::vector<std::string> arguments)
      : arguments(std::move(arguments)) {}
  ~Child() { kill(); }
  Child(const Child &) = delete;

  Reply request(const OrderedJson &request, double seconds);
  void kill();

private:
  void start();
  Reply lost(const std::string &why);
  /// How it ended, once it has: "it died of signal 11 (Segmentation fault)".
  std::string ending();

  std::vector<std::string> arguments;
  pid_t pid = -1;
  int to = -1, from = -1;
  std::string buffer;
};

} // namespace fa2tune

#endif // FA2TUNE_CHILD_H
