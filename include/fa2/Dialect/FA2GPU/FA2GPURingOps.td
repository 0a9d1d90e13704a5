//===- FA2GPURingOps.td - rings, copies, barriers ----------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPURINGOPS_TD
#define FA2_DIALECT_FA2GPU_FA2GPURINGOPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "fa2/Dialect/FA2/FA2Attrs.td"
include "fa2/Dialect/FA2/FA2Types.td"
include "fa2/Dialect/FA2GPU/FA2GPUAttrs.td"

def FA2GPU_RingType : TypeDef<FA2GPU_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "a ring of equal tiles in shared memory";
  let description = [{
    Use number n of the ring takes slot n mod `slots`. The number of the next use is the ring's cursor, one on the side
    that fills slots and one on the side that reads them: an operation that takes a use gives the number after it, which
    loops carry. With `parts`, the tile's rows are cut into
    so many parts, one a warpgroup, each of which arrives and is released by itself.

    Example: `!fa2gpu.ring<2 x tensor<64x128xbf16, #fa2gpu.shared>>`.
  }];
  let parameters = (ins "int64_t":$slots, "::mlir::RankedTensorType":$tile, DefaultValuedParameter<"int64_t", "1">:$parts);
  let assemblyFormat = "`<` $slots `x` $tile (`,` `parts` `=` $parts^)? `>`";
  let builders = [TypeBuilder<(ins "int64_t":$slots, "::mlir::RankedTensorType":$tile),
    [{ return $_get($_ctxt, slots, tile, 1); }]>];
}

def FA2GPU_InFlightType : TypeDef<FA2GPU_Dialect, "InFlight"> {
  let mnemonic = "in_flight";
  let summary = "the accumulator of a matmul that has been started";
  let description = [{
    It can only be waited for, so nothing can read it early.

    Example: `!fa2gpu.in_flight<tensor<64x64xf32, #acc>>`.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tile);
  let assemblyFormat = "`<` $tile `>`";
}

def FA2GPU_TensorMapType : TypeDef<FA2GPU_Dialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "a tensor in global memory as the copy engine sees it";
  let description = [{
    Built by the launcher; it knows the tensor's extents, so that what lies outside
    reads as zero and is never written.

    Example: `!fa2gpu.tensor_map`.
  }];
}

class FA2GPU_Op<string mnemonic, list<Trait> traits = []> : Op<FA2GPU_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

def FA2GPU_RingCreateOp : FA2GPU_Op<"ring.create", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a ring of slots in shared memory";
  let description = [{
    `offset`, in bytes from the start of the block's shared memory, is set by
    `fa2gpu-allocate`; so is `barriers`, that of the ring's mbarriers (for each slot one that says
    full, then for each slot one that says empty), where roles share the ring. A ring that `shares` those of another has none
    of its own: each of its uses lies within the same use of that ring, whose mbarriers count the bytes of both (`fa2gpu-share-barriers`).
    With `peer`, the cluster's other block fills it: what this block copies into its slots (`fa2gpu.peer_copy`) goes to that block's, whose
    ring is at the same place, what it acquires is a slot there, and what it releases it tells that block.

    Example: `%r = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>`
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$barriers,
    Optional<FA2GPU_RingType>:$shares, UnitAttr:$peer);
  let results = (outs FA2GPU_RingType:$ring);
  let assemblyFormat = "(`shares` `(` $shares^ `:` type($shares) `)`)? attr-dict `:` type($ring)";
  let builders = [OpBuilder<(ins "::mlir::Type":$ring, "::mlir::StringAttr":$name),
    [{ build($_builder, $_state, ring, name, ::mlir::IntegerAttr(), ::mlir::IntegerAttr(), ::mlir::Value(), /*peer=*/false); }]>];
}

def FA2GPU_RingInitOp : FA2GPU_Op<"ring.init", [MemoryEffects<[MemWrite]>]> {
  let summary = "initializes a ring's mbarriers";
  let description = [{
    One thread that starts copies fills a slot, or each part of it, or so many `fillers`: warps that write it. `consumers` warps
    release it. The slots begin empty.

    Example: `fa2gpu.ring.init %r consumers 8 : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>`
  }];
  let arguments = (ins FA2GPU_RingType:$ring, I64Attr:$consumers, DefaultValuedAttr<I64Attr, "1">:$fillers);
  let assemblyFormat = "$ring `consumers` $consumers (`fillers` $fillers^)? attr-dict `:` type($ring)";
}

