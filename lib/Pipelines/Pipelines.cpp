//===- Pipelines.cpp - the named pipeline from attention to NVVM ----------===//

#include "fa2/Pipelines/Pipelines.h"

#include "fa2/Conversion/Passes.h"
#include "fa2/Dialect/FA2/FA2.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/NVVMTransforms/Passes.h"
#include "fa2/Transforms/Passes.h"

#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace mlir;
using namespace fa2;

namespace {

/// Folds what a stage left behind: constants, equal values, dead code.
/// Structured code has no dead blocks to look for.
void clean(OpPassManager &pm) {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  pm.addPass(createCSEPass());
}

void deriveBackward(OpPassManager &pm, const PipelineOptions &o) {
  if (o.pass == "backward")
    pm.addPass(createDeriveBackward({/*replace=*/true, o.grads, o.gradLse}));
}

void selectSchedule(OpPassManager &pm, const PipelineOptions &o) {
  SelectScheduleOptions options;
  options.target = o.target;
  options.schedule = o.schedule;
  options.variants = o.variants;
  options.database = o.database;
  pm.addPass(createSelectSchedule(options));
}

void tile(OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createTileAttention());
  pm.addPass(createTileAttentionGrad());
  clean(pm);
}

/// A stage of one pass on each kernel.
template <std::unique_ptr<Pass> (*create)(), bool cleanAfter>
void onKernels(OpPassManager &pm, const PipelineOptions &) {
  OpPassManager &kernels = pm.nest<KernelOp>();
  kernels.addPass(create());
  if (cleanAfter)
    clean(kernels);
}

void chainKernels(OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createChainKernels());
}

void toNVVM(OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createConvertFA2GPUToNVVM());
}

void shareFunctions(OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createShareFunctions());
}

void reduceDivisions(OpPassManager &pm, const PipelineOptions &) {
  OpPassManager &module = pm.nest<mlir::gpu::GPUModuleOp>();
  module.addPass(createCSEPass()); // equal numbers are divided once
  module.addPass(createReduceDivisions());
}

/// From scalars to the LLVM dialect.
void toLLVM(OpPassManager &pm, const PipelineOptions &o) {
  OpPassManager &module = pm.nest<mlir::gpu::GPUModuleOp>();
  module.addPass(createSCFToControlFlowPass());
  module.addPass(createConvertScalarsToNVVM());
  module.addPass(createConvertNVVMToLLVMPass());
  module.addPass(createReconcileUnrealizedCastsPass());
  module.addPass(createCSEPass());
  pm.addPass(createPassMapsByValue());
  if (o.lineInfo) {
    // LineTablesOnly would write `.target ..., debug`, which turns ptxas' own
    // optimizations off.
    LLVM::DIScopeForLLVMFuncOpPassOptions lines;
    lines.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
    pm.addPass(LLVM::createDIScopeForLLVMFuncOpPass(lines));
  }
}

struct Stage {
  llvm::StringRef name;
  void (*add)(OpPassManager &, const PipelineOptions &);
  bool scalars = false; // what it leaves is scalars alone
};

