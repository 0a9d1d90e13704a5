//===- Strands.cpp - programs that take turns -----------------------------===//

#include "Strands.h"

#include <thread>

using namespace fa2::interpreter;

void Strands::run(const std::vector<std::function<void()>> &programs) {
  ended.assign(programs.size(), false);
  live = programs.size();
  turn = idle = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < programs.size(); ++i)
    threads.emplace_back([&, i] { follow(i, programs[i]); });
  for (std::thread &thread : threads)
    thread.join();
  live = 0;
}

void Strands::follow(size_t self, const std::function<void()> &program) {
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return turn == self; });
  }
  program();
  std::unique_lock<std::mutex> lock(mutex);
  ended[self] = true;
  --live;
  idle = 0;
  passTurn(lock);
}

void Strands::passTurn(std::unique_lock<std::mutex> &lock) {
  if (live > 0)
    do
      turn = (turn + 1) % ended.size();
    while (ended[turn]);
  changed.notify_all();
}

bool Strands::waitUntil(llvm::function_ref<bool()> ready) {
  if (live == 0)
    return ready();
  std::unique_lock<std::mutex> lock(mutex);
  size_t self = turn;
  while (!ready()) {
    if (idle >= live)
      return false;
    ++idle;
    passTurn(lock);
    changed.wait(lock, [&] { return turn == self; });
  }
  idle = 0;
  return true;
}
