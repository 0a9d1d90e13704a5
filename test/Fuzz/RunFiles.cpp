//===- RunFiles.cpp - the files that fa2-run reads ------------------------===//

#include "Targets.h"

#include "Failure.h"
#include "Npy.h"
#include "Sweep.h"

#include <cstdlib>
#include <cstring>

using namespace fa2run;

namespace fa2::fuzz {

// An array that was read is the same after it was written.
void runNpy(std::string_view input) {
  try {
    Array array = parseNpy(input, "x.npy");
    Array back = parseNpy(formatNpy(array, false), "y.npy");
    if (back.shape != array.shape ||
        back.values.size() != array.values.size() ||
        (!array.values.empty() &&
         std::memcmp(back.values.data(), array.values.data(),
                     array.values.size() * sizeof(float)) != 0))
      std::abort();
  } catch (const Failure &failure) {
    if (failure.code != kBadInput)
      std::abort();
  }
}

// A line of a sweep that is taken says the same after it was written.
void runSweep(std::string_view input) {
  try {
    Configuration c = parseConfiguration(input);
    std::string line = toJson(c).dump();
    if (toJson(parseConfiguration(line)).dump() != line || describe(c).empty())
      std::abort();
  } catch (const Failure &failure) {
    if (failure.code != kBadInput ||
        std::string_view(failure.what()).size() > 4000)
      std::abort();
  }
}

} // namespace fa2::fuzz
