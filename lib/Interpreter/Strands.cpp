//===- Strands.cpp - programs that take turns -----------------------------===//

#include "Strands.h"

#include <algorithm>
#include <thread>

using namespace fa2::interpreter;

void Strands::run(const std::vector<std::function<void()>> &programs) {
  std::vector<std::thread> threads;
  {
    std::unique_lock<std::mutex> lock(mutex);
    size_t self = turn, first = members.size();
    members[self].inner = programs.size();
    members.resize(first + programs.size(), Member{self});
    for (size_t i = 0; i < programs.size(); ++i)
      threads.emplace_back(
          [this, &programs, first, i] { follow(first + i, programs[i]); });
    passTurn();
    changed.wait(lock, [&] { return turn == self; });
  }
  for (std::thread &thread : threads)
    thread.join();
}

void Strands::follow(size_t self, const std::function<void()> &program) {
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return turn == self; });
    idle = 0;
  }
  program();
  std::unique_lock<std::mutex> lock(mutex);
  members[self].ended = true;
  --members[members[self].outer].inner;
  idle = 0;
  passTurn();
}

size_t Strands::countTakers() const {
  return size_t(std::count_if(members.begin(), members.end(),
                              [](const Member &m) { return m.takesTurns(); }));
}

void Strands::passTurn() {
  do
    turn = (turn + 1) % members.size();
  while (!members[turn].takesTurns());
  changed.notify_all();
}

bool Strands::waitUntil(llvm::function_ref<bool()> ready) {
  std::unique_lock<std::mutex> lock(mutex);
  size_t self = turn;
  while (!ready()) {
    if (idle >= countTakers())
      return false;
    ++idle;
    passTurn();
    changed.wait(lock, [&] { return turn == self; });
  }
  idle = 0;
  return true;
}
