//===- Translations.cpp - translations for mlirTranslateMain --------------===//

#include "fa2/Pipelines/Registration.h"
#include "fa2/Target/Ptx/Ptx.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/SetVector.h"
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

/// Every layout of the module's tensors, once, as a table.
static std::string printLayouts(ModuleOp module) {
  llvm::SetVector<RankedTensorType> types;
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(type);
          tile && tile.getRank() == 2 && tile.getEncoding())
        types.insert(tile);
  });
  std::string text;
  llvm::raw_string_ostream os(text);
  for (RankedTensorType tile : types) {
    os << tile << "\n";
    if (auto layout =
            dyn_cast<fa2::gpu::DistributedLayoutAttr>(tile.getEncoding()))
      os << layout.tileLayout(tile.getShape()).print();
    else if (isa<fa2::gpu::SharedAttr>(tile.getEncoding()))
      os << fa2::gpu::sharedLayout(tile).print();
  }
  return text;
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
  static TranslateFromMLIRRegistration layouts(
      "fa2-print-layouts", "who holds which element of each tile, as tables",
      [](Operation *op, llvm::raw_ostream &os) {
        return onModule(op, os, [](ModuleOp module) -> FailureOr<std::string> {
          return printLayouts(module);
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
