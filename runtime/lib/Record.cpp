//===- Record.cpp - the launches that a process makes, in a file ----------===//

#include "Record.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace fa2rt {

namespace {

/// The file and all counts of a process. Never destroyed: launches may follow
/// what runs at exit.
class Recorder {
public:
  /// Null where the environment names no file or it cannot be opened.
  static Recorder *get() {
    static Recorder *const recorder = open(std::getenv("FA2RT_RECORD"));
    return recorder;
  }

  LaunchCount *countOf(const std::string &head) {
    std::lock_guard lock(mutex);
    auto &count = counts[head];
    if (!count)
      count = std::make_unique<LaunchCount>(head);
    return count.get();
  }

  /// A line whole, or nothing more at all: other processes append too.
  void append(const std::string &line) noexcept {
    if (stopped)
      return;
    ssize_t done = ::write(file, line.data(), line.size());
    if (done != ssize_t(line.size()) && !stopped.exchange(true))
      say(done < 0 ? std::strerror(errno) : "the line was cut short");
  }

private:
  explicit Recorder(int file) : file(file) {}

  static void say(const char *why) noexcept {
    std::fprintf(stderr,
                 "fa2rt: launches are not recorded in FA2RT_RECORD=%s: %s\n",
                 std::getenv("FA2RT_RECORD"), why);
  }

  static Recorder *open(const char *path) {
    if (!path || !*path)
      return nullptr;
    int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
      say(std::strerror(errno));
      return nullptr;
    }
    static Recorder *recorder;
    recorder = new Recorder(file);
    std::atexit([] { recorder->each(&LaunchCount::write); });
    pthread_atfork([] { recorder->mutex.lock(); },
                   [] { recorder->mutex.unlock(); },
                   [] {
                     recorder->forgetAll();
                     recorder->mutex.unlock();
                   });
    return recorder;
  }

  void each(void (LaunchCount::*what)() noexcept) {
    std::lock_guard lock(mutex);
    for (auto &[head, count] : counts)
      (count.get()->*what)();
  }
  void forgetAll() {
    for (auto &[head, count] : counts)
      count->forget();
  }

  const int file;
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<LaunchCount>> counts;
};

/// What a kernel computes, without the text of its program.
nlohmann::ordered_json specificationOf(const Manifest &manifest) {
  auto whole = nlohmann::ordered_json::parse(manifest.json, nullptr, false);
  nlohmann::ordered_json said = nlohmann::ordered_json::object();
  if (!whole.is_object() || !whole.contains("specification"))
    return said;
  for (const auto &[name, value] : whole["specification"].items())
    if (value.is_primitive())
      said[name] = value;
    else
      said[name] = true;
  return said;
}

} // namespace

void LaunchCount::write() noexcept {
  int64_t now, before = written;
  do {
    now = launches;
    if (now <= before)
      return;
  } while (!written.compare_exchange_weak(before, now));
  try {
    Recorder::get()->append(
        fmt::format("{},\"launches\":{}}}\n", head, now - before));
  } catch (...) { // out of memory: the next one writes them
    written -= now - before;
  }
}

std::string recordedAs(const Manifest &manifest,
                       const DeviceProperties &device) {
  if (!Recorder::get())
    return "";
  nlohmann::ordered_json line = {{"fa2rt_record", 1},
                                 {"specification", specificationOf(manifest)},
                                 {"arch", manifest.target.arch},
                                 {"device", device.name}};
  std::string head = line.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  head.pop_back();
  return head + ",\"shape\":{";
}

LaunchCount *countOf(const std::string &recordedAs, const Manifest &manifest,
                     const Bindings &bindings) {
  if (recordedAs.empty())
    return nullptr;
  std::string head = recordedAs;
  for (size_t i = 0; i < manifest.dimensions.size(); ++i)
    head += fmt::format("{}\"{}\":{}", i ? "," : "", manifest.dimensions[i],
                        bindings.slots[i].value_or(0));
  return Recorder::get()->countOf(head + "}");
}

} // namespace fa2rt
