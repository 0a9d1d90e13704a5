//===- FA2GPUOps.td - matmuls over warps, roles, launches --*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPUOPS_TD
#define FA2_DIALECT_FA2GPU_FA2GPUOPS_TD

include "fa2/Dialect/FA2GPU/FA2GPURingOps.td"

//===----------------------------------------------------------------------===//
// Tiles and layouts
//===----------------------------------------------------------------------===//

def FA2GPU_LoadOp : FA2GPU_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "a tile from global to shared memory";
  let description = [{
    What `fa2.load` means, with the tile in shared memory; `fa2gpu-form-rings` says how. With `by_threads`, those of the role
    that loads copy it (cp.async), even where the copy engine could. Of an unaligned view they do: the tile is
    `#fa2gpu.shared<unaligned = true>`.

    Example:
    `%k = fa2gpu.load %kv[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16, #fa2gpu.shared>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead]>:$view, Index:$row, Optional<Index>:$column, UnitAttr:$by_threads);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$view `[` $row (`,` $column^)? `]` attr-dict `:` type($view) `->` type($tile)";
  let hasVerifier = 1;
}

def FA2GPU_LocalLoadOp : FA2GPU_Op<"local_load", [MemoryEffects<[MemRead]>, AttrSizedOperandSegments]> {
  let summary = "a tile from shared memory into registers (ldmatrix, or value by value)";
  let description = [{
    As an operand, whose columns may be the first ones alone, or as an accumulator has it; `transposed`, with rows and columns changed. An unaligned tile says which part
    `of` its view it is: where in its first chunk a row begins, its address knows.

    Examples: `%qr = fa2gpu.local_load %q : tensor<128x64xbf16, #fa2gpu.shared> -> tensor<128x64xbf16, #op>`,
    `%x = fa2gpu.local_load %t of %bv[%row, %col] : !fa2.view<? x ? x bf16> : tensor<128x64xbf16, #fa2gpu.shared<unaligned = true>> -> tensor<128x64xbf16, #acc>`
  }];
  let arguments = (ins AnyRankedTensor:$source, UnitAttr:$transposed, Optional<FA2_ViewType>:$view, Optional<Index>:$row,
    Optional<Index>:$column);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{ $source (`of` $view^ `[` $row `,` $column `]` `:` type($view))? attr-dict `:` type($source) `->` type($result) }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$source, "bool":$transposed),
    [{ build($_builder, $_state, result, source, transposed, ::mlir::Value(), ::mlir::Value(), ::mlir::Value()); }]>];
  let hasVerifier = 1;
}

def FA2GPU_LocalStoreOp : FA2GPU_Op<"local_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "a tile from registers into shared memory";
  let description = "`transposed`, with rows and columns changed.\n\nExample: `fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, tensor<128x64xbf16, #fa2gpu.shared>`";
  let arguments = (ins AnyRankedTensor:$value, AnyRankedTensor:$slot, UnitAttr:$transposed);
  let assemblyFormat = "$value `,` $slot attr-dict `:` type($value) `,` type($slot)";
  let hasVerifier = 1;
}

