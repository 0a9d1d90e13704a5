//===- FA2Types.td - views of global memory ----------------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2TYPES_TD
#define FA2_DIALECT_FA2_FA2TYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "fa2/Dialect/FA2/FA2Dialect.td"

def FA2_ViewType : TypeDef<FA2_Dialect, "View"> {
  let mnemonic = "view";
  let summary = "the rows of one sequence and head in global memory";
  let description = [{
    A matrix of as many rows as the sequence is long and `cols` contiguous
    columns, or a vector of rows when `cols` is 0. Loads read rows past the end
    as zeros; stores leave them alone.

    Examples: `!fa2.view<? x 128 x bf16>`, `!fa2.view<? x f32>`.
  }];
  let parameters = (ins "int64_t":$cols, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
}

#endif
