//===- Order.h - Release, acquire and polling on global memory -*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_ORDER_H
#define FA2_RUNTIME_SIM_ORDER_H

#include "Machine.h"

namespace fa2::sim {

/// A strong write: leaves the warp's clock (release) or its last fence's
/// (relaxed) at the words; a read-modify-write continues what is there.
void publish(Warp &warp, const Inst &inst, const u64 *addresses, u32 mask,
             bool rmw);
/// A strong read: an acquire takes the clocks left there, a relaxed one takes
/// them at the next fence.
void observe(Warp &warp, const Inst &inst, const u64 *addresses, u32 mask);
/// fence.acq_rel and stronger.
void fenceOrder(Warp &warp);
/// Rule 10: the same strong load gives the same value again and the warp did
/// nothing in between: park until global memory changes.
bool pollsAgain(Warp &warp, const Inst &inst, const u64 *addresses, u32 mask,
                u32 bytes);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_ORDER_H
