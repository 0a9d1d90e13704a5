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
/// anywhere; no two ever run together. A program may run others: they take
/// turns with all the rest, and it goes on when they have ended.
class Strands {
public:
  /// Returns when all have ended.
  void run(const std::vector<std::function<void()>> &programs);

  /// Lets others go on until `ready`. False: nobody can, so it never will be.
  /// Outside of run, that is known at once.
  bool waitUntil(llvm::function_ref<bool()> ready);

private:
  struct Member {
    size_t outer = 0; // who runs it
    size_t inner = 0; // how many it runs that have not ended
    bool ended = false;
    bool takesTurns() const { return !ended && inner == 0; }
  };

  void follow(size_t self, const std::function<void()> &program);
  size_t countTakers() const;
  /// Gives the turn to the next that takes one.
  void passTurn();

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members{Member()}; // the first is the caller of all
  size_t turn = 0;
  size_t idle = 0; // turns in a row in which nobody could go on
};

} // namespace fa2::interpreter

#endif
