//===- ConvertScalars.cpp - fa2-convert-scalars ---------------------------===//
//
// The patterns of upstream's convert-gpu-to-nvvm. That pass rewrites and folds
// all of a module first, for operations that kernels here have none of.
//
//===----------------------------------------------------------------------===//

#include "fa2/NVVMTransforms/Passes.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Transforms/DialectConversion.h"

namespace fa2 {
#define GEN_PASS_DEF_CONVERTSCALARS
#include "fa2/NVVMTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;

namespace {

struct ConvertScalarsPass
    : public fa2::impl::ConvertScalarsBase<ConvertScalarsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ConvertScalarsBase::getDependentDialects(registry);
    registerConvertToLLVMDependentDialectLoading(registry);
  }

  void runOnOperation() override {
    MLIRContext *ctx = &getContext();
    LowerToLLVMOptions options(ctx, DataLayout(getOperation()));
    options.overrideIndexBitwidth(32);
    LLVMTypeConverter converter(ctx, options);
    configureGpuToNVVMTypeConverter(converter);
    LLVMConversionTarget target(*ctx);
    RewritePatternSet patterns(ctx);
    for (Dialect *dialect : ctx->getLoadedDialects())
      if (auto *interface = dyn_cast<ConvertToLLVMPatternInterface>(dialect))
        interface->populateConvertToLLVMConversionPatterns(target, converter,
                                                           patterns);
    populateGpuToNVVMConversionPatterns(converter, patterns);
    populateGpuSubgroupReduceOpLoweringPattern(converter, patterns);
    configureGpuToNVVMConversionLegality(target);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
