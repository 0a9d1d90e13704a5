//===- RunPtx.cpp - PTX, parsed and simulated -----------------------------===//

#include "Targets.h"

#include "Simulator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace fa2::sim;

namespace fa2::fuzz {

namespace {

/// Kernels' memory with what they must not touch around it.
struct Memory {
  static constexpr size_t kWords = 2048, kGuard = 256;
  alignas(256) uint32_t words[kWords + 2 * kGuard];

  explicit Memory(uint32_t value) {
    std::fill(std::begin(words), std::end(words), 0xa5a5a5a5u);
    std::fill_n(words + kGuard, kWords, value);
  }
  uint64_t base() const { return reinterpret_cast<uint64_t>(words + kGuard); }
  void expectGuarded() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (words[i] != 0xa5a5a5a5u || words[kGuard + kWords + i] != 0xa5a5a5a5u)
        std::abort();
  }
  Region region(const char *name, bool writable) const {
    Region r;
    r.name = name;
    r.base = base();
    r.elementBytes = 4;
    r.shape = {int64_t(kWords)};
    r.strides = {1};
    r.writable = writable;
    return r;
  }
};

/// Marks become addresses.
void resolve(std::vector<uint8_t> &parameters, const Memory &in,
             const Memory &out) {
  for (size_t at = 0; at + 8 <= parameters.size(); at += 8) {
    uint64_t value;
    std::memcpy(&value, parameters.data() + at, 8);
    if (value >> 16 != kAddressMark >> 16)
      continue;
    value = (value & 0x8000 ? out : in).base() + (value & 0x7fff);
    std::memcpy(parameters.data() + at, &value, 8);
  }
}

} // namespace

// The text's kernels in turn, their launch and parameters chosen.
void runPtx(std::string_view input) {
  Choices choices(input);
  ParseResult parsed = parse(choices.text);
  if (!parsed) {
    if (parsed.error.text.empty() || parsed.error.line == 0)
      std::abort(); // every error names its line
    return;
  }
  Options options;
  uint8_t flags = choices.byte();
  options.checks = !(flags & 1);
  constexpr Completion completions[] = {Completion::Early, Completion::Late,
                                        Completion::Random, Completion::Random};
  options.completion = completions[flags >> 1 & 3];
  options.profile = flags & 8;
  options.perturbApproximations = flags >> 4 & 1;
  options.capability = targetCapability(*parsed.program) > 80 ? 90 : 80;
  options.instructionBudget = 3000;
  options.seed = choices.byte();
  options.residentBlocks = choices.byte() % 4;
  uint32_t threads = 32 * (1 + choices.byte() % 5);
  uint32_t blocks = 1 + choices.byte() % 3;
  uint32_t shared = choices.word();
  for (const KernelInfo &kernel : kernels(*parsed.program)) {
    Memory in(0x3f803f80), out(0);
    Launch launch;
    launch.program = parsed.program;
    launch.kernel = kernel.name;
    launch.grid = {blocks, 1, 1};
    launch.block = kernel.requiredBlock[0]
                       ? kernel.requiredBlock
                       : std::array<uint32_t, 3>{threads, 1, 1};
    if (kernel.requiredCluster[0])
      for (unsigned k = 0; k < 3; ++k)
        launch.grid[k] *= launch.cluster[k] = kernel.requiredCluster[k];
    launch.dynamicSharedBytes = shared;
    std::string_view bytes = choices.rest();
    launch.parameters.assign(bytes.begin(), bytes.end());
    launch.parameters.resize(kernel.parameterBytes);
    resolve(launch.parameters, in, out);
    Result result = run(
        {launch}, {in.region("in", false), out.region("out", true)}, options);
    if (toJson(result).empty())
      std::abort();
    in.expectGuarded();
    out.expectGuarded();
    if (*std::min_element(in.words + Memory::kGuard,
                          in.words + Memory::kGuard + Memory::kWords) !=
        0x3f803f80)
      std::abort(); // an input was written
  }
}

} // namespace fa2::fuzz