const std::array kStages = {
    Stage{"fa2-derive-backward", deriveBackward},
    Stage{"fa2-select-schedule", selectSchedule},
    Stage{"fa2-tile", tile},
    Stage{"convert-fa2-to-fa2gpu", onKernels<createConvertFA2ToFA2GPU, true>},
    Stage{"fa2gpu-plan", onKernels<createPlan, false>},
    Stage{"fa2gpu-persist", onKernels<createPersist, false>},
    Stage{"fa2gpu-assign-roles", onKernels<createAssignRoles, false>},
    Stage{"fa2gpu-form-rings", onKernels<createFormRings, false>},
    Stage{"fa2gpu-give-turns", onKernels<createGiveTurns, false>},
    Stage{"fa2gpu-specialize-warps", onKernels<createSpecializeWarps, true>},
    Stage{"fa2gpu-group-limits", onKernels<createGroupLimits, true>},
    Stage{"fa2gpu-count-tiles", onKernels<createCountTiles, true>},
    Stage{"fa2gpu-choose-order", onKernels<createChooseOrder, false>},
    Stage{"fa2gpu-order-loop", onKernels<createOrderLoop, true>},
    Stage{"fa2gpu-copy-ahead", onKernels<createCopyAhead, true>},
    Stage{"fa2gpu-pipeline", onKernels<createPipelineLoop, true>},
    Stage{"fa2gpu-split-masked-tiles", onKernels<createSplitMaskedTiles, true>},
    Stage{"fa2gpu-expand-ranges", onKernels<createExpandRanges, true>},
    Stage{"fa2gpu-number-uses", onKernels<createNumberUses, true>},
    Stage{"fa2gpu-speculate-max", onKernels<createSpeculateMax, true>},
    Stage{"fa2gpu-ping-pong", onKernels<createPingPong, false>},
    Stage{"fa2gpu-place-dot-waits", onKernels<createPlaceDotWaits, true>},
    Stage{"fa2gpu-share-accumulators",
          onKernels<createShareAccumulators, false>},
    Stage{"fa2gpu-change-turns", onKernels<createChangeTurns, false>},
    Stage{"fa2gpu-insert-fences", onKernels<createInsertFences, false>},
    Stage{"fa2gpu-share-barriers", onKernels<createShareBarriers, false>},
    Stage{"fa2gpu-place-waits", onKernels<createPlaceWaits, false>},
    Stage{"fa2gpu-allocate", onKernels<createAllocate, false>},
    Stage{"fa2gpu-chain-kernels", chainKernels},
    Stage{"fa2gpu-verify", onKernels<createVerify, false>},
    Stage{"fa2gpu-join-loops", onKernels<createJoinLoops, false>},
    Stage{"convert-fa2gpu-to-nvvm", toNVVM, /*scalars=*/true},
    Stage{"fa2-share-functions", shareFunctions, /*scalars=*/true},
    Stage{"fa2-reduce-divisions", reduceDivisions, /*scalars=*/true},
    Stage{"nvvm", toLLVM, /*scalars=*/true},
};

} // namespace

llvm::ArrayRef<llvm::StringRef> fa2::pipelineStages() {
  static const auto names = llvm::map_to_vector(
      kStages, [](const Stage &stage) { return stage.name; });
  return names;
}

bool fa2::leavesScalars(llvm::StringRef name) {
  return llvm::any_of(kStages, [&](const Stage &stage) {
    return stage.name == name && stage.scalars;
  });
}

void fa2::addStage(OpPassManager &pm, llvm::StringRef name,
                   const PipelineOptions &options) {
  for (const Stage &stage : kStages)
    if (stage.name == name)
      stage.add(pm, options);
}

LogicalResult fa2::buildPipeline(OpPassManager &pm,
                                 const PipelineOptions &options,
                                 std::string &error) {
  StringRef first = options.startAt, last = options.stopAfter;
  for (auto [name, stage] :
       {std::pair{"start-at", first}, {"stop-after", last}})
    if (!stage.empty() && !llvm::is_contained(pipelineStages(), stage)) {
      error = (Twine("expected ") + name + " to be one of " +
               llvm::join(pipelineStages(), ", ") + ", got '" + stage + "'")
                  .str();
      return failure();
    }
  if (options.pass != "forward" && options.pass != "backward") {
    error = "expected pass to be forward or backward, got '" +
            options.pass.getValue() + "'";
    return failure();
  }
  bool started = first.empty();
  for (const Stage &stage : kStages) {
    started |= stage.name == first;
    if (started)
      stage.add(pm, options);
    if (stage.name == last)
      break;
  }
  return success();
}

void fa2::registerPipelines() {
  registerPassPipeline(
      "fa2-pipeline", "from fa2.attention to llvm and nvvm in a gpu.module",
      [](OpPassManager &pm, StringRef text,
         function_ref<LogicalResult(const Twine &)> emitError) {
        PipelineOptions options;
        std::string error;
        if (failed(options.parseFromString(text)))
          return failure();
        if (failed(buildPipeline(pm, options, error)))
          return emitError(error);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handler) {
        handler(PipelineOptions());
      });
}
