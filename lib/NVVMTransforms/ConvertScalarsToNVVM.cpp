//===- ConvertScalarsToNVVM.cpp - convert-fa2-scalars-to-nvvm -------------===//

#include "fa2/NVVMTransforms/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "mlir/Transforms/DialectConversion.h"

namespace fa2 {
#define GEN_PASS_DEF_CONVERTSCALARSTONVVM
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;

namespace {

/// Offsets within a tile fit; addresses and strides are i64 from the start.
constexpr unsigned kIndexBits = 32;

struct ConvertScalarsToNVVMPass
    : public fa2::impl::ConvertScalarsToNVVMBase<ConvertScalarsToNVVMPass> {
  void runOnOperation() override {
    mlir::gpu::GPUModuleOp module = getOperation();
    LowerToLLVMOptions options(
        &getContext(),
        DataLayout(cast<DataLayoutOpInterface>(module.getOperation())));
    options.overrideIndexBitwidth(kIndexBits);
    LLVMTypeConverter converter(&getContext(), options);
    configureGpuToNVVMTypeConverter(converter);

    RewritePatternSet patterns(&getContext());
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    populateGpuToNVVMConversionPatterns(converter, patterns);

    LLVMConversionTarget target(getContext());
    configureGpuToNVVMConversionLegality(target);
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
