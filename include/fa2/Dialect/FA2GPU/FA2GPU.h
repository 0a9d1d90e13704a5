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

namespace fa2::gpu {
/// Warps of a warpgroup: they have registers and matmuls together.
constexpr int64_t kGroupWarps = 4;
/// A kernel's plan, and the role that an operation is part of.
constexpr llvm::StringLiteral kPlanName = "fa2gpu.plan",
                              kRoleName = "fa2gpu.role";
/// Rings of what warps, and blocks of a cluster, give each other.
constexpr llvm::StringLiteral kExchangeRing = "exchange", kPeerRing = "peer",
                              kTurnRing = "turns", kAddedRing = "added";
/// Roles that look for turns at a sum, and that pass them on, for one that
/// adds.
constexpr llvm::StringLiteral kLooksRole = "looks", kPassesRole = "passes";
/// The role that computes what products of scores begin with, and the ring
/// through which it gives that to others.
constexpr llvm::StringLiteral kTermsRole = "terms", kTermsRing = "terms";
/// The region of the workspace from which persistent blocks draw their tiles.
constexpr llvm::StringLiteral kTileCounters = "tile_counters";
/// The order in which a loop's products start (#fa2gpu.order).
constexpr llvm::StringLiteral kOrderName = "fa2gpu.order";
/// An operation that computes once more what would else be kept in registers.
constexpr llvm::StringLiteral kAgainName = "fa2gpu.again";
/// Marks an operation whose places follow from the thread's number, which it
/// reads anew, so that no register keeps them through loops around it.
constexpr llvm::StringLiteral kThreadAnewName = "fa2gpu.thread_anew";
} // namespace fa2::gpu

#define GET_OP_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUOps.h.inc"

namespace fa2::gpu {
/// The shared-memory layout of a tile type with encoding #fa2gpu.shared.
SharedLayout sharedLayout(mlir::RankedTensorType tile);
/// `tile` with encoding #fa2gpu.shared, its columns as `parts` warps can split
/// them.
mlir::RankedTensorType sharedTile(mlir::RankedTensorType tile, int64_t parts,
                                  int64_t panel = 0);
/// Whether a tile loop draws the numbers of its tiles from the ring.
bool isQueue(RingCreateOp ring);
/// Bytes from one slot of a ring to the next, and of all its slots: what is
/// allocated, addressed and compared.
int64_t slotPitch(RingCreateOp ring);
int64_t ringBytes(RingCreateOp ring);
/// Bytes of a ring's mbarriers: full and empty for each part of each slot.
int64_t barrierBytes(RingCreateOp ring);
/// Whether roles wait for uses of the ring, at mbarriers of its own.
bool isWaitedFor(mlir::Value ring);
/// Arrivals that end a phase of a ring's mbarriers: of warps that release a
/// slot, or its part, of all blocks that draw their tiles together for a queue;
/// of warps that fill it, or of the one thread whose copies do.
struct RingArrivals {
  int64_t consumers, fillers;
};
RingArrivals arrivalsOf(mlir::Value ring, RolesOp roles);
/// Where a copy by the engine says which use its arrival completes; null for
/// other operations. Its ring is the operand before.
mlir::OpOperand *signalledUse(mlir::Operation *op);
inline mlir::Value signalledRing(mlir::OpOperand &use) {
  return use.getOwner()->getOperand(use.getOperandNumber() - 1);
}
/// Whether the copy engine fills the ring's slots; else threads write them.
bool isCopied(mlir::Value ring);
/// Whether the cluster's other block fills the ring, and this one that block's.
bool isPeer(mlir::Value ring);
/// The copies that bring tiles of this ring to the other block.
llvm::SmallVector<PeerCopyOp> copiesToPeers(mlir::Value ring);
/// The rings of the other block into which tiles of this ring are copied.
llvm::SmallVector<mlir::Value> sentInto(mlir::Value ring);
/// Whether the copy engine or matmuls that read shared memory by themselves
/// read the ring.
bool isReadByEngines(mlir::Value ring);
/// Whether whoever copies into the ring fences what lanes have read of its
/// slots.
bool copiesFence(mlir::Value ring);
/// Why a ring of vectors may not have the mbarriers of `tiles`; empty where it
/// may.
std::string whyNotShared(mlir::Value vectors, RingCreateOp tiles);
/// Why a role must wait for a use itself; empty where it reads the tile only
/// beside what another role made of it, which has waited.
std::string whyNotImplied(RingWaitOp wait);
/// The releases, in the role of a wait, of its ring.
llvm::SmallVector<RingReleaseOp> releasesOf(RingWaitOp wait);
/// The rings that share a ring's mbarriers.
llvm::SmallVector<RingCreateOp> sharersOf(mlir::Value ring);
/// Whether a ring has the mbarriers of another.
bool sharesBarriers(mlir::Value ring);
/// Whether one thread does `op`, or all of a program but arithmetic.
bool isOneThreads(mlir::Operation *op);
bool isOneThreads(mlir::Region &program);
} // namespace fa2::gpu

#endif
