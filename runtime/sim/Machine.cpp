//===- Machine.cpp - Warps and their scheduler ----------------------------===//

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

/// What a warp that waits waits for.
static std::string describeWait(const Warp &w) {
  const Block &b = *w.block;
  switch (w.wait) {
  case Wait::Barrier: {
    const NamedBarrier &barrier = b.barriers[w.waitOn];
    return "barrier " + std::to_string(w.waitOn) + ", which has " +
           std::to_string(barrier.arrived) + " of " +
           std::to_string(barrier.expected) + " threads";
  }
  case Wait::Mbarrier: {
    const Mbarrier &m = b.mbarriers[w.waitOn];
    return "mbarrier at " + std::to_string(m.address) + ", phase " +
           std::to_string(m.phase) + ", which lacks " +
           std::to_string(m.pending) + " of " + std::to_string(m.expected) +
           " arrivals and " + std::to_string(m.bytes) + " bytes";
  }
  case Wait::Cluster:
    return "the cluster's barrier, to which " +
           std::to_string(b.cluster->arrived) + " of " +
           std::to_string(b.cluster->warps) + " warps have come";
  case Wait::Global:
    return "global memory at " + std::to_string(w.waitOn) + " to change";
  case Wait::Registers:
    return std::to_string(w.waitOn) + " registers a thread; " +
           std::to_string(b.freeRegisters) + " are free";
  default:
    return "the grids before";
  }
}

// Nothing can run and nothing is in flight (rule 10).
void Machine::deadlock() {
  std::string text = "deadlock: no warp can continue and nothing is in flight";
  unsigned shown = 0;
  for (auto &block : blocks)
    for (Warp &w : block->warps) {
      if (w.wait == Wait::None || w.wait == Wait::Done)
        continue;
      std::string what = describeWait(w);
      unsigned rule = w.wait == Wait::Registers ? 12 : 10;
      report(Severity::Error, rule, &w, w.waitInst, -1, "warp", w.waitOn,
             "waits for ever for " + what);
      if (++shown <= 8)
        text += "\n  block " + std::to_string(block->id[0]) + "," +
                std::to_string(block->id[1]) + "," +
                std::to_string(block->id[2]) + " warp " + std::to_string(w.id) +
                ", line " + std::to_string(w.waitInst->line) + ": waits for " +
                what;
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
