//===- ParserFuzz.cpp - Any text gives a program or an error --------------===//
//
// libFuzzer: build with clang and -DFA2SIM_FUZZ=ON. What parses is also run,
// with no memory and a small budget: nothing may crash or hang.
//
//===----------------------------------------------------------------------===//

#include "Simulator.h"

#include <cstdlib>

using namespace fa2::sim;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ParseResult parsed = parse({reinterpret_cast<const char *>(data), size});
  if (!parsed) {
    if (parsed.error.text.empty() || parsed.error.line == 0)
      std::abort(); // every error names its line
    return 0;
  }
  for (const KernelInfo &kernel : kernels(*parsed.program)) {
    Launch launch;
    launch.program = parsed.program;
    launch.kernel = kernel.name;
    launch.block = kernel.requiredBlock[0] ? kernel.requiredBlock
                                           : std::array<uint32_t, 3>{32, 1, 1};
    launch.dynamicSharedBytes = 4096;
    launch.parameters.resize(kernel.parameterBytes);
    Options options;
    options.capability = targetCapability(*parsed.program) > 80 ? 90 : 80;
    options.instructionBudget = 2000;
    Result result = run({launch}, {}, options);
    if (toJson(result).empty())
      std::abort();
  }
  return 0;
}
