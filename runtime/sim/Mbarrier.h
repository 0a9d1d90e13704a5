//===- Mbarrier.h - mbarrier objects ---------------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_MBARRIER_H
#define FA2_RUNTIME_SIM_MBARRIER_H

#include "Machine.h"

namespace fa2::sim {

/// The live mbarrier at a shared address; ends the run when there is none.
Mbarrier &liveMbarrier(Warp &warp, const Inst &inst, int lane, u64 address);
/// Ends the phase when nothing is pending.
void finishPhase(Block &block, Mbarrier &mbarrier);
/// complete_tx: an async copy has brought its bytes.
void completeBytes(Block &block, u32 index, u32 bytes);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_MBARRIER_H
