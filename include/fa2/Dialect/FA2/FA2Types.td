//===- FA2Types.td - views of global memory, ranges --------*- tablegen -*-===//
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
    as zeros; stores leave them alone. A matrix of `?` columns is loaded from a column
    on; columns past the end are zeros too.

    A view of several `heads` (a power of two up to 64) packs them: of a tile, each run of 64
    rows shows 64 / heads rows of the sequence, head by head. Row r of a tile from row r0 of the
    sequence on is row r0 + (r / 64) (64 / heads) + r mod (64 / heads) of head
    (r mod 64) / (64 / heads).

    With an `order`, the view is one of sums, which kernels of one program share: their tiles lie in
    memory as accumulators lie in registers (`#fa2.order`). Where warps share rows and their parts of
    the columns are padded, the view has the padding's columns too.

    Examples: `!fa2.view<? x 128 x bf16>`, `!fa2.view<? x f32>`, `!fa2.view<4 heads, ? x 128 x bf16>`,
    `!fa2.view<? x 64 x f32, order = <<4 x 2>, width = 4>>`, `!fa2.view<? x ? x bf16>`.
  }];
  let extraClassDeclaration = [{
    /// Whether tiles have some of the columns only.
    bool hasAnyColumns() const { return ::mlir::ShapedType::isDynamic(getCols()); }
  }];
  let parameters = (ins "int64_t":$cols, "::mlir::Type":$elementType,
    DefaultValuedParameter<"int64_t", "1">:$heads, OptionalParameter<"::fa2::SumOrderAttr">:$order);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def FA2_TileRangeType : TypeDef<FA2_Dialect, "TileRange"> {
  let mnemonic = "tile_range";
  let summary = "tiles along a sequence, in the order in which a loop takes them";
  let description = [{
    A range has places 0, 1, ..., a tile at each, and a full part: the tiles that need no mask. `fa2.for_tiles`
    runs over it. It is always the result of an operation that says what the tiles are.

    Example: `!fa2.tile_range`.
  }];
}

#endif
