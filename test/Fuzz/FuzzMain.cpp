//===- FuzzMain.cpp - one target for libFuzzer ----------------------------===//

#include "Targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fa2::fuzz::FUZZ_ENTRY({reinterpret_cast<const char *>(data), size});
  return 0;
}
