//===- FA2GPUOps.td - rings, copies, matmuls over warps ----*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPUOPS_TD
#define FA2_DIALECT_FA2GPU_FA2GPUOPS_TD

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
    Use number n of the ring takes slot n mod `slots`.

    Example: `!fa2gpu.ring<2 x tensor<64x128xbf16, #fa2gpu.shared>>`.
  }];
  let parameters = (ins "int64_t":$slots, "::mlir::RankedTensorType":$tile);
  let assemblyFormat = "`<` $slots `x` $tile `>`";
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

class FA2GPU_Op<string mnemonic, list<Trait> traits = []> : Op<FA2GPU_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Tiles and layouts
//===----------------------------------------------------------------------===//

def FA2GPU_LoadOp : FA2GPU_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "a tile from global to shared memory";
  let description = [{
    What `fa2.load` means, with the tile in shared memory; `fa2gpu-form-rings` says how.

    Example:
    `%k = fa2gpu.load %kv[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16, #fa2gpu.shared>`
  }];
  let arguments = (ins FA2_ViewType:$view, Index:$row);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$view `[` $row `]` attr-dict `:` type($view) `->` type($tile)";
}

def FA2GPU_LocalLoadOp : FA2GPU_Op<"local_load", [MemoryEffects<[MemRead]>]> {
  let summary = "a tile from shared memory into operand registers (ldmatrix)";
  let description = "Example: `%qr = fa2gpu.local_load %q : tensor<128x64xbf16, #fa2gpu.shared> -> tensor<128x64xbf16, #op>`";
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def FA2GPU_LocalStoreOp : FA2GPU_Op<"local_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "a tile from registers into shared memory";
  let description = "Example: `fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, tensor<128x64xbf16, #fa2gpu.shared>`";
  let arguments = (ins AnyRankedTensor:$value, AnyRankedTensor:$slot);
  let assemblyFormat = "$value `,` $slot attr-dict `:` type($value) `,` type($slot)";
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

def FA2GPU_DotStartOp : FA2GPU_Op<"dot_start", [MemoryEffects<[MemRead]>]> {
  let summary = "starts a matmul";
  let description = [{
    `a b + acc`, or `a b^T + acc` with `transpose_b`. a is in shared memory or in operand
    registers, b in shared memory; the result is in flight until it is waited for.

    Example:

    ```mlir
    %f = fa2gpu.dot_start %q, %k {transpose_b}
        : tensor<64x64xbf16, #fa2gpu.shared>, tensor<64x64xbf16, #fa2gpu.shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b, Optional<AnyRankedTensor>:$acc,
    UnitAttr:$transpose_b);
  let results = (outs FA2GPU_InFlightType:$d);
  let assemblyFormat = [{ $a `,` $b (`acc` `(` $acc^ `:` type($acc) `)`)? attr-dict
    `:` type($a) `,` type($b) `->` type($d) }];
  let hasVerifier = 1;
}

def FA2GPU_DotWaitOp : FA2GPU_Op<"dot_wait", [Pure]> {
  let summary = "the accumulator of a matmul, once it is complete";
  let description = "Example: see `fa2gpu.dot_start`.";
  let arguments = (ins FA2GPU_InFlightType:$source);
  let results = (outs AnyRankedTensor:$d);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($d)";
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

def FA2GPU_RingCreateOp : FA2GPU_Op<"ring.create", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a ring of slots in shared memory";
  let description = [{
    `offset`, in bytes from the start of the block's shared memory, is set by
    `fa2gpu-allocate`.

    Example: `%r = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>`
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs FA2GPU_RingType:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
}

class FA2GPU_RingUseOp<string verb, string text, string more> : FA2GPU_Op<"ring." # verb, [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = text;
  let description = more # "\n\nExample: see `fa2gpu.ring.acquire`.";
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use);
}

def FA2GPU_RingAcquireOp : FA2GPU_RingUseOp<"acquire", "the slot of use n, free to be written",
    [{Use n - slots must have been released by every warp before.

    ```mlir
    %w = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
    fa2gpu.copy %kv[%row], %w : !fa2.view<? x 64 x bf16>, tensor<64x64xbf16, #fa2gpu.shared>
    fa2gpu.ring.commit %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
    %k = fa2gpu.ring.wait %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>
    ...
    fa2gpu.ring.release %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>>
    ```}]> {
  let results = (outs AnyRankedTensor:$slot);
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($slot)";
}

def FA2GPU_RingCommitOp : FA2GPU_RingUseOp<"commit", "the copies into use n have all been issued", ""> {
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring)";
}

def FA2GPU_RingWaitOp : FA2GPU_RingUseOp<"wait", "the tile of use n, once it has arrived for every warp", ""> {
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($tile)";
}

def FA2GPU_RingReleaseOp : FA2GPU_RingUseOp<"release", "this warp no longer reads use n", ""> {
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring)";
}

def FA2GPU_RingSlotOp : FA2GPU_Op<"ring.slot", [Pure]> {
  let summary = "the slot of use n; synchronisation stands elsewhere";
  let description = [{
    What `fa2gpu-place-waits` leaves of acquire and wait.

    Example: `%k = fa2gpu.ring.slot %r[%n] : !fa2gpu.ring<2 x tensor<64x64xbf16, #fa2gpu.shared>> -> tensor<64x64xbf16, #fa2gpu.shared>`
  }];
  let arguments = (ins FA2GPU_RingType:$ring, Index:$use);
  let results = (outs AnyRankedTensor:$tile);
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` type($ring) `->` type($tile)";
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

def FA2GPU_CopyOp : FA2GPU_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "asynchronous copy of a tile from global to shared memory";
  let description = [{
    Rows past the view's end, and all rows when `predicate` is false, are filled with
    zeros and not read. `in_bounds` says that no row is past the end.

    Example: see `fa2gpu.ring.acquire`.
  }];
  let arguments = (ins FA2_ViewType:$view, Index:$row, AnyRankedTensor:$slot, Optional<I1>:$predicate,
    UnitAttr:$in_bounds);
  let assemblyFormat = "$view `[` $row `]` `,` $slot (`if` $predicate^)? attr-dict `:` type($view) `,` type($slot)";
}

def FA2GPU_CopyOutOp : FA2GPU_Op<"copy_out", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a tile from shared to global memory; rows past the end are left alone";
  let description = "Example: `fa2gpu.copy_out %slot, %ov[%row] : tensor<64x64xbf16, #fa2gpu.shared>, !fa2.view<? x 64 x bf16>`";
  let arguments = (ins AnyRankedTensor:$slot, FA2_ViewType:$view, Index:$row);
  let assemblyFormat = "$slot `,` $view `[` $row `]` attr-dict `:` type($slot) `,` type($view)";
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
    (docs/manifest.md has their grammar).

    Example:

    ```mlir
    fa2gpu.launch @attention::@attention_fwd grid ["ceildiv(seqlen_q, 128)", "1", "1"] block 128 shared 49152
        spec #spec schedule #schedule arguments [] parameters []
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, StrArrayAttr:$grid, I64Attr:$block, I64Attr:$shared_bytes,
    FA2_SpecAttr:$spec, FA2_ScheduleAttr:$schedule,
    TypedArrayAttrBase<FA2_ArgumentAttr, "argument descriptions">:$arguments,
    TypedArrayAttrBase<FA2GPU_ParamAttr, "kernel parameters">:$parameters);
  let assemblyFormat = [{ $kernel `grid` $grid `block` $block `shared` $shared_bytes `spec` $spec `schedule` $schedule
    `arguments` $arguments `parameters` $parameters attr-dict }];
}

#endif
