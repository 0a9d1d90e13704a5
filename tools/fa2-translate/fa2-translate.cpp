//===- fa2-translate.cpp - compiled modules to PTX, LLVM IR, manifests ----===//

#include "fa2/Pipelines/Registration.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  fa2::registerTranslations();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "fa2 translation driver"));
}
