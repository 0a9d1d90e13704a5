//===- Schedules.cpp - tuned schedules of sm_90a --------------------------===//
//
// One line a range of head dims, and one a variant beside it: the place to
// change when tuning.
//
//===----------------------------------------------------------------------===//

#include "Sm90.h"

#include <algorithm>
#include <cassert>

using namespace fa2;

namespace {
struct Entry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockQ, blockKV, stages;
  int64_t lazyRescale, speculateMax;
  bool pingPong; // without a mask; under one, group_limits instead
  bool separateOutput;
};

// Tuned on an H200 (docs/performance.md).
// clang-format off
constexpr Entry kTable[] = {
    // d    q    kv  stages  lazy  speculate  ping-pong  own output
    {  64, 192, 128,   2,     0,      8,       true,      true},
    { 128, 192,  80,   2,     8,      8,       true,      true},
    { 256, 128,  64,   2,     8,      8,       false,     false},
};

// Other tiles where a guard holds; the first line of its range that holds wins.
struct VariantEntry {
  int64_t aboveHeadDim, maxHeadDim; // of d and d_v
  const char *when;
  int64_t blockQ, blockKV;
  const char *fields; // others that differ from kTable's, "name=value,..."
};

constexpr VariantEntry kVariants[] = {
    // d         when                q    kv   others
    { 64, 128, "seqlen_k <= 1024", 128, 128, "ping_pong=0"},
};
// clang-format on
} // namespace

std::optional<Schedule> sm90::tunedSchedule(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  for (const Entry &e : kTable)
    if (dim <= e.maxHeadDim) {
      Schedule s;
      s.blockQ = e.blockQ;
      s.blockKV = e.blockKV;
      s.warps = e.blockQ / 16;
      s.stages = e.stages;
      s.lazyRescale = e.lazyRescale;
      s.speculateMax = e.speculateMax;
      s.pingPong = e.pingPong && !problem.masked;
      s.groupLimits = problem.masked;
      s.separateOutput =
          e.separateOutput || problem.headDim != problem.headDimV;
      s.overlap = s.persistent = true;
      return s;
    }
  return std::nullopt;
}

std::vector<Variant> sm90::tunedVariants(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Variant> variants;
  for (const VariantEntry &e : kVariants)
    if (dim > e.aboveHeadDim && dim <= e.maxHeadDim) {
      Variant &v = variants.emplace_back();
      v.when = e.when;
      v.fields.blockQ = e.blockQ;
      v.fields.blockKV = e.blockKV;
      v.fields.warps = e.blockQ / 16;
      std::string wrong = v.fields.setFields("kVariants", e.fields);
      assert(wrong.empty() && "fields that the table spells wrong");
      (void)wrong;
    }
  return variants;
}
