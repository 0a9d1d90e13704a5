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
  bool qInRegisters, overlap;
  int64_t lazyRescale, minBlocks;
};

// clang-format off
constexpr Entry kTable[] = {
    // d    q    kv  warps stages  q in regs  overlap  lazy  min blocks
    {  64, 128,  64,   4,    2,    true,      false,    8,     1},
    { 128, 128,  64,   4,    2,    false,     false,    8,     1},
    { 192,  64,  64,   4,    2,    false,     false,    8,     1},
    { 256,  64,  64,   4,    2,    false,     false,    8,     1},
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
      s.overlap = e.overlap;
      s.lazyRescale = e.lazyRescale;
      s.minBlocks = e.minBlocks;
      return s;
    }
  return std::nullopt;
}
