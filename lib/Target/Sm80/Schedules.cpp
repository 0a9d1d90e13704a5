//===- Schedules.cpp - tuned schedules of the sm_80 family ----------------===//
//
// One line a range of head dims: the place to change when tuning.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

#include <algorithm>

using namespace fa2;

namespace {
struct Entry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockQ, blockKV, warps, stages;
  bool qInRegisters;
  int64_t lazyRescale, minBlocks;
};

// Tuned on an H200. A warp has 32 query rows up to 128 columns, so that each
// fragment of keys and values serves two products; beyond, the accumulator
// leaves room for 16. None of them spills (docs/performance.md).
// clang-format off
constexpr Entry kTable[] = {
    // d    q    kv  warps stages  q in regs  lazy  min blocks
    {  64, 128,  64,   4,    2,    true,       8,     1},
    {  80, 128,  64,   4,    2,    false,      8,     1},
    {  96, 128,  48,   4,    2,    false,      8,     1},
    { 128, 128,  32,   4,    2,    false,      8,     1},
    { 224,  64,  48,   4,    2,    true,       8,     1},
    { 256,  64,  32,   4,    2,    true,       8,     1},
};
// clang-format on
} // namespace

std::optional<Schedule> sm80::tunedSchedule(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  for (const Entry &e : kTable)
    if (dim <= e.maxHeadDim) {
      Schedule s;
      s.blockQ = e.blockQ;
      s.blockKV = e.blockKV;
      s.warps = e.warps;
      s.stages = e.stages;
      s.qInRegisters = e.qInRegisters;
      s.lazyRescale = e.lazyRescale;
      s.minBlocks = e.minBlocks;
      return s;
    }
  return std::nullopt;
}
