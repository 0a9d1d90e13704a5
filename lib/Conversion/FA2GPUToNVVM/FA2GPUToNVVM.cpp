//===- FA2GPUToNVVM.cpp - convert-fa2gpu-to-nvvm --------------------------===//

#include "Lowering.h"
#include "fa2/Conversion/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"

namespace fa2 {
#define GEN_PASS_DEF_CONVERTFA2GPUTONVVM
#include "fa2/Conversion/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

class RegisterTypeConverter : public TypeConverter {
public:
  explicit RegisterTypeConverter(MLIRContext *ctx) {
    addConversion([](Type t) { return t; });
    addConversion([ctx](RankedTensorType t, SmallVectorImpl<Type> &out)
                      -> std::optional<LogicalResult> {
      Attribute encoding = t.getEncoding();
      if (isa_and_nonnull<SharedAttr>(encoding)) {
        out.push_back(IntegerType::get(ctx, 32)); // address
        return success();
      }
      if (auto row = dyn_cast_or_null<RowAttr>(encoding)) {
        int64_t n = row.getAcc().tileLayout({t.getDimSize(0), 8}).numRowSlots();
        out.append(n, t.getElementType());
        return success();
      }
      if (auto column = dyn_cast_or_null<ColumnAttr>(encoding)) {
        int64_t n = columnLayout(column, t).numColSlots();
        out.append(n, t.getElementType());
        return success();
      }
      if (auto diagonal = dyn_cast_or_null<DiagonalAttr>(encoding)) {
        out.append(DiagonalWindows(diagonal, t).count, t.getElementType());
        return success();
      }
      auto layout = dyn_cast_or_null<DistributedLayoutAttr>(encoding);
      if (!layout)
        return failure();
      int64_t n = layout.tileLayout(t.getShape()).numRegs();
      if (isPacked(t))
        out.append(n / 2, IntegerType::get(ctx, 32));
      else
        out.append(n, t.getElementType());
      return success();
    });
    addConversion(
        [this](InFlightType t,
               SmallVectorImpl<Type> &out) -> std::optional<LogicalResult> {
          return convertType(t.getTile(), out);
        });
    addConversion(
        [ctx](RingType,
              SmallVectorImpl<Type> &out) -> std::optional<LogicalResult> {
          // addresses of slot 0 and of the first mbarrier
          out.append(2, IntegerType::get(ctx, 32));
          return success();
        });
    addConversion(
        [ctx](TensorMapType,
              SmallVectorImpl<Type> &out) -> std::optional<LogicalResult> {
          out.push_back(LLVM::LLVMPointerType::get(ctx));
          return success();
        });
    addConversion(
        [ctx](ViewType view,
              SmallVectorImpl<Type> &out) -> std::optional<LogicalResult> {
          out.append({LLVM::LLVMPointerType::get(ctx, kGlobal),
                      IntegerType::get(ctx, 64), IndexType::get(ctx)});
          if (view.getHeads() > 1)
            out.push_back(IntegerType::get(ctx, 64));
          if (view.hasAnyColumns())
            out.push_back(IndexType::get(ctx));
          return success();
        });
    addConversion(
        [ctx](MemRefType t,
              SmallVectorImpl<Type> &out) -> std::optional<LogicalResult> {
          out.push_back(LLVM::LLVMPointerType::get(ctx, kGlobal));
          out.append(t.getNumDynamicDims(), IndexType::get(ctx));
          out.append(numStrides(t), IntegerType::get(ctx, 64));
          return success();
        });
    // Within one conversion, values of several parts are rebuilt at their uses.
    auto materialize = [](OpBuilder &b, Type type, ValueRange inputs,
                          Location loc) -> Value {
      return UnrealizedConversionCastOp::create(b, loc, type, inputs)
          .getResult(0);
    };
    addSourceMaterialization(materialize);
  }
};

/// Parameters that nothing reads are dropped; of those with the same meaning
/// the first one serves all uses.
void pruneParameters(mlir::gpu::GPUFuncOp func, ArrayRef<LaunchOp> launches) {
  LaunchOp launch = launches.front(); // the others' parameters are the same
  SmallVector<Attribute> kept;
  llvm::MapVector<Attribute, Value> byMeaning;
  llvm::BitVector erased(func.getNumArguments());
  for (auto [i, attr] : llvm::enumerate(launch.getParameters())) {
    Value arg = func.getArgument(i);
    auto [it, isNew] = byMeaning.insert({attr, arg});
    if (!isNew)
      arg.replaceAllUsesWith(it->second);
  }
  for (auto [i, attr] : llvm::enumerate(launch.getParameters())) {
    if (func.getArgument(i).use_empty())
      erased.set(i);
    else
      kept.push_back(attr);
  }
  (void)func.eraseArguments(erased);
  for (LaunchOp each : launches)
    each.setParametersAttr(ArrayAttr::get(launch.getContext(), kept));
}

struct ConvertFA2GPUToNVVMPass
    : public fa2::impl::ConvertFA2GPUToNVVMBase<ConvertFA2GPUToNVVMPass> {
  /// Whether what this pass takes away stands where it can.
  LogicalResult checkPlaces() {
    WalkResult result =
        getOperation().walk<WalkOrder::PreOrder>([](Operation *op) {
          if (isa<KernelOp>(op))
            return WalkResult::skip();
          if (!isa_and_nonnull<FA2Dialect, FA2GPUDialect>(op->getDialect()))
            return WalkResult::advance();
          op->emitOpError()
              << (isa<LaunchOp>(op)
                      ? "expected a fa2.kernel in its place: this "
                        "program has been converted"
                      : "expected to stand in a fa2.kernel");
          return WalkResult::interrupt();
        });
    return failure(result.wasInterrupted());
  }

  /// What waits at a ring's mbarriers: all but the bare address of a slot.
  static LogicalResult checkBarriers(RingCreateOp ring) {
    for (Operation *user : ring->getUsers())
      if (!ring.getBarriers() && !isa<RingSlotOp, CombineSplitsOp>(user))
        return user->emitOpError()
               << "expected mbarriers of ring '" << ring.getName()
               << "'; run fa2gpu-allocate";
    return success();
  }

  /// What the patterns rely on, said by name.
  LogicalResult checkInput() {
    if (failed(checkPlaces()))
      return failure();
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      if (!kernel.getSharedBytes())
        return kernel.emitOpError()
               << "expected shared_bytes; run fa2gpu-allocate";
      if (!llvm::hasSingleElement(kernel.getOps<ForEachTileOp>()) &&
          !llvm::hasSingleElement(kernel.getOps<RolesOp>()))
        return kernel.emitOpError()
               << "expected one fa2.for_each_tile or fa2gpu.roles";
      if (!targetOf(kernel))
        return failure();
      for (auto ring : kernel.getOps<RingCreateOp>()) {
        if (!ring.getOffset() && !ring->use_empty())
          return ring.emitOpError()
                 << "expected an offset; run fa2gpu-allocate";
        if (failed(checkBarriers(ring)))
          return failure();
      }
      WalkResult alone = kernel.walk([](DotStartOp dot) {
        auto acc = dyn_cast_or_null<AccAttr>(
            dot.getD().getType().getTile().getEncoding());
        if (!acc || acc.getFamily().warpsPerInstruction() == 1 ||
            dot->getParentOfType<RolesOp>())
          return WalkResult::advance();
        dot.emitOpError() << "expected fa2gpu.roles around a matmul of "
                          << acc.getFamily();
        return WalkResult::interrupt();
      });
      if (alone.wasInterrupted())
        return failure();
    }
    return success();
  }

