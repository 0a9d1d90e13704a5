//===- Machine.cpp - Blocks, warps, the scheduler -------------------------===//

#include "Machine.h"

namespace fa2::sim {

Mbarrier *Block::mbarrierAt(u32 address) {
  for (Mbarrier &m : mbarriers)
    if (m.live && m.address == address)
      return &m;
  return nullptr;
}

Machine::Machine(const std::vector<Launch> &launches,
                 const std::vector<Region> &memory, const Options &options,
                 Result &result)
    : options(options), result(result), global(memory) {
  random.state = options.seed * 0x2545f4914f6cdd1dull + 1;
  for (const Launch &launch : launches) {
    grids.emplace_back();
    prepare(grids.back(), launch);
  }
}

// Refuses what a device would refuse, by name.
void Machine::prepare(Grid &grid, const Launch &launch) {
  auto refuse = [&](const std::string &text) {
    throw Fatal{"launch of '" + launch.kernel + "': " + text};
  };
  if (!launch.program)
    refuse("there is no program");
  const Module &program = *launch.program;
  const Kernel *kernel = nullptr;
  for (const auto &k : program.kernels)
    if (k->info.name == launch.kernel)
      kernel = k.get();
  if (!kernel)
    refuse("the program has no kernel of that name");
  if (options.capability != 80 && options.capability != 90)
    refuse("capability " + std::to_string(options.capability) +
           " is not simulated; 80 and 90 are");
  if (program.capability > options.capability)
    refuse("compiled for sm_" + std::to_string(program.capability) +
           ", the device is sm_" + std::to_string(options.capability));
  u64 threads = 1, blockCount = 1;
  for (unsigned k = 0; k < 3; ++k) {
    if (launch.block[k] == 0 || launch.block[k] > 1024)
      refuse("block extent " + std::to_string(launch.block[k]) +
             " is not 1 to 1024");
    if (launch.grid[k] == 0 || launch.grid[k] > 0x7fffffffu)
      refuse("grid extent " + std::to_string(launch.grid[k]) +
             " is not 1 to 2^31-1");
    const auto &required = kernel->info.requiredBlock;
    if (required[0] && launch.block[k] != required[k])
      refuse("block differs from the kernel's .reqntid");
    threads *= launch.block[k];
    blockCount *= launch.grid[k];
    // Each is at most 8, so that the product is none too large.
    if (launch.cluster[k] == 0 || launch.cluster[k] > kMaxCluster)
      refuse("cluster extent " + std::to_string(launch.cluster[k]) +
             " is not 1 to " + std::to_string(kMaxCluster));
    grid.clusterBlocks *= launch.cluster[k];
    if (launch.grid[k] % launch.cluster[k])
      refuse("grid extent " + std::to_string(launch.grid[k]) +
             " is not a multiple of the cluster's " +
             std::to_string(launch.cluster[k]));
    const auto &cluster = kernel->info.requiredCluster;
    if (cluster[0] && launch.cluster[k] != cluster[k])
      refuse("cluster extent " + std::to_string(launch.cluster[k]) +
             " differs from the " + std::to_string(cluster[k]) +
             " of the kernel's .reqnctapercluster");
    if (blockCount > 1u << 24)
      refuse("more than 2^24 blocks are not simulated");
  }
  if (grid.clusterBlocks > kMaxCluster)
    refuse(std::to_string(grid.clusterBlocks) +
           " blocks a cluster; the limit is " + std::to_string(kMaxCluster));
  if (kernel->maxCluster && grid.clusterBlocks > kernel->maxCluster)
    refuse(std::to_string(grid.clusterBlocks) +
           " blocks a cluster; .maxclusterrank is " +
           std::to_string(kernel->maxCluster));
  if (grid.clusterBlocks > 1 && options.capability < 90)
    refuse("clusters need sm_90, the device is sm_" +
           std::to_string(options.capability));
  if (threads > 1024)
    refuse(std::to_string(threads) + " threads a block; the limit is 1024");
  if (kernel->info.maxThreads && threads > kernel->info.maxThreads)
    refuse(std::to_string(threads) + " threads a block; .maxntid is " +
           std::to_string(kernel->info.maxThreads));
  if (launch.parameters.size() != kernel->info.parameterBytes)
    refuse(std::to_string(launch.parameters.size()) +
           " bytes of parameters; the kernel takes " +
           std::to_string(kernel->info.parameterBytes));
  // CUDA C++ Programming Guide, compute capabilities: shared memory a block.
  u64 limit = options.capability >= 90 ? 232448 : 166912;
  u64 shared = u64(launch.dynamicSharedBytes) + kernel->staticShared;
  if (shared > limit)
    refuse(std::to_string(shared) + " bytes of shared memory; the limit is " +
           std::to_string(limit));
  grid.launch = &launch;
  grid.program = &program;
  grid.kernel = kernel;
  grid.total = blockCount;
  u64 processors = options.capability >= 90 ? 132 : 108;
  u64 perProcessor = std::min<u64>({2048 / ((threads + 31) / 32 * 32),
                                    (limit + 1024) / (shared + 1024), 32});
  u64 resident = options.residentBlocks
                     ? options.residentBlocks
                     : std::min<u64>(processors * perProcessor, 64);
  u32 together = grid.clusterBlocks;
  grid.capacity = u32(std::max<u64>(1, resident / together) * together);
  grid.resident = u32(std::min<u64>(grid.capacity, blockCount));
  for (u32 rank = 0; rank < together && together > 1; ++rank) {
    grid.constants.push_back(kernel->constants);
    for (auto [slot, bytes] : kernel->sharedConstants)
      for (u32 lane = 0; lane < kWarpSize; ++lane)
        grid.constants[rank][slot + lane * bytes / 4] += rank << kRankShift;
  }
  grid.order.resize(size_t(blockCount / together));
  for (u32 k = 0; k < grid.order.size(); ++k)
    grid.order[k] = k;
  // Seed 0 starts blocks in the order of their numbers. Blocks that may wait
  // for others wait for such as a device has started before: only those that
  // are resident together are in any order.
  if (options.seed) {
    u32 all = u32(grid.order.size());
    u32 window = kernel->listens ? grid.capacity / together : all;
    for (u32 first = 0; first < all; first += std::min(window, all - first))
      for (u32 k = std::min(window, all - first); k > 1; --k)
        std::swap(grid.order[first + k - 1],
                  grid.order[first + random.below(k)]);
  }
  if (options.profile)
    grid.profile.resize(kernel->code.size());
}

LineProfile *Machine::profileOf(const Warp &warp, const Inst &inst) {
  if (!options.profile)
    return nullptr;
  Block &block = *warp.block;
  return &block.grid->profile[size_t(&inst - block.kernel->code.data())];
}

bool Machine::completesNow() {
  return options.completion == Completion::Early ||
         (options.completion == Completion::Random && random.below(3) == 0);
}

void Machine::park(Warp &warp, Wait wait, u64 on, const Inst &inst) {
  warp.wait = wait;
  warp.waitOn = on;
  warp.waitInst = &inst;
  if (wait == Wait::Global) {
    warp.waitVersion = globalVersion;
    globalWaiters.push_back(&warp);
  }
  gridWaiters += wait == Wait::Grid;
}

void Machine::wake(Warp &warp) {
  if (warp.wait == Wait::None || warp.wait == Wait::Done)
    return;
  warp.wait = Wait::None;
  ready.push_back(&warp);
}

void Machine::wakeMbarrier(Block &block, u32 index) {
  for (Warp &warp : block.warps)
    if (warp.wait == Wait::Mbarrier && warp.waitOn == index)
      wake(warp);
}

void Machine::wakeGlobalWaiters() {
  for (size_t k = 0; k < globalWaiters.size();) {
    Warp *warp = globalWaiters[k];
    if (warp->wait == Wait::Global && warp->waitVersion == globalVersion) {
      ++k;
      continue;
    }
    globalWaiters[k] = globalWaiters.back();
    globalWaiters.pop_back();
    if (warp->wait == Wait::Global)
      wake(*warp);
  }
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
  while (block.warps.size() > warps)
    block.warps.pop_back();
  while (block.warps.size() < warps)
    block.warps.emplace_back();
  for (u32 k = 0; k < warps; ++k) {
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
    fresh.clocks.g.watermark = fresh.clocks.a.watermark = grid.watermark;
    fresh.registers = block.entryRegisters;
    old = std::move(fresh);
    ready.push_back(&old);
  }
  if (options.profile)
    ++result.profile.blocks;
  blocks.push_back(std::move(owner));
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

void Machine::completeOne() {
  size_t k = random.below(u32(bulk.size()));
  BulkCopy copy = bulk[k];
  bulk.erase(bulk.begin() + s64(k));
  completeBulk(*this, copy);
}

void Machine::run() {
  for (;;) {
    startBlocks();
    if (!globalWaiters.empty())
      wakeGlobalWaiters();
    if (!bulk.empty() &&
        (ready.empty() ||
         (options.completion == Completion::Random && random.below(4) == 0))) {
      completeOne();
      continue;
    }
    if (ready.empty()) {
      if (openGrid + 1 >= grids.size() && blocks.empty())
        break;
      deadlock();
    }
    size_t k = random.below(u32(ready.size()));
    Warp *warp = ready[k];
    execute(*warp, 1 + random.below(48));
    if (warp->wait != Wait::None) {
      // Handlers may have woken others: find the warp again.
      k = k < ready.size() && ready[k] == warp
              ? k
              : size_t(std::find(ready.begin(), ready.end(), warp) -
                       ready.begin());
      ready[k] = ready.back();
      ready.pop_back();
    }
    if (warp->wait == Wait::Done && warp->block->liveWarps == 0)
      finishBlock(*warp->block, *warp->waitInst);
  }
  finishRun();
}

void Machine::checkSources(Warp &w, const Inst &inst, u32 exec) {
  for (unsigned k = 0; k < inst.numOps; ++k) {
    const Operand &op = inst.ops[k];
    if (op.reg == kNone || op.role != Role::Source)
      continue;
    u32 missing = exec & ~w.written[op.reg];
    if (missing == 0)
      continue;
    error(11, w, inst, std::countr_zero(missing), "register", op.reg,
          "register '" + w.block->kernel->registerNames[op.reg] +
              "' was never written");
    w.written[op.reg] |= exec;
  }
}

// Rule 6: wgmma's registers between issue and wait.
void Machine::checkFlight(Warp &w, const Inst &inst) {
  bool wgmma = inst.category == Category::TensorCore && inst.c;
  for (unsigned k = 0; k < inst.numOps; ++k) {
    const Operand &op = inst.ops[k];
    if (op.reg == kNone || op.constant)
      continue;
    u32 state = w.flight[op.reg];
    if (!wgmma)
      w.touched[op.reg] = w.fences + 1;
    if (!state || wgmma)
      continue;
    bool accumulator = state & 1;
    if (accumulator || op.role == Role::Destination)
      error(6, w, inst, -1, "register", op.reg,
            "register '" + w.block->kernel->registerNames[op.reg] +
                "' is in use by wgmma group " + std::to_string(state >> 2) +
                ", which has not been waited for");
    else
      report(Severity::Warning, 6, &w, &inst, -1, "register", op.reg,
             "register '" + w.block->kernel->registerNames[op.reg] +
                 "', an A fragment of a wgmma in flight, is read");
  }
}

void Machine::execute(Warp &w, u32 quantum) {
  const Kernel &kernel = *w.block->kernel;
  const Inst *code = kernel.code.data();
  const bool checking = options.checks, wgmma = kernel.usesWgmma;
  for (; quantum; --quantum) {
    while (w.stack.back().pc == w.stack.back().reconverge)
      w.stack.pop_back();
    Frame &frame = w.stack.back();
    const Inst &inst = code[frame.pc];
    u32 exec = frame.mask;
    if (inst.guard != kNone) {
      if (checking)
        if (u32 missing = exec & ~w.written[inst.guardReg]) {
          error(11, w, inst, std::countr_zero(missing), "register",
                inst.guardReg,
                "guard '" + kernel.registerNames[inst.guardReg] +
                    "' was never written");
          w.written[inst.guardReg] |= missing;
        }
      u32 p = w.predicates[inst.guard];
      exec &= inst.guardNegated ? ~p : p;
    }
    if (++result.warpInstructions > options.instructionBudget &&
        options.instructionBudget)
      throw Fatal{"instruction budget of " +
                  std::to_string(options.instructionBudget) +
                  " warp instructions is used up; last was line " +
                  std::to_string(inst.line) + " of '" + kernel.info.name + "'"};
    if (inst.isBranch) {
      if (LineProfile *line = profileOf(w, inst)) {
        ++line->executions;
        line->threads += u64(std::popcount(exec));
      }
      if (inst.target == kNone) {
        if (exitLanes(w, inst, exec))
          return;
      } else {
        branch(w, inst, exec);
      }
      continue;
    }
    if (exec) {
      if (checking) {
        checkSources(w, inst, exec);
        if (wgmma)
          checkFlight(w, inst);
      }
      if (inst.fn(w, inst, exec) == Flow::Stay) {
        --result.warpInstructions;
        if (w.wait == Wait::None)
          continue;
        return;
      }
      if (checking)
        for (unsigned k = 0; k < inst.numOps; ++k)
          if (inst.ops[k].role == Role::Destination && inst.ops[k].reg != kNone)
            w.written[inst.ops[k].reg] |= exec;
    }
    if (LineProfile *line = profileOf(w, inst)) {
      ++line->executions;
      line->threads += u64(std::popcount(exec));
    }
    ++w.stack.back().pc;
    if (inst.sync && random.below(2))
      return;
  }
}

// The frame under the two sides continues, with all their lanes, at the
// post-dominator. A side that starts there needs no frame; a frame that would
// continue where its parent does is replaced, so loops do not grow the stack.
void Machine::branch(Warp &w, const Inst &inst, u32 exec) {
  Frame &frame = w.stack.back();
  u32 other = frame.mask & ~exec, next = frame.pc + 1;
  if (other == 0) {
    frame.pc = inst.target;
    return;
  }
  if (exec == 0) {
    frame.pc = next;
    return;
  }
  u32 join = inst.reconverge;
  if (join == frame.reconverge)
    w.stack.pop_back();
  else if (join == kNone)
    w.stack.pop_back(); // they meet at the exit only
  else
    frame.pc = join;
  bool takenFirst = random.below(2);
  Frame sides[2] = {{inst.target, join, exec}, {next, join, other}};
  for (unsigned k = 0; k < 2; ++k) {
    const Frame &side = sides[takenFirst ? 1 - k : k];
    if (side.pc != join || w.stack.empty())
      w.stack.push_back(side);
  }
}

// ret and exit (9.7.12.7, 9.7.12.8): true when the warp is over.
bool Machine::exitLanes(Warp &w, const Inst &inst, u32 exec) {
  if (exec == 0) {
    ++w.stack.back().pc;
    return false;
  }
  ++w.stack.back().pc;
  w.lanes &= ~exec;
  for (Frame &frame : w.stack)
    frame.mask &= ~exec;
  std::erase_if(w.stack, [](const Frame &f) { return f.mask == 0; });
  if (!w.stack.empty())
    return false;
  finishWarp(w, inst);
  return true;
}

void Machine::finishWarp(Warp &w, const Inst &inst) {
  w.wait = Wait::Done;
  w.waitInst = &inst;
  --w.block->liveWarps;
  Cluster &cluster = *w.block->cluster;
  --cluster.warps;
  if (w.arrivedAtCluster && w.clusterPhase == cluster.phase)
    --cluster.arrived;
  finishClusterPhase(*this, cluster);
  if (options.checks) {
    if (w.copyLast > w.copyWaited)
      error(4, w, inst, -1, "shared", 0,
            "exit with a cp.async group that was never waited for");
    if (!w.wgmmas.empty())
      error(4, w, inst, -1, "register", 0,
            "exit with a wgmma group that was never waited for");
    if (w.bulkLast > w.bulkReadWaited)
      error(4, w, inst, -1, "shared", 0,
            "exit with a bulk copy that may still read shared memory");
  }
  executeCopies(w, ~0u);
  completeBulkOf(*this, w, ~0u);
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

// Nothing can run and nothing is in flight (rule 10).
void Machine::deadlock() {
  std::string text = "deadlock: no warp can continue and nothing is in flight";
  unsigned shown = 0;
  for (auto &owner : blocks)
    for (Warp &w : owner->warps) {
      if (w.wait == Wait::None || w.wait == Wait::Done)
        continue;
      std::string what;
      Block &b = *owner;
      switch (w.wait) {
      case Wait::Barrier: {
        const NamedBarrier &barrier = b.barriers[w.waitOn];
        what = "barrier " + std::to_string(w.waitOn) + ", which has " +
               std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.expected) + " threads";
        break;
      }
      case Wait::Mbarrier: {
        const Mbarrier &m = b.mbarriers[w.waitOn];
        what = "mbarrier at " + std::to_string(m.address) + ", phase " +
               std::to_string(m.phase) + ", which lacks " +
               std::to_string(m.pending) + " of " + std::to_string(m.expected) +
               " arrivals and " + std::to_string(m.bytes) + " bytes";
        break;
      }
      case Wait::Cluster:
        what = "the cluster's barrier, to which " +
               std::to_string(b.cluster->arrived) + " of " +
               std::to_string(b.cluster->warps) + " warps have come";
        break;
      case Wait::Global:
        what = "global memory at " + std::to_string(w.waitOn) + " to change";
        break;
      case Wait::Registers:
        what = std::to_string(w.waitOn) + " registers a thread; " +
               std::to_string(b.freeRegisters) + " are free";
        break;
      default:
        what = "the grids before";
      }
      unsigned rule = w.wait == Wait::Registers ? 12 : 10;
      report(Severity::Error, rule, &w, w.waitInst, -1, "warp", w.waitOn,
             "waits for ever for " + what);
      if (++shown <= 8)
        text += "\n  block " + std::to_string(b.id[0]) + "," +
                std::to_string(b.id[1]) + "," + std::to_string(b.id[2]) +
                " warp " + std::to_string(w.id) + ", line " +
                std::to_string(w.waitInst->line) + ": waits for " + what;
    }
  if (shown > 8)
    text += "\n  and " + std::to_string(shown - 8) + " more warps";
  throw Fatal{text};
}

Result run(const std::vector<Launch> &launches,
           const std::vector<Region> &memory, const Options &options) {
  Result result;
  try {
    Machine machine(launches, memory, options, result);
    machine.run();
  } catch (const Fatal &fatal) {
    result.error = fatal.text;
  } catch (const std::bad_alloc &) {
    result.error = "not enough host memory for the simulation";
    result.outOfMemory = true;
  }
  return result;
}

} // namespace fa2::sim
