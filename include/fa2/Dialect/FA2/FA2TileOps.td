//===- FA2TileOps.td - one thread block's program over tiles -*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2TILEOPS_TD
#define FA2_DIALECT_FA2_FA2TILEOPS_TD

include "fa2/Dialect/FA2/FA2RangeOps.td"
include "mlir/IR/OpAsmInterface.td"

//===----------------------------------------------------------------------===//
// The kernel and where its work comes from
//===----------------------------------------------------------------------===//

def FA2_KernelOp : FA2_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface, Symbol,
    AutomaticAllocationScope, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "the program of one thread block";
  let description = [{
    Arguments are memrefs in global memory and scalars, described one by one by
    `arguments` (names, which the printer uses, directions, dimensions, types). `shared_bytes` is set once
    shared memory has been allocated. With `when`, a launch of the program runs the kernel only where that holds. Of a program's
    kernels the `main` one is that whose schedule was chosen; the others prepare for it, finish its work or stand in for it.
    `parts` are launches besides: each for some of the rows, where another kernel has the others. One that has only these says `when = <"0">`.
    Kernels with an `alternative` do a program's work in the place of those with another, or with none: no launch runs kernels of two, and each
    has the workspace for itself.

    Example:

    ```mlir
    fa2.kernel @copy(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
        attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                    schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                    arguments = [#fa2.arg<"x", "in", ["batch", "seqlen_q", "heads", 64] x bf16>]} {
      fa2.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
    FA2_SpecAttr:$spec, FA2_ScheduleAttr:$schedule,
    TypedArrayAttrBase<FA2_ArgumentAttr, "argument descriptions">:$arguments,
    OptionalAttr<I64Attr>:$shared_bytes, OptionalAttr<FA2_GuardAttr>:$when, UnitAttr:$main,
    OptionalAttr<TypedArrayAttrBase<FA2_RowsAttr, "parts of the rows">>:$parts,
    OptionalAttr<I64Attr>:$alternative,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Whether it takes rows behind another kernel's, beside which it may run.
    bool followsOthersRows();
    /// Whether no launch runs both.
    bool isInPlaceOf(KernelOp other) { return getAlternativeAttr() != other.getAlternativeAttr(); }
  }];
}

def FA2_ReturnOp : FA2_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "ends a kernel";
  let description = "Example: see `fa2.kernel`.";
  let assemblyFormat = "attr-dict";
}

def FA2_ForEachTileOp : FA2_Op<"for_each_tile", [SingleBlockImplicitTerminator<"YieldOp">,
    RecursiveMemoryEffects]> {
  let summary = "runs its body for each tile of queries that this block is given";
  let description = [{
    The body's arguments are the tile's index along the sequence, its head and its
    batch entry. The tiles cover `rows` x `heads` x `batch` (the caller's extents)
    once over the whole grid; which block gets which tile, and when, is the
    lowering's choice: one block a tile, or persistent blocks with a scheduler.

    `order = longest_first` starts the tiles at the end of each sequence first, of several heads side by side: under a
    causal mask, tiles of queries have the most keys there. `balanced` is that order too, but where persistent blocks have between two
    and three tiles each, some of the shortest start among the longest, so that no block is left with a long third one. `interleaved` and `shortest_first` begin at its other end. With `shortest_then_longest`, of keys, the last eighth of
    the heads (four at most) starts behind the others, each with its first tile, and they with their last: under a causal mask the grid ends with the shortest. With
    `batches_abreast` (else ascending), `longest_batches_abreast` and `interleaved_batches_abreast` the entries of the batch follow each other,
    tile by tile: blocks that run at once read the same tile of a bias that they share.

    With `cluster`, so many blocks, which run at the same time on one part of the chip and reach each other's shared memory (a cluster
    of PTX's), take each tile together; `fa2.cluster_rank` tells them apart.

    Example:

    ```mlir
    fa2.for_each_tile %qb, %head, %batch in (%seqlen by 128, %heads, %batches) order longest_first {
      ...
    }
    ```
  }];
  let arguments = (ins Index:$rows, Index:$heads, Index:$batches, I64Attr:$block,
    DefaultValuedAttr<FA2_TileOrderAttr, "::fa2::TileOrder::Ascending">:$order,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<2>]>, "1">:$cluster);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$heads,
    "::mlir::Value":$batches, "int64_t":$block, "TileOrder":$order, CArg<"int64_t", "1">:$cluster)>];
}

def FA2_ClusterRankOp : FA2_Op<"cluster_rank", [Pure]> {
  let summary = "the number of this block among those that take the tile together";
  let description = [{
    From 0 on; see `fa2.for_each_tile`.

    Example: `%rank = fa2.cluster_rank`
  }];
  let results = (outs Index:$rank);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def FA2_SequenceOp : FA2_Op<"sequence", [Pure]> {
  let summary = "where a batch entry's rows lie in a tensor, and how many they are";
  let description = [{
    The only source of sequence lengths. In a padded batch the offset is 0 and the
    length is the extent of dimension 1.

    Example: `%offset, %length = fa2.sequence %q[%batch] : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>`
  }];
  let arguments = (ins AnyMemRef:$source, Index:$batch);
  let results = (outs Index:$offset, Index:$length);
  let assemblyFormat = "$source `[` $batch `]` attr-dict `:` type($source)";
}

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

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

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

def FA2_RelayOp : FA2_Op<"relay", [Pure, SameOperandsAndResultType]> {
  let summary = "the same tile, for another role than the one that computes it";
  let description = [{
    Warpgroups that have programs of their own have registers of their own: the tile goes through shared memory, from
    which products read it too. A vector is computed by a warp beside the one that copies, for all that multiply; broadcasts along
    columns and diagonals alone read it, where it lies.

    Example: `%there = fa2.relay %ds : tensor<64x64xbf16>`
  }];
  let arguments = (ins AnyRankedTensor:$tile);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
}

def FA2_ExchangeOp : FA2_Op<"exchange", [Pure, SameOperandsAndResultType]> {
  let summary = "the same tile of the other block of a cluster";
  let description = [{
    Of two blocks that take a tile together (`fa2.for_each_tile`), each gets what the other gives. Both come here equally often.

    Example: `%other = fa2.exchange %ds : tensor<64x64xbf16>`
  }];
  let arguments = (ins AnyRankedTensor:$tile);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def FA2_DotOp : FA2_Op<"dot", [Pure, AttrSizedOperandSegments]> {
  let summary = "a product of two tiles, accumulated in f32";
  let description = [{
    `d = a b + acc`, with a^T for a under `transpose_a` and b^T for b under `transpose_b`;
    without acc, acc is 0. `warps` says how the block's warps share the result; where it is not
    said, they have what is combined with it, or else the rows. Of b without `transpose_b` the columns from
    `first_column` on, a multiple of 32, are taken, as many as d has, and `from` a column on, which only the program knows,
    those as far behind it: a multiple of 64, or of 8 where they end in the same 64; of a with `transpose_a` the rows of
    the product from `first_row` on, a multiple of 64. `name` is what schedules of a loop
    call the product; pieces of one have its name. Where a block's warpgroups have programs of their own, `role` is whose it is. Of an a that lies in shared memory the first `held` columns, a multiple of 16,
    are read into registers once, if the target's matmul takes them from there.

    Example:

    ```mlir
    %s = fa2.dot %q, %k {transpose_b} : tensor<128x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xf32> over <4 x 1>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b, Optional<AnyRankedTensor>:$acc,
    UnitAttr:$transpose_b, UnitAttr:$transpose_a, OptionalAttr<FA2_WarpGridAttr>:$warps, OptionalAttr<StrAttr>:$name,
    DefaultValuedAttr<I64Attr, "0">:$first_column, DefaultValuedAttr<I64Attr, "0">:$first_row, Optional<Index>:$column,
    DefaultValuedAttr<I64Attr, "0">:$held, OptionalAttr<StrAttr>:$role);
  let results = (outs AnyRankedTensor:$d);
  let assemblyFormat = [{ $a `,` $b (`from` $column^)? (`acc` `(` $acc^ `:` type($acc) `)`)? attr-dict
    `:` type($a) `,` type($b) `->` type($d) (`over` $warps^)? }];
  let builders = [OpBuilder<(ins "::mlir::Type":$d, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$acc, "bool":$transpose_b,
      "bool":$transpose_a, "::fa2::WarpGridAttr":$warps, "::mlir::StringAttr":$name, CArg<"int64_t", "0">:$held),
    [{ build($_builder, $_state, d, a, b, acc, transpose_b, transpose_a, warps, name, /*first_column=*/0, /*first_row=*/0, ::mlir::Value(), held, ::mlir::StringAttr()); }]>];
  let hasVerifier = 1;
}

