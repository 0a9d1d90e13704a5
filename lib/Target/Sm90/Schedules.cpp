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
  bool lazy;     // rescales what is not speculated by need
  bool pingPong; // not under a mask, where warpgroups differ in their tiles
  bool separateOutput;
};

// Tuned on an H200 (docs/performance.md). Small tiles of keys with more stages
// win wherever they fit: the next tile's keys come during this one's end. They
// win most where rows are not whole sectors of 32 bytes (168, 200, 216) and
// arrive later, and so do 192 rows, which read keys less often. Where a line
// does not fit, as when head dims differ and the output needs a place of its
// own, the first below it that fits serves.
// clang-format off
constexpr Entry kTable[] = {
    // d    mask          q    kv stages q slots  lazy   ping-pong own output
    {  64, For::Any,    192, 128,   4,    2,      false, true,     true},
    { 128, For::Any,    192,  64,   4,    1,      true,  true,     true},
    { 152, For::Any,    192,  64,   3,    1,      true,  false,    false},
    { 160, For::Any,    128,  64,   3,    1,      true,  false,    false},
    { 168, For::Any,    192,  48,   4,    1,      true,  false,    false},
    { 184, For::Any,    128,  64,   3,    1,      true,  false,    false},
    { 192, For::Any,    128,  80,   2,    1,      true,  false,    true},
    { 200, For::Any,    128,  48,   3,    1,      true,  false,    false},
    { 208, For::Any,    128,  64,   2,    1,      true,  false,    false},
    { 216, For::Any,    128,  48,   3,    1,      true,  false,    false},
    { 256, For::Any,    128,  64,   2,    1,      true,  false,    false},
    { 256, For::Any,    128,  48,   2,    1,      true,  false,    true},
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
    { 64, 128, For::Masked, "seqlen_k <= 1024", 128,  64, "query_slots=2"},
    {192, 256, For::Masked, "seqlen_k <= 512",  128,  32, "stages=3,separate_output=1"},
};
// clang-format on

bool isFor(For mask, const Problem &problem) {
  return mask != (problem.masked ? For::Full : For::Masked);
}
} // namespace

std::vector<Schedule> sm90::tunedSchedules(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Schedule> schedules;
  for (const Entry &e : kTable)
    if (dim <= e.maxHeadDim && isFor(e.mask, problem)) {
      Schedule &s = schedules.emplace_back();
      s.blockQ = e.blockQ;
      s.blockKV = e.blockKV;
      s.warps = e.blockQ / 16;
      s.stages = e.stages;
      s.querySlots = e.querySlots;
      s.lazyRescale = e.lazy ? problem.maxSlack : 0;
      s.speculateMax = problem.maxSlack;
      s.pingPong = e.pingPong && !problem.masked;
      s.groupLimits = true;
      s.separateOutput =
          e.separateOutput || problem.headDim != problem.headDimV;
      s.overlap = s.persistent = true;
    }
  return schedules;
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
      std::string wrong = v.fields.setFields("kVariants", e.fields);
      assert(wrong.empty() && "fields that the table spells wrong");
      (void)wrong;
    }
  return variants;
}
