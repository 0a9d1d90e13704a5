//===- FA2RangeOps.td - ranges of tiles and the loop over them -*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2RANGEOPS_TD
#define FA2_DIALECT_FA2_FA2RANGEOPS_TD

include "fa2/Dialect/FA2/FA2Ops.td"
include "mlir/Interfaces/LoopLikeInterface.td"

/// Its ranges come from operations.
class FA2_OnRanges<string mnemonic, list<Trait> traits = []> : FA2_Op<mnemonic, traits> {
  let hasVerifier = 1;
}
class FA2_RangeOp<string mnemonic> : FA2_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<FA2_TileRange>]>;
class FA2_RangePartOp<string mnemonic> : FA2_OnRanges<mnemonic, [Pure, DeclareOpInterfaceMethods<FA2_TileRange>]>;

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

def FA2_TileRangeOp : FA2_RangeOp<"tile_range"> {
  let summary = "the tiles from one number to another";
  let description = [{
    Tiles [begin, end) along a sequence, of which those within [full_begin, full_end) are full: they need no
    mask. Place p has tile begin + p or, where tiles are `falling`, end - 1 - p. `nonempty` says that
    begin < end.

    Example:

    ```mlir
    %tiles = fa2.tile_range %b to %e falling full(%fb, %fe) {nonempty}
    ```
  }];
  let arguments = (ins Index:$begin, Index:$end, Index:$full_begin, Index:$full_end, UnitAttr:$falling, UnitAttr:$nonempty);
  let results = (outs FA2_TileRangeType:$range);
  let assemblyFormat = "$begin `to` $end (`falling` $falling^)? `full` `(` $full_begin `,` $full_end `)` attr-dict";
}

def FA2_KVRangeOp : FA2_RangeOp<"kv_range"> {
  let summary = "the key tiles that a query tile sees, by interval arithmetic on the mask";
  let description = [{
    For the rows [r0, r1) with r0 = q_block * block_q - lead, r1 = min(r0 + block_q, seqlen_q), and a
    mask with bounds lower and upper, these are the tiles [begin, end):

    ```
    begin      = floor(max(0, lower(r0)) / block_kv)
    end        = ceil(min(seqlen_k, upper(r1 - 1)) / block_kv)
    full_begin = ceil(max(0, lower(r1 - 1)) / block_kv)
    full_end   = floor(min(seqlen_k, upper(r0)) / block_kv)
    ```

    Tiles outside of them have no visible key; in the range's full part, those within
    [full_begin, full_end), every row sees every key. The range may be empty; end >= begin, and
    begin <= full_end <= end. Place p of the range has tile begin + p or, where tiles are `falling`, end - 1 - p.

    With `nonempty`, an empty range becomes the first tile that lies wholly beyond the keys, which the
    mask hides: a loop that is peeled then needs no case of its own for it. With `past_end`, the rows may
    all lie past the sequence's end, and the range is empty then. With `whole_rows`, r1 = r0 + block_q: rows past the
    sequence's end see the keys that the mask's bounds give them. These are the key tiles whose `fa2.q_range` has the query tile.
    The first tile of queries begins `lead` rows before the sequence (none if it is not given).

    Example:

    ```mlir
    %keys = fa2.kv_range %qb falling lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
    ```
  }];
  let arguments = (ins Index:$q_block, UnitAttr:$falling, Index:$seqlen_q, Index:$seqlen_k, Optional<Index>:$lead,
    I64Attr:$block_q, I64Attr:$block_kv, OptionalAttr<FA2_IntervalMask>:$mask, UnitAttr:$nonempty, UnitAttr:$past_end,
    UnitAttr:$whole_rows);
  let results = (outs FA2_TileRangeType:$range);
  let assemblyFormat = [{ $q_block (`lead` $lead^)? (`falling` $falling^)? `lengths` `(` $seqlen_q `,` $seqlen_k `)`
    `blocks` `(` $block_q `,` $block_kv `)` attr-dict }];
}

def FA2_QRangeOp : FA2_OnRanges<"q_range", [Pure, DeclareOpInterfaceMethods<FA2_TileRange>]> {
  let summary = "the query tiles that see a key tile, by interval arithmetic on the mask";
  let description = [{
    For the keys [k0, k1) with k0 = kv_block * block_kv, k1 = k0 + block_kv, and a mask
    whose bounds have the inverses first_row and end_row, these are the tiles [begin, end):

    ```
    begin      = floor(max(0, first_row(k0)) / block_q)
    end        = ceil(min(seqlen_q, end_row(k1 - 1)) / block_q)
    full_begin = ceil(max(0, first_row(k1 - 1)) / block_q)
    full_end   = floor(end_row(k0) / block_q), or end where the mask has no lower bound
    ```

    Tiles outside of them see none of the keys; in the range's full part, those within
    [full_begin, full_end), every row of the sequence sees every key. A tile of keys that
    is not whole (k1 > seqlen_k) has no full tiles. begin <= full_begin <= full_end <= end.
    Place p of the range has tile begin + p or, where `falling` is given and holds, end - 1 - p. `nonempty` says that there is one wherever a loop over them begins.

    With a `rotation`, for which there is no mask, each tile of keys begins so many tiles of queries behind the one before
    it: place p has tile (p + kv_block * rotation) mod end. Blocks of one head that go through their queries at one pace are
    then at different tiles of them.

    Example:

    ```mlir
    %queries = fa2.q_range %kb lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
    %either = fa2.q_range %kb falling %down lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
    %all = fa2.q_range %kb lengths(%sq, %sk) blocks(128, 64) {rotation = 1}
    ```
  }];
  let arguments = (ins Index:$kv_block, Optional<I1>:$falling, Index:$seqlen_q, Index:$seqlen_k,
    I64Attr:$block_q, I64Attr:$block_kv, OptionalAttr<FA2_IntervalMask>:$mask, UnitAttr:$nonempty, DefaultValuedAttr<I64Attr, "0">:$rotation);
  let results = (outs FA2_TileRangeType:$range);
  let assemblyFormat = [{ $kv_block (`falling` $falling^)? `lengths` `(` $seqlen_q `,` $seqlen_k `)`
    `blocks` `(` $block_q `,` $block_kv `)` attr-dict }];
}

