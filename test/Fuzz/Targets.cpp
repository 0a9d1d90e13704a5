//===- Targets.cpp - the list of targets ----------------------------------===//

#include "Targets.h"

namespace fa2::fuzz {

const std::vector<Target> &targets() {
  static const std::vector<Target> all = {
      {"manifest", runManifest, manifestSeeds, 15000},
      {"expression", runExpression, expressionSeeds, 20000},
      {"program", runProgram, programSeeds, 15000},
      {"ptx", runPtx, ptxSeeds, 40000},
      {"npy", runNpy, npySeeds, 20000},
      {"sweep", runSweep, sweepSeeds, 20000},
  };
  return all;
}

Choices::Choices(std::string_view input) {
  size_t zero = input.find('\0');
  text = input.substr(0, zero);
  if (zero != std::string_view::npos)
    bytes = input.substr(zero + 1);
}

uint8_t Choices::byte() {
  if (bytes.empty())
    return 0;
  uint8_t value = uint8_t(bytes[0]);
  bytes.remove_prefix(1);
  return value;
}

} // namespace fa2::fuzz
