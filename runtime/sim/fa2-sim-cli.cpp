//===- fa2-sim-cli.cpp - One kernel on files ------------------------------===//
//
// fa2-sim-cli FILE.ptx KERNEL [options] PARAMETER...
//   --grid X[,Y,Z]  --block X[,Y,Z]  --cluster X[,Y,Z]  --shared BYTES
//   --capability 80|90  --seed N  --completion early|late|random
//   --resident N  --strict  --no-checks  --perturb N  --json
// The kernel's parameters in order, each one of
//   --in FILE           a pointer to the file's bytes, read-only
//   --out FILE:BYTES    a pointer to that many bytes, written to FILE after
//   --inout FILE        both
//   --u32 N  --u64 N  --f32 X
// or, of a kernel (u32 start, u64 out) that writes f((start + i) * stride) to
// word i,
//   --sweep START:COUNT[:STRIDE] --against FILE --bound ULPS|lg2 [--threads N]
//   --sweep START:COUNT[:STRIDE] --write FILE [--threads N]
// compares its values with those of a file, or writes them (Sweep.h).
//
// Reports go to standard error; the exit status is 0 when nothing but warnings
// was found, 1 otherwise, 2 for a bad command line or a text that is refused.
//
//===----------------------------------------------------------------------===//

#include "Sweep.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

using namespace fa2::sim;

