//===- ManifestFuzz.cpp - the manifest reader against any text ------------===//
//
// libFuzzer target: any bytes either parse or are refused with an Error of the
// manifest's status. Configure with clang++ and -DFA2RT_FUZZ=ON, then build
// the target fuzz-manifest for a bounded run.
//
//===----------------------------------------------------------------------===//

#include "Error.h"
#include "Manifest.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  try {
    fa2rt::Manifest::parse(text);
  } catch (const fa2rt::Error &error) {
    if (error.status != FA2RT_ERROR_MANIFEST)
      std::abort();
  }
  return 0;
}
