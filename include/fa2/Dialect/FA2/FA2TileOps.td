//===- FA2TileOps.td - one thread block's program over tiles -*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2TILEOPS_TD
#define FA2_DIALECT_FA2_FA2TILEOPS_TD

include "fa2/Dialect/FA2/FA2MemoryOps.td"
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

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

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
