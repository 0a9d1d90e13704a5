//===- fa2-reduce.cpp - the smallest module that still fails --------------===//

#include "fa2/Pipelines/Registration.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fa2::registerDialects(registry);
  fa2::registerPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