def FA2_TakeTilesOp : FA2_RangePartOp<"take_tiles"> {
  let summary = "the first tiles of a range";
  let description = [{
    Its first `count` places.

    Example: `%head = fa2.take_tiles %n of %keys`
  }];
  let arguments = (ins Index:$count, FA2_TileRangeType:$source);
  let results = (outs FA2_TileRangeType:$range);
  let assemblyFormat = "$count `of` $source attr-dict";
}

def FA2_DropTilesOp : FA2_RangePartOp<"drop_tiles"> {
  let summary = "a range without its first tiles";
  let description = [{
    Its places from `count` on. The tiles are read for the rows of another range, `rows`: what is full for
    them is full.

    Example: `%tail = fa2.drop_tiles %n of %keys for %own`
  }];
  let arguments = (ins Index:$count, FA2_TileRangeType:$source, FA2_TileRangeType:$rows);
  let results = (outs FA2_TileRangeType:$range);
  let assemblyFormat = "$count `of` $source `for` $rows attr-dict";
}

//===----------------------------------------------------------------------===//
// What is asked of a range
//===----------------------------------------------------------------------===//

def FA2_TileCountOp : FA2_OnRanges<"tile_count", [Pure]> {
  let summary = "how many tiles a range has";
  let description = "Example: `%count = fa2.tile_count %keys`";
  let arguments = (ins FA2_TileRangeType:$range);
  let results = (outs Index:$count);
  let assemblyFormat = "$range attr-dict";
}

def FA2_TileAtOp : FA2_OnRanges<"tile_at", [Pure]> {
  let summary = "the tile at a place of a range";
  let description = [{
    The number along the sequence of the tile at `place`. Places past the range's end have
    the tiles that would follow.

    Example: `%j = fa2.tile_at %keys[%p]`
  }];
  let arguments = (ins FA2_TileRangeType:$range, Index:$place);
  let results = (outs Index:$tile);
  let assemblyFormat = "$range `[` $place `]` attr-dict";
}

def FA2_TilesUntilOp : FA2_OnRanges<"tiles_until", [Pure]> {
  let summary = "how many tiles of a range come before those of another";
  let description = [{
    For two ranges that both fall or both rise (where that is for the program to say, by the same value), the number of places of
    `range` before the first tile of `own`; one place of `range` is always left, and it may be one that no row sees.

    Example: `%n = fa2.tiles_until %own in %keys`
  }];
  let arguments = (ins FA2_TileRangeType:$own, FA2_TileRangeType:$range);
  let results = (outs Index:$count);
  let assemblyFormat = "$own `in` $range attr-dict";
}

def FA2_TilesThroughOp : FA2_OnRanges<"tiles_through", [Pure]> {
  let summary = "how many tiles of a range do not come behind those of another";
  let description = [{
    Those that `fa2.tiles_until` counts, and as many as `own` has, at least one.

    Example: `%n = fa2.tiles_through %own in %keys`
  }];
  let arguments = (ins FA2_TileRangeType:$own, FA2_TileRangeType:$range);
  let results = (outs Index:$count);
  let assemblyFormat = "$own `in` $range attr-dict";
}

def FA2_FullPlacesOp : FA2_OnRanges<"full_places", [Pure]> {
  let summary = "the places whose tiles are full";
  let description = [{
    Of the places [lower, upper) those, [begin, end), for which the tile `ahead` places further on
    lies in the range's full part. lower <= begin; end <= upper.

    Example: `%fb, %fe = fa2.full_places of %keys within(%lo, %hi) ahead 1`
  }];
  let arguments = (ins FA2_TileRangeType:$range, Index:$lower, Index:$upper, I64Attr:$ahead);
  let results = (outs Index:$begin, Index:$end);
  let assemblyFormat = "`of` $range `within` `(` $lower `,` $upper `)` `ahead` $ahead attr-dict";
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

def FA2_ForTilesOp : FA2_OnRanges<"for_tiles", [RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<LoopLikeOpInterface, ["getLoopRegions", "getInitsMutable", "getRegionIterArgs",
      "getYieldedValuesMutable", "getLoopResults", "replaceWithAdditionalYields"]>]> {
  let summary = "runs its body for each tile of a range, in the range's order";
  let description = [{
    The body's first argument is the tile's number along the sequence; the others are carried from one tile to the
    next, as those of `scf.for` are. With `from`, the places before it are left out.

    Which tiles there are, in which order, and which of them need no mask is the range's to say: a loop is limited by
    giving it another range. `fa2gpu-count-tiles` makes it a loop over places.

    Example:

    ```mlir
    %sum = fa2.for_tiles %j in %keys from 1 iter_args(%x = %zero) -> (tensor<128x64xf32>) {
      %y = arith.addf %x, %x : tensor<128x64xf32>
      fa2.yield %y : tensor<128x64xf32>
    }
    ```
  }];
  let arguments = (ins FA2_TileRangeType:$range, Variadic<AnyType>:$init_args, DefaultValuedAttr<I64Attr, "0">:$from);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizeMethod = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$range, "::mlir::ValueRange":$inits, CArg<"int64_t", "0">:$from)>];
  let extraClassDeclaration = [{
    ::mlir::Value getTile() { return getBody().getArgument(0); }
  }];
}

#endif
