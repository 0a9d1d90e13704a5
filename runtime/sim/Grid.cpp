//===- Grid.cpp - Launches, their clusters and blocks ---------------------===//
//
// What a launch may ask for, and how its blocks start and end.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

namespace fa2::sim {

namespace {
/// Fields of a launch that a device would refuse are refused, by name.
struct LaunchCheck {
  LaunchCheck(const Launch &launch, u32 capability)
      : launch(launch), capability(capability), kernel(findKernel()) {
    checkExtents();
    checkMemory();
  }

  const Launch &launch;
  u32 capability; ///< the device's
  const Kernel &kernel;
  u64 threads = 1, blocks = 1; ///< a block, a launch
  u32 clusterBlocks = 1;
  u64 shared = 0, sharedLimit = 0; ///< bytes a block

private:
  [[noreturn]] void refuse(const std::string &text) const {
    throw Fatal{"launch of '" + launch.kernel + "': " + text};
  }
  const Kernel &findKernel() const;
  void checkExtents();
  void checkExtent(unsigned dim);
  void checkMemory();
};
} // namespace

const Kernel &LaunchCheck::findKernel() const {
  if (!launch.program)
    refuse("there is no program");
  const Kernel *found = nullptr;
  for (const auto &k : launch.program->kernels)
    if (k->info.name == launch.kernel)
      found = k.get();
  if (!found)
    refuse("the program has no kernel of that name");
  if (capability != 80 && capability != 90)
    refuse("capability " + std::to_string(capability) +
           " is not simulated; 80 and 90 are");
  if (launch.program->capability > capability)
    refuse("compiled for sm_" + std::to_string(launch.program->capability) +
           ", the device is sm_" + std::to_string(capability));
  return *found;
}

void LaunchCheck::checkExtent(unsigned dim) {
  if (launch.block[dim] == 0 || launch.block[dim] > 1024)
    refuse("block extent " + std::to_string(launch.block[dim]) +
           " is not 1 to 1024");
  if (launch.grid[dim] == 0 || launch.grid[dim] > 0x7fffffffu)
    refuse("grid extent " + std::to_string(launch.grid[dim]) +
           " is not 1 to 2^31-1");
  const auto &required = kernel.info.requiredBlock;
  if (required[0] && launch.block[dim] != required[dim])
    refuse("block differs from the kernel's .reqntid");
  threads *= launch.block[dim];
  blocks *= launch.grid[dim];
  // Each is at most 8, so that the product is none too large.
  if (launch.cluster[dim] == 0 || launch.cluster[dim] > kMaxCluster)
    refuse("cluster extent " + std::to_string(launch.cluster[dim]) +
           " is not 1 to " + std::to_string(kMaxCluster));
  clusterBlocks *= launch.cluster[dim];
  if (launch.grid[dim] % launch.cluster[dim])
    refuse("grid extent " + std::to_string(launch.grid[dim]) +
           " is not a multiple of the cluster's " +
           std::to_string(launch.cluster[dim]));
  const auto &cluster = kernel.info.requiredCluster;
  if (cluster[0] && launch.cluster[dim] != cluster[dim])
    refuse("cluster extent " + std::to_string(launch.cluster[dim]) +
           " differs from the " + std::to_string(cluster[dim]) +
           " of the kernel's .reqnctapercluster");
  if (blocks > 1u << 24)
    refuse("more than 2^24 blocks are not simulated");
}

void LaunchCheck::checkExtents() {
  for (unsigned dim = 0; dim < 3; ++dim)
    checkExtent(dim);
  if (clusterBlocks > kMaxCluster)
    refuse(std::to_string(clusterBlocks) + " blocks a cluster; the limit is " +
           std::to_string(kMaxCluster));
  if (kernel.maxCluster && clusterBlocks > kernel.maxCluster)
    refuse(std::to_string(clusterBlocks) +
           " blocks a cluster; .maxclusterrank is " +
           std::to_string(kernel.maxCluster));
  if (clusterBlocks > 1 && capability < 90)
    refuse("clusters need sm_90, the device is sm_" +
           std::to_string(capability));
  if (threads > 1024)
    refuse(std::to_string(threads) + " threads a block; the limit is 1024");
  if (kernel.info.maxThreads && threads > kernel.info.maxThreads)
    refuse(std::to_string(threads) + " threads a block; .maxntid is " +
           std::to_string(kernel.info.maxThreads));
}

void LaunchCheck::checkMemory() {
  if (launch.parameters.size() != kernel.info.parameterBytes)
    refuse(std::to_string(launch.parameters.size()) +
           " bytes of parameters; the kernel takes " +
           std::to_string(kernel.info.parameterBytes));
  // CUDA C++ Programming Guide, compute capabilities: shared memory a block.
  sharedLimit = capability >= 90 ? 232448 : 166912;
  shared = u64(launch.dynamicSharedBytes) + kernel.staticShared;
  if (shared > sharedLimit)
    refuse(std::to_string(shared) + " bytes of shared memory; the limit is " +
           std::to_string(sharedLimit));
}

void Machine::prepare(Grid &grid, const Launch &launch) {
  LaunchCheck check(launch, options.capability);
  const Kernel &kernel = check.kernel;
  u32 together = check.clusterBlocks;
  grid.launch = &launch;
  grid.program = launch.program.get();
  grid.kernel = &kernel;
  grid.total = check.blocks;
  grid.clusterBlocks = together;
  u64 processors = options.capability >= 90 ? 132 : 108;
  u64 perProcessor =
      std::min<u64>({2048 / ((check.threads + 31) / 32 * 32),
                     (check.sharedLimit + 1024) / (check.shared + 1024), 32});
  u64 resident = options.residentBlocks
                     ? options.residentBlocks
                     : std::min<u64>(processors * perProcessor, 64);
  grid.capacity = u32(std::max<u64>(1, resident / together) * together);
  grid.resident = u32(std::min<u64>(grid.capacity, grid.total));
  for (u32 rank = 0; rank < together && together > 1; ++rank) {
    grid.constants.push_back(kernel.constants);
    for (auto [slot, bytes] : kernel.sharedConstants)
      for (u32 lane = 0; lane < kWarpSize; ++lane)
        grid.constants[rank][slot + lane * bytes / 4] += rank << kRankShift;
  }
  chooseOrder(grid);
  if (options.profile)
    grid.profile.resize(kernel.code.size());
}

// Seed 0 starts blocks in the order of their numbers. Blocks that may wait for
// others wait for such as a device has started before: only those that are
// resident together are in any order.
void Machine::chooseOrder(Grid &grid) {
  u32 together = grid.clusterBlocks;
  grid.order.resize(size_t(grid.total / together));
  for (u32 k = 0; k < grid.order.size(); ++k)
    grid.order[k] = k;
  if (!options.seed)
    return;
  u32 all = u32(grid.order.size());
  u32 window = grid.kernel->listens ? grid.capacity / together : all;
  for (u32 first = 0; first < all; first += std::min(window, all - first))
    for (u32 k = std::min(window, all - first); k > 1; --k)
      std::swap(grid.order[first + k - 1], grid.order[first + random.below(k)]);
}

void Machine::releaseDependents(Block &block) {
  if (block.launchedDependents)
    return;
  block.launchedDependents = true;
  ++block.grid->released;
}

bool Machine::previousGridsDone(const Grid &grid) const {
  for (const Grid &other : grids) {
    if (&other == &grid)
      return true;
    if (other.finished < other.total)
      return false;
  }
  return true;
}

// A cluster's blocks are resident together.
void Machine::startCluster(Grid &grid) {
  if (grid.started == 0) {
    grid.firstSequence = nextSequence;
    // Everything before is ordered, but a programmatic launch may overlap:
    // only griddepcontrol.wait orders it (rule 9).
    grid.watermark = nextSequence;
    grid.programmatic = grid.launch->programmatic && &grid != &grids.front();
    if (grid.programmatic)
      grid.watermark = grids[openGrid - 1].watermark;
  }
  const auto &n = grid.launch->grid, &c = grid.launch->cluster;
  u32 linear = grid.order[size_t(grid.started / grid.clusterBlocks)];
  u32 x = n[0] / c[0], y = n[1] / c[1];
  std::array<u32, 3> first{linear % x * c[0], linear / x % y * c[1],
                           linear / x / y * c[2]};
  auto cluster = std::make_shared<Cluster>();
  cluster->sequence = nextSequence;
  for (u32 rank = 0; rank < grid.clusterBlocks; ++rank)
    startBlock(grid, cluster,
               {first[0] + rank % c[0], first[1] + rank / c[0] % c[1],
                first[2] + rank / c[0] / c[1]});
}

void Machine::startBlock(Grid &grid, const std::shared_ptr<Cluster> &cluster,
                         std::array<u32, 3> id) {
  std::unique_ptr<Block> owner;
  if (spare.empty()) {
    owner = std::make_unique<Block>();
  } else {
    owner = std::move(spare.back());
    spare.pop_back();
  }
  Block &block = *owner;
  const Kernel &kernel = *grid.kernel;
  const Launch &launch = *grid.launch;
  ++grid.started;
  block.machine = this;
  block.grid = &grid;
  block.kernel = &kernel;
  block.sequence = nextSequence++;
  block.id = id;
  block.cluster = cluster;
  block.rank = u32(cluster->blocks.size());
  cluster->blocks.push_back(&block);
  block.constants = grid.constants.empty() ? kernel.constants.data()
                                           : grid.constants[block.rank].data();
  block.visits.clear();
  block.threads = launch.block[0] * launch.block[1] * launch.block[2];
  u32 warps = (block.threads + kWarpSize - 1) / kWarpSize;
  block.agents = {warps, block.rank, grid.clusterBlocks};
  cluster->warps += warps;
  u32 base = kSharedBase + kernel.staticShared;
  base = (base + kernel.dynamicAlign - 1) / kernel.dynamicAlign *
         kernel.dynamicAlign;
  u32 size = launch.dynamicSharedBytes ? base + launch.dynamicSharedBytes
                                       : kSharedBase + kernel.staticShared;
  // Poison: 0x7fff is a NaN in every 16-bit and 32-bit format.
  block.shared.assign(size, 0x7f);
  if (options.checks)
    block.shadow.reset(size + 8);
  for (NamedBarrier &barrier : block.barriers)
    barrier = NamedBarrier();
  block.mbarriers.clear();
  block.mbarriersFrom = ~0u, block.mbarriersEnd = 0;
  block.mbarriers.reserve(kMaxMbarriers);
  block.wgmmaLines.assign((warps + 3) / 4, {});
  block.launchedDependents = block.waitedForGrids = false;
  block.liveWarps = warps;
  // Registers at entry: those of a device that holds minBlocks such blocks.
  u32 entry = 65536 / (std::max(1u, kernel.minBlocks) * block.threads) / 8 * 8;
  block.budgeted = kernel.info.maxThreads || kernel.maxRegisters ||
                   kernel.info.requiredBlock[0];
  block.entryRegisters =
      kernel.maxRegisters ? kernel.maxRegisters : std::min(entry, 255u / 8 * 8);
  block.freeRegisters = 0;
  startWarps(block, warps);
  if (options.profile)
    ++result.profile.blocks;
  blocks.push_back(std::move(owner));
}

void Machine::startWarps(Block &block, u32 count) {
  const Kernel &kernel = *block.kernel;
  while (block.warps.size() > count)
    block.warps.pop_back();
  while (block.warps.size() < count)
    block.warps.emplace_back();
  for (u32 k = 0; k < count; ++k) {
    Warp &old = block.warps[k];
    Warp fresh;
    fresh.file = std::move(old.file);
    fresh.file.resize(kernel.fileWords);
    fresh.predicates.assign(kernel.numPredicates, 0);
    fresh.written.assign(kernel.numRegisters, 0);
    if (kernel.usesWgmma) {
      fresh.flight.assign(kernel.numRegisters, 0);
      fresh.touched.assign(kernel.numRegisters, 0);
    }
    fresh.local.assign(size_t(kernel.localBytes) * kWarpSize, 0x7f);
    fresh.block = &block;
    fresh.machine = this;
    fresh.id = k;
    fresh.agent = block.agents.warp(k);
    u32 lanes = std::min(kWarpSize, block.threads - k * kWarpSize);
    fresh.lanes = lanes == 32 ? kFullMask : (1u << lanes) - 1;
    fresh.stack.push_back({0, kNone, fresh.lanes});
    fresh.clocks.resize(block.agents.count());
    fresh.clocks.g.own[fresh.agent] = 1;
    fresh.clocks.g.watermark = fresh.clocks.a.watermark = block.grid->watermark;
    fresh.registers = block.entryRegisters;
    old = std::move(fresh);
    ready.push_back(&old);
  }
}

void Machine::startBlocks() {
  while (openGrid < grids.size()) {
    Grid &grid = grids[openGrid];
    while (grid.started < grid.total &&
           blocks.size() + grid.clusterBlocks <= grid.capacity)
      startCluster(grid);
    if (grid.started < grid.total || openGrid + 1 == grids.size())
      return;
    const Grid &next = grids[openGrid + 1];
    bool may = grid.finished == grid.total ||
               (next.launch->programmatic && grid.released == grid.total);
    if (!may)
      return;
    ++openGrid;
  }
}

void Machine::finishBlock(Block &block, const Inst &inst) {
  Warp &last = block.warps.front();
  for (size_t k = 0; k < bulk.size();) {
    if (bulk[k].warp->block != &block && bulk[k].block != &block) {
      ++k;
      continue;
    }
    if (options.checks)
      error(4, *bulk[k].warp, *bulk[k].inst, -1, "shared", bulk[k].shared,
            bulk[k].warp->block == &block
                ? "the block exits while this copy is in flight"
                : "the cluster's block " + std::to_string(block.rank) +
                      ", to which this copy is in flight, exits");
    BulkCopy copy = bulk[k];
    bulk.erase(bulk.begin() + s64(k));
    completeBulk(*this, copy);
  }
  if (options.checks) {
    checkVisits(block, inst);
    for (size_t id = 0; id < block.barriers.size(); ++id)
      if (const NamedBarrier &b = block.barriers[id]; b.expected)
        report(Severity::Deviation, 2, &last, b.first, -1, "barrier", id,
               "the block exits while the barrier has " +
                   std::to_string(b.arrived) + " of " +
                   std::to_string(b.expected) +
                   " threads, all by bar.arrive; hardware takes it");
    for (const Mbarrier &m : block.mbarriers)
      if (m.live && m.bytes != 0)
        report(Severity::Error, 3, &last, m.lastExpect ? m.lastExpect : &inst,
               -1, "mbarrier", m.address,
               "the block exits while the mbarrier's phase lacks " +
                   std::to_string(m.bytes) + " bytes");
  }
  Grid &grid = *block.grid;
  // The next kernel's wait is for this grid alone: what ran before it is over
  // only if this grid has waited too.
  if (options.checks && grid.programmatic && !block.waitedForGrids)
    report(Severity::Error, 9, &last, &inst, -1, "grid", 0,
           "a programmatic launch's block exits, and none of its threads has "
           "waited for the kernels before (griddepcontrol.wait)");
  ++grid.finished;
  releaseDependents(block);
  if (gridWaiters)
    for (auto &other : blocks)
      for (Warp &warp : other->warps)
        if (warp.wait == Wait::Grid && previousGridsDone(*other->grid)) {
          --gridWaiters;
          wake(warp);
        }
  block.cluster->blocks[block.rank] = nullptr;
  block.cluster.reset();
  for (size_t k = 0; k < blocks.size(); ++k)
    if (blocks[k].get() == &block) {
      spare.push_back(std::move(blocks[k]));
      blocks.erase(blocks.begin() + s64(k));
      break;
    }
}

// Rule 13: all that other blocks did in this one's shared memory is over.
void Machine::checkVisits(Block &block, const Inst &inst) {
  for (const Visit &visit : block.visits) {
    bool ordered = false;
    for (const Warp &warp : block.warps)
      ordered |= warp.clocks.g.own[visit.agent] >= visit.count;
    if (!ordered)
      report(
          Severity::Error, 13, &block.warps.front(), &inst, -1, "cluster",
          block.rank,
          visit.issued
              ? "the block exits unordered with a bulk copy that it issued to "
                "another block of the cluster"
              : "the block exits unordered with an access to its shared "
                "memory by " +
                    block.agents.describe(visit.agent),
          visit.inst);
  }
}

} // namespace fa2::sim
