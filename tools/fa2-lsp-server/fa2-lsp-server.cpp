//===- fa2-lsp-server.cpp - fa2's dialects in an editor -------------------===//

#include "fa2/Pipelines/Registration.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fa2::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
