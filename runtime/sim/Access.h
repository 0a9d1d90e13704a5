//===- Access.h - Checked accesses to memory -------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_ACCESS_H
#define FA2_RUNTIME_SIM_ACCESS_H

#include "Machine.h"

namespace fa2::sim {

/// What an access is, for bounds, races, uninitialised reads and the profile.
struct AccessKind {
  bool write = false;
  bool atomic = false;     ///< a read-modify-write
  bool strong = false;     ///< relaxed or stronger (global memory)
  bool rmwFloat = false;   ///< f32 addition (rule 8)
  bool collective = false; ///< a lane's address serves the whole warp
  bool record = true;      ///< false: bounds only
  bool readOnly = false;   ///< ld.global.nc
};

/// The offset that a shared::cta address has in the warp's own shared memory.
/// Ends the run when it is another block's (rule 13).
u64 ownOffset(Warp &warp, const Inst &inst, int lane, u64 address);
/// The block of the cluster in whose shared memory a shared::cluster address
/// lies; `address` becomes the offset. Ends the run when there is no
/// such block or it has exited (rule 13).
Block &ownerOf(Warp &warp, const Inst &inst, int lane, u64 &address);
/// What is to be over when a block exits (rule 13): an access to its shared
/// memory by an agent of another block, or a copy to another that it `issued`.
void noteVisit(Block &block, const Inst &inst, u32 agent, u32 count,
               bool issued = false);

/// Accesses to the shared memory of the warp's own block, or of `owner`, by the
/// warp's own lanes: bounds, alignment, mbarrier words, races. Ends the run
/// when out of bounds.
void checkShared(Warp &warp, const Inst &inst, u32 mask, const u32 *addresses,
                 u32 bytes, AccessKind kind, Block *owner = nullptr);
/// The same for a single range, stamped with another agent: async copies and
/// wgmma (rules 4 and 5).
void checkSharedAs(Warp &warp, const Inst &inst, u32 agent, u32 count,
                   u32 address, u32 bytes, bool write, int lane = -1,
                   Block *owner = nullptr);
/// Bounds of shared memory only.
void boundShared(Warp &warp, const Inst &inst, int lane, u64 address, u32 bytes,
                 const Block *owner = nullptr);

void checkGlobal(Warp &warp, const Inst &inst, u32 mask, const u64 *addresses,
                 u32 bytes, AccessKind kind);
void checkGlobalAs(Warp &warp, const Inst &inst, int lane, u32 agent, u32 count,
                   u64 address, u32 bytes, AccessKind kind);

/// Cycles beyond the fewest that 32 banks need for these accesses.
u32 bankConflicts(u32 mask, const u32 *addresses, u32 bytes);
void profileShared(Warp &warp, const Inst &inst, u32 mask, const u32 *addresses,
                   u32 bytes, bool write);
void profileGlobal(Warp &warp, const Inst &inst, u32 mask, const u64 *addresses,
                   u32 bytes, bool write);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_ACCESS_H
