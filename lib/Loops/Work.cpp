//===- Work.cpp - what an operation on tiles asks of a unit ---------------===//

#include "Work.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using modulo::Resource;

namespace {
/// Instructions of a thread for each element that it has, as the lowering
/// writes them: exponentials (or what else takes their unit) and others, and
/// bytes that it brings to shared memory or from there.
struct Cost {
  double exponentials = 0, instructions = 0, bytes = 0;
};
} // namespace

static constexpr int64_t kGroupThreads = kGroupWarps * kWarpLanes;

static int64_t bitsOf(RankedTensorType type) {
  return type.getElementType().getIntOrFloatBitWidth();
}

/// Elements that a thread has of a tile in registers.
static int64_t elementsOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (auto inFlight = dyn_cast<InFlightType>(type))
    tile = inFlight.getTile();
  // Positions are numbers of rows and columns, not a tile of them.
  if (!tile || !tile.getEncoding() || !tile.getElementType().isIntOrFloat())
    return 0;
  if (auto layout = dyn_cast<DistributedLayoutAttr>(tile.getEncoding()))
    return layout.tileLayout(tile.getShape()).numRegs();
  if (auto row = dyn_cast<RowAttr>(tile.getEncoding()))
    return row.getAcc().tileLayout({tile.getDimSize(0), 8}).numRowSlots();
  return 0;
}

int64_t fa2::gpu::registersOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (auto inFlight = dyn_cast<InFlightType>(type))
    tile = inFlight.getTile();
  int64_t elements = elementsOf(type);
  return elements ? (elements * bitsOf(tile) + 31) / 32 : 0;
}

/// Half of what an instruction of two elements costs is each one's.
static Cost costOf(Operation *op) {
  constexpr double kPair = 0.5;
  return llvm::TypeSwitch<Operation *, Cost>(op)
      // The score is compared, scaled and subtracted in one, and summed.
      .Case([](SoftmaxStepOp) {
        return Cost{1, 3, 0};
      })
      .Case([](SoftmaxRecomputeOp) {
        return Cost{1, 1, 0};
      })
      // By need, which is almost never.
      .Case([](ScaleRowsOp scale) {
        return Cost{0, scale.getSkipUnit() ? 0.0 : 1.0, 0};
      })
      .Case([](BroadcastOp) {
        return Cost{0, 1, 0};
      })
      .Case<math::ExpOp, math::Exp2Op, math::TanhOp>([](Operation *) {
        return Cost{1, 1, 0};
      })
      // Philox for half of what a call gives.
      .Case([](KeepOp) {
        return Cost{0, 9, 0};
      })
      .Case([](arith::DivFOp) {
        return Cost{1, 3, 0};
      })
      .Case<arith::TruncFOp, arith::ExtFOp>([=](Operation *) {
        return Cost{0, kPair, 0};
      })
      .Case<ReadOp, fa2::LoadOp, fa2::gpu::LoadOp>([](Operation *) {
        return Cost{0, 1, 4};
      })
      // Lanes meet in banks.
      .Case([](GatherOp) {
        return Cost{0, 1, 8};
      })
      .Case<LocalLoadOp, LocalStoreOp>([](Operation *) {
        return Cost{0, 0, 2};
      })
      .Case([](AccumulateOp) {
        return Cost{0, 0, 4};
      })
      // Masks are not for the tiles that most iterations take.
      .Case<ApplyMaskOp, ConvertLayoutOp, DotWaitOp, ResumeOp,
            arith::ConstantOp, tensor::SplatOp>(
          [](Operation *) { return Cost(); })
      .Default([](Operation *other) {
        bool onTiles = other->getNumResults() == 1 &&
                       other->getNumRegions() == 0 &&
                       elementsOf(other->getResult(0).getType()) > 0;
        return Cost{0, onTiles ? 1.0 : 0.0, 0};
      });
}

static Work productOf(DotStartOp dot, const Rates &rates) {
  RankedTensorType d = dot.getD().getType().getTile();
  auto b = cast<RankedTensorType>(dot.getB().getType());
  int64_t depth = b.getDimSize(dot.getTransposeB() ? 1 : 0);
  // A thread has as many elements of the result as its share of the warps.
  double flops = 2.0 * double(elementsOf(d) * kGroupThreads * depth);
  return {Resource::Tensor, int64_t(std::ceil(flops / rates.tensorFlops))};
}

Work fa2::gpu::workOf(Operation *op, const Rates &rates) {
  if (auto dot = dyn_cast<DotStartOp>(op))
    return productOf(dot, rates);
  Cost cost = costOf(op);
  int64_t most = 0;
  for (Type type : op->getOperandTypes())
    most = std::max(most, elementsOf(type));
  for (Type type : op->getResultTypes())
    most = std::max(most, elementsOf(type));
  double elements = double(most * kGroupThreads);
  double clocks = elements * (cost.exponentials / rates.exponentials +
                              cost.instructions / rates.lanes +
                              cost.bytes / rates.sharedBytes);
  Resource resource = cost.exponentials > 0   ? Resource::Exponential
                      : cost.instructions > 0 ? Resource::Arithmetic
                      : cost.bytes > 0        ? Resource::Shared
                                              : Resource::Nothing;
  int64_t whole = int64_t(std::ceil(clocks));
  return whole ? Work{resource, whole} : Work();
}