def FA2GPU_ConvertLayoutOp : FA2GPU_Op<"convert_layout", [Pure]> {
  let summary = "the same tile in another layout";
  let description = [{
    Both layouts must keep every element in its warp and lane; the conversion then
    only renames registers. That of P from accumulator to left operand is such.

    Example: `%pb = fa2gpu.convert_layout %p : tensor<64x64xbf16, #acc> -> tensor<64x64xbf16, #op>`
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def FA2GPU_JoinOp : FA2GPU_Op<"join", [Pure]> {
  let summary = "two tiles in registers as the columns of one";
  let description = [{
    All are accumulators of one layout; registers are renamed.

    Example: `%p = fa2gpu.join %a, %b : tensor<64x32xf32, #acc>, tensor<64x32xf32, #acc> -> tensor<64x64xf32, #acc>`
  }];
  let arguments = (ins AnyRankedTensor:$left, AnyRankedTensor:$right);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$left `,` $right attr-dict `:` type($left) `,` type($right) `->` type($result)";
  let hasVerifier = 1;
}

def FA2GPU_ShareOp : FA2GPU_Op<"share", [Pure]> {
  let summary = "a tile from registers, where every warp can read it";
  let description = [{
    Through shared memory, since other warps need other parts of the tile than the
    one that holds it; `fa2gpu-form-rings` says how. `transposed`, with rows and columns changed.

    Example: `%ds = fa2gpu.share %x : tensor<128x64xbf16, #acc> -> tensor<128x64xbf16, #fa2gpu.shared>`
  }];
  let arguments = (ins AnyRankedTensor:$source, UnitAttr:$transposed);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def FA2GPU_ExchangeOp : FA2GPU_Op<"exchange", [Pure, SameOperandsAndResultType]> {
  let summary = "a shared tile of the cluster's other block";
  let description = [{
    What `fa2.exchange` means, of tiles in shared memory; `fa2gpu-form-rings` says how.

    Example: `%other = fa2gpu.exchange %ds : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>`
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

def FA2GPU_DotStartOp : FA2GPU_Op<"dot_start", [MemoryEffects<[MemRead]>, AttrSizedOperandSegments]> {
  let summary = "starts a matmul";
  let description = [{
    `a b + acc`, with a^T for a under `transpose_a` (then a is in shared memory) and b^T for
    b under `transpose_b`. a is in shared memory or in operand registers, b in shared
    memory; the result is in flight until it is waited for. Registers of a belong to the warps
    that have its rows of the result. What else an instruction asks, its family knows: wgmma
    takes 64 rows a warpgroup, up to 256 columns, shared tiles in panels of 128 bytes, and of
    columns that warpgroups share 32 or a multiple of 64 each where b is not transposed. Of such b the columns from `first_column` on
    are taken, as many as d has, or those as far behind the column that they begin `from`, whole panels, or a multiple of 8 in the panel in which they end; of b with `transpose_b` the rows from `first_column`, a multiple of 8, on; of a with `transpose_a` the rows of the product from `first_row` on. With `clears`, acc gives its
    registers alone: the product begins with zeros, and nothing reads acc's values any more
    (`fa2gpu-share-accumulators`). With `joins`, the product before it was started for it too: its registers were free then, and it needs no fence of its own. `name` is what schedules of a loop call the product.
    The first columns of an a in shared memory, a multiple of 16, may be `held` in registers too, which nothing writes again: then the others alone are read from there.

    Example:

    ```mlir
    %f = fa2gpu.dot_start %q, %k {transpose_b}
        : tensor<64x64xbf16, #fa2gpu.shared>, tensor<64x64xbf16, #fa2gpu.shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b, Optional<AnyRankedTensor>:$acc,
    UnitAttr:$transpose_b, UnitAttr:$transpose_a, OptionalAttr<StrAttr>:$name,
    DefaultValuedAttr<I64Attr, "0">:$first_column, DefaultValuedAttr<I64Attr, "0">:$first_row, UnitAttr:$clears,
    UnitAttr:$joins, Optional<Index>:$column, Optional<AnyRankedTensor>:$held);
  let results = (outs FA2GPU_InFlightType:$d);
  let assemblyFormat = [{ $a `,` $b (`from` $column^)? (`acc` `(` $acc^ `:` type($acc) `)`)? (`held` `(` $held^ `:` type($held) `)`)? attr-dict
    `:` type($a) `,` type($b) `->` type($d) }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the family's matmul goes on after its start, and reads shared memory by itself.
    bool isAsynchronous();
  }];
}

def FA2GPU_DotWaitOp : FA2GPU_Op<"dot_wait", [Pure]> {
  let summary = "the accumulator of a matmul, once it is complete";
  let description = [{
    `pending` is how many matmuls started later may still be in flight; it is set by
    `fa2gpu-place-dot-waits`. `keep` names operands in registers that stay untouched until here.

    Example: see `fa2gpu.dot_start`.
  }];
  let arguments = (ins FA2GPU_InFlightType:$source, Variadic<AnyRankedTensor>:$keep,
    OptionalAttr<I64Attr>:$pending);
  let results = (outs AnyRankedTensor:$d);
  let assemblyFormat = [{ $source (`keep` `(` $keep^ `:` type($keep) `)`)? attr-dict
    `:` type($source) `->` type($d) }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$source),
    [{ build($_builder, $_state, type, source, ::mlir::ValueRange{}, ::mlir::IntegerAttr{}); }]>];
}

def FA2GPU_DotFenceOp : FA2GPU_Op<"dot_fence", []> {
  let summary = "from here on registers are written that a later matmul begins with";
  let description = [{
    `pending` matmuls are in flight and stay so. It is a wait for none of them: without it ptxas counts what is written
    behind them, in registers that are theirs as little as anyone's, to the same stage of its pipeline, and waits for all (C7517).
    `fa2gpu-place-dot-waits` places it.

    Example: `fa2gpu.dot_fence 1`
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def FA2GPU_NormalizerOp : FA2GPU_Op<"normalizer", [Pure]> {
  let summary = "the row part of fa2.softmax_finish";
  let description = [{
    `inverse = 1 / l`, `lse = c m + log l`; where l = 0 they are 0 and -inf. What `fa2.softmax_finish` takes of
    the accumulator is then `fa2.scale_rows` by `inverse`: this part need not wait for the last matmul.

    Example: `%inv, %lse = fa2gpu.normalizer %m, %l scale %c : tensor<128xf32, #row>, tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$m, AnyRankedTensor:$l, F32:$scale);
  let results = (outs AnyRankedTensor:$inverse, AnyRankedTensor:$lse);
  let assemblyFormat = "$m `,` $l `scale` $scale attr-dict `:` type($m) `,` type($l) `->` type($inverse) `,` type($lse)";
}

def FA2GPU_SoftmaxSpeculateOp : FA2GPU_Op<"softmax_speculate", [Pure, AllTypesMatch<["s", "p"]>]> {
  let summary = "a step of the online softmax that takes no maximum";
  let description = [{
    ```
    p   = exp(c (s - m))
    sum = rowsum p
    ```

    m is any reference. A score far above it makes its lane's sum, which is needed anyway, large, and
    `fa2gpu.exceeds` sees that. Without m, it is in the scores already: p = exp(c s). Without sum, that is left to
    `fa2gpu.lane_sums`. `polynomial` is that of `fa2.softmax_step`.

    Example:
    `%p, %sum = fa2gpu.softmax_speculate %s, %m scale %c : tensor<128x64xf32, #acc>, tensor<128xf32, #row> -> tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$s, Optional<AnyRankedTensor>:$m, F32:$scale, UnitAttr:$polynomial);
  let results = (outs AnyRankedTensor:$p, Optional<AnyRankedTensor>:$sum);
  let assemblyFormat = "$s (`,` $m^)? `scale` $scale attr-dict `:` type($s) (`,` type($m)^)? (`->` type($sum)^)?";
}

def FA2GPU_LaneSumsOp : FA2GPU_Op<"lane_sums", [Pure]> {
  let summary = "the sums of a tile's rows, of which each lane has that of its own elements";
  let description = [{
    In the order of `fa2gpu.softmax_speculate`'s, so that the bits are the same.

    Example: `%sums = fa2gpu.lane_sums %p_alone : tensor<128x64xf32, #acc> -> tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$tile);
  let results = (outs AnyRankedTensor:$sums);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($sums)";
}

def FA2GPU_ExceedsOp : FA2GPU_Op<"exceeds", [Pure]> {
  let summary = "whether any lane's sum of this warp's rows is above a power of two";
  let description = [{
    Exponentials are not negative, so while no sum is above 2^above, none of them is. The answer is yes for what is no
    number (NaN).

    Example: `%grew = fa2gpu.exceeds %sum above 60 : tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$sum, I64Attr:$above);
  let results = (outs I1:$result);
  let assemblyFormat = "$sum `above` $above attr-dict `:` type($sum)";
}

def FA2GPU_SoftmaxRebaseOp : FA2GPU_Op<"softmax_rebase", [Pure, AllTypesMatch<["m", "new_m", "alpha"]>]> {
  let summary = "a new reference for the rows of which a tile's sum is large";
  let description = [{
    Row by row, with big the largest of its lanes' sums and n = start + floor(log2 big),

    ```
    where big > 2^above:  new_m = m + n / (log2(e) c), alpha = 2^-n,   or with s:  new_m = rowmax s, alpha = exp(c (m - new_m))
    elsewhere:            new_m = m,                   alpha = 1
    ```

    What was computed with m is scaled by alpha; big becomes about 2^-start. A row's own sums decide, so that its bits do
    not depend on the rows beside it. s is given where exponentials have overflowed.

    Example:
    `%m1, %a = fa2gpu.softmax_rebase %m, %sum scale %c above 60 : tensor<128xf32, #row>, tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$m, AnyRankedTensor:$sum, Optional<AnyRankedTensor>:$s, F32:$scale,
    I64Attr:$above, DefaultValuedAttr<I64Attr, "0">:$start);
  let results = (outs AnyRankedTensor:$new_m, AnyRankedTensor:$alpha);
  let assemblyFormat = [{ $m `,` $sum (`from` $s^)? `scale` $scale `above` $above attr-dict
    `:` type($m) `,` type($sum) (`,` type($s)^)? }];
}

def FA2GPU_NeedsRescaleOp : FA2GPU_Op<"needs_rescale", [Pure]> {
  let summary = "whether any factor of this warp's rows is not 1";
  let description = [{
    `sums` are the rows' sums of exponentials; the answer is known once these are, and it is yes where one has no
    value (NaN), which changes nothing: scaling by factors of 1 is right too. So what waits for the answer waits
    for the exponentials.

    Example: `%any = fa2gpu.needs_rescale %alpha after %l : tensor<128xf32, #row>, tensor<128xf32, #lrow>`
  }];
  let arguments = (ins AnyRankedTensor:$factors, AnyRankedTensor:$sums);
  let results = (outs I1:$result);
  let assemblyFormat = "$factors `after` $sums attr-dict `:` type($factors) `,` type($sums)";
}

//===----------------------------------------------------------------------===//
// Roles, tiles of a persistent block, turns
//===----------------------------------------------------------------------===//

def FA2GPU_RolesOp : FA2GPU_Op<"roles", [NoTerminator, RecursiveMemoryEffects]> {
  let summary = "warps of a block with programs of their own";
  let description = [{
    The block's first warps run the first region, the next ones the second, and so on. Each thread of a role has that
    role's registers (setmaxnreg); warps are counted from the role's first. Values from outside are the same for all.
    A role has whole warpgroups, or shares one with others that have as many registers.

    What one thread does (`fa2gpu.tensor_copy`, and acquire and commit of what it fills) one thread of the role's first
    warp does, everything else all of its threads. Where a role has nothing else to do, `one thread` runs it, which
    `fa2gpu-allocate` sets.

    Example:

    ```mlir
    fa2gpu.roles @consumer(8 warps, 240 registers) {
      ...
    } @producer(4 warps, 24 registers, one thread) {
      ...
    }
    ```
  }];
  let arguments = (ins StrArrayAttr:$names, DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers, DenseBoolArrayAttr:$one_thread);
  let regions = (region VariadicRegion<SizedRegion<1>>:$programs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::fa2::gpu::RoleAttr>":$roles)>];
  let extraClassDeclaration = [{
    ::llvm::StringRef getRoleName(unsigned role) { return ::llvm::cast<::mlir::StringAttr>(getNames()[role]).getValue(); }
    /// The warps of the block before those of a role, and all of them.
    int64_t getFirstWarp(unsigned role);
    int64_t getTotalWarps() { return getFirstWarp(getPrograms().size()); }
    /// The registers of each warpgroup's threads.
    ::llvm::SmallVector<int64_t> getGroupRegisters();
    /// The role that `op` is part of.
    unsigned getRoleOf(::mlir::Operation *op);
  }];
}

def FA2GPU_TileLoopOp : FA2GPU_Op<"tile_loop", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "runs its body for one tile of queries after another, until none is left";
  let description = [{
    What `fa2.for_each_tile` means, in a persistent block. The body's arguments are the tile's
    index along the sequence, its head, its batch entry, how many tiles the block has had before
    (`visit`), and what is carried from tile to tile: rings' cursors, which begin with `inits`.

    A thread of the role that `draws` takes the next tile's number from a counter in the workspace and puts
    it into `queue`, where all others read it. A role of one thread draws when it is done with a tile; one that
    has more to do draws when it begins with one. With `located`, it is not the number that goes into the
    queue but the tile's index, head and batch entry, so that no other role divides. With `cluster`, so many
    blocks take each tile together, as in `fa2.for_each_tile`: the first of them draws for all.

    Example: see `fa2gpu.tile_yield`.
  }];
  let arguments = (ins Index:$rows, Index:$heads, Index:$batches, I64Attr:$block, FA2_TileOrderAttr:$order,
    FA2GPU_RingType:$queue, Variadic<Index>:$inits, UnitAttr:$draws, UnitAttr:$located,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<2>]>, "1">:$cluster);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{ `(` $rows `by` $block `,` $heads `,` $batches `)` `order` `` $order `queue` $queue
    (`draws` $draws^)? (`carries` `(` $inits^ `)`)? $body attr-dict `:` type($queue) }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Value getVisit() { return getBody().getArgument(3); }
    ::mlir::Block::BlockArgListType getCarried() { return getBody().getArguments().drop_front(4); }
  }];
}

def FA2GPU_TileYieldOp : FA2GPU_Op<"tile_yield", [Pure, Terminator, HasParent<"TileLoopOp">]> {
  let summary = "ends the body of a tile loop";
  let description = [{
    Example:

    ```mlir
    fa2gpu.tile_loop(%rows by 128, %heads, %batches) order ascending queue %tiles draws carries(%first) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %use: index):
      ...
      fa2gpu.tile_yield %next
    } : !fa2gpu.ring<2 x tensor<1xi32>>
    ```
  }];
  let arguments = (ins Variadic<Index>:$cursors);
  let assemblyFormat = "($cursors^)? attr-dict";
}

def FA2GPU_WarpgroupOp : FA2GPU_Op<"warpgroup", [Pure]> {
  let summary = "the number of this warpgroup in the block";
  let description = "Example: `%g = fa2gpu.warpgroup`";
  let results = (outs Index:$number);
  let assemblyFormat = "attr-dict";
}

def FA2GPU_TurnWaitOp : FA2GPU_Op<"turn_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until it is this warpgroup's turn to start matmuls";
  let description = [{
    Warpgroup g of `groups` waits at named barrier `id` + g, where the warpgroup before it
    arrives with `fa2gpu.turn_pass`. `id` is set by `fa2gpu-allocate`. With `first`, only the
    first warpgroup waits.

    Example: `fa2gpu.turn_wait of 2`
  }];
  let arguments = (ins I64Attr:$groups, UnitAttr:$first, OptionalAttr<I64Attr>:$id);
  let assemblyFormat = "`of` $groups (`first` $first^)? attr-dict";
}

def FA2GPU_TurnPassOp : FA2GPU_Op<"turn_pass", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "gives the turn to the next warpgroup";
  let description = [{
    With `first`, only the last warpgroup passes: the first one then begins.

    Example: `fa2gpu.turn_pass of 2`
  }];
  let arguments = (ins I64Attr:$groups, UnitAttr:$first, OptionalAttr<I64Attr>:$id);
  let assemblyFormat = "`of` $groups (`first` $first^)? attr-dict";
}

//===----------------------------------------------------------------------===//
// Turns of blocks at a sum
//===----------------------------------------------------------------------===//

def FA2GPU_ChangeTurnOp : FA2GPU_Op<"change_turn", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "passes on a turn at a sum that is past, and looks whether the next one has come";
  let description = [{
    `turns` are the counters of `fa2.accumulate`. Those at row `next` are read, where `from` holds if it is given: what they
    were is the result. Then what this block has added is in memory, and 1 is added to those at row `past`, unless
    that is negative. One fence orders both, the additions before what is passed on and the look before the additions that follow: with
    a relaxed access on either side it is a release and an acquire (PTX ISA, memory consistency model). It waits for memory, in
    a warp that may have started a product before. Without `next` it passes on alone.

    Examples: `%seen = fa2gpu.change_turn %turns past %before next %row from %first : !fa2.view<? x i32> -> i32`,
    `fa2gpu.change_turn %turns past %row : !fa2.view<? x i32>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead, MemWrite]>:$turns, Index:$past, Optional<Index>:$next, Optional<I1>:$from);
  let results = (outs Optional<I32>:$seen);
  let assemblyFormat = [{ $turns `past` $past (`next` $next^ (`from` $from^)?)? attr-dict `:` type($turns) (`->` type($seen)^)? }];
  let hasVerifier = 1;
}

def FA2GPU_AwaitTurnOp : FA2GPU_Op<"await_turn", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until it is this block's turn at a sum, and looks ahead for the next ones";
  let description = [{
    `turns` are the counters of `fa2.accumulate`. Waits until the one at `row` is `turn`, with `at_least` until it is that or more,
    and acquires what the blocks before have added. It stands in a role that does not add itself: who adds learns by a ring
    that the turn has come, of which `come` is the slot, and a tile is `given` to its `fa2.accumulate`.

    An answer of memory takes as long as a tile's products do, so that each lane looks at another tile's counter: lane l at that of row
    `row + l * step`. The result is what lanes have seen, moved on by one tile: where the next wait's lane 0 has
    its turn already, in what is `seen`, it asks nothing. Nothing has been seen where it is 0.

    Example: `%next = fa2gpu.await_turn %turns[%row by %step] until %turn seen(%seen) tells %come {at_least} : !fa2.view<? x i32>, tensor<1xi32>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead, MemWrite]>:$turns, Index:$row, Index:$step, Index:$turn, I32:$seen,
    AnyRankedTensor:$come, UnitAttr:$at_least);
  let results = (outs I32:$next);
  let assemblyFormat = [{ $turns `[` $row `by` $step `]` `until` $turn `seen` `(` $seen `)` `tells` $come attr-dict `:` type($turns) `,` type($come) }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Kernels of a program, one behind the other
//===----------------------------------------------------------------------===//

def FA2GPU_ChainWaitOp : FA2GPU_Op<"chain_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the kernels before this one have ended, and what they wrote is seen";
  let description = [{
    A kernel that has it is launched programmatically: its blocks may start while those of the kernel before still run. It
    stands before the first access to what a kernel before writes (or of a write to what one reads), and on every path of some
    role: the next kernel waits for this one alone, and so for those before it (griddepcontrol.wait, sm_90 on; PTX ISA).

    Example: `fa2gpu.chain_wait`
  }];
  let assemblyFormat = "attr-dict";
}

def FA2GPU_ChainPassOp : FA2GPU_Op<"chain_pass", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "as far as this block is concerned, the next kernel may start";
  let description = [{
    Once all blocks have come here, or ended, blocks of the next kernel take the place that is free. It says nothing about
    what this block has written: the next kernel's `fa2gpu.chain_wait` waits for its end (griddepcontrol.launch_dependents,
    sm_90 on; PTX ISA).

    Example: `fa2gpu.chain_pass`
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Split-K and launches
//===----------------------------------------------------------------------===//

def FA2GPU_CombineSplitsOp : FA2GPU_Op<"combine_splits", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "merges the private softmax states of warps that saw different keys";
  let description = [{
    For the warps w that share the rows, with mm = max_w m_w and b_w = exp(c (m_w - mm)):
    o = sum_w b_w o_w, l = sum_w b_w l_w, m = mm, through `scratch` in shared memory; every
    warp gets the sums. l_w is reduced over lanes first.

    Example: `%o1, %m1, %l1 = fa2gpu.combine_splits %o, %m, %l scale %c scratch %r : tensor<16x64xf32, #acc>, tensor<16xf32, #row>, tensor<16xf32, #lrow>, !fa2gpu.ring<...>`
  }];
  let arguments = (ins AnyRankedTensor:$o, AnyRankedTensor:$m, AnyRankedTensor:$l, F32:$scale,
    FA2GPU_RingType:$scratch);
  let results = (outs AnyRankedTensor:$out_o, AnyRankedTensor:$out_m, AnyRankedTensor:$out_l);
  let assemblyFormat = [{ $o `,` $m `,` $l `scale` $scale `scratch` $scratch attr-dict `:` type($o) `,` type($m) `,` type($l) `,` type($scratch)
    `->` type($out_o) `,` type($out_m) `,` type($out_l) }];
}

def FA2GPU_LaunchOp : FA2GPU_Op<"launch", []> {
  let summary = "how a compiled kernel is launched: the manifest, in the IR";
  let description = [{
    Stands beside the gpu.module that holds `kernel`. `parameters` describes the
    entry's parameters in order, `grid` is one expression a dimension
    (docs/manifest.md has their grammar). Where `when` does not hold, the kernel is left out. One that is `programmatic`
    may start before the kernel in front of it has ended, and waits for that itself (`fa2gpu.chain_wait`). `cluster` neighbouring blocks
    take each tile together (`fa2.for_each_tile`). `main` is that of the program's main kernel (`fa2.kernel`). With `rows` it is launched
    for that part of the rows alone, and their guard is `when`.

    Example:

    ```mlir
    fa2gpu.launch @attention::@attention_fwd grid ["ceildiv(seqlen_q, 128)", "1", "1"] block 128 shared 49152
        spec #spec schedule #schedule arguments [] parameters [] {when = #fa2.guard<"seqlen_k <= 1024">}
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, StrArrayAttr:$grid, I64Attr:$block, I64Attr:$shared_bytes,
    FA2_SpecAttr:$spec, FA2_ScheduleAttr:$schedule,
    TypedArrayAttrBase<FA2_ArgumentAttr, "argument descriptions">:$arguments,
    TypedArrayAttrBase<FA2GPU_ParamAttr, "kernel parameters">:$parameters,
    OptionalAttr<FA2_GuardAttr>:$when, UnitAttr:$programmatic, DefaultValuedAttr<I64Attr, "1">:$cluster,
    UnitAttr:$main, OptionalAttr<FA2_RowsAttr>:$rows);
  let assemblyFormat = [{ $kernel `grid` $grid `block` $block `shared` $shared_bytes `spec` $spec `schedule` $schedule
    `arguments` $arguments `parameters` $parameters attr-dict }];
}

#endif
