//===- Plan.cpp - the configurations of the grid --------------------------===//

#include "Plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

using fa2run::Configuration;
using fa2run::Kernel;
using fa2run::Sequence;

namespace fa2grid {

namespace {

int64_t queries(Sequence &random, int64_t tile, int64_t tileKV, int64_t keys) {
  switch (random.between(0, 9)) {
  case 0:
    return 1;
  case 1:
    return tile - 1;
  case 2:
    return tile;
  case 3:
    return tile + 1;
  case 4:
    return std::max<int64_t>(1, keys); // square
  case 5:
    // Under a top-left mask whole tiles of keys are seen from here on.
    return tile + std::max(tile, tileKV) + random.between(-1, 1);
  default:
    return random.between(1, tile / 2 + 8);
  }
}

Configuration draw(const Kernel &kernel, uint64_t seed, int64_t index) {
  static constexpr int64_t kHeads[][2] = {{1, 1}, {1, 1}, {1, 1}, {2, 2},
                                          {2, 1}, {3, 1}, {4, 2}};
  static constexpr double kSizes[] = {1, 1, 1, 6, 60};
  const int64_t tileQ = kernel.blockQ ? kernel.blockQ : 64;
  const int64_t tileKV = kernel.blockKv ? kernel.blockKv : 64;
  Sequence random(fa2run::scramble(seed) + uint64_t(index) * 1000003);
  Configuration c;
  c.seed = random.next() >> 12;
  int64_t tiles = index % 8 == 7 ? random.between(3, 5) : random.between(0, 2);
  c.seqlenK = tiles * tileKV + index % tileKV;
  c.seqlenQ = queries(random, tileQ, tileKV, std::min(c.seqlenK, 2 * tileQ));
  // Backward kernels loop over queries, whose residues count as those of keys;
  // kernels for dq have tiles of their own.
  if (kernel.pass == "backward")
    c.seqlenQ = random.between(0, 2) * tileQ + index * 5 % tileQ +
                (index % 8 == 3 ? 256 : 0);
  if (tiles > 2)
    c.seqlenQ = random.between(1, 24);
  auto [heads, headsKv] = kHeads[random.next() % std::size(kHeads)];
  c.heads = heads;
  c.headsKv = headsKv;
  c.batch = random.chance(0.2) ? 2 : 1;
  // A run of some hundredths of a second: fewer heads, not shorter sequences.
  auto blocks = [&] {
    return c.batch * c.heads * ((c.seqlenQ + tileQ - 1) / tileQ) *
           (c.seqlenK / tileKV + 1);
  };
  while (blocks() > 12 && c.batch > 1)
    --c.batch;
  while (blocks() > 12 && c.heads > 1) {
    --c.heads;
    c.headsKv = 1;
  }
  c.layout = random.chance(0.5) ? fa2run::Layout::BSHD : fa2run::Layout::BHSD;
  c.rowPadding = random.chance(0.5) ? random.between(1, 3) : 0;
  c.tailRows = random.chance(0.5) ? random.between(1, 9) : 0;
  c.randomScale = random.pick(kSizes);
  c.sign = random.chance(0.25);
  if (kernel.hasScale && random.chance(0.2))
    c.scale = kernel.defaultScale * double(random.between(25, 200)) / 100;
  return c;
}

} // namespace

std::vector<Configuration> configurationsOf(const Kernel &kernel,
                                            uint64_t seed) {
  std::vector<Configuration> list;
  int64_t residues = kernel.blockKv ? kernel.blockKv : 64;
  // Backward runs cost more: every third of many.
  int64_t step = kernel.pass == "backward" && residues > 64 ? 3 : 1;
  for (int64_t i = 0; i < std::max<int64_t>(residues, 16); i += step)
    list.push_back(draw(kernel, seed, i));
  // Kernels that copy what a program reads in tiles may ask for lengths that
  // are multiples of 8.
  if (!kernel.extras.empty() && kernel.pass == "forward")
    for (int64_t i = 0; i < 32; ++i) {
      Configuration c = draw(kernel, seed, residues + i);
      c.seqlenQ = (c.seqlenQ + 7) / 8 * 8;
      list.push_back(c);
    }
  // No keys, no queries, no batch; every query and key in one row of tiles.
  list[0].seqlenK = 0;
  list.push_back(list[1]);
  list.back().seqlenQ = 0;
  // Persistent blocks without queries take one tile of keys after another.
  list.push_back(list[1]);
  list.back().seqlenQ = 0;
  list.back().seqlenK = 3 * residues + 5;
  list.push_back(list[2]);
  list.back().batch = 0;
  // Some of the heads start with their first tile where there are a few.
  if (kernel.order == "shortest_then_longest")
    for (int64_t i = 0; i < 12; ++i) {
      Configuration c = draw(kernel, seed, 3 * i);
      c.batch = kernel.extras.empty() ? 1 : 3;
      c.headsKv = i % 3 == 0 ? 5 : 4;
      c.heads = c.headsKv * (1 + i % 2);
      c.seqlenK = residues + 11 * i;
      c.seqlenQ = c.seqlenK + 17 * (i % 4) + (i % 2) * 2 * kernel.blockQ;
      list.push_back(c);
    }
  // Of what entries share, some add between the first and the last, over more
  // tiles of queries than share a turn, beginning with any of these; and there
  // may be no entry at all.
  if (!kernel.extras.empty() && kernel.pass == "backward")
    for (int64_t i = 0; i < 6; ++i) {
      Configuration c = draw(kernel, seed, 5 * i);
      c.batch = i == 0 ? 0 : 3;
      c.heads = c.headsKv = 1;
      c.seqlenK = 2 * residues + 3 * i;
      c.seqlenQ = c.seqlenK + kernel.blockQ * i + 11;
      list.push_back(c);
    }
  // Wide scores over several whole tiles that the masks show: the maximum rises
  // past the reference of every kernel that keeps one, however rarely.
  for (int64_t i : {1, 5}) {
    Configuration c = draw(kernel, seed, i);
    c.batch = c.heads = c.headsKv = 1;
    c.randomScale = 60;
    c.sign = false;
    c.seqlenK = 4 * residues + i;
    c.seqlenQ = c.seqlenK + i;
    list.push_back(c);
  }
  return list;
}

std::pair<std::vector<Configuration>, size_t>
sampleOf(std::vector<Configuration> list, int64_t every, uint64_t first) {
  auto inSample = [&, i = uint64_t(0)](const Configuration &c) mutable {
    bool empty = c.seqlenK == 0 || c.seqlenQ == 0 || c.batch == 0;
    return (i++ + first) % uint64_t(every) == 0 || empty;
  };
  std::vector<Configuration> sample, rest;
  for (Configuration &c : list)
    (inSample(c) ? sample : rest).push_back(std::move(c));
  size_t sampled = sample.size();
  std::ranges::move(rest, std::back_inserter(sample));
  return {std::move(sample), sampled};
}

std::array<std::string, 3> devicesOf(const Kernel &kernel, uint64_t seed) {
  static constexpr const char *kCompletions[] = {"late", "random", "early"};
  // On one and on two multiprocessors persistent blocks take several tiles;
  // where all are resident, blocks wait for each other.
  static constexpr const char *kResident[] = {
      "profile&resident=1&sms=1", "resident=2&sms=2", "profile&resident=0"};
  const char *arch = kernel.arch.rfind("sm_9", 0) == 0 ? "sm_90" : "sm_80";
  std::array<std::string, 3> devices;
  for (uint64_t s = 0; s < 3; ++s)
    devices[s] = fmt::format(
        "sim:{}?strict&budget=20000000&seed={}&{}&completion={}", arch,
        3 * seed + s, kResident[s], kCompletions[(seed + s) % 3]);
  return devices;
}

void Reached::add(const Kernel &kernel, const Configuration &c) {
  ++configurations;
  backward += kernel.pass == "backward";
  hopper += kernel.arch == "sm_90a";
  emptySequences += c.seqlenK == 0 || c.seqlenQ == 0 || c.batch == 0;
  emptyRows += kernel.mask == fa2run::Mask::Causal && c.seqlenQ > c.seqlenK;
  grouped += c.heads != c.headsKv;
  oneSided += c.sign;
  large += c.randomScale >= 60;
  scaled += c.scale.has_value();
  padded += c.rowPadding > 0;
  bhsd += c.layout == fa2run::Layout::BHSD;
}

Reached &Reached::operator+=(const Reached &other) {
  for (auto field :
       {&Reached::configurations, &Reached::backward, &Reached::hopper,
        &Reached::emptyRows, &Reached::emptySequences, &Reached::grouped,
        &Reached::oneSided, &Reached::large, &Reached::scaled, &Reached::padded,
        &Reached::bhsd})
    this->*field += other.*field;
  return *this;
}

std::string Reached::text() const {
  return fmt::format(
      "{} backward, {} for sm_90a, {} with empty rows, {} with an empty "
      "sequence, {} with grouped heads, "
      "{} with q >= 0 and k <= 0, {} with scores x60, {} with a scale of their "
      "own, {} with padded rows, {} in bhsd order",
      backward, hopper, emptyRows, emptySequences, grouped, oneSided, large,
      scaled, padded, bhsd);
}

} // namespace fa2grid
