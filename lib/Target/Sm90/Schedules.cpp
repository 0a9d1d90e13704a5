//===- Schedules.cpp - tuned schedules of sm_90a --------------------------===//
//
// One line a range of head dims, and one a variant beside it: the place to
// change when tuning.
//
//===----------------------------------------------------------------------===//

#include "Sm90.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cassert>

using namespace fa2;
using llvm::formatv;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// Where the output stands before it is in memory: where the queries stood, in
/// a place of its own, or in registers.
enum class Output { InQueries, Own, Direct };

/// Where warpgroups take turns (ping_pong). Under a mask, where they differ in
/// their tiles, kernels without a program take none.
enum class Turns { Never, Unmasked, Masked };

bool takesTurns(Turns turns, bool masked) {
  return turns == (masked ? Turns::Masked : Turns::Unmasked);
}

struct Entry {
  int64_t maxHeadDim, maxHeadDimV; // inclusive
  int64_t blockQ, blockKV, blockKVMasked, stages, querySlots;
  bool lazy; // rescales what is not speculated by need
  Turns turns;
  Output output;
};

// Tuned on an H200 (docs/measurements). Small tiles of keys with more stages
// win wherever they fit: the next tile's keys come during this one's end. They
// win most where rows are not whole sectors of 32 bytes (168, 200, 216) and
// arrive later, and so do 192 rows, which read keys less often. Where the
// output has no place of its own, it goes straight to memory if its rows are
// whole sectors: the next queries come while it does. Where a line does not
// fit, as when head dims differ and the output needs a place of its own, the
// first below it that fits serves.
// clang-format off
constexpr Entry kTable[] = {
    // d   d_v    q    kv masked stages q slots  lazy   turns            output
    {  64,  64,  192, 128, 128,   4,    2,     false, Turns::Unmasked, Output::Own},
    { 128, 128,  192,  64,  64,   4,    1,     true,  Turns::Unmasked, Output::Own},
    { 144, 144,  192,  64,  64,   3,    1,     true,  Turns::Unmasked, Output::Direct},
    { 152, 152,  192,  64,  64,   3,    1,     true,  Turns::Never,    Output::InQueries},
    { 192, 128,  192,  64,  64,   2,    1,     true,  Turns::Never,    Output::Own},
    { 160, 160,  128,  64,  64,   3,    1,     true,  Turns::Never,    Output::Direct},
    { 168, 168,  192,  48,  48,   4,    1,     true,  Turns::Never,    Output::InQueries},
    { 176, 176,  128,  64,  64,   3,    1,     true,  Turns::Never,    Output::Direct},
    { 184, 184,  128,  64,  64,   3,    1,     true,  Turns::Never,    Output::InQueries},
    { 192, 192,  128,  80,  80,   2,    1,     true,  Turns::Never,    Output::Own},
    { 200, 200,  128,  48,  48,   3,    1,     true,  Turns::Never,    Output::InQueries},
    { 208, 208,  128,  80,  64,   2,    1,     true,  Turns::Never,    Output::Direct},
    { 216, 216,  128,  48,  48,   3,    1,     true,  Turns::Never,    Output::InQueries},
    { 224, 224,  128,  80,  64,   2,    1,     true,  Turns::Never,    Output::Direct},
    { 232, 232,  128,  64,  64,   2,    1,     true,  Turns::Never,    Output::InQueries},
    { 240, 240,  128,  80,  64,   2,    1,     true,  Turns::Never,    Output::Direct},
    { 248, 248,  128,  64,  64,   2,    1,     true,  Turns::Never,    Output::InQueries},
    { 256, 256,  128,  64,  64,   2,    1,     true,  Turns::Never,    Output::Direct},
};

// Where a score program reads at distances of row and column, one place for
// many scores: tiles that leave registers beside the arm that computes scores
// once more. Other reads of single elements leave none.
constexpr Entry kDistanceTable[] = {
    // d   d_v    q    kv masked stages q slots  lazy   turns            output
    {  64,  64,  192,  96,  80,   4,    2,     false, Turns::Unmasked, Output::Own},
    { 128, 128,  192,  64,  64,   4,    1,     true,  Turns::Unmasked, Output::Own},
};
// clang-format on

