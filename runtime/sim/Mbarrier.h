//===- Mbarrier.h - mbarrier objects ---------------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_MBARRIER_H
#define FA2_RUNTIME_SIM_MBARRIER_H

#include "Machine.h"

namespace fa2::sim {

/// The live mbarrier at an address of the block's own shared memory, or of
/// shared::cluster; ends the run when there is none.
Mbarrier &liveMbarrier(Warp &warp, const Inst &inst, int lane, u64 address,
                       Space space = Space::Shared);
/// That of a block, at an offset.
Mbarrier &liveMbarrierOf(Warp &warp, const Inst &inst, int lane, Block &block,
                         u64 offset);
/// Ends the phase when nothing is pending.
void finishPhase(Mbarrier &mbarrier);
/// complete_tx: an async copy has brought its bytes.
void completeBytes(Mbarrier &mbarrier, u32 bytes);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_MBARRIER_H
