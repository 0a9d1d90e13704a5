//===- ShareFunctions.cpp - fa2-share-functions ---------------------------===//

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/NVVMTransforms/Passes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/OperationSupport.h"

namespace fa2 {
#define GEN_PASS_DEF_SHAREFUNCTIONS
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2::gpu;

namespace {

/// Whether the driver is told the same of both: what it knows of a function
/// holds for all of its launches.
bool launchedAlike(LaunchOp a, LaunchOp b) {
  return a.getBlock() == b.getBlock() &&
         a.getSharedBytes() == b.getSharedBytes() &&
         a.getCluster() == b.getCluster();
}

/// Whether they are the same but for the name. Parameters need not mean the
/// same: each launch gives its own.
bool equal(mlir::gpu::GPUFuncOp a, mlir::gpu::GPUFuncOp b) {
  auto others = [](mlir::gpu::GPUFuncOp func) {
    NamedAttrList attrs(func->getAttrs());
    attrs.erase(SymbolTable::getSymbolAttrName());
    return attrs.getDictionary(func.getContext());
  };
  return others(a) == others(b) &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

struct ShareFunctionsPass
    : public fa2::impl::ShareFunctionsBase<ShareFunctionsPass> {
  void runOnOperation() override {
    SymbolTableCollection symbols;
    SmallVector<std::pair<mlir::gpu::GPUFuncOp, LaunchOp>> first;
    llvm::MapVector<mlir::gpu::GPUFuncOp, SymbolRefAttr> replaced;
    for (auto launch : getOperation().getOps<LaunchOp>()) {
      auto func = symbols.lookupSymbolIn<mlir::gpu::GPUFuncOp>(
          getOperation(), launch.getKernel());
      if (!func)
        continue;
      if (SymbolRefAttr other = replaced.lookup(func)) {
        launch.setKernelAttr(other);
        continue;
      }
      auto *same = llvm::find_if(first, [&](const auto &known) {
        return known.first == func || (launchedAlike(known.second, launch) &&
                                       equal(known.first, func));
      });
      if (same == first.end()) {
        first.push_back({func, launch});
      } else if (same->first != func) {
        launch.setKernelAttr(same->second.getKernelAttr());
        replaced[func] = launch.getKernelAttr();
      }
    }
    for (const auto &[func, other] : replaced) {
      auto module = func->getParentOfType<mlir::gpu::GPUModuleOp>();
      if (module.getBody()->getOperations().size() == 1)
        module.erase();
      else
        func->erase();
    }
  }
};

} // namespace
