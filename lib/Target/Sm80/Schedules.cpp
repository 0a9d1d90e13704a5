//===- Schedules.cpp - tuned schedules of the sm_80 family ----------------===//
//
// One line a range of head dims: the place to change when tuning.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

#include <algorithm>
#include <iterator>

using namespace fa2;

namespace {
struct Entry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockQ, blockKV, warps, stages;
  bool qInRegisters;
  int64_t minBlocks;
};

// Tuned on an H200. A warp has 32 query rows up to 128 columns, so that each
// fragment of keys and values serves two products; beyond, the accumulator
// leaves room for 16. None of them spills (docs/measurements).
// clang-format off
constexpr Entry kTable[] = {
    // d    q    kv  warps stages  q in regs  min blocks
    {  64, 128,  64,   4,    2,    true,       1},
    {  80, 128,  64,   4,    2,    false,      1},
    {  96, 128,  48,   4,    2,    false,      1},
    { 112, 128,  32,   4,    2,    false,      1},
    { 128, 128,  32,   4,    3,    false,      1},
    { 224,  64,  48,   4,    2,    true,       1},
    { 256,  64,  32,   4,    2,    true,       1},
};
// clang-format on

struct BackwardEntry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockQ, blockKV, warps, stages, keyWarps, dqWarps, minBlocks;
  Preload preload;
};

// Below 64 a dP that begins with -delta takes registers that ptxas spills
// others for.
// clang-format off
constexpr BackwardEntry kBackwardTable[] = {
    // d    q    kv  warps stages  key warps  dq warps  min blocks  begins with
    {  32,  64, 128,   4,    2,    0,         0,        1,       Preload::None},
    {  56, 128, 128,   8,    2,    0,         0,        1,       Preload::None},
    {  64, 128, 128,   8,    2,    0,         4,        1,       Preload::Delta},
    { 120,  64,  64,   4,    2,    0,         0,        1,       Preload::Delta},
    { 128,  64, 128,   8,    2,    4,         2,        1,       Preload::Delta},
    { 248,  32,  32,   2,    2,    0,         0,        1,       Preload::Delta},
    { 256,  64,  64,   8,    1,    2,         4,        1,       Preload::Delta},
};
// clang-format on

/// What lines of both tables have.
template <typename Line> Schedule tiles(const Line &e) {
  Schedule s;
  s.blockQ = e.blockQ;
  s.blockKV = e.blockKV;
  s.warps = e.warps;
  s.stages = e.stages;
  s.minBlocks = e.minBlocks;
  return s;
}

/// The line for these head dims, then the widest, whose warps share rows of dK
/// and dV: both together may be too wide for a warp with rows of its own.
std::vector<Schedule> backwardSchedules(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Schedule> schedules;
  for (const BackwardEntry &e : kBackwardTable) {
    bool last = &e == std::end(kBackwardTable) - 1;
    if (dim > e.maxHeadDim || (!schedules.empty() && !last))
      continue;
    Schedule &s = schedules.emplace_back(tiles(e));
    s.partition = Partition::Keys;
    s.keyWarps = e.keyWarps;
    s.dqWarps = e.dqWarps;
    s.preload = e.preload;
    // The first keys have the most queries, and those of several heads at once
    // start first: up to a third faster where blocks are few.
    s.order = problem.masked ? TileOrder::LongestFirst : TileOrder::Ascending;
  }
  return schedules;
}
} // namespace

Schedule sm80::gradQSchedule(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  Schedule s;
  // As in the forward table: 32 rows a warp up to 128 columns.
  s.blockQ = dim <= 128 ? 128 : 64;
  s.warps = 4;
  s.blockKV = 32;
  s.stages = dim <= 128 ? 2 : 1;
  s.order = problem.masked ? TileOrder::LongestFirst : TileOrder::Ascending;
  return s;
}

std::vector<Schedule> sm80::tunedSchedules(const Problem &problem) {
  if (problem.backward)
    return backwardSchedules(problem);
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  for (const Entry &e : kTable)
    if (dim <= e.maxHeadDim) {
      Schedule s = tiles(e);
      s.qInRegisters = e.qInRegisters;
      s.lazyRescale = problem.maxSlack;
      return {s};
    }
  return {};
}