  /// Registers a thread has before roles take or give back.
  llvm::MapVector<RolesOp, int64_t> registersAtEntry() {
    llvm::MapVector<RolesOp, int64_t> registers;
    getOperation().walk([&](RolesOp op) {
      int64_t threads = op.getTotalWarps() * kWarpLanes;
      auto kernel = op->getParentOfType<KernelOp>();
      registers[op] = targetOf(kernel)->registerBudget(
                          threads, kernel.getSchedule().getMinBlocks()) /
                      8 * 8;
    });
    return registers;
  }

  void runOnOperation() override {
    if (failed(checkInput()))
      return signalPassFailure();
    MLIRContext *ctx = &getContext();
    RegisterTypeConverter converter(ctx);
    ConversionTarget target(*ctx);
    target.addIllegalDialect<FA2Dialect, FA2GPUDialect>();
    target.addLegalOp<LaunchOp, RolesOp>();
    target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect,
                           mlir::gpu::GPUDialect>();
    target.addLegalOp<ModuleOp>();
    target.addIllegalOp<memref::DimOp, tensor::SplatOp>();
    auto onScalars = [](Operation *op) {
      auto scalar = [](Type t) { return !isa<RankedTensorType>(t); };
      return llvm::all_of(op->getOperandTypes(), scalar) &&
             llvm::all_of(op->getResultTypes(), scalar);
    };
    target.addDynamicallyLegalDialect<arith::ArithDialect>(onScalars);
    target.addIllegalDialect<math::MathDialect>();
    RewritePatternSet patterns(ctx);
    populateKernelPatterns(converter, patterns);
    populateMemoryPatterns(converter, patterns);
    populateRowPatterns(converter, patterns);
    populateSumPatterns(converter, patterns);
    populateCopyPatterns(converter, patterns);
    populateDotPatterns(converter, patterns);
    populateSoftmaxPatterns(converter, patterns);
    populateVectorPatterns(converter, patterns);
    populateScatterPatterns(converter, patterns);
    populateReadPatterns(converter, patterns);
    populateKeepPatterns(converter, patterns);
    populateElementwisePatterns(converter, patterns);
    populateRolePatterns(converter, patterns);
    populateTensorCopyPatterns(converter, patterns);
    populateWgmmaPatterns(converter, patterns);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    llvm::MapVector<RolesOp, int64_t> roles = registersAtEntry();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();
    mergeOneThreads(getOperation());
    for (auto [op, registers] : roles)
      lowerRoles(op, registers);

    SymbolTableCollection symbols;
    llvm::MapVector<mlir::gpu::GPUFuncOp, SmallVector<LaunchOp>> launches;
    for (auto launch : getOperation().getOps<LaunchOp>())
      launches[symbols.lookupSymbolIn<mlir::gpu::GPUFuncOp>(getOperation(),
                                                            launch.getKernel())]
          .push_back(launch);
    for (auto &[func, of] : launches)
      pruneParameters(func, of);
  }
};

} // namespace
