//===- CopyStages.h - copies of the next tiles ------------------*- C++ -*-===//
#ifndef FA2_LOOPS_COPYSTAGES_H
#define FA2_LOOPS_COPYSTAGES_H

#include "fa2/Loops/ExpandLoop.h"

namespace fa2::gpu {

/// The stages of a loop whose threads copy tiles (fa2gpu.copy) as far ahead as
/// its rings have slots; none where it copies none.
LoopStages stagesOfCopies(mlir::scf::ForOp loop);

} // namespace fa2::gpu

#endif
