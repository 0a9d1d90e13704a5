// RUN: fa2-translate %s --fa2-manifest | FileCheck %s

// A program with a counter of tiles and arrays in its workspace: the counter has the first bytes, at a place that no
// length moves, and is in the sum.
// CHECK: "workspace": {
// CHECK-NEXT: "bytes": "max(128 + 4 * (batch) * (seqlen_q) * (heads) * 64 + 4 * (batch) * (heads) * (seqlen_q), 128 + 4 * (batch) * (padded))",
// CHECK-NEXT: "alignment": 16,
// CHECK-NEXT: "zeroed": true
// CHECK: {"kind":"workspace","offset":"128"},
// CHECK-NEXT: {"kind":"workspace","offset":"128 + 4 * (batch) * (seqlen_q) * (heads) * 64"},
// CHECK-NEXT: {"kind":"workspace","offset":0}
// A kernel in the place of others has arrays of its own in the same bytes.
// CHECK: "kernel": "instead",
// CHECK: {"kind":"workspace","offset":"128"},
// CHECK-NEXT: {"kind":"workspace","offset":0}
gpu.module @sums_module {
  llvm.mlir.global external @shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  llvm.func @sums(%sum: !llvm.ptr<1>, %neg: !llvm.ptr<1>, %counter: !llvm.ptr<1>)
      attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 128, 1, 1>} {
    llvm.return
  }
  llvm.func @instead(%neg: !llvm.ptr<1>, %counter: !llvm.ptr<1>)
      attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 128, 1, 1>} {
    llvm.return
  }
}
fa2gpu.launch @sums_module::@sums grid ["min(ceildiv(seqlen_q, 64) * heads * batch, device.multiprocessors)", "1", "1"] block 128 shared 0
  spec #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
  schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
  arguments [#fa2.arg<"sum", "workspace", ["batch", "seqlen_q", "heads", 64] x f32>,
             #fa2.arg<"neg", "workspace", ["batch", "heads", "seqlen_q"] x f32>]
  parameters [#fa2gpu.param<"workspace", "sum">, #fa2gpu.param<"workspace", "neg">, #fa2gpu.param<"workspace", "tile_counters">]
fa2gpu.launch @sums_module::@instead grid ["min(ceildiv(seqlen_q, 64) * heads * batch, device.multiprocessors)", "1", "1"] block 128 shared 0
  spec #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
  schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
  arguments [#fa2.arg<"neg", "workspace", ["batch", "padded"] x f32>]
  parameters [#fa2gpu.param<"workspace", "neg">, #fa2gpu.param<"workspace", "tile_counters">]