def FA2_PositionsOp : FA2_Op<"positions", [Pure]> {
  let summary = "where the rows, or the columns, of a tile are in their sequence";
  let description = [{
    `result[i] = block * (length of the result) - lead + i`, where `lead` is that of `fa2.apply_mask`.

    Example: `%rows = fa2.positions %qb : tensor<128xindex>`
  }];
  let arguments = (ins Index:$block, Optional<Index>:$lead);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$block (`lead` $lead^)? attr-dict `:` type($result)";
}

def FA2_DistanceOp : FA2_Op<"distance", [Pure]> {
  let summary = "how far a tile's columns lie behind its rows";
  let description = [{
    `result[i, j] = (column_block * columns + j) - (row_block * rows - lead + i)`, as an index, or in f32,
    which is exact below 2^24. What elements on one diagonal of a thread's registers share is
    computed once: an addition, and all that a program makes of it alone, such as a read.

    A vector has a value a diagonal of a tile of `of` = [rows, columns], from its lower left corner: `result[t]` is that of the
    elements with `j - i = t - (rows - 1)`. It is for what costs more than a shuffle; `fa2.broadcast` brings it to the tile.

    Examples: `%d = fa2.distance %j from %qb : tensor<128x64xf32>`,
    `%v = fa2.distance %j from %qb {of = array<i64: 128, 64>} : tensor<191xindex>`
  }];
  let arguments = (ins Index:$column_block, Index:$row_block, Optional<Index>:$lead, OptionalAttr<DenseI64ArrayAttr>:$of);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$column_block `from` $row_block (`lead` $lead^)? attr-dict `:` type($result)";
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

def FA2_ApplyMaskOp : FA2_Op<"apply_mask", [Pure, AllTypesMatch<["scores", "result"]>]> {
  let summary = "scores of keys that a row does not see become -inf";
  let description = [{
    With i = q_block * rows - lead + the tile's row and j = kv_block * columns + its column,
    `result = scores` where max(0, lower(i)) <= j < min(seqlen_k, upper(i)), else -inf.
    With `transposed` the tile's rows are keys and its columns queries. Where the rows are
    those of several packed `heads` (`!fa2.view`), q_block counts tiles of rows / heads queries,
    and i is the query of the tile's row. The first tile of queries begins `lead` rows before the sequence (none if it
    is not given).

    Only tiles outside of their range's full part (`fa2.kv_range`) need it: for a kv_block inside (with
    `transposed`, a q_block), the operation is the identity.

    Example:

    ```mlir
    %sm = fa2.apply_mask %s at(%qb, %j) lengths(%sq, %sk) {mask = #fa2.mask<causal>}
        : tensor<128x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$scores, Index:$q_block, Index:$kv_block,
    Index:$seqlen_q, Index:$seqlen_k, Optional<Index>:$lead,
    OptionalAttr<FA2_IntervalMask>:$mask, UnitAttr:$transposed,
    DefaultValuedAttr<I64Attr, "1">:$heads);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{ $scores `at` `(` $q_block `,` $kv_block `)` (`lead` $lead^)? `lengths` `(` $seqlen_q `,` $seqlen_k `)`
    attr-dict `:` type($scores) }];
}

def FA2_KeepOp : FA2_Op<"keep", [Pure]> {
  let summary = "which elements of a tile dropout keeps";
  let description = [{
    What `fa2.attention` says of its dropout, for the elements that `fa2.apply_mask` has at these blocks: the byte of
    each is at least `threshold`. `head` is b heads + h, of packed `heads` that of the first; `words` are seed and offset.
    As i16, what is kept has all bits set, so that it leaves of a tile of 16 bits by `arith.andi` what is to be left.

    Example:

    ```mlir
    %kept = fa2.keep at(%qb, %j) head(%bh) words(%w0, %w1, %w2, %w3) from %t : tensor<128x64xi1>
    ```
  }];
  let arguments = (ins Index:$q_block, Index:$kv_block, Index:$head, Variadic<I32>:$words, I32:$threshold,
    UnitAttr:$transposed, DefaultValuedAttr<I64Attr, "1">:$heads);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{ `at` `(` $q_block `,` $kv_block `)` `head` `(` $head `)` `words` `(` $words `)` `from` $threshold
    attr-dict `:` type($result) }];
  let hasVerifier = 1;
}

def FA2_SoftmaxStepOp : FA2_Op<"softmax_step", [Pure, AllTypesMatch<["s", "p"]>,
    AllTypesMatch<["m", "new_m"]>, AllTypesMatch<["l", "new_l"]>, AllTypesMatch<["m", "alpha"]>]> {
  let summary = "one step of the online softmax";
  let description = [{
    With c the scale, row by row,

    ```
    top   = rowmax s + start / (log2(e) c)
    new_m = max(m, top), or m itself while log2(e) c (rowmax s - m) <= slack, else top
    p     = exp(c (s - new_m))
    alpha = exp(c (m - new_m))
    new_l = alpha l + rowsum p
    ```

    new_m is a reference, not necessarily the maximum: the final division makes
    either exact. With `start` it lies above the maximum, so that p begins at 2^-start and may
    grow by that much more before it leaves its type's range. m begins with a finite value, -2^100, not with -inf: then a row
    whose scores are all -inf so far has p = 0 and l = 0 like any other, never
    NaN. Scores below that value count as -inf.

    The exponential is 2^(k s - k m) with k = log2(e) c, one fused multiply-add whose
    second term is rounded: it is off by |k m| 2^-24 powers of two, the same for all of a
    row's scores, which the division takes out again while it fits p's type. Of a constant c =
    ln 2, k is 1 and nothing is rounded: scores of any size, in units of log2(e), keep their
    differences.

    With `polynomial` the exponentials of odd columns come from a polynomial, within 3e-6 of them.

    Example:

    ```mlir
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c {slack = 8.0 : f32}
        : tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$s, AnyRankedTensor:$m, AnyRankedTensor:$l, F32:$scale,
    DefaultValuedAttr<F32Attr, "0.0f">:$slack, DefaultValuedAttr<I64Attr, "0">:$start, UnitAttr:$polynomial);
  let results = (outs AnyRankedTensor:$p, AnyRankedTensor:$new_m, AnyRankedTensor:$new_l,
    AnyRankedTensor:$alpha);
  let assemblyFormat = "$s `,` $m `,` $l `scale` $scale attr-dict `:` type($s) `,` type($m) `,` type($l)";
  let hasVerifier = 1;
}

