//===- Evaluate.h - what each operation means -------------------*- C++ -*-===//
//
// One function an operation; Evaluate.cpp is the table of them. What an
// operation does is its description in the .td files.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_LIB_INTERPRETER_EVALUATE_H
#define FA2_LIB_INTERPRETER_EVALUATE_H

#include "Frame.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace fa2::interpreter {

/// Gives the results of `op`, and does what it does. Refuses, by name, an
/// operation that has no meaning here.
void evaluate(Frame &frame, mlir::Operation *op);

/// Elementwise operations on numbers, vectors and tiles. False: it is none.
bool evaluateElementwise(Frame &frame, mlir::Operation *op);

// Control.cpp
void run(Frame &, ForEachTileOp);
void run(Frame &, ForTilesOp);
void run(Frame &, mlir::scf::ForOp);
void run(Frame &, mlir::scf::IfOp);
void run(Frame &, gpu::RolesOp);
void run(Frame &, gpu::TileLoopOp);
void run(Frame &, gpu::WarpgroupOp);
void run(Frame &, gpu::RoleBarrierOp);

// Clusters.cpp
void run(Frame &, ClusterRankOp);
void run(Frame &, ExchangeOp);
void run(Frame &, gpu::ExchangeOp);

// Ranges.cpp
/// Puts the arithmetic of the kernel's ranges into it.
void expandRanges(KernelState &program);
int64_t countTiles(Frame &, mlir::Value range);
int64_t tileAt(Frame &, mlir::Value range, int64_t place);
void run(Frame &, TileCountOp);
void run(Frame &, TileAtOp);
void run(Frame &, TilesUntilOp);
void run(Frame &, TilesThroughOp);
void run(Frame &, FullPlacesOp);
void run(Frame &, ApplyMaskOp);

// Tiles.cpp
void run(Frame &, mlir::arith::ConstantOp);
void run(Frame &, mlir::memref::DimOp);
void run(Frame &, mlir::tensor::SplatOp);
void run(Frame &, SequenceOp);
void run(Frame &, ViewOp);
void run(Frame &, LoadOp);
void run(Frame &, gpu::LoadOp);
void run(Frame &, StoreOp);
void run(Frame &, AccumulateOp);
void run(Frame &, ResumeOp);
void run(Frame &, gpu::AwaitTurnOp);
void run(Frame &, gpu::ChangeTurnOp);
void run(Frame &, BroadcastOp);
void run(Frame &, GatherOp);
void run(Frame &, fa2::gpu::JoinOp);
void run(Frame &, SumRowsOp);
void run(Frame &, AddRowsOp);
void run(Frame &, fa2::gpu::LaneSumsOp);
void run(Frame &, ScaleRowsOp);
std::shared_ptr<Tile> loadTile(Frame &, const View &, int64_t row, mlir::Type);
void storeTile(Frame &, const View &, int64_t row, const Tile &, Part,
               bool adds = false);
/// Rows and columns changed.
std::shared_ptr<Tile> transposed(const Tile &);

// Dots.cpp
void run(Frame &, DotOp);
void run(Frame &, gpu::DotStartOp);
void run(Frame &, gpu::DotWaitOp);

// Softmax.cpp
void run(Frame &, SoftmaxStepOp);
void run(Frame &, SoftmaxRecomputeOp);
void run(Frame &, SoftmaxFinishOp);
void run(Frame &, gpu::NormalizerOp);
void run(Frame &, gpu::SoftmaxSpeculateOp);
void run(Frame &, gpu::SoftmaxRebaseOp);
void run(Frame &, gpu::ExceedsOp);
void run(Frame &, gpu::NeedsRescaleOp);
void run(Frame &, gpu::CombineSplitsOp);

// Scores.cpp
void run(Frame &, PositionsOp);
void run(Frame &, DistanceOp);
void run(Frame &, ReadOp);
void run(Frame &, ScatterOp);
void run(Frame &, ZeroOp);
void run(Frame &, ZeroBoxOp);
void run(Frame &, RoundSumsOp);
void run(Frame &, StoreSumsOp);
void run(Frame &, KeepOp);
void run(Frame &, AddUpOp);

// Rings.cpp
void run(Frame &, gpu::RingCreateOp);
void run(Frame &, gpu::RingAcquireOp);
void run(Frame &, gpu::RingCommitOp);
void run(Frame &, gpu::RingWaitOp);
void run(Frame &, gpu::RingReleaseOp);
void run(Frame &, gpu::RingSlotOp);
void run(Frame &, gpu::LocalStoreOp);
void run(Frame &, gpu::CopyOp);
void run(Frame &, gpu::CopyOutOp);
void run(Frame &, gpu::TensorMapOp);
void run(Frame &, gpu::TensorCopyOp);
void run(Frame &, gpu::BulkCopyOp);
void run(Frame &, gpu::PeerCopyOp);
void run(Frame &, gpu::TensorStoreOp);

} // namespace fa2::interpreter

#endif
