//===- Clocks.h - Vector clocks --------------------------------*- C++ -*-===//
//
// Agents of a block (simulator-rules.md, 1): each warp; per warp its
// cp.async groups, bulk reads, wgmma groups and bulk writes; each mbarrier's
// phases. The blocks of a cluster number their agents one block after the
// other, and their clocks know all of them. A stamp is (agent, count); a clock
// says for each agent up to which count everything is ordered before its owner.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_CLOCKS_H
#define FA2_RUNTIME_SIM_CLOCKS_H

#include "Isa.h"

#include <algorithm>

namespace fa2::sim {

constexpr unsigned kMaxMbarriers = 96;
constexpr unsigned kMaxCluster = 8; ///< blocks; what every device can launch

/// The numbering of one block's agents, among those of its cluster.
struct Agents {
  u32 warps = 0;
  u32 rank = 0, blocks = 1; ///< of the cluster
  u32 perBlock() const { return 5 * warps + kMaxMbarriers; }
  u32 base() const { return rank * perBlock(); }
  u32 warp(u32 w) const { return base() + w; }
  u32 copies(u32 w) const { return base() + warps + w; }
  u32 bulkReads(u32 w) const { return base() + 2 * warps + w; }
  u32 wgmma(u32 w) const { return base() + 3 * warps + w; }
  u32 bulkWrites(u32 w) const { return base() + 4 * warps + w; }
  u32 mbarrier(u32 m) const { return base() + 5 * warps + m; }
  u32 count() const { return blocks * perBlock(); }
  /// The number that the agent has in its own block.
  u32 local(u32 agent) const {
    return blocks == 1 ? agent : agent % perBlock();
  }
  /// The cp.async groups of the warp whose agent this is.
  u32 copiesOf(u32 warp) const { return warp + warps; }
  bool isCopies(u32 agent) const {
    agent = local(agent);
    return agent >= warps && agent < 2 * warps;
  }
  /// Accesses through the async proxy; cp.async is generic (rule 5).
  bool isAsyncProxy(u32 agent) const { return local(agent) >= 2 * warps; }
  std::string describe(u32 agent) const;
};

/// An agent of any block of the run: the sequence number of its cluster's first
/// block, and the agent, of which there are at most 8 * 256.
using GlobalAgent = u64;
constexpr GlobalAgent globalAgent(u64 block, u32 agent) {
  return block << 12 | agent;
}

/// What is known of other clusters: sorted by agent.
using Foreign = std::vector<std::pair<GlobalAgent, u32>>;

struct Clock {
  std::vector<u32> own;                   ///< by agent of this cluster
  std::shared_ptr<const Foreign> foreign; ///< null: nothing
  u64 watermark = 0; ///< every block with a smaller sequence number is over

  void resize(u32 agents) { own.assign(agents, 0); }
  void clear();
  void join(const Clock &other);
  void joinForeign(const std::shared_ptr<const Foreign> &other);
  u32 of(GlobalAgent agent, u64 block) const;
  bool covers(GlobalAgent agent, u32 count, u64 block) const {
    return agent >> 12 < watermark || of(agent, block) >= count;
  }
};

/// Both clocks of a warp, a barrier or a phase: G is what is ordered before,
/// A what is also fenced to the async proxy.
struct Clocks {
  Clock g, a;
  void resize(u32 agents) {
    g.resize(agents);
    a.resize(agents);
  }
  void clear() {
    g.clear();
    a.clear();
  }
  void join(const Clocks &other) {
    g.join(other.g);
    a.join(other.a);
  }
};

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_CLOCKS_H
