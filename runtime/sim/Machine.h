//===- Machine.h - The state of a run --------------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_MACHINE_H
#define FA2_RUNTIME_SIM_MACHINE_H

#include "Clocks.h"
#include "GlobalMemory.h"
#include "SharedShadow.h"

#include <deque>
#include <unordered_map>

namespace fa2::sim {

struct Block;
class Machine;

/// Thrown to end a run: Result::error.
struct Fatal {
  std::string text;
};

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random {
  u64 state = 0;
  u64 next() {
    u64 z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  u32 below(u32 n) { return n ? u32((next() >> 32) * n >> 32) : 0; }
};

/// One entry of the reconvergence stack.
struct Frame {
  u32 pc = 0, reconverge = kNone, mask = 0;
};

enum class Wait : u8 {
  None,
  Barrier,
  Mbarrier,
  Cluster,
  Global,
  Registers,
  Grid,
  Done
};

/// A copy by cp.async that has not taken effect (PTX ISA 9.7.9.25.3).
struct PendingCopy {
  u32 shared = 0, bytes = 0, sourceBytes = 0;
  u64 global = 0;
  u32 group = 0;
};

/// A wgmma.mma_async that has not taken effect (PTX ISA 9.7.15.5).
struct PendingWgmma {
  const Inst *inst = nullptr;
  u32 group = 0;
  u64 descA = 0, descB = 0;
  bool accumulate = true, done = false;
};

/// A bulk copy in flight (PTX ISA 9.7.9.25.4, 9.7.9.25.5).
struct BulkCopy {
  enum Kind : u8 { TensorLoad, TensorStore, Load, Store, Exchange };
  Kind kind = Load;
  Warp *warp = nullptr;
  const Inst *inst = nullptr;
  /// Whose `shared` it is: the warp's block, but of loads and exchanges any of
  /// the cluster's.
  Block *block = nullptr;
  u32 shared = 0, bytes = 0;
  u32 from = 0; ///< exchanges: in the shared memory of the warp's block
  u64 global = 0;
  TensorMap map;
  s32 coords[5] = {};
  u32 mbarrier = 0;     ///< loads and exchanges: of `block`
  u32 group = 0;        ///< stores
  bool further = false; ///< a multicast, to another block than the first
  bool stores() const { return kind == Store || kind == TensorStore; }
};

struct Warp {
  Block *block = nullptr;
  Machine *machine = nullptr;
  u32 id = 0;
  u32 agent = 0; ///< block->agents.warp(id)
  u32 lanes = 0; ///< threads that exist and have not exited
  std::vector<Frame> stack;
  std::vector<u32> file;
  std::vector<u32> predicates;
  std::vector<u32> written; ///< by register
  /// Rule 6, by register: the wgmma group in flight << 2 | 1 for accumulators,
  /// | 2 for A fragments; 0 when free.
  std::vector<u32> flight;
  std::vector<u32> flying;  ///< registers that are not free
  std::vector<u32> touched; ///< fences + 1 at the last access by others
  u32 fences = 0;           ///< wgmma.fence so far
  std::vector<u8> local;    ///< 32 threads' local memory

  Wait wait = Wait::None;
  u64 waitOn = 0;    ///< mbarrier index, global address, ...
  u64 waitPhase = 0; ///< of the mbarrier, for rule 3
  u64 waitVersion = 0;
  const Inst *waitInst = nullptr;
  bool released = false; ///< from a named barrier
  u32 mbarrierWait = 0;  ///< index + 1 of the mbarrier waited for (rule 3)
  const Inst *mbarrierInst = nullptr;

  // Checks.
  u32 epoch = 1;
  Clocks clocks;
  u32 syncEpoch = 1; ///< accesses of other lanes before it are ordered
  u32 unsyncedWrites = 0, unsyncedReads = 0; ///< shared, by lane (rule 7)
  u32 unsyncedGlobal = 0;                    ///< global writes, by lane
  Clock fenced; ///< what a fence.acq_rel has made releasable
  bool hasFence = false;
  Clock observed; ///< what relaxed loads have seen, until a fence
  bool hasObserved = false;
  u32 pollPc = kNone; ///< rule 10: the last polling load
  u64 pollAddress = 0, pollValue = 0, pollWork = 0;
  u64 work = 0; ///< stores and barriers so far

  // The cluster.
  bool arrivedAtCluster = false; ///< by barrier.cluster.arrive, not yet waited
  u64 clusterPhase = 0;          ///< of the cluster's barrier, where it arrived
  bool metCluster = false;       ///< all its blocks have started
  bool storedToOthers = false;   ///< since the last release at cluster scope
  u32 initFence = 0;      ///< epoch at the last fence.mbarrier_init, 0: none
  std::vector<u32> inits; ///< by agent: what such fences make known

  // Asynchronous work.
  std::deque<PendingCopy> copies;
  u32 copyGroup = 1, copyWaited = 0; ///< group being filled; groups complete
  u32 copyOpen = 0;                  ///< copies in the group being filled
  u32 copyLast = 0;                  ///< the last group with copies
  u32 copySynced = 0;                ///< groups that all lanes see
  u32 copyLanes = 0;                 ///< lanes with copies not yet waited for
  // With Options::traceWaits.
  std::deque<std::pair<u32, u32>> copyCounts; ///< (group, copies) not complete
  u64 copiesComplete = 0, waitsSoFar = 0;
  std::deque<PendingWgmma> wgmmas;
  u32 wgmmaGroup = 1, wgmmaWaited = 0, wgmmaOpen = 0;
  u64 wgmmaSequence = 0; ///< .aligned instructions executed, for rule 6
  u32 bulkGroup = 1, bulkOpen = 0;
  u32 bulkReadWaited = 0, bulkWaited = 0;
  u32 bulkLanes = 0; ///< lanes with copies not yet waited for
  u32 bulkLast = 0;  ///< the last group with copies
  u32 registers = 0; ///< setmaxnreg: a thread's budget

  u32 pc() const { return stack.back().pc; }
  u32 *words(const Operand &op);
  u32 lanes32(const Operand &op, unsigned lane) { return words(op)[lane]; }
  u64 lane64(const Operand &op, unsigned lane) {
    return reinterpret_cast<u64 *>(words(op))[lane];
  }
  /// The value of an address-like operand, 32 or 64 bits wide.
  u64 laneValue(const Operand &op, unsigned lane) {
    return op.bytes == 8 ? lane64(op, lane) : words(op)[lane];
  }
  u32 predicate(const Operand &op) const {
    u32 mask = op.constant ? (op.value ? kFullMask : 0) : predicates[op.slot];
    return op.negated ? ~mask : mask;
  }
};

struct NamedBarrier {
  u32 expected = 0, arrived = 0; ///< threads; expected 0: idle
  u32 arrivedWarps = 0;
  std::vector<u32> waiters;
  Clocks clocks;
  const Inst *first = nullptr;
  s32 reduceAnd = -1, reduceOr = 0, reduceCount = 0;
};

struct Mbarrier {
  Block *block = nullptr;
  u32 address = 0, index = 0;
  bool live = false;
  u32 expected = 0, pending = 0;
  s64 bytes = 0;
  u32 phase = 1; ///< number of the phase in progress
  u32 initAgent = 0, initEpoch = 0;
  Clocks current, completed;
  const Inst *lastExpect = nullptr;
};

struct Grid;

/// Blocks that are started together and reach each other's shared memory (PTX
/// ISA 2.2.2); a launch without clusters has one block in each.
struct Cluster {
  u64 sequence = 0;            ///< of its first block
  std::vector<Block *> blocks; ///< by rank; null: has exited
  /// barrier.cluster: warps that have not exited, and those of them that have
  /// arrived in this phase.
  u32 warps = 0, arrived = 0;
  u64 phase = 0;
  Clocks current, completed;
  std::vector<u32> currentInits, inits; ///< by agent, of fence.mbarrier_init
};

/// The last access by an agent of another block to this block's shared memory.
struct Visit {
  u32 agent = 0, count = 0;
  const Inst *inst = nullptr;
  bool issued = false; ///< a copy to another block, by this one
};

struct Block {
  Machine *machine = nullptr;
  Grid *grid = nullptr;
  const Kernel *kernel = nullptr;
  const u32 *constants = nullptr; ///< the kernel's, as this rank sees them
  std::shared_ptr<Cluster> cluster;
  u32 rank = 0;              ///< in the cluster
  std::vector<Visit> visits; ///< one an agent
  u64 sequence = 0;          ///< over all launches of the run
  std::array<u32, 3> id{};
  u32 threads = 0;
  Agents agents;
  std::vector<u8> shared; ///< from address 0 on
  SharedShadow shadow;
  std::deque<Warp> warps;
  u32 liveWarps = 0;
  std::array<NamedBarrier, 16> barriers;
  std::vector<Mbarrier> mbarriers;
  u32 mbarriersFrom = ~0u, mbarriersEnd = 0; ///< where they lie
  u32 entryRegisters = 0, freeRegisters = 0; ///< rule 12; in warps' registers
  bool budgeted = false;
  std::vector<std::vector<u32>> wgmmaLines; ///< a warpgroup's sequence, rule 6
  bool launchedDependents = false, waitedForGrids = false; ///< rule 9

  Mbarrier *mbarrierAt(u32 address);
};

struct Grid {
  const Launch *launch = nullptr;
  const Module *program = nullptr;
  const Kernel *kernel = nullptr;
  u64 firstSequence = 0, total = 0, started = 0, finished = 0, released = 0;
  u64 watermark = 0;
  bool programmatic = false; ///< it may overlap with those before (rule 9)
  u32 clusterBlocks = 1;
  std::vector<u32> order; ///< of clusters
  /// The kernel's constants by rank, where addresses of shared memory differ.
  std::vector<std::vector<u32>> constants;
  u32 capacity = 1;                 ///< blocks that may be resident at once
  u32 resident = 1;                 ///< of this grid
  std::vector<LineProfile> profile; ///< by instruction
};

/// Runs one list of launches.
class Machine {
public:
  Machine(const std::vector<Launch> &launches,
          const std::vector<Region> &memory, const Options &options,
          Result &result);
  void run();

  const Options &options;
  Result &result;
  Random random;
  GlobalMemory global;
  u64 globalVersion = 1; ///< changes with every store to global memory
  std::deque<BulkCopy> bulk;

  /// Adds a report at an instruction; the same fault there is counted only.
  void report(Severity severity, unsigned rule, const Warp *warp,
              const Inst *inst, int lane, const char *space, u64 address,
              const std::string &text, const Inst *other = nullptr);
  void error(unsigned rule, const Warp &warp, const Inst &inst, int lane,
             const char *space, u64 address, const std::string &text) {
    report(Severity::Error, rule, &warp, &inst, lane, space, address, text);
  }
  [[noreturn]] void fatal(unsigned rule, const Warp &warp, const Inst &inst,
                          int lane, const char *space, u64 address,
                          const std::string &text);
  bool checks() const { return options.checks; }
  bool hasError() const;

  void wake(Warp &warp);
  void wakeMbarrier(Block &block, u32 index);
  void park(Warp &warp, Wait wait, u64 on, const Inst &inst);
  /// Rule 9: this block has launched its dependents.
  void releaseDependents(Block &block);
  bool previousGridsDone(const Grid &grid) const;
  LineProfile *profileOf(const Warp &warp, const Inst &inst);
  /// When does an async operation issued now take effect?
  bool completesNow();

private:
  void prepare(Grid &grid, const Launch &launch);
  void chooseOrder(Grid &grid);
  void startBlocks();
  void startCluster(Grid &grid);
  void startBlock(Grid &grid, const std::shared_ptr<Cluster> &cluster,
                  std::array<u32, 3> id);
  void startWarps(Block &block, u32 count);
  void execute(Warp &warp, u32 quantum);
  void branch(Warp &warp, const Inst &inst, u32 exec);
  bool exitLanes(Warp &warp, const Inst &inst, u32 exec);
  void finishWarp(Warp &warp, const Inst &inst);
  void finishBlock(Block &block, const Inst &inst);
  void checkVisits(Block &block, const Inst &inst);
  void checkSources(Warp &warp, const Inst &inst, u32 exec);
  void checkFlight(Warp &warp, const Inst &inst);
  void completeOne();
  void wakeGlobalWaiters();
  [[noreturn]] void deadlock();
  void finishRun();

  std::deque<Grid> grids;
  size_t openGrid = 0; ///< the first whose blocks have not all started
  u64 nextSequence = 0;
  std::deque<std::unique_ptr<Block>> blocks; ///< resident
  std::vector<std::unique_ptr<Block>> spare; ///< memory to use again
  std::vector<Warp *> ready;
  std::vector<Warp *> globalWaiters;
  u32 gridWaiters = 0;
  std::map<std::string, size_t> reportIndex;
};

/// Orders and epochs: ends the warp's epoch after its clocks were published.
void advanceEpoch(Warp &warp);
/// Rule 7: a release by `mask` lanes, of shared memory or of all memory.
void checkRelease(Warp &warp, const Inst &inst, u32 mask, bool global);
/// bar.warp.sync and every block barrier: all lanes see each other's accesses.
void warpSynchronized(Warp &warp, u32 mask);

/// Completes an async copy: moves its bytes and signals.
void completeBulk(Machine &machine, const BulkCopy &copy);
void completeBulkOf(Machine &machine, Warp &warp, u32 upToGroup);
void executeWgmma(Warp &warp, PendingWgmma &pending);
void executeCopies(Warp &warp, u32 upToGroup);
/// Ends the phase of the cluster's barrier when no warp is missing.
void finishClusterPhase(Machine &machine, Cluster &cluster);

inline u32 *Warp::words(const Operand &op) {
  return op.constant ? const_cast<u32 *>(block->constants) + op.slot
                     : file.data() + op.slot;
}

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_MACHINE_H
