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
enum class For { Full, Masked, Any };

struct Entry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  For mask;
  int64_t blockQ, blockKV, stages, querySlots;
  int64_t lazyRescale, speculateMax;
  bool pingPong; // under a mask, group_limits instead
  bool separateOutput;
};

// Tuned on an H200 (docs/performance.md). Rows of 16, 48, 80, ... bytes more
// than a multiple of 32 arrive later: their dims have more stages.
// clang-format off
constexpr Entry kTable[] = {
    // d    mask          q    kv stages q slots lazy speculate ping-pong own output
    {  56, For::Full,   192, 128,   4,    1,      0,    8,       true,     true},
    {  56, For::Masked, 192, 128,   4,    2,      0,    8,       false,    true},
    {  64, For::Full,   192, 128,   2,    1,      0,    8,       true,     true},
    {  64, For::Masked, 192, 128,   3,    2,      0,    8,       false,    true},
    {  72, For::Full,   192, 112,   3,    1,      8,    8,       true,     false},
    {  72, For::Masked, 192,  96,   3,    1,      8,    8,       false,    false},
    {  80, For::Any,    192, 112,   2,    1,      8,    8,       true,     true},
    { 112, For::Any,    192,  96,   2,    1,      8,    8,       true,     true},
    { 128, For::Full,   192,  80,   2,    1,      8,    8,       true,     true},
    { 128, For::Masked, 192,  80,   2,    2,      8,    8,       false,    true},
    { 160, For::Any,    128, 112,   2,    1,      8,    8,       false,    false},
    { 192, For::Any,    128,  96,   2,    1,      8,    8,       false,    false},
    { 256, For::Any,    128,  64,   2,    1,      8,    8,       false,    false},
};

// Other tiles where a guard holds; the first line of its range that holds wins.
struct VariantEntry {
  int64_t aboveHeadDim, maxHeadDim; // of d and d_v
  For mask;
  const char *when;
  int64_t blockQ, blockKV;
  const char *fields; // others that differ from kTable's, "name=value,..."
};

constexpr VariantEntry kVariants[] = {
    // d        mask         when                q    kv   others
    {112, 128, For::Full,   "seqlen_k <= 1024", 128, 128, ""},
    {112, 128, For::Masked, "seqlen_k <= 1024", 128, 128, "separate_output=0"},
};
// clang-format on

bool isFor(For mask, const Problem &problem) {
  return mask != (problem.masked ? For::Full : For::Masked);
}
} // namespace

std::optional<Schedule> sm90::tunedSchedule(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  for (const Entry &e : kTable)
    if (dim <= e.maxHeadDim && isFor(e.mask, problem)) {
      Schedule s;
      s.blockQ = e.blockQ;
      s.blockKV = e.blockKV;
      s.warps = e.blockQ / 16;
      s.stages = e.stages;
      s.querySlots = e.querySlots;
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
    if (dim > e.aboveHeadDim && dim <= e.maxHeadDim && isFor(e.mask, problem)) {
      Variant &v = variants.emplace_back();
      v.when = e.when;
      v.fields.blockQ = e.blockQ;
      v.fields.blockKV = e.blockKV;
      v.fields.warps = e.blockQ / 16;
      std::string wrong = v.fields.setFields("kVariants", e.fields);
      assert(wrong.empty() && "fields that the table spells wrong");
      (void)wrong;
      if (problem.headDim != problem.headDimV) {
        // As in the main schedule; a second tile of queries does not fit then.
        v.fields.separateOutput = true;
        v.fields.querySlots = 1;
      }
    }
  return variants;
}