// Where all that a score program does is to add something: values of columns,
// which take registers, or of the distance alone, as ALiBi's. Where it does
// more, as a cap does.
// clang-format off
constexpr Entry kColumnTable[] = {
    // d   d_v    q    kv masked stages q slots  lazy   turns            output
    {  64,  64,  192, 128, 128,   4,    2,     false, Turns::Never,    Output::Own},
    { 128, 128,  192,  80,  80,   3,    1,     true,  Turns::Unmasked, Output::Own},
};
constexpr Entry kSlopeTable[] = {
    {  64,  64,  192, 128, 128,   4,    2,     false, Turns::Never,    Output::Own},
    { 128, 128,  192,  80,  64,   3,    1,     true,  Turns::Unmasked, Output::Own},
};
constexpr Entry kFunctionTable[] = {
    {  64,  64,  192, 128, 128,   4,    2,     false, Turns::Unmasked, Output::Own},
    { 128, 128,  192,  64,  64,   4,    1,     true,  Turns::Never,    Output::Own},
};
// clang-format on

// Where it reads other single elements for each score: of those without a spill
// the fastest for tables behind gathers and f32 biases together.
// clang-format off
constexpr Entry kElementTable[] = {
    // d   d_v    q    kv masked stages q slots  lazy   turns            output
    {  64,  64,  128, 128, 128,   4,    2,     false, Turns::Unmasked, Output::Own},
    { 128, 128,  128,  96,  96,   2,    1,     true,  Turns::Unmasked, Output::Own},
};
constexpr Entry kMaskedElementTable[] = {
    {  64,  64,  192,  64,  64,   4,    2,     false, Turns::Unmasked, Output::Own},
    { 128, 128,  192,  48,  48,   4,    1,     true,  Turns::Unmasked, Output::Own},
};
// clang-format on

struct ReadsEntry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockQ, blockKV, stages, slotsK, querySlots, slotsReads;
  Turns turns;
  Output output;
};

// Where a score program reads tiles of 16 bits: they take the place of stages,
// and at small head dims of wide tiles of keys. Above 128, kernels that read
// elements would spill beside the arm that computes scores once more.
// clang-format off
constexpr ReadsEntry kReadsTable[] = {
    // d   q    kv  stages k  q slots reads turns            output
    {  64, 192, 64, 4,     0, 2,      3,    Turns::Masked,   Output::Own},
    { 128, 192, 64, 2,     3, 1,      2,    Turns::Never,    Output::Own},
    { 128, 192, 64, 2,     0, 1,      2,    Turns::Never,    Output::Own},
    { 152, 192, 64, 2,     0, 1,      2,    Turns::Never,    Output::InQueries},
    { 192, 128, 64, 2,     0, 1,      2,    Turns::Never,    Output::Own},
    { 256, 128, 64, 2,     0, 1,      2,    Turns::Never,    Output::InQueries},
};
// clang-format on

// The same where elements of such a tile have 32 bits, which threads copy and
// read one by one. Beside gathers at small head dims 192 rows are better.
// clang-format off
constexpr ReadsEntry kGatherReads =
    {  64, 192, 64, 2,     3, 1,      2,    Turns::Unmasked, Output::Own};
constexpr ReadsEntry kWideReadsTable[] = {
    // d   q    kv  stages k  q slots reads turns            output
    {  64, 128, 64, 4,     0, 2,      3,    Turns::Unmasked, Output::Own},
    { 128, 128, 64, 2,     3, 1,      2,    Turns::Unmasked, Output::Own},
    { 192, 128, 64, 2,     0, 1,      2,    Turns::Never,    Output::InQueries},
    { 256, 128, 64, 2,     0, 1,      1,    Turns::Never,    Output::InQueries},
};
// clang-format on

