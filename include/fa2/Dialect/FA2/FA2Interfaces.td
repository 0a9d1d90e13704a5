//===- FA2Interfaces.td - masks, ranges of tiles ----------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2INTERFACES_TD
#define FA2_DIALECT_FA2_FA2INTERFACES_TD

include "mlir/IR/OpBase.td"

def FA2_IntervalMask : AttrInterface<"IntervalMaskAttr"> {
  let cppNamespace = "::fa2";
  let description = [{
    A mask under which query row i sees exactly the keys j with
    `lower(i) <= j < upper(i)`. Both bounds are non-decreasing in i, so the keys
    that a tile of rows sees, and those that all of its rows see, follow from
    the bounds of its first and last row; and the rows that see a tile of keys from
    the bounds' inverses, `firstRow` and `endRow`. Passes use nothing else of a mask.

    The caller intersects the interval with [0, seqlen_k); a bound may lie
    outside of it. A null value stands for that trivial bound.
  }];
  let methods = [
    InterfaceMethod<"The first key that `row` sees (index); null for 0.",
      "::mlir::Value", "lower",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$row,
           "::mlir::Value":$seqlenQ, "::mlir::Value":$seqlenK)>,
    InterfaceMethod<"One past the last key that `row` sees (index); null for seqlen_k.",
      "::mlir::Value", "upper",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$row,
           "::mlir::Value":$seqlenQ, "::mlir::Value":$seqlenK)>,
    InterfaceMethod<"The first row whose upper bound is above `key` (index); null for 0.",
      "::mlir::Value", "firstRow",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$key,
           "::mlir::Value":$seqlenQ, "::mlir::Value":$seqlenK)>,
    InterfaceMethod<"One past the last row whose lower bound is not above `key` (index); null for seqlen_q.",
      "::mlir::Value", "endRow",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::Value":$key,
           "::mlir::Value":$seqlenQ, "::mlir::Value":$seqlenK)>,
    InterfaceMethod<"The mask's name in specifications and manifests.",
      "::llvm::StringRef", "getSpecName">,
  ];
}

def FA2_TileRange : OpInterface<"RangeOfTiles"> {
  let cppNamespace = "::fa2";
  let description = [{
    An operation whose result is a `!fa2.tile_range`. Passes limit and split loops over tiles by its methods and by the
    operations that ask a range, so none of them needs to know what the tiles are.
  }];
  let methods = [
    InterfaceMethod<"The range as arithmetic at the builder's place; `of` gives other ranges'.",
      "::fa2::TilePlaces", "places",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::function_ref<::fa2::TilePlaces(::mlir::Value)>":$of)>,
    InterfaceMethod<"Whether each tile is the one before in the sequence.", "bool", "falls", (ins)>,
    InterfaceMethod<[{Makes sure that the range has a tile, which may be one that the mask hides; false where no
      such tile can be given.}], "bool", "makeNonempty", (ins)>,
  ];
}

#endif
