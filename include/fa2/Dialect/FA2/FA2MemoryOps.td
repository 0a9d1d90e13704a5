//===- FA2MemoryOps.td - what a block reads and writes of memory -*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2MEMORYOPS_TD
#define FA2_DIALECT_FA2_FA2MEMORYOPS_TD

include "fa2/Dialect/FA2/FA2RangeOps.td"

def FA2_ViewOp : FA2_Op<"view", [Pure]> {
  let summary = "the rows of one batch entry and head";
  let description = [{
    `view[r] = source[batch, offset + r, head]` for 0 <= r < length; for a rank-3 source
    (lse, [batch, heads, seqlen]) it is `source[batch, head, offset + r]`. A view of
    several heads shows `head` and those after it. Columns before `first_column`, and those behind as many as
    the view has, are not shown; `from` a column on, which only the program knows (a multiple of 8), they begin there; of a view with an
    order each tile has them one column after the other.

    `dims` says which dimensions of the source those four are, or -1 for batch entries, or heads too, which it has not; their index is
    then of no use: of a source with `?` columns, as a score program's operands have, which may be in any order but for the
    columns, the last. It begins at a multiple of 16 bytes, and its rows such a multiple apart, as those of other sources do; of a view that
    is `unaligned`, its rows may begin at any element.

    `cache` is a hint: how long the level-2 cache keeps what `fa2.accumulate` and copies by tensor map touch through the view.

    Example:

    ```mlir
    %v = fa2.view %q[%batch, %head] rows(%offset, %length)
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
    %w = fa2.view %bias[%zero, %head] rows(%zero, %length) {dims = array<i64: -1, 1, 0, 2>}
        : memref<?x?x?xbf16, strided<[?, ?, ?]>> -> !fa2.view<? x ? x bf16>
    %u = fa2.view %q[%batch, %head] rows(%offset, %length) {cache = #fa2.cache<evict_last>}
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Index:$batch, Index:$head, Index:$offset, Index:$length,
    DefaultValuedAttr<I64Attr, "0">:$first_column, OptionalAttr<DenseI64ArrayAttr>:$dims,
    OptionalAttr<FA2_CacheHintAttr>:$cache, Optional<Index>:$column, UnitAttr:$unaligned);
  let results = (outs FA2_ViewType:$view);
  let assemblyFormat = [{ $source `[` $batch `,` $head `]` `rows` `(` $offset `,` $length `)` (`from` $column^)? attr-dict
    `:` type($source) `->` type($view) }];
  let builders = [OpBuilder<(ins "::mlir::Type":$view, "::mlir::Value":$source, "::mlir::Value":$batch, "::mlir::Value":$head,
      "::mlir::Value":$offset, "::mlir::Value":$length, CArg<"int64_t", "0">:$first_column,
      CArg<"::mlir::DenseI64ArrayAttr", "{}">:$dims),
    [{ build($_builder, $_state, view, source, batch, head, offset, length, first_column, dims, ::fa2::CacheHintAttr(), ::mlir::Value(), /*unaligned=*/false); }]>];
  let hasVerifier = 1;
}

def FA2_LoadOp : FA2_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "a tile of rows from global memory; rows before the sequence and past its end are zero";
  let description = [{
    `tile[i] = view[row + i]` where row + i < length, else 0. Of a view with an order, the tile is a
    whole one of the sum (`fa2.accumulate`); of one with `?` columns it is `tile[i, j] = view[row + i, column + j]`.

    Examples: `%k = fa2.load %kv[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>`,
    `%x = fa2.load %w[%row, %column] : !fa2.view<? x ? x bf16> -> tensor<128x64xbf16>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead]>:$view, Index:$row, Optional<Index>:$column);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$view `[` $row (`,` $column^)? `]` attr-dict `:` type($view) `->` type($tile)";
  let builders = [OpBuilder<(ins "::mlir::Type":$tile, "::mlir::Value":$view, "::mlir::Value":$row),
    [{ build($_builder, $_state, tile, view, row, ::mlir::Value()); }]>];
  let hasVerifier = 1;
}

def FA2_StoreOp : FA2_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "a tile of rows to global memory; rows before the sequence and past its end are left alone";
  let description = [{
    `view[row + i] = tile[i]` where row + i < length, into a view of any number of columns from `column` on. Of a view with
    an order, the tile is a whole one of the sum (`fa2.accumulate`).

    Example: `fa2.store %o, %ov[%row] : tensor<128x64xbf16>, !fa2.view<? x 64 x bf16>`
  }];
  let arguments = (ins AnyRankedTensor:$tile, Arg<FA2_ViewType, "", [MemWrite]>:$view, Index:$row, Optional<Index>:$column);
  let builders = [OpBuilder<(ins "::mlir::Value":$tile, "::mlir::Value":$view, "::mlir::Value":$row),
                            [{ build($_builder, $_state, tile, view, row, ::mlir::Value()); }]>];
  let assemblyFormat = "$tile `,` $view `[` $row (`,` $column^)? `]` attr-dict `:` type($tile) `,` type($view)";
  let hasVerifier = 1;
}