class FA2GPU_RingUseOp<string verb, string text, string more> : FA2GPU_Op<"ring." # verb, [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = text;
  let description = more # "\n\nExample: see `fa2gpu.ring.acquire`.";
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use);
}

def FA2GPU_RingAcquireOp : FA2GPU_RingUseOp<"acquire", "the slot of use n, free to be written",
    [{Use n - slots must have been released by every warp before. `next` is n + 1. With `fences`, what lanes read of
    the slot before comes before what the copy engine writes there; else those who release it fence their reads
    (`fa2gpu-insert-fences`).

    ```mlir
    %w, %n1 = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
    fa2gpu.copy %kv[%row], %w : !fa2.view<? x 64 x bf16>, tensor<64x64xbf16, #fa2gpu.shared>
    fa2gpu.ring.commit %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
    %k, %m1 = fa2gpu.ring.wait %r[%m] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
    ...
    fa2gpu.ring.release %r[%m] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
    ```}]> {
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use, UnitAttr:$fences);
  let results = (outs AnyRankedTensor:$slot, Index:$next);
  let builders = [OpBuilder<(ins "::mlir::Type":$slot, "::mlir::Value":$ring, "::mlir::Value":$use),
    [{ build($_builder, $_state, slot, $_builder.getIndexType(), ring, use, /*fences=*/false); }]>];
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($slot)";
}

def FA2GPU_RingCommitOp : FA2GPU_RingUseOp<"commit", "the copies into use n have all been issued", ""> {
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring)";
}

def FA2GPU_RingWaitOp : FA2GPU_RingUseOp<"wait", "the tile of use n, once it has arrived for every warp",
    [{`next` is n + 1. With `implied`, nobody waits here: the role reads the tile only beside another that a role made
    after it had waited for this one (`fa2gpu-share-barriers`).}]> {
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use, UnitAttr:$implied);
  let results = (outs AnyRankedTensor:$tile, Index:$next);
  let builders = [OpBuilder<(ins "::mlir::Type":$tile, "::mlir::Value":$ring, "::mlir::Value":$use),
    [{ build($_builder, $_state, tile, $_builder.getIndexType(), ring, use, /*implied=*/false); }]>];
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($tile)";
}

def FA2GPU_RingReleaseOp : FA2GPU_RingUseOp<"release", "this warp no longer reads use n",
    [{With `waits`, the warp waits for the use first: one whose wait was implied, and that had nothing to read, might otherwise
    release the next use too before this one has come.}]> {
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use, UnitAttr:$waits);
  let builders = [OpBuilder<(ins "::mlir::Value":$ring, "::mlir::Value":$use),
    [{ build($_builder, $_state, ring, use, /*waits=*/false); }]>];
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring)";
}

def FA2GPU_RingSlotOp : FA2GPU_Op<"ring.slot", [Pure]> {
  let summary = "the slot of use n; synchronisation stands elsewhere";
  let description = [{
    What `fa2gpu-place-waits` leaves of acquire and wait; between roles, a use that is held, named again.

    Example: `%k = fa2gpu.ring.slot %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>`
  }];
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($tile)";
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

def FA2GPU_CopyOp : FA2GPU_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "asynchronous copy of a tile from global to shared memory";
  let description = [{
    Rows past the view's end, and all rows when `predicate` is false, are filled with
    zeros and not read. `in_bounds` says that no row is past the end. Of an unaligned view the tile's columns begin at `column`, and
    those past the end are zeros too. With a `turn`, a number that each use has another of, one warp
    of the role copies alone, and another one at the next turn: each waits for its own copies while those of others are under way. The first
    warp, which starts the copy engine's copies, has no turn.

    Example: see `fa2gpu.ring.acquire`.
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead]>:$view, Index:$row, AnyRankedTensor:$slot, Optional<I1>:$predicate,
    UnitAttr:$in_bounds, Optional<Index>:$column, Optional<Index>:$turn);
  let assemblyFormat = "$view `[` $row (`,` $column^)? `]` `,` $slot (`if` $predicate^)? (`turn` $turn^)? attr-dict `:` type($view) `,` type($slot)";
  let hasVerifier = 1;
}

