//===- FA2GPU.h - the fa2gpu dialect ----------------------------*- C++ -*-===//
//
// Tiles laid out over the warps of a block, rings of shared memory, matmuls
// that are started and waited for. The .td files say what each op means.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPU_H
#define FA2_DIALECT_FA2GPU_FA2GPU_H

#include "fa2/Dialect/FA2/FA2.h"
#include "fa2/Dialect/FA2GPU/Layout.h"

#include "fa2/Dialect/FA2GPU/FA2GPUDialect.h.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUEnums.h.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUTypes.h.inc"
#define GET_OP_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUOps.h.inc"

namespace fa2::gpu {
/// The shared-memory layout of a tile type with encoding #fa2gpu.shared.
SharedLayout sharedLayout(mlir::RankedTensorType tile);
/// `tile` with encoding #fa2gpu.shared, its columns as `parts` warps can split
/// them.
mlir::RankedTensorType sharedTile(mlir::RankedTensorType tile, int64_t parts);
/// Whether a tile loop draws the numbers of its tiles from the ring.
bool isQueue(RingCreateOp ring);
/// Bytes from one slot of a ring to the next, and of all its slots: what is
/// allocated, addressed and compared.
int64_t slotPitch(RingCreateOp ring);
int64_t ringBytes(RingCreateOp ring);
/// Bytes of a ring's mbarriers: full and empty for each part of each slot.
int64_t barrierBytes(RingCreateOp ring);
} // namespace fa2::gpu

#endif