def FA2_AccumulateOp : FA2_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "adds a tile to a sum in global memory, beside other blocks";
  let description = [{
    `view[row + i, j] += tile[i, j]` in f32, each element an atomic reduction: blocks
    add in any order, so the sum's last bits may differ from run to run. The view has an
    order, which says what lies where, and how many elements one instruction adds: 1, or 4 from
    sm_90 on (PTX ISA, red.global.add.v4.f32). `fa2.load` of the same tile through the same type
    reads them back. The sum is zeroed before with `fa2.store` of all its columns, in any order.

    With `turn`, blocks add to the sum's tiles one after the other: `turns` has as many counters at the tile's `row` as
    warps add to it, i32, which were 0 before any of them; warp w waits until `turns[row + w] = turn`, adds, and
    adds 1 to the counter when its additions are done (release and acquire, of the PTX memory model). With `at_least` it waits until
    so many have added, or more: with the turns 0, 1, 1 and so on the first adds before the others, which do in any order. A block that adds
    a tile in parts waits before the first, which has `begins`, and passes on after the last, which has `ends`.
    Several tiles may share a turn: the counters are then `at` a row that they share, a block waits where `first` holds, at the first of
    them that it adds to, and passes on where `last` does. With `seen`, what the counters were a while ago, it waits only if that is
    not the turn yet; with `later`, `fa2gpu.change_turn` passes the turn on. With `given` it does neither: another role waits for the turn, and the tile
    `given`, of a ring, says that it has come; a third passes the turn on when it has the tile `told`, of another ring, which says that all has been added.
    Which of these it is to be, the schedule's `turns` says, or `change`, for a sum that is not the schedule's.
    A sum that nobody zeroes before and nobody reads behind has `opens` and `closes`, which hold for the first and for the last of the blocks
    that add to the tile: where it opens, the tile is stored; where it closes, the sum is not written, but what it would be is multiplied
    with the `factors`, one after the other, rounded, and stored at the row of `into`, or its transpose where `turned` says, but for
    what lies behind the rows and columns of `into`. With `resumed` the tile has the sum already where it
    closes (`fa2.resume`), and the turn has come.
    As many blocks as a turn says must come, and a block may wait only for such as start before it
    (1): the turns' view has i32, a vector of them; without it there is neither `begins` nor `ends`, nor a shared row; what is
    seen is of a tile's first part, and its last part is passed on later, neither of a turn that is given; what opens and closes takes turns, and the tile has the columns
    of what it goes into; what is resumed closes.

    Examples: `fa2.accumulate %dq, %sum[%row] : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%shared from %first to %last) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) seen(%seen) {begins, ends, later} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) given(%come to %added : tensor<1xi32>, tensor<1xi32>) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) opens(%opens) closes(%closes) into(%to times %scale : !fa2.view<? x 64 x bf16>) {at_least, begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>`,
    `fa2.accumulate %ds, %sum[%row] turn(%entry of %turns : !fa2.view<? x i32>) opens(%first) closes(%last) into(%to turned [%query, %key] : !fa2.view<? x ? x bf16>) {begins, change = #fa2.turn_change<late>, ends} : tensor<128x64xf32>, !fa2.view<? x 64 x f32, order = <<8 x 1>, width = 4>>`.
  }];
  let arguments = (ins AnyRankedTensor:$tile, Arg<FA2_ViewType, "", [MemRead, MemWrite]>:$view, Index:$row,
    Optional<Index>:$turn, Arg<Optional<FA2_ViewType>, "", [MemRead, MemWrite]>:$turns,
    Optional<Index>:$shared_row, Optional<I1>:$first, Optional<I1>:$last, Optional<I32>:$seen,
    Optional<I1>:$opens, Optional<I1>:$closes, Arg<Optional<FA2_ViewType>, "", [MemWrite]>:$into,
    Optional<Index>:$into_row, Optional<Index>:$into_column, Variadic<F32>:$factors,
    Optional<AnyRankedTensor>:$given, Optional<AnyRankedTensor>:$told,
    UnitAttr:$begins, UnitAttr:$ends, UnitAttr:$later, UnitAttr:$resumed, UnitAttr:$at_least,
    OptionalAttr<FA2_TurnChangeAttr>:$change);
  let assemblyFormat = [{ $tile `,` $view `[` $row `]` (`turn` `(` $turn^ `of` $turns `:` type($turns) `)`)?
    (`at` `(` $shared_row^ `from` $first `to` $last `)`)? (`seen` `(` $seen^ `)`)?
    (`opens` `(` $opens^ `)` `closes` `(` $closes `)` `into` `(` $into (`turned` `[` $into_row^ `,` $into_column `]`)? (`times` $factors^)? `:` type($into) `)`)?
    (`given` `(` $given^ `to` $told `:` type($given) `,` type($told) `)`)? attr-dict `:` type($tile) `,` type($view) }];
  let extraClassDeclaration = [{
    /// When its turn is passed on, in a kernel of this schedule.
    ::fa2::TurnChange changeIn(::fa2::ScheduleAttr schedule) {
      return getChange().value_or(schedule.getTurns());
    }
  }];
  let hasVerifier = 1;
}