def FA2GPU_CopyOutOp : FA2GPU_Op<"copy_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a tile from shared to global memory; rows past the end are left alone";
  let description = [{
    Into a view of more columns from `column` on. Threads copy 16 bytes at a time, so that what lies behind the end of a row up to
    a multiple of 16 bytes is the row's too.

    Examples: `fa2gpu.copy_out %slot, %ov[%row] : tensor<64x64xbf16, #fa2gpu.shared>, !fa2.view<? x 64 x bf16>`,
    `fa2gpu.copy_out %slot, %ov[%row, %column] : tensor<64x128xbf16, #fa2gpu.shared<panel = 128>>, !fa2.view<? x ? x bf16>`
  }];
  let arguments = (ins AnyRankedTensor:$slot, Arg<FA2_ViewType, "", [MemWrite]>:$view, Index:$row, Optional<Index>:$column);
  let assemblyFormat = "$slot `,` $view `[` $row (`,` $column^)? `]` attr-dict `:` type($slot) `,` type($view)";
}

def FA2GPU_CopyCommitOp : FA2GPU_Op<"copy_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "closes this thread's group of asynchronous copies (cp.async.commit_group)";
  let description = "Example: `fa2gpu.copy_commit`";
  let assemblyFormat = "attr-dict";
}

def FA2GPU_CopyWaitOp : FA2GPU_Op<"copy_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of this thread's copy groups are open (cp.async.wait_group)";
  let description = "Example: `fa2gpu.copy_wait 1`";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def FA2GPU_BarrierOp : FA2GPU_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all warps of the block have come here (bar.sync 0)";
  let description = "Example: `fa2gpu.barrier`";
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

def FA2GPU_TensorMapOp : FA2GPU_Op<"tensor_map", [Pure]> {
  let summary = "a kernel argument as a tensor map";
  let description = [{
    Copies through it move boxes of `rows` rows and 128 bytes of columns, swizzled as
    `#fa2gpu.shared<panel = 128>`. With several packed `heads` (`!fa2.view`) a box is rows / heads rows of
    each. The launcher passes it as a kernel parameter of its own. `dims` are those of `fa2.view`.

    Example: `%m = fa2gpu.tensor_map %k rows 64 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>`
  }];
  let arguments = (ins AnyMemRef:$source, I64Attr:$rows, OptionalAttr<I64Attr>:$parameter,
    DefaultValuedAttr<I64Attr, "1">:$heads, OptionalAttr<DenseI64ArrayAttr>:$dims);
  let results = (outs FA2GPU_TensorMapType:$map);
  let assemblyFormat = "$source `rows` $rows attr-dict `:` type($source)";
}

def FA2GPU_TensorMapPrefetchOp : FA2GPU_Op<"tensor_map_prefetch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "asks for a tensor map, so that the first copy need not wait for it";
  let description = [{
    One thread of the block issues it (prefetch.tensormap).

    Example: `fa2gpu.tensor_map_prefetch %m`
  }];
  let arguments = (ins Arg<FA2GPU_TensorMapType, "", [MemRead]>:$map);
  let assemblyFormat = "$map attr-dict";
}

def FA2GPU_TensorCopyOp : FA2GPU_Op<"tensor_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts copying a tile into a slot; its arrival completes the ring's use";
  let description = [{
    One thread issues it (cp.async.bulk.tensor, one copy a panel). Rows and columns outside
    of the tensor arrive as zeros. `heads` is the map's. Columns are those from 0 on, or `from`
    another one on, a multiple of 16 bytes from the first. `cache` is that of `fa2.view`.

    Example:
    `fa2gpu.tensor_copy %m[%row, %head, %batch], %slot signal %r[%n] : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>`
  }];
  let arguments = (ins Arg<FA2GPU_TensorMapType, "", [MemRead]>:$map, Index:$row, Index:$head, Index:$batch,
    AnyRankedTensor:$slot, FA2GPU_RingType:$ring, Index:$use, DefaultValuedAttr<I64Attr, "1">:$heads,
    Optional<Index>:$column, OptionalAttr<FA2_CacheHintAttr>:$cache);
  let assemblyFormat = [{ $map `[` $row `,` $head `,` $batch `]` (`from` $column^)? `,` $slot `signal` $ring `[` $use `]` attr-dict
    `:` type($slot) `,` type($ring) }];
  let hasVerifier = 1;
}

def FA2GPU_BulkCopyOp : FA2GPU_Op<"bulk_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts copying a vector into a slot; its arrival completes the ring's use";
  let description = [{
    One thread issues it (cp.async.bulk). All of the slot is read: the view holds whole tiles, as
    workspaces do, and begins at a multiple of 16 bytes.

    Example:
    `fa2gpu.bulk_copy %n[%row], %slot signal %r[%use] : !fa2.view<? x f32>, tensor<64xf32, #fa2gpu.shared>, !fa2gpu.ring<2 x tensor<64xf32, #fa2gpu.shared>>`
  }];
  let arguments = (ins Arg<FA2_ViewType, "", [MemRead]>:$view, Index:$row, AnyRankedTensor:$slot, FA2GPU_RingType:$ring, Index:$use);
  let assemblyFormat = [{ $view `[` $row `]` `,` $slot `signal` $ring `[` $use `]` attr-dict
    `:` type($view) `,` type($slot) `,` type($ring) }];
  let hasVerifier = 1;
}