def FA2_SoftmaxRecomputeOp : FA2_Op<"softmax_recompute", [Pure, AllTypesMatch<["s", "p"]>]> {
  let summary = "the probabilities of a tile of scores from the rows' log-sum-exp";
  let description = [{
    With c the scale and n = -log2(e) lse of each query,

    ```
    p[i, j] = exp(c s[i, j] - lse[i]) = 2^(log2(e) c s[i, j] + n[i])
    ```

    With `columns` the tile is transposed: the query is the column, n[j]. n = -inf stands
    for a query that sees no key; its p is 0. Without n, the scores began with -lse / c:

    ```
    p[i, j] = 2^(log2(e) c s[i, j])
    ```

    Example: `%p = fa2.softmax_recompute %s, %n scale %c {columns} : tensor<64x128xf32>, tensor<128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$s, Optional<AnyRankedTensor>:$n, F32:$scale, UnitAttr:$columns);
  let results = (outs AnyRankedTensor:$p);
  let assemblyFormat = "$s (`,` $n^)? `scale` $scale attr-dict `:` type($s) (`,` type($n)^)?";
  let hasVerifier = 1;
}

def FA2_BroadcastOp : FA2_Op<"broadcast", [Pure]> {
  let summary = "a tile whose columns, or rows, are one vector, or whose diagonals are a value each";
  let description = [{
    `result[i, j] = vector[i]`; with `columns`, `result[i, j] = vector[j]`; with `diagonals`,
    `result[i, j] = vector[j - i + rows - 1]`, of f32; further values of the vector are left alone. Where the
    result is some columns of a tile, from `first` on, j counts from there.

    Examples: `%t = fa2.broadcast %d {columns} : tensor<128xf32> -> tensor<64x128xf32>`,
    `%t = fa2.broadcast %d {diagonals} : tensor<191xf32> -> tensor<64x128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$vector, UnitAttr:$columns, UnitAttr:$diagonals,
    DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$vector attr-dict `:` type($vector) `->` type($result)";
  let hasVerifier = 1;
}

def FA2_GatherOp : FA2_Op<"gather", [Pure]> {
  let summary = "a tile whose elements are those of a vector at given places";
  let description = [{
    `result[i, j] = vector[places[i, j]]`, of f32. The vector is what `fa2.load` gives, before the loop: it lies in
    shared memory, where threads read an element each at any place. All places are within the vector.

    Example: `%t = fa2.gather %table[%places] : tensor<4096xf32>, tensor<64x128xindex> -> tensor<64x128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$vector, AnyRankedTensor:$places);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{ $vector `[` $places `]` attr-dict `:` type($vector) `,` type($places) `->` type($result) }];
  let hasVerifier = 1;
}

def FA2_TransposeOp : FA2_Op<"transpose", [Pure]> {
  let summary = "a tile with rows and columns changed, on its way through shared memory";
  let description = [{
    `result[i, j] = tile[j, i]`. What is loaded comes to the threads so, as `ldmatrix` can. A tile that is computed goes into
    shared memory so, as `stmatrix` can: for products whose left operand it is, and to be stored.

    Example: `%t = fa2.transpose %b : tensor<64x128xbf16> -> tensor<128x64xbf16>`
  }];
  let arguments = (ins AnyRankedTensor:$tile);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def FA2_SumRowsOp : FA2_Op<"sum_rows", [Pure]> {
  let summary = "the sum of each row of a tile";
  let description = [{
    `sums[i] = sum over j of tile[i, j]`

    Example: `%d = fa2.sum_rows %x : tensor<128x64xf32> -> tensor<128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$tile);
  let results = (outs AnyRankedTensor:$sums);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($sums)";
  let hasVerifier = 1;
}

def FA2_AddRowsOp : FA2_Op<"add_rows", [Pure, AllTypesMatch<["sums", "result"]>]> {
  let summary = "the sum of each row of a tile, added to what was summed before";
  let description = [{
    `result[i] = sums[i] + sum over j of tile[i, j]`, of which each thread holds what its own elements
    give: the rest of the sum is left to what reads it, `fa2.scatter`.

    Example: `%l1 = fa2.add_rows %x to %l : tensor<128x64xf32>, tensor<128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$tile, AnyRankedTensor:$sums);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tile `to` $sums attr-dict `:` type($tile) `,` type($sums)";
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

def FA2_ScaleRowsOp : FA2_Op<"scale_rows", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "each row of a tile times a factor";
  let description = [{
    `result[i, j] = factors[i] tile[i, j]`. With `skip_unit`, warps whose factors are
    all 1 skip the multiplication (the lazy rescale).

    Example: `%os = fa2.scale_rows %o, %a : tensor<128x64xf32>, tensor<128xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$tile, AnyRankedTensor:$factors, UnitAttr:$skip_unit);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tile `,` $factors attr-dict `:` type($tile) `,` type($factors)";
  let hasFolder = 1;
}

def FA2_SoftmaxFinishOp : FA2_Op<"softmax_finish", [Pure, AllTypesMatch<["o", "out"]>]> {
  let summary = "the last step of the online softmax";
  let description = [{
    ```
    out = o / l,  lse = c m + log l;  where l = 0:  out = 0, lse = -inf
    ```

    Example:

    ```mlir
    %out, %lse = fa2.softmax_finish %o, %m, %l scale %c : tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32> -> tensor<128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$o, AnyRankedTensor:$m, AnyRankedTensor:$l, F32:$scale);
  let results = (outs AnyRankedTensor:$out, AnyRankedTensor:$lse);
  let assemblyFormat = [{ $o `,` $m `,` $l `scale` $scale attr-dict
    `:` type($o) `,` type($m) `,` type($l) `->` type($lse) }];
}

#endif
