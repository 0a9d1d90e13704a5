//===- Translations.cpp - translations for mlirTranslateMain --------------===//

#include "fa2/Pipelines/Registration.h"
#include "fa2/Target/Ptx/Ptx.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace fa2;

static LogicalResult
onModule(Operation *op, llvm::raw_ostream &os,
         llvm::function_ref<FailureOr<std::string>(ModuleOp)> translate) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    return op->emitError("expected a builtin.module");
  auto text = translate(module);
  if (failed(text))
    return failure();
  os << *text;
  return success();
}

void fa2::registerTranslations() {
  static TranslateFromMLIRRegistration ptx(
      "fa2-to-ptx", "compiled module to PTX text with its manifest",
      [](Operation *op, llvm::raw_ostream &os) {
        return onModule(op, os, translateToPtx);
      },
      registerDialects);
  static TranslateFromMLIRRegistration llvmir(
      "fa2-to-llvmir", "compiled module to LLVM IR for NVPTX",
      [](Operation *op, llvm::raw_ostream &os) {
        return onModule(op, os, [](ModuleOp module) -> FailureOr<std::string> {
          llvm::LLVMContext context;
          auto llvmModule = translateToLLVMIR(module, context);
          if (!llvmModule)
            return failure();
          std::string text;
          llvm::raw_string_ostream(text) << *llvmModule;
          return text;
        });
      },
      registerDialects);
  static TranslateFromMLIRRegistration manifest(
      "fa2-manifest", "compiled module to its manifest (docs/manifest.md)",
      [](Operation *op, llvm::raw_ostream &os) {
        return onModule(op, os, [](ModuleOp module) -> FailureOr<std::string> {
          auto text = writeManifest(module);
          if (failed(text))
            return failure();
          return *text + "\n";
        });
      },
      registerDialects);
}