def FA2GPU_PeerCopyOp : FA2GPU_Op<"peer_copy", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["tile", "slot"]>]> {
  let summary = "starts copying a tile into a slot of the cluster's other block; its arrival completes the ring's use there";
  let description = [{
    One thread issues it (cp.async.bulk from shared memory of one block to another's). What threads wrote to the tile must have been fenced
    (`fa2gpu.proxy_fence`) and met. The copy has read the tile when the other block has released the use: the tile's slot is not written before
    `ring`, of which this is a `peer`, has given a slot for use + slots.

    Example:
    `fa2gpu.peer_copy %ds, %slot signal %r[%n] : tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>, !fa2gpu.ring<1 x tensor<64x64xbf16, #fa2gpu.shared<panel = 128>>>`
  }];
  let arguments = (ins AnyRankedTensor:$tile, AnyRankedTensor:$slot, FA2GPU_RingType:$ring, Index:$use);
  let assemblyFormat = [{ $tile `,` $slot `signal` $ring `[` $use `]` attr-dict `:` type($slot) `,` type($ring) }];
  let hasVerifier = 1;
}

def FA2GPU_TensorStoreOp : FA2GPU_Op<"tensor_store", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts storing this warpgroup's part of a tile";
  let description = [{
    One thread of each warpgroup issues it. The part is 64 rows of the tile. Where `across` warpgroups
    share rows, they take turns at its panels: the first has panels 0, `across`, 2 `across` and so on. What the warpgroup wrote to the slot must have been
    fenced (`fa2gpu.proxy_fence`) and met at a `fa2gpu.group_barrier`, or where they share rows at a
    `fa2gpu.role_barrier`. Rows and columns outside of the
    tensor are not written. A part that begins before the tensor's first row is not stored at all (the copy engine takes
    no negative coordinates of what it stores): all its rows must lie before it. `heads` is the map's; columns begin at `column`, else at 0.

    Example: `fa2gpu.tensor_store %slot, %m[%row, %head, %batch] : tensor<128x64xbf16, #fa2gpu.shared<panel = 128>>`
  }];
  let arguments = (ins AnyRankedTensor:$slot, Arg<FA2GPU_TensorMapType, "", [MemWrite]>:$map, Index:$row, Index:$head, Index:$batch,
    Optional<Index>:$column, DefaultValuedAttr<I64Attr, "1">:$heads, DefaultValuedAttr<I64Attr, "1">:$across);
  let assemblyFormat = "$slot `,` $map `[` $row `,` $head `,` $batch (`,` $column^)? `]` attr-dict `:` type($slot)";
  let hasVerifier = 1;
}

def FA2GPU_StoreWaitOp : FA2GPU_Op<"store_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the stores that this thread started have read shared memory";
  let description = "Example: `fa2gpu.store_wait`";
  let assemblyFormat = "attr-dict";
}

def FA2GPU_ProxyFenceOp : FA2GPU_Op<"proxy_fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "what this thread wrote to shared memory is seen by the copy engine and by wgmma";
  let description = "fence.proxy.async.\n\nExample: `fa2gpu.proxy_fence`";
  let assemblyFormat = "attr-dict";
}

def FA2GPU_WarpBarrierOp : FA2GPU_Op<"warp_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the lanes of a warp have come here, and see what each did to memory";
  let description = [{
    Stands between what lanes did by themselves and a `fa2gpu.ring.release`, which lane 0 does for all (bar.warp.sync).

    Example: `fa2gpu.warp_barrier`
  }];
  let assemblyFormat = "attr-dict";
}

def FA2GPU_GroupBarrierOp : FA2GPU_Op<"group_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the four warps of a warpgroup have come here";
  let description = [{
    Warpgroup g uses named barrier `id` + g; `id` is set by `fa2gpu-allocate`.

    Example: `fa2gpu.group_barrier`
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$id);
  let assemblyFormat = "attr-dict";
}

def FA2GPU_RoleBarrierOp : FA2GPU_Op<"role_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all warps of the role have come here";
  let description = [{
    Its named barrier is `id`, which is set by `fa2gpu-allocate`.

    Example: `fa2gpu.role_barrier`
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$id);
  let assemblyFormat = "attr-dict";
}

#endif