namespace {

std::vector<uint8_t> fileBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

struct Buffer {
  std::string path;
  size_t size = 0;
  std::unique_ptr<uint8_t[]> storage;
  uint8_t *bytes = nullptr; ///< 256-byte aligned
  bool writable = false, initialised = true;
};

std::array<uint32_t, 3> extents(const std::string &text) {
  std::array<uint32_t, 3> e{1, 1, 1};
  char end;
  if (std::sscanf(text.c_str(), "%u,%u,%u%c", &e[0], &e[1], &e[2], &end) < 1)
    throw std::runtime_error("'" + text + "' is no extent");
  return e;
}

int go(int argc, char **argv) {
  Options options;
  Launch launch;
  std::string file;
  bool json = false, writes = false;
  Sweep sweep;
  std::vector<Buffer> buffers;
  std::vector<std::vector<uint8_t>> parameters;
  auto value = [&](const void *data, size_t bytes) {
    auto *p = static_cast<const uint8_t *>(data);
    parameters.emplace_back(p, p + bytes);
  };
  buffers.reserve(64);
  for (int k = 1; k < argc; ++k) {
    std::string word = argv[k];
    auto next = [&]() -> std::string {
      if (k + 1 >= argc)
        throw std::runtime_error(word + " needs a value");
      return argv[++k];
    };
    if (word == "--grid") {
      launch.grid = extents(next());
    } else if (word == "--block") {
      launch.block = extents(next());
    } else if (word == "--cluster") {
      launch.cluster = extents(next());
    } else if (word == "--shared") {
      launch.dynamicSharedBytes = uint32_t(std::stoul(next()));
    } else if (word == "--capability") {
      options.capability = unsigned(std::stoul(next()));
    } else if (word == "--seed") {
      options.seed = std::stoull(next());
    } else if (word == "--resident") {
      options.residentBlocks = unsigned(std::stoul(next()));
    } else if (word == "--perturb") {
      options.perturbApproximations = std::stoull(next());
    } else if (word == "--strict") {
      options.strict = true;
    } else if (word == "--no-checks") {
      options.checks = false;
    } else if (word == "--json") {
      json = options.profile = true;
    } else if (word == "--completion") {
      std::string c = next();
      if (c != "early" && c != "late" && c != "random")
        throw std::runtime_error("completion '" + c +
                                 "' is not early, late or random");
      options.completion = c == "early"  ? Completion::Early
                           : c == "late" ? Completion::Late
                                         : Completion::Random;
    } else if (word == "--in" || word == "--inout" || word == "--out") {
      Buffer b;
      b.path = next();
      std::vector<uint8_t> content;
      if (word == "--out") {
        size_t colon = b.path.rfind(':');
        if (colon == b.path.npos)
          throw std::runtime_error("--out needs FILE:BYTES");
        content.assign(std::stoull(b.path.substr(colon + 1)), 0xff);
        b.path.resize(colon);
        b.initialised = false;
      } else {
        content = fileBytes(b.path);
      }
      b.writable = word != "--in";
      b.size = content.size();
      b.storage = std::make_unique<uint8_t[]>(b.size + 256);
      auto at = reinterpret_cast<uintptr_t>(b.storage.get());
      b.bytes = b.storage.get() + (256 - at % 256) % 256;
      std::copy(content.begin(), content.end(), b.bytes);
      auto pointer = reinterpret_cast<uint64_t>(b.bytes);
      value(&pointer, 8);
      buffers.push_back(std::move(b));
    } else if (word == "--sweep") {
      std::string range = next();
      unsigned long long start, count, stride = 1;
      if (std::sscanf(range.c_str(), "%llu:%llu:%llu", &start, &count,
                      &stride) < 2)
        throw std::runtime_error("'" + range + "' is not START:COUNT[:STRIDE]");
      sweep.start = start;
      sweep.count = count;
      sweep.stride = stride;
    } else if (word == "--against" || word == "--write") {
      sweep.path = next();
      writes = word == "--write";
    } else if (word == "--bound") {
      sweep.bound = next();
    } else if (word == "--threads") {
      sweep.threads = unsigned(std::stoul(next()));
    } else if (word == "--u32") {
      auto x = uint32_t(std::stoll(next()));
      value(&x, 4);
    } else if (word == "--u64") {
      auto x = uint64_t(std::stoll(next()));
      value(&x, 8);
    } else if (word == "--f32") {
      float x = std::stof(next());
      value(&x, 4);
    } else if (word.substr(0, 2) == "--") {
      throw std::runtime_error("unknown option " + word);
    } else if (file.empty()) {
      file = word;
    } else if (launch.kernel.empty()) {
      launch.kernel = word;
    } else {
      throw std::runtime_error("unexpected '" + word + "'");
    }
  }
  if (launch.kernel.empty())
    throw std::runtime_error(
        "usage: fa2-sim-cli FILE.ptx KERNEL [options] PARAMETER...");
  std::vector<uint8_t> text = fileBytes(file);
  ParseResult parsed =
      parse({reinterpret_cast<const char *>(text.data()), text.size()});
  if (!parsed)
    throw std::runtime_error(file + ":" + std::to_string(parsed.error.line) +
                             ": " + parsed.error.text);
  launch.program = parsed.program;
  if (sweep.count) {
    if (sweep.count % launch.block[0] || (!writes && sweep.bound.empty()))
      throw std::runtime_error(
          "--sweep needs a multiple of the block's threads, and --bound");
    sweep.launch = launch;
    if (writes)
      writeSweep(sweep, options);
    else
      std::cout << compareSweep(sweep, options) << "\n";
    return 0;
  }
  for (const KernelInfo &kernel : kernels(*parsed.program)) {
    if (kernel.name != launch.kernel)
      continue;
    if (kernel.parameters.size() != parameters.size())
      throw std::runtime_error("'" + kernel.name + "' takes " +
                               std::to_string(kernel.parameters.size()) +
                               " parameters, got " +
                               std::to_string(parameters.size()));
    launch.parameters.resize(kernel.parameterBytes);
    for (size_t k = 0; k < parameters.size(); ++k) {
      const ParameterInfo &p = kernel.parameters[k];
      if (p.bytes != parameters[k].size())
        throw std::runtime_error("parameter '" + p.name + "' has " +
                                 std::to_string(p.bytes) + " bytes, got " +
                                 std::to_string(parameters[k].size()));
      std::copy(parameters[k].begin(), parameters[k].end(),
                launch.parameters.begin() + p.offset);
    }
  }
  std::vector<Region> memory;
  for (const Buffer &b : buffers) {
    Region r;
    r.name = b.path;
    r.base = reinterpret_cast<uint64_t>(b.bytes);
    r.shape = {int64_t(b.size)};
    r.strides = {1};
    r.writable = b.writable;
    r.initialised = b.initialised;
    memory.push_back(r);
  }
  Result result = run({launch}, memory, options);
  for (const Report &report : result.reports)
    std::cerr << toString(report) << "\n";
  if (!result.error.empty())
    std::cerr << "error: " << result.error << "\n";
  if (json)
    std::cout << toJson(result) << "\n";
  for (const Buffer &b : buffers)
    if (b.writable) {
      std::ofstream out(b.path, std::ios::binary);
      out.write(reinterpret_cast<const char *>(b.bytes),
                std::streamsize(b.size));
      if (!out)
        throw std::runtime_error("cannot write " + b.path);
    }
  return result.ok() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return go(argc, argv);
  } catch (const std::exception &error) {
    std::cerr << "fa2-sim-cli: " << error.what() << "\n";
    return 2;
  }
}
