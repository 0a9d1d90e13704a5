//===- Work.h - what an operation on tiles asks of a unit -------*- C++ -*-===//
#ifndef FA2_LIB_LOOPS_WORK_H
#define FA2_LIB_LOOPS_WORK_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/Schedule/Modulo.h"
#include "fa2/Target/Rates.h"

namespace fa2::gpu {

/// Clocks of the unit that it keeps busiest, of a warpgroup that has the
/// multiprocessor for itself.
struct Work {
  modulo::Resource resource = modulo::Resource::Nothing;
  int64_t clocks = 0;
};

/// By the kind of the operation and the type of its tile. What takes next to
/// nothing beside tiles, such as numbers and uses of rings, is nothing.
Work workOf(mlir::Operation *op, const Rates &rates);

/// Registers of a thread that hold a tile; 0 for what is in shared memory.
int64_t registersOf(mlir::Type type);

} // namespace fa2::gpu

#endif
