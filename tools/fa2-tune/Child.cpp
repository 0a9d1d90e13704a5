//===- Child.cpp - a process that may hang or die -------------------------===//

#include "Child.h"

#include "Failure.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

extern char **environ;

using namespace fa2run;

namespace fa2tune {

using Clock = std::chrono::steady_clock;

void Child::start() {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0)
    refuse("cannot make a pipe: {}", std::strerror(errno));
  if (pipe2(up, O_CLOEXEC) != 0) {
    close(down[0]);
    close(down[1]);
    refuse("cannot make a pipe: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, down[0], 0);
  posix_spawn_file_actions_adddup2(&files, up[1], 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char *> argv;
  std::string self = "/proc/self/exe", name = "fa2-tune", verb = "worker";
  argv = {name.data(), verb.data()};
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  int error = posix_spawn(&pid, self.c_str(), &files, &attributes, argv.data(),
                          environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(down[0]);
  close(up[1]);
  to = down[1];
  from = up[0];
  buffer.clear();
  if (error != 0) {
    pid = -1;
    kill();
    refuse("cannot start a worker: {}", std::strerror(error));
  }
}

void Child::kill() {
  if (pid > 0) {
    ::kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  for (int *end : {&to, &from})
    if (*end >= 0)
      close(std::exchange(*end, -1));
  pid = -1;
}

std::string Child::ending() {
  int status = 0;
  // Its pipe is closed: it is ending.
  for (int i = 0; i < 200 && waitpid(pid, &status, WNOHANG) == 0; ++i)
    usleep(10000);
  ::kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = -1;
  if (WIFSIGNALED(status))
    return fmt::format("it died of signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("it ended with status {}", WEXITSTATUS(status));
}

Reply Child::lost(const std::string &why) {
  kill();
  return {nlohmann::json::object(), why};
}

Reply Child::request(const OrderedJson &request, double seconds) {
  if (pid < 0)
    start();
  std::string line = request.dump() + "\n";
  // SIGPIPE is ignored; requests are shorter than a pipe.
  if (write(to, line.data(), line.size()) != ssize_t(line.size()))
    return lost(ending());
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (size_t at = buffer.find('\n'); at != std::string::npos) {
      auto json = nlohmann::json::parse(buffer.substr(0, at), nullptr, false);
      buffer.erase(0, at + 1);
      if (!json.is_object())
        return lost("it answered what is no JSON");
      return {std::move(json), ""};
    }
    double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0)
      return lost(fmt::format("it did not end within {:.0f} s and was killed",
                              seconds));
    pollfd wait{from, POLLIN, 0};
    if (poll(&wait, 1, int(std::min(left, 1.0) * 1000) + 1) <= 0)
      continue;
    char bytes[65536];
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count > 0)
      buffer.append(bytes, size_t(count));
    else if (count == 0 || errno != EINTR)
      return lost(ending());
  }
}

} // namespace fa2tune