struct BackwardEntry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t blockKV, stages, exchangeSlots, exchangeSlotsMasked;
  LoopOrder loopOrder;
  Preload preload, preloadMasked;
  bool turns, roundedP, keysInRegisters, dqByProducer;
  int64_t dqColumns, cluster, slotsDout;
};

// Tiles of 64 queries. Up to 128, 64 keys a warpgroup, and the producer
// multiplies dS with the keys, as many columns at a time as its registers hold.
// Up to 64 registers hold the keys and values too, which leaves shared memory
// less to read; one slot for dS keeps them and the producer in step, which is
// worth 2 to 5 percent there and costs 3 at 128. There reads of shared memory
// are the wall: 64 columns of dQ at once read dS half as often, and the
// registers for them come from one tile of scores at a time and from P that is
// kept rounded. Above 128, both warpgroups
// share 64 keys and split the columns. One slot for dS where with two ptxas
// spills; the order that a search finds where columns are whole panels. At 256
// the additions to dQ's sum are the wall: blocks in pairs halve them, with one
// slot for dO where two do not fit beside the other block's keys.
// docs/measurements has what each was worth.
// clang-format off
constexpr BackwardEntry kBackwardTable[] = {
    // d   kv  stages exchange, masked order                   begins with,    with a mask    turns  rounded P  in registers, dQ by producer, columns, cluster, slots of dO
    {  64, 128, 4,   1, 1,    LoopOrder::KeysBehind,     Preload::Delta, Preload::Delta, true,  false, true,  true,  64, 1, 0},
    {  72, 128, 3,   2, 2,    LoopOrder::ValuesFirst,    Preload::Both,  Preload::Both, true,  false, false, true,  96, 1, 0},
    {  80, 128, 3,   2, 2,    LoopOrder::ScoresFirst,    Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    {  88, 128, 3,   1, 1,    LoopOrder::ValuesFirst,    Preload::Both,  Preload::Both, true,  false, false, true,  96, 1, 0},
    {  96, 128, 3,   2, 2,    LoopOrder::KeysBehind,     Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    { 112, 128, 3,   2, 2,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    { 120, 128, 3,   1, 1,    LoopOrder::ValuesFirst,    Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    { 128, 128, 3,   2, 2,    LoopOrder::ValuesFirst,    Preload::Both,  Preload::Both, true,  true,  false, true,  64, 1, 0},
    { 128, 128, 3,   2, 2,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    { 128, 128, 2,   1, 1,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, true,  false, false, true,  32, 1, 0},
    { 184,  64, 2,   1, 1,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, false, false, false, false, 128, 1, 0},
    { 192,  64, 2,   1, 1,    LoopOrder::Derived,        Preload::Both,  Preload::Both, false, false, false, false, 128, 1, 0},
    { 248,  64, 2,   1, 1,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, false, false, false, false, 128, 1, 0},
    { 256,  64, 2,   1, 2,    LoopOrder::KeysBehindLean, Preload::Both,  Preload::Both, false, false, false, false, 128, 2, 1},
    { 256,  64, 2,   1, 1,    LoopOrder::Derived,        Preload::Both,  Preload::Both, false, false, false, false, 128, 1, 0},
};
// clang-format on

struct BackwardReadsEntry {
  int64_t maxHeadDim; // of d and d_v, inclusive
  int64_t stages, slotsReads, slotsDout, dqColumns;
  LoopOrder loopOrder;
  bool roundedP;
};

// Where a score program reads tiles of 16 bits, up to head dim 128, whose warps
// have all queries of a tile: they take the place of stages.
// clang-format off
constexpr BackwardReadsEntry kBackwardReadsTable[] = {
    // d  stages reads dO columns order               rounded P
    {  64, 2,    3,    0, 64,     LoopOrder::KeysBehindLean, false},
    {  88, 3,    2,    2, 64,     LoopOrder::ValuesFirst,    false},
    { 120, 3,    2,    2, 32,     LoopOrder::ValuesFirst,    false},
    { 128, 3,    2,    2, 32,     LoopOrder::ValuesFirst,    true},
    { 128, 3,    2,    2, 32,     LoopOrder::ValuesFirst,    false},
};
// clang-format on

/// Schedules of a program's backward as they are where it reads a tile.
void addWithReads(std::vector<Schedule> &schedules, const Problem &problem,
                  Schedule s) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  for (const BackwardReadsEntry &e : kBackwardReadsTable) {
    if (!problem.tileReads || dim > e.maxHeadDim ||
        (e.roundedP && (problem.slope || problem.sums)))
      continue;
    s.stages = e.stages;
    s.exchangeSlots = 1;
    s.slotsReads = e.slotsReads;
    s.slotsDout = e.slotsDout;
    s.dqColumns = e.dqColumns;
    s.loopOrder = e.loopOrder;
    s.roundedP = e.roundedP;
    // The copy engine reads dS from its slot, for which turns would wait.
    if (problem.storesScores && dim <= 64) {
      s.stages = 3;
      s.pingPong = s.qInRegisters = false;
    }
    schedules.push_back(s);
  }
}

std::vector<Schedule> backwardSchedules(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Schedule> schedules;
  for (const BackwardEntry &e : kBackwardTable)
    if (dim <= e.maxHeadDim) {
      Schedule s;
      s.partition = Partition::Keys;
      s.blockQ = 64;
      s.blockKV = e.blockKV;
      s.warps = 8;
      s.keyWarps = e.blockKV < 128 ? e.blockKV / 16 : 0;
      s.stages = e.stages;
      s.exchangeSlots =
          problem.masked ? e.exchangeSlotsMasked : e.exchangeSlots;
      s.loopOrder = e.loopOrder;
      s.preload = problem.masked ? e.preloadMasked : e.preload;
      s.pingPong = e.turns;
      s.roundedP = e.roundedP;
      s.qInRegisters = e.keysInRegisters;
      s.dq = GradQ::AtomicV4;
      s.dqByProducer = e.dqByProducer;
      s.dqColumns = e.dqColumns;
      s.cluster = e.cluster;
      s.slotsDout = e.slotsDout;
      s.order = problem.masked ? TileOrder::LongestFirst : TileOrder::Ascending;
      s.chained = Chain::Early;
      s.cacheDq = CacheHint::EvictLast;
      s.cacheKeys = CacheHint::EvictFirst;
      // A program's derivative, or what dropout draws, stands beside the
      // scores: registers are left neither for more of dQ, nor, beside a
      // product or what is drawn, for the keys. With a product and sums of
      // it, and with what is drawn at the smallest head dims, nothing may go a
      // tile behind either.
      if (problem.program || problem.dropout) {
        bool small = dim <= 64, medium = !small && s.dqByProducer;
        bool written = small ? problem.dropout && dim <= 32
                             : !medium || (problem.slope && problem.sums);
        s.stages =
            std::min<int64_t>(s.stages, small && problem.dropout ? 2 : 3);
        s.loopOrder = written ? LoopOrder::Written
                      : small ? LoopOrder::KeysBehindLean
                              : LoopOrder::ValuesFirst;
        s.preload = medium && problem.dropout ? Preload::None : Preload::Delta;
        s.pingPong = small && !written;
        s.qInRegisters = small && !problem.slope && !problem.dropout;
        s.roundedP = false;
        if (medium)
          s.dqColumns = 32;
        s.cluster = 1;
        s.slotsDout = 0;
        addWithReads(schedules, problem, s);
      }
      schedules.push_back(s);
    }
  return schedules;
}

/// What lines of all forward tables have.
template <typename Line> Schedule tiles(const Line &e, const Problem &problem) {
  Schedule s;
  s.blockQ = e.blockQ;
  s.blockKV = e.blockKV;
  s.warps = e.blockQ / 16;
  s.stages = e.stages;
  s.querySlots = e.querySlots;
  s.pingPong = takesTurns(e.turns, problem.masked);
  s.groupLimits = true;
  s.fromEnd = problem.masked && !problem.wideReads && !problem.dropout;
  s.directOutput = e.output == Output::Direct;
  s.separateOutput = e.output == Output::Own ||
                     (!s.directOutput && problem.headDim != problem.headDimV);
  s.overlap = s.persistent = true;
  return s;
}

std::vector<Schedule> schedulesOfReads(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Schedule> schedules;
  llvm::SmallVector<ReadsEntry> entries(
      problem.wideReads ? llvm::ArrayRef(kWideReadsTable) : kReadsTable);
  if (problem.wideReads && problem.elementReads)
    entries.insert(entries.begin(), kGatherReads);
  for (const ReadsEntry &e : entries)
    if (dim <= e.maxHeadDim) {
      Schedule &s = schedules.emplace_back(tiles(e, problem));
      s.slotsK = e.slotsK;
      s.slotsReads = e.slotsReads;
      s.lazyRescale = problem.maxSlack;
      s.speculateMax =
          e.maxHeadDim <= 128 && !problem.elementReads ? problem.maxSlack : 0;
    }
  return schedules;
}

void setFields(Variant &v, StringRef fields) {
  std::string wrong = v.fields.setFields("variants", fields);
  assert(wrong.empty() && "fields that the table spells wrong");
  (void)wrong;
}
} // namespace

// Two warpgroups of 64 queries, which hold dQ, the scores and dP in registers.
Schedule sm90::gradQSchedule(const Problem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  Schedule s;
  s.blockQ = 128;
  s.warps = 8;
  s.blockKV = dim <= 64 ? 128 : dim <= 128 ? 64 : 32;
  s.order = problem.masked ? TileOrder::LongestFirst : TileOrder::Ascending;
  return s;
}

std::vector<Schedule> sm90::tunedSchedules(const Problem &problem) {
  if (problem.backward)
    return backwardSchedules(problem);
  std::vector<Schedule> schedules;
  if (problem.tileReads)
    schedules = schedulesOfReads(problem);
  auto add = [&](llvm::ArrayRef<Entry> table, bool speculates) {
    for (const Entry &e : table)
      if (problem.headDim <= e.maxHeadDim &&
          problem.headDimV <= e.maxHeadDimV) {
        Schedule &s = schedules.emplace_back(tiles(e, problem));
        s.blockKV = problem.masked ? e.blockKVMasked : e.blockKV;
        s.lazyRescale = e.lazy ? problem.maxSlack : 0;
        s.speculateMax = speculates ? problem.maxSlack : 0;
        s.splitScores = speculates && problem.masked && !problem.program &&
                        e.maxHeadDim <= 64;
      }
  };
  if (problem.distanceReads && !problem.tileReads)
    add(kDistanceTable, /*speculates=*/true);
  else if (problem.program && !problem.elementReads && !problem.tileReads) {
    if (problem.slope)
      add(kFunctionTable, /*speculates=*/true);
    else if (problem.columnVectors)
      add(kColumnTable, /*speculates=*/true);
    else if (problem.distance)
      add(kSlopeTable, /*speculates=*/true);
  } else if (problem.elementReads || problem.wideReads)
    add(problem.masked ? llvm::ArrayRef(kMaskedElementTable) : kElementTable,
        /*speculates=*/false);
  add(kTable, /*speculates=*/!problem.elementReads);
  // Measured with a softcap: 1.01 to 1.05 of the speed without a mask, 0.97 to
  // 0.99 with one; from head dim 96 on, 0.90 to 0.93.
  bool sparesExponentials = problem.transcendental && !problem.masked &&
                            std::max(problem.headDim, problem.headDimV) <= 64;
  for (Schedule &s : schedules)
    s.polynomialExp2 = sparesExponentials;
  return schedules;
}

/// A tile's rows, weighed by how much slower small tiles are beside the base's.
/// They read keys more often, which costs most where rows are not whole sectors
/// of 32 bytes; under a mask a multiprocessor with few tiles has some that are
/// longer than the average. Measured on 16384 tokens and on one sequence of
/// 1024 and 2048 (docs/measurements, multiples of eight).
static int64_t weightOf(int64_t rows, const Problem &problem,
                        const Schedule &base) {
  if (rows == base.blockQ)
    return rows;
  bool whole = problem.headDim % 16 == 0 && problem.headDimV % 16 == 0;
  if (base.blockQ == 192 && rows == 64)
    return whole ? 100 : problem.masked ? 165 : 140;
  if (base.blockQ == 192 && problem.masked)
    return whole ? 138 : 165;
  if (base.blockQ == 192)
    return whole ? 147 : 160;
  if (problem.masked)
    return whole ? 112 : 125;
  return whole ? 92 : 115;
}

/// What tiles of `rows` rows take of the busiest multiprocessor's time, as an
/// expression of guards. Without a mask all tiles take the same time, and the
/// busiest has a whole number of them.
///
/// Under one they are taken in the order `balanced`, which shares them evenly.
/// Less than the longest it cannot be. With lengths that fall evenly from K by
/// D, and r tiles to each, that is max(K, r (2 K - D) / 2).
static std::string timeOf(int64_t rows, const Problem &problem,
                          const Schedule &base) {
  int64_t weight = weightOf(rows, problem, base);
  std::string tiles = formatv("ceildiv(seqlen_q, {0}) * heads * batch", rows);
  if (!problem.masked)
    return formatv("{0} * ceildiv({1}, device.multiprocessors)", weight, tiles);
  std::string falls =
      formatv("min(seqlen_k, (ceildiv(seqlen_q, {0}) - 1) * {0})", rows);
  return formatv("{0} * max(seqlen_k, {1} * (2 * seqlen_k - {2}) / (2 * "
                 "device.multiprocessors))",
                 weight, tiles, falls);
}

/// Whether tiles of `rows` rows are the fastest. Where there are many, they are
/// shared out evenly enough whatever their size, and the largest is best.
static std::string fastest(int64_t rows, const Problem &problem,
                           const Schedule &base) {
  std::string guard = "ceildiv(seqlen_q, 64) * heads * batch < 16 * "
                      "device.multiprocessors";
  for (int64_t larger = rows + 64; larger <= base.blockQ; larger += 64)
    guard += formatv(
        " && {0} {1} {2}", timeOf(rows, problem, base),
        larger == base.blockQ ? "<" : "<=", timeOf(larger, problem, base));
  return guard;
}

/// How often all multiprocessors have a tile of the schedule each, but for
/// `fewer` times.
static std::string sharedRounds(int64_t fewer, const Schedule &base) {
  return formatv("(seqlen_q / {0} * heads * batch / device.multiprocessors{1})",
                 base.blockQ, fewer == 0 ? "" : formatv(" - {0}", fewer).str());
}

/// The rows of each head that these are, as whole tiles.
static std::string sharedRows(int64_t fewer, const Schedule &base) {
  return formatv("{0} * ({1} * device.multiprocessors / max(1, heads * batch))",
                 base.blockQ, sharedRounds(fewer, base));
}

/// What they and tiles of 128 behind them take of the busiest multiprocessor's
/// time.
static std::string sharedTime(int64_t fewer, const Problem &problem,
                              const Schedule &base) {
  return formatv("{0} * {1} + {2} * ceildiv(ceildiv(seqlen_q - {3}, 128) * "
                 "heads * batch, device.multiprocessors)",
                 base.blockQ, sharedRounds(fewer, base),
                 weightOf(128, problem, base), sharedRows(fewer, base));
}

/// Large tiles for whole rounds and those of 128 rows for what is left, where
/// that gains a sixtieth at least (at small head dims, whose tiles are shorter,
/// a thirtieth), of tiles that are long beside what begins and ends them. Rows
/// without a mask and a program are alike.
static void addShared(std::vector<Variant> &variants, StringRef fields,
                      const Problem &problem, const Schedule &base) {
  constexpr int64_t mostFewer = 1;
  int64_t part = std::max(problem.headDim, problem.headDimV) <= 64 ? 30 : 60;
  std::string alone = formatv("min({0}, {1})", timeOf(128, problem, base),
                              timeOf(base.blockQ, problem, base));
  for (int64_t fewer = 0; fewer <= mostFewer; ++fewer) {
    Variant &v = variants.emplace_back();
    std::string time = sharedTime(fewer, problem, base);
    v.when = formatv("seqlen_k >= 2048 && {0} > 0 && {1} * ({2}) < {3} * {4}",
                     sharedRounds(fewer, base), part, time, part - 1, alone);
    if (fewer < mostFewer)
      v.when +=
          formatv(" && {0} <= {1}", time, sharedTime(fewer + 1, problem, base));
    v.after = sharedRows(fewer, base);
    setFields(v, fields);
  }
}

/// Smaller tiles where the larger would leave multiprocessors idle. They are of
/// one class of bits with what is taken otherwise, so the batch may choose.
static std::vector<Variant> smallerTiles(const Problem &problem,
                                         const Schedule &base) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Variant> variants;
  auto add = [&](const Twine &when, StringRef fields) {
    Variant &v = variants.emplace_back();
    v.when = when.str();
    setFields(v, fields);
  };
  if (dim > 192 && problem.masked && !base.slotsReads && !base.directOutput) {
    constexpr const char *shortRows = "seqlen_k <= 512",
                         *narrow = "block_kv=32,stages=3,separate_output=1";
    add(shortRows + Twine(" && ") + fastest(64, problem, base),
        narrow + std::string(",block_q=64"));
    add(shortRows, narrow);
  }
  if (dim > 64 || problem.masked)
    add(fastest(64, problem, base), "block_q=64");
  if (base.blockQ > 128) {
    // Short rows end often: they gain from the next queries being there.
    bool second = dim > 64 && dim <= 128;
    StringRef fields = second ? "block_q=128,query_slots=2" : "block_q=128";
    if (dim <= 64 && !problem.masked)
      fields = "block_q=128,direct_output=1,separate_output=0";
    add(fastest(128, problem, base), fields);
    if (base.blockQ == 192 && !problem.masked && !problem.program &&
        !problem.dropout) {
      std::vector<Variant> shared;
      addShared(shared, fields, problem, base);
      variants.insert(variants.begin(), shared.begin(), shared.end());
    }
  }
  return variants;
}

std::vector<Variant> sm90::tunedVariants(const Problem &problem,
                                         const Schedule &base) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
  std::vector<Variant> variants;
  if (problem.backward) {
    // Short rows end often: the next tile's copies are on their way then. Long
    // ones are shared out more evenly by the hardware.
    if (dim <= 64 && base.dqByProducer && !problem.program &&
        !problem.dropout) {
      Variant &v = variants.emplace_back();
      v.when = problem.masked ? "seqlen_k <= 4096" : "seqlen_k <= 2048";
      setFields(v, "persistent=1");
    }
    return variants;
  }
  // Few queries of grouped heads share the tile that reads their keys, which
  // few others read: those run side by side.
  Variant &few = variants.emplace_back();
  few.when = "seqlen_q <= 64 && heads % (4 * heads_kv) == 0";
  setFields(few, "packed_heads=4,block_q=64,query_slots=1,order=ascending,"
                 "from_end=0,cache.keys=evict_first");
  // What shared memory holds, and registers beside addresses of elements.
  if (dim <= (problem.columnVectors ? 64 : 128) && !problem.tileReads)
    setFields(few, "block_kv=128,stages=3");
  // Packed heads have no distance in common.
  if (problem.distanceReads)
    setFields(few, "speculate_max=0");
  llvm::append_range(variants, smallerTiles(problem, base));
  return variants;
}
