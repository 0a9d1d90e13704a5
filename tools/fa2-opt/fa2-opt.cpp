//===- fa2-opt.cpp - run fa2's passes on MLIR -----------------------------===//

#include "fa2/Pipelines/Registration.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fa2::registerDialects(registry);
  fa2::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "fa2 modular optimizer driver\n", registry));
}
