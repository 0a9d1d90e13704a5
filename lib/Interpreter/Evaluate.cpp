//===- Evaluate.cpp - the table of operations -----------------------------===//

#include "Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

/// Operations that pass a tile on, as one layout or place holds it, to another.
static void pass(Frame &frame, Operation *op) {
  frame.set(op->getResult(0), Datum(frame.tile(op->getOperand(0))));
}

static void give(Frame &frame, Operation *op, std::shared_ptr<Tile> tile) {
  frame.set(op->getResult(0), Datum(TileRef(tile)));
}

static void refuse(Frame &frame, Operation *op) {
  frame.fail() << "'" << op->getName()
               << "' has no meaning for the interpreter, which runs kernels of "
                  "tiles: stages from fa2-tile to fa2gpu-verify";
}

/// What orders threads and engines, or tells ptxas something: nothing here,
/// where one operation is over before the next one begins.
static bool isOrderOnly(Operation *op) {
  return isa<fa2::ReturnOp, fa2::YieldOp, scf::YieldOp, TileYieldOp,
             CopyCommitOp, CopyWaitOp, BarrierOp, WarpBarrierOp, GroupBarrierOp,
             DotFenceOp, ProxyFenceOp, StoreWaitOp, TensorMapPrefetchOp,
             TurnWaitOp, TurnPassOp, RingInitOp, ChainWaitOp, ChainPassOp>(op);
}

void interpreter::evaluate(Frame &frame, Operation *op) {
  if (isOrderOnly(op) || isa<RangeOfTiles>(op))
    return; // a range is the arithmetic before it
  auto load = dyn_cast<LocalLoadOp>(op);
  auto share = dyn_cast<ShareOp>(op);
  if (isa<TransposeOp>(op) || (load && load.getTransposed()) ||
      (share && share.getTransposed()))
    return give(frame, op, transposed(*frame.tile(op->getOperand(0))));
  if (isa<LocalLoadOp, ConvertLayoutOp, ShareOp, RelayOp>(op))
    return pass(frame, op);
  llvm::TypeSwitch<Operation *>(op)
      .Case<ForEachTileOp, ForTilesOp, scf::ForOp, scf::IfOp, RolesOp,
            TileLoopOp, WarpgroupOp, RoleBarrierOp,
            // Clusters.
            ClusterRankOp, fa2::ExchangeOp, fa2::gpu::ExchangeOp,
            // Ranges and masks.
            TileCountOp, TileAtOp, TilesUntilOp, TilesThroughOp, FullPlacesOp,
            ApplyMaskOp,
            // Tiles and global memory.
            arith::ConstantOp, memref::DimOp, tensor::SplatOp, SequenceOp,
            ViewOp, fa2::LoadOp, fa2::gpu::LoadOp, StoreOp, AccumulateOp,
            ResumeOp, AwaitTurnOp, ChangeTurnOp, BroadcastOp, GatherOp,
            SumRowsOp, AddRowsOp, ScaleRowsOp, DotOp, DotStartOp, DotWaitOp,
            JoinOp, LaneSumsOp,
            // The softmax.
            SoftmaxStepOp, SoftmaxRecomputeOp, SoftmaxFinishOp, NormalizerOp,
            SoftmaxSpeculateOp, SoftmaxRebaseOp, ExceedsOp, NeedsRescaleOp,
            CombineSplitsOp,
            // Score programs.
            PositionsOp, DistanceOp, ReadOp, ScatterOp, ZeroOp, ZeroBoxOp,
            RoundSumsOp, StoreSumsOp, KeepOp, AddUpOp,
            // Rings and copies.
            RingCreateOp, RingAcquireOp, RingCommitOp, RingWaitOp,
            RingReleaseOp, RingSlotOp, LocalStoreOp, CopyOp, CopyOutOp,
            TensorMapOp, TensorCopyOp, BulkCopyOp, PeerCopyOp, TensorStoreOp>(
          [&](auto known) { interpreter::run(frame, known); })
      .Default([&](Operation *other) {
        if (!evaluateElementwise(frame, other))
          refuse(frame, other);
      });
}
