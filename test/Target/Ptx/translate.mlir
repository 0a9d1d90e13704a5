// RUN: fa2-translate %s --fa2-to-ptx | FileCheck %s --check-prefix=PTX
// RUN: fa2-translate %s --fa2-to-llvmir | FileCheck %s --check-prefix=LLVM
// RUN: fa2-translate %s --fa2-manifest | FileCheck %s --check-prefix=MANIFEST
// RUN: fa2-translate %s --fa2-manifest | %python -m json.tool > /dev/null

gpu.module @scale_module {
  llvm.mlir.global external @shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  llvm.func @scale(%q: !llvm.ptr<1>, %stride: i64, %heads: i32, %scale: f32)
      attributes {gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 128, 1, 1>} {
    %x = llvm.load %q : !llvm.ptr<1> -> f32
    // A product and a sum stay two roundings; a fused one is written so.
    %p = llvm.fmul %x, %scale : f32
    %s = llvm.fadd %p, %x : f32
    %f = llvm.intr.fma(%s, %scale, %x) : (f32, f32, f32) -> f32
    %e = llvm.inline_asm has_side_effects "ex2.approx.ftz.f32 $0, $1;", "=f,f" %f : (f32) -> f32
    nvvm.barrier0
    llvm.store %e, %q : f32, !llvm.ptr<1>
    llvm.return
  }
}
fa2gpu.launch @scale_module::@scale grid ["ceildiv(seqlen_q, 64) * heads", "batch", "1"] block 128 shared 49152
  spec #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 32, mask = #fa2.mask<causal>>
  schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2, order = longest_first>
  arguments [#fa2.arg<"q", "inout", ["batch", "seqlen_q", "heads", 64] x bf16>,
             #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
             #fa2.arg<"lse", "out", ["batch", "heads", "seqlen_q"] x f32>,
             #fa2.arg<"scale", "in", [] x f32, 0.125 : f64 require "positive_finite">]
  parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"stride", "q", 1>, #fa2gpu.param<"i32", "heads">,
              #fa2gpu.param<"scalar", "scale">]

// PTX: {{^}}// fa2-manifest-begin
// PTX-NEXT: // {
// PTX-NEXT: //   "fa2_manifest": 1,
// PTX: {{^}}// fa2-manifest-end
// PTX: .version 7.0
// PTX-NEXT: .target sm_80
// PTX: .entry scale(
// PTX: .maxntid 128
// PTX: mul.rn.f32
// PTX: add.rn.f32
// PTX: fma.rn.f32
// PTX: ex2.approx.ftz.f32
// PTX: bar.sync

// LLVM: define ptx_kernel void @scale(ptr addrspace(1) %{{.*}}, i64 %{{.*}}, i32 %{{.*}}, float %{{.*}})

// MANIFEST: "fa2_manifest": 1,
// MANIFEST-NEXT: "compiler": "fa2 {{[0-9.]+}}",
// MANIFEST-NEXT: "specification": {
// MANIFEST-NEXT:   "pass": "forward",
// MANIFEST-NEXT:   "dtype": "bf16",
// MANIFEST-NEXT:   "head_dim": 64,
// MANIFEST-NEXT:   "head_dim_v": 32,
// MANIFEST-NEXT:   "mask": "causal"
// MANIFEST-NEXT: },
// MANIFEST-NEXT: "target": {
// MANIFEST-NEXT:   "arch": "sm_80",
// MANIFEST-NEXT:   "family": false,
// MANIFEST-NEXT:   "min_compute_capability": 80,
// MANIFEST-NEXT:   "ptx": "7.0",
// MANIFEST-NEXT:   "min_driver": 11000
// MANIFEST-NEXT: },
// MANIFEST: "order": "longest_first"
// MANIFEST: "arguments": [
// MANIFEST-NEXT: {"name":"q","kind":"tensor","direction":"inout","dtype":"bf16","shape":["batch","seqlen_q","heads",64],"alignment":16,"stride_multiple":8},
// MANIFEST-NEXT: {"name":"k",
// MANIFEST-NEXT: {"name":"lse","kind":"tensor","direction":"out","dtype":"f32","shape":["batch","heads","seqlen_q"],"alignment":4,"stride_multiple":1},
// MANIFEST-NEXT: {"name":"scale","kind":"scalar","dtype":"f32","default":0.125,"require":"positive_finite"}
// MANIFEST: "requires": [
// MANIFEST-NEXT: {"that":"heads == 0 || (heads_kv > 0 && heads % heads_kv == 0)"
// MANIFEST-NEXT: {"that":"(ceildiv(seqlen_q, 64) * heads) <= 2147483647"
// MANIFEST-NEXT: {"that":"(batch) <= 65535"
// MANIFEST-NEXT: ],
// MANIFEST-NEXT: "workspace": {
// MANIFEST-NEXT:   "bytes": 0,
// MANIFEST-NEXT:   "alignment": 16
// MANIFEST-NEXT: },
// MANIFEST-NEXT: "launches": [
// MANIFEST-NEXT: {
// MANIFEST-NEXT: "kernel": "scale",
// MANIFEST-NEXT: "grid": ["ceildiv(seqlen_q, 64) * heads","batch","1"],
// MANIFEST-NEXT: "block": [128,1,1],
// MANIFEST-NEXT: "cluster": [1,1,1],
// MANIFEST-NEXT: "shared_bytes": 49152,
// MANIFEST-NEXT: "parameters": [
// MANIFEST-NEXT: {"kind":"pointer","of":"q"},
// MANIFEST-NEXT: {"kind":"stride","of":"q","dim":1},
// MANIFEST-NEXT: {"kind":"i32","value":"heads"},
// MANIFEST-NEXT: {"kind":"scalar","of":"scale"}
