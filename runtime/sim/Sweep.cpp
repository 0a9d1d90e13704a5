//===- Sweep.cpp - A function over a range of its inputs ------------------===//

#include "Sweep.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace fa2::sim {

namespace {

constexpr uint64_t kSlice = 1 << 16; // inputs of one run

struct Difference {
  uint64_t different = 0, beyond = 0;
  double worst = 0;
  std::string example;
};

/// Runs the kernel over [start, start + count) into `out`.
void runSlice(const Sweep &sweep, const Options &options, uint64_t start,
              uint64_t count, uint32_t *out) {
  Launch launch = sweep.launch;
  launch.grid = {uint32_t(count / launch.block[0]), 1, 1};
  launch.parameters.resize(16);
  auto first = uint32_t(start);
  auto pointer = reinterpret_cast<uint64_t>(out);
  std::memcpy(launch.parameters.data(), &first, 4);
  std::memcpy(launch.parameters.data() + 8, &pointer, 8);
  Region region;
  region.name = "out";
  region.base = pointer;
  region.elementBytes = 4;
  region.shape = {int64_t(count)};
  region.strides = {1};
  region.writable = true;
  Result result = run({launch}, {region}, options);
  if (!result.ok())
    throw std::runtime_error(
        result.error.empty() ? toString(result.reports.front()) : result.error);
}

/// Distance in representable numbers; both NaN: 0.
uint64_t ulps(uint32_t a, uint32_t b) {
  auto ordered = [](uint32_t x) {
    return x & 0x80000000u ? -int64_t(x & 0x7fffffffu) : int64_t(x);
  };
  return uint64_t(std::abs(ordered(a) - ordered(b)));
}

void compare(Difference &d, const std::string &bound, uint32_t x, uint32_t sim,
             uint32_t device) {
  if (sim == device)
    return;
  ++d.different;
  bool bad;
  float at = std::bit_cast<float>(x);
  if (bound == "lg2" && at > 0.5f && at < 2) {
    double error = std::fabs(double(std::bit_cast<float>(sim)) -
                             double(std::bit_cast<float>(device)));
    bad = !(error <= 0x1p-22 + 0x1p-24);
    d.worst = std::max(d.worst, error * 0x1p22);
  } else {
    uint64_t distance = ulps(sim, device);
    bad = distance > (bound == "lg2" ? 2 : std::stoul(bound)) + 1;
    if (bound != "lg2")
      d.worst = std::max(d.worst, double(distance));
  }
  if (!bad || d.beyond++)
    return;
  char text[80];
  std::snprintf(text, sizeof text, "%08x -> device %08x sim %08x", x, device,
                sim);
  d.example = text;
}

/// Calls visit(slice's first input, its length) on the threads.
template <typename Visit> void forEachSlice(const Sweep &sweep, Visit visit) {
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::string failure;
  auto work = [&] {
    try {
      for (uint64_t at; (at = next.fetch_add(kSlice)) < sweep.count;)
        visit(at, std::min(kSlice, sweep.count - at));
    } catch (const std::exception &error) {
      std::lock_guard lock(mutex);
      failure = error.what();
      next = sweep.count;
    }
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < sweep.threads; ++t)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (!failure.empty())
    throw std::runtime_error(failure);
}

} // namespace

std::string compareSweep(const Sweep &sweep, const Options &options) {
  Difference sum;
  std::mutex mutex;
  forEachSlice(sweep, [&](uint64_t at, uint64_t count) {
    std::vector<uint32_t> simulated(count), device(count);
    runSlice(sweep, options, sweep.start + at, count, simulated.data());
    std::ifstream file(sweep.path, std::ios::binary);
    file.seekg(std::streamoff(4 * at));
    if (!file.read(reinterpret_cast<char *>(device.data()),
                   std::streamsize(4 * count)))
      throw std::runtime_error(sweep.path + " ends before input " +
                               std::to_string(at + count));
    Difference d;
    for (uint64_t i = 0; i < count; ++i)
      compare(d, sweep.bound, uint32_t((sweep.start + at + i) * sweep.stride),
              simulated[i], device[i]);
    std::lock_guard lock(mutex);
    sum.different += d.different;
    sum.beyond += d.beyond;
    sum.worst = std::max(sum.worst, d.worst);
    if (sum.example.empty())
      sum.example = d.example;
  });
  char text[200];
  std::snprintf(text, sizeof text,
                "{\"inputs\":%llu,\"different\":%llu,\"beyond\":%llu,"
                "\"worst\":%.9g,\"example\":\"%s\"}",
                static_cast<unsigned long long>(sweep.count),
                static_cast<unsigned long long>(sum.different),
                static_cast<unsigned long long>(sum.beyond), sum.worst,
                sum.example.c_str());
  return text;
}

void writeSweep(const Sweep &sweep, const Options &options) {
  std::vector<uint32_t> values(sweep.count);
  forEachSlice(sweep, [&](uint64_t at, uint64_t count) {
    runSlice(sweep, options, sweep.start + at, count, values.data() + at);
  });
  std::ofstream file(sweep.path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(values.data()),
             std::streamsize(4 * values.size()));
  if (!file)
    throw std::runtime_error("cannot write " + sweep.path);
}

} // namespace fa2::sim
