// RUN: fa2-opt %s | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --mlir-print-op-generic | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --emit-bytecode | fa2-opt --mlir-print-local-scope | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, warps = [4, 1]>
#op = #fa2gpu.operand<#acc>
#split = #fa2gpu.acc<#fa2gpu.mma_sync, warps = [1, 1], split_k = 4>
!shared = tensor<64x64xf16, #fa2gpu.shared>
!ring = !fa2gpu.ring<2 x !shared>

// CHECK-LABEL: func @products
// CHECK: fa2gpu.dot_start %{{.*}}, %{{.*}} {transpose_b} : tensor<64x64xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.shared> -> <tensor<64x64xf32, #fa2gpu.acc<#fa2gpu.mma_sync, warps = [4, 1]>>>
// CHECK: fa2gpu.dot_wait
// CHECK: fa2gpu.convert_layout
// CHECK: fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%{{.*}} : tensor<64x64xf32, #fa2gpu.acc
func.func @products(%q: !shared, %k: !shared) -> tensor<64x64xf32, #acc> {
  %f = fa2gpu.dot_start %q, %k {transpose_b} : !shared, !shared -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
  %t = arith.truncf %s : tensor<64x64xf32, #acc> to tensor<64x64xf16, #acc>
  %p = fa2gpu.convert_layout %t : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #op>
  %g = fa2gpu.dot_start %p, %k acc(%s : tensor<64x64xf32, #acc>) : tensor<64x64xf16, #op>, !shared
      -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  %o = fa2gpu.dot_wait %g : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
  return %o : tensor<64x64xf32, #acc>
}

// CHECK-LABEL: func @rings
// CHECK: fa2gpu.ring.create {name = "k", offset = 16384 : i64} : <2 x tensor<64x64xf16, #fa2gpu.shared>>
// CHECK: fa2gpu.copy %{{.*}}[%{{.*}}], %{{.*}} if %{{.*}} {in_bounds}
func.func @rings(%kv: !fa2.view<? x 64 x f16>, %row: index, %n: index, %more: i1) {
  %r = fa2gpu.ring.create {name = "k", offset = 16384} : !ring
  %w = fa2gpu.ring.acquire %r[%n] : !ring -> !shared
  fa2gpu.copy %kv[%row], %w if %more {in_bounds} : !fa2.view<? x 64 x f16>, !shared
  fa2gpu.ring.commit %r[%n] : !ring
  return
}

// CHECK-LABEL: func private @split(tensor<16x64xf32, #fa2gpu.acc<{{.*}}, warps = [1, 1], split_k = 4>>
func.func private @split(tensor<16x64xf32, #split>)

// CHECK: fa2gpu.launch @m::@k grid ["ceildiv(seqlen_q, 64)", "heads", "batch"] block 128 shared 49152
// CHECK-SAME: parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"stride", "q", 1>, #fa2gpu.param<"i32", "seqlen_q">]
fa2gpu.launch @m::@k grid ["ceildiv(seqlen_q, 64)", "heads", "batch"] block 128 shared 49152
    spec #fa2.spec<pass = "forward", dtype = f16, head_dim = 64, head_dim_v = 64>
    schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
    arguments [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>]
    parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"stride", "q", 1>, #fa2gpu.param<"i32", "seqlen_q">]
