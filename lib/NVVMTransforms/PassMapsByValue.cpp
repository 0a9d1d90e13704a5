//===- PassMapsByValue.cpp - fa2-pass-maps-by-value -----------------------===//

#include "fa2/Dialect/FA2GPU/FA2GPU.h"
#include "fa2/NVVMTransforms/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace fa2 {
#define GEN_PASS_DEF_PASSMAPSBYVALUE
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2::gpu;

namespace {

/// CUtensorMap: 128 bytes at a multiple of 64.
constexpr int64_t kMapBytes = 128, kMapAlignment = 64;

struct PassMapsByValuePass
    : public fa2::impl::PassMapsByValueBase<PassMapsByValuePass> {
  void runOnOperation() override {
    Builder b(&getContext());
    Type bytes = LLVM::LLVMArrayType::get(b.getI8Type(), kMapBytes);
    for (auto launch : getOperation().getOps<LaunchOp>()) {
      auto func = dyn_cast_or_null<LLVM::LLVMFuncOp>(
          SymbolTable::lookupSymbolIn(getOperation(), launch.getKernelAttr()));
      if (!func || func.getNumArguments() != launch.getParameters().size()) {
        launch.emitOpError() << "expected an llvm.func with a parameter for "
                                "each of the descriptions";
        return signalPassFailure();
      }
      for (auto [i, p] :
           llvm::enumerate(launch.getParameters().getAsRange<ParamAttr>())) {
        if (p.getKind() != "tensor_map")
          continue;
        func.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(),
                        TypeAttr::get(bytes));
        func.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                        b.getI64IntegerAttr(kMapAlignment));
        func.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(),
                        b.getUnitAttr());
      }
    }
  }
};

} // namespace
