//===- FewTiles.cpp - when smaller tiles are faster -----------------------===//

#include "FewTiles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace fa2;
using llvm::formatv;

/// What tiles of `rows` rows take of the busiest multiprocessor's time, as an
/// expression of guards. Without a mask all tiles take the same time, and the
/// busiest has a whole number of them.
///
/// Under one they are taken in the order `balanced`, which shares them evenly.
/// Less than the longest it cannot be. With lengths that fall evenly from K by
/// D, and r tiles to each, that is max(K, r (2 K - D) / 2).
std::string FewTiles::timeOf(int64_t rows) const {
  int64_t weight = rows == base.blockQ ? rows : weightOf(rows);
  std::string tiles = formatv("ceildiv(seqlen_q, {0}) * heads * batch", rows);
  if (!masked)
    return formatv("{0} * ceildiv({1}, device.multiprocessors)", weight, tiles);
  std::string falls =
      formatv("min(seqlen_k, (ceildiv(seqlen_q, {0}) - 1) * {0})", rows);
  return formatv("{0} * max(seqlen_k, {1} * (2 * seqlen_k - {2}) / (2 * "
                 "device.multiprocessors))",
                 weight, tiles, falls);
}

/// Where there are many tiles, they are shared out evenly enough whatever their
/// size, and the largest is best.
std::string FewTiles::fastest(int64_t rows) const {
  std::string guard = "ceildiv(seqlen_q, 64) * heads * batch < 16 * "
                      "device.multiprocessors";
  for (int64_t larger = rows + 64; larger <= base.blockQ; larger += 64)
    guard += formatv(" && {0} {1} {2}", timeOf(rows),
                     larger == base.blockQ ? "<" : "<=", timeOf(larger));
  return guard;
}

/// How often all multiprocessors have a tile of the schedule each, but for
/// `fewer` times.
std::string FewTiles::sharedRounds(int64_t fewer) const {
  return formatv("(seqlen_q / {0} * heads * batch / device.multiprocessors{1})",
                 base.blockQ, fewer == 0 ? "" : formatv(" - {0}", fewer).str());
}

/// The rows of each head that these are, as whole tiles.
std::string FewTiles::sharedRows(int64_t fewer) const {
  return formatv("{0} * ({1} * device.multiprocessors / max(1, heads * batch))",
                 base.blockQ, sharedRounds(fewer));
}

/// What they and tiles of `rows` behind them take of the busiest
/// multiprocessor's time.
std::string FewTiles::sharedTime(int64_t rows, int64_t fewer) const {
  return formatv("{0} * {1} + {2} * ceildiv(ceildiv(seqlen_q - {3}, {4}) * "
                 "heads * batch, device.multiprocessors)",
                 base.blockQ, sharedRounds(fewer), weightOf(rows),
                 sharedRows(fewer), rows);
}

/// Of tiles that are long beside what begins and ends them.
std::vector<Variant> FewTiles::shared(const ScheduleOverrides &fields,
                                      int64_t parts) const {
  constexpr int64_t mostFewer = 1;
  int64_t rows = *fields.blockQ;
  std::string alone =
      formatv("min({0}, {1})", timeOf(rows), timeOf(base.blockQ));
  std::vector<Variant> variants;
  for (int64_t fewer = 0; fewer <= mostFewer; ++fewer) {
    Variant &v = variants.emplace_back();
    std::string time = sharedTime(rows, fewer);
    v.when = formatv("seqlen_k >= 2048 && {0} > 0 && {1} * ({2}) < {3} * {4}",
                     sharedRounds(fewer), parts, time, parts - 1, alone);
    if (fewer < mostFewer)
      v.when += formatv(" && {0} <= {1}", time, sharedTime(rows, fewer + 1));
    v.after = sharedRows(fewer);
    v.fields = fields;
  }
  return variants;
}