def FA2_ResumeOp : FA2_Op<"resume", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "the sum of a tile so far, for a product to begin with";
  let description = [{
    Where `closes` holds, and `opens` does not, the tile of the sum to which `fa2.accumulate` adds; zeros elsewhere. Who closes a sum so
    needs no second tile of registers for what others have added, and no addition. The turn is waited for before the first part of
    a tile, which has `begins`, where it closes, and, where several tiles share a turn, `first` holds.

    Example: `%begin = fa2.resume %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) opens(%opens) closes(%closes) {begins} : !fa2.view<? x 64 x f32, order = <<4 x 1>>> -> tensor<64x64xf32>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead]>:$view, Index:$row,
    Index:$turn, Arg<FA2_ViewType, "", [MemRead]>:$turns, Optional<Index>:$shared_row, Optional<I1>:$first,
    I1:$opens, I1:$closes, UnitAttr:$begins);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = [{ $view `[` $row `]` `turn` `(` $turn `of` $turns `:` type($turns) `)`
    (`at` `(` $shared_row^ `from` $first `)`)? `opens` `(` $opens `)` `closes` `(` $closes `)`
    attr-dict `:` type($view) `->` type($tile) }];
  let hasVerifier = 1;
}

def FA2_ReadOp : FA2_Op<"read", [Pure]> {
  let summary = "single elements of a score program's operand, which no kernel writes";
  let description = [{
    `result = source[indices]`, one index a dimension: an index, or a vector or tile of them with
    the result's shape. Extents are those of the dimensions that `source` is described by
    (`#fa2.arg`, `broadcast`); an element beyond one of them is 0, and is not read. Indices of the
    dimensions in `clamped` were brought into the extent, beyond which they are only where it is 0.
    Floats of 16 bits are extended to f32.

    Example:

    ```mlir
    %x = fa2.read %bias[%batch, %cols] : memref<?x?xbf16, strided<[?, ?]>>, index, tensor<64xindex> -> tensor<64xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<AnyType>:$indices,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$clamped);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{ $source `[` $indices `]` attr-dict `:` type($source) `,` type($indices)
    `->` type($result) }];
  let hasVerifier = 1;
}

def FA2_ScatterOp : FA2_Op<"scatter", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "adds values to elements of a sum in global memory, beside other blocks";
  let description = [{
    `sum[indices] += values` in f32, one index a dimension, each an atomic reduction: they arrive in
    any order. Indices are those of `fa2.read`, where an element beyond an extent is left alone: of
    the values' shape; or, of a tile, vectors of a value a row (with `columns`, a column); or all
    single ones. What has one element is summed before it is added. A value a row may be
    in part what `fa2.add_rows` gives. With `diagonals`, indices of a tile's shape are the same for all
    elements that are as far from the diagonal: a warp sums what it has of each diagonal before it
    adds, and all that it has where that is one element, as behind the last bucket of relative
    positions.

    With `exactly`, what would be added to an element of `sum` is added to its words in a workspace instead
    (fa2/Dialect/FA2/ExactSum.h): whole numbers, which have the same bits in whatever order terms arrive.
    `fa2.round_sums` gives the elements then. Word w of element n, counted with the last index first and an
    extent that stands for all as 1, is word w of all of them plus n.

    Example:

    ```mlir
    fa2.scatter %ds to %dbias[%batch, %cols] {columns}
        : tensor<64x64xf32>, memref<?x?xf32, strided<[?, ?]>>, index, tensor<64xindex>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$values, Arg<AnyMemRef, "", [MemRead, MemWrite]>:$sum, Variadic<AnyType>:$indices, Arg<Optional<AnyMemRef>, "", [MemRead, MemWrite]>:$words, UnitAttr:$columns, UnitAttr:$diagonals);
  let assemblyFormat = [{
    $values `to` $sum `[` $indices `]` (`exactly` `(` $words^ `:` type($words) `)`)? attr-dict
    `:` type($values) `,` type($sum) `,` type($indices)
  }];
  let hasVerifier = 1;
}

