//===- FA2Dialect.td - the fa2 dialect ---------------------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2DIALECT_TD
#define FA2_DIALECT_FA2_FA2DIALECT_TD

include "mlir/IR/OpBase.td"

def FA2_Dialect : Dialect {
  let name = "fa2";
  let cppNamespace = "::fa2";
  let summary = "attention on tensors, and one thread block's program over tiles";
  let description = [{
    Two levels share this dialect.

    *Attention on tensors* says what to compute: `fa2.attention` on dynamically
    shaped tensors, with the mask as an attribute.

    *Tiles* say how one thread block computes it: a `fa2.kernel` over memrefs,
    whose body loads statically shaped tiles (plain tensors, so `arith` and
    `math` work on them), multiplies them and folds them with the online
    softmax of FlashAttention-2 (Dao 2023, arXiv:2307.08691, Algorithm 1).
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif
