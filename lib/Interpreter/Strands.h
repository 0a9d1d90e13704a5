//===- Strands.h - programs that take turns ---------------------*- C++ -*-===//
#ifndef FA2_LIB_INTERPRETER_STRANDS_H
#define FA2_LIB_INTERPRETER_STRANDS_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace fa2::interpreter {

/// Runs several programs, one at a time: the next one goes on where one waits
/// or ends, always in the same order. Each has a thread, so that it can stop
/// anywhere; no two ever run together.
class Strands {
public:
  /// Returns when all have ended.
  void run(const std::vector<std::function<void()>> &programs);

  /// Lets others go on until `ready`. False: nobody can, so it never will be.
  /// Outside of run, that is known at once.
  bool waitUntil(llvm::function_ref<bool()> ready);

private:
  void follow(size_t self, const std::function<void()> &program);
  /// Gives the turn to the next that has not ended.
  void passTurn(std::unique_lock<std::mutex> &lock);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  size_t turn = 0, live = 0;
  size_t idle = 0; // turns in a row in which nobody could go on
};

} // namespace fa2::interpreter

#endif