def FA2_ZeroOp : FA2_Op<"zero", [MemoryEffects<[MemWrite]>]> {
  let summary = "zeroes a block's share of an argument";
  let description = [{
    Of all elements of `sum`, of any strides, every one that is of share `part` of `parts`.

    Example: `fa2.zero %dbias part(%n, %parts) : memref<?x?xf32, strided<[?, ?]>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemWrite]>:$sum, Index:$part, Index:$parts);
  let assemblyFormat = "$sum `part` `(` $part `,` $parts `)` attr-dict `:` type($sum)";
}

def FA2_RoundSumsOp : FA2_Op<"round_sums", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a block's share of exact sums, as f32";
  let description = [{
    Of all elements of `sums`, of any strides, every one that is of share `part` of `parts`: what `fa2.scatter` with
    `exactly` added to its words, rounded to f32 by way of f64.

    Example: `fa2.round_sums %words to %dslopes part(%n, %parts) : memref<?x256xi32, strided<[?, 1]>>, memref<?xf32, strided<[?]>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemRead]>:$words, Arg<AnyMemRef, "", [MemWrite]>:$sums, Index:$part, Index:$parts);
  let assemblyFormat = "$words `to` $sums `part` `(` $part `,` $parts `)` attr-dict `:` type($words) `,` type($sums)";
  let hasVerifier = 1;
}

def FA2_ZeroBoxOp : FA2_Op<"zero_box", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "zeroes a box of an argument";
  let description = [{
    The elements of `sum` whose index is at least `from` and less than `to` in each dimension. The warps of a block share those of
    dimension `rows`, lanes those of the last, whose elements are neighbours: 16 bytes at a time, so that rows begin at multiples of 16
    bytes, and what lies behind their end up to one is the row's too.

    Example: `fa2.zero_box %dbias from(%b0, %h, %i0, %j0) to(%b1, %h1, %i1, %j1) {rows = 2} : memref<?x?x?x?xbf16, strided<[?, ?, ?, ?]>>`
  }];
  let arguments = (ins Arg<AnyMemRef, "", [MemWrite]>:$sum, Variadic<Index>:$from, Variadic<Index>:$to, I64Attr:$rows);
  let assemblyFormat = "$sum `from` `(` $from `)` `to` `(` $to `)` attr-dict `:` type($sum)";
  let hasVerifier = 1;
}

def FA2_StoreSumsOp : FA2_Op<"store_sums", [MemoryEffects<[MemWrite]>]> {
  let summary = "sums of 16 rows each, to global memory";
  let description = [{
    `sums[indices, first + i] = sum over 16 i <= r < 16 (i + 1) of rows[r]`, in one order, whatever warps have the rows.
    There are as many sums as tiles of 16 rows; none lies behind the last dimension's end.

    Example: `fa2.store_sums %x to %parts[%head, %batch] from %first : tensor<128xf32>, memref<?x?x?xf32, strided<[?, ?, 1]>>`
  }];
  let arguments = (ins AnyRankedTensor:$rows, AnyMemRef:$sums, Variadic<Index>:$indices, Index:$first);
  let assemblyFormat = "$rows `to` $sums `[` $indices `]` `from` $first attr-dict `:` type($rows) `,` type($sums)";
  let hasVerifier = 1;
}

def FA2_AddUpOp : FA2_Op<"add_up", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the sum of one index of a packed tensor in global memory";
  let description = [{
    `sums[index] = sum over all others of parts[index, ...]`, 0 of nothing, in one order, which the extents decide.

    Example: `fa2.add_up %parts to %dsink[%head] : memref<?x?x?xf32, strided<[?, ?, 1]>>, memref<?xf32, strided<[?]>>`
  }];
  let arguments = (ins AnyMemRef:$parts, AnyMemRef:$sums, Index:$index);
  let assemblyFormat = "$parts `to` $sums `[` $index `]` attr-dict `:` type($parts) `,` type($sums)";
  let hasVerifier = 1;
}

#endif
