// RUN: fa2-opt %s | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --mlir-print-op-generic | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --emit-bytecode | fa2-opt --mlir-print-local-scope | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#acc>
#split = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1], split_k = 4>
!shared = tensor<64x64xf16, #fa2gpu.shared>
!ring = !fa2gpu.ring<2 x !shared>

// CHECK-LABEL: func @products
// CHECK: fa2gpu.dot_start %{{.*}}, %{{.*}} {transpose_b} : tensor<64x64xf16, #fa2gpu.shared>, tensor<64x64xf16, #fa2gpu.shared> -> <tensor<64x64xf32, #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>>
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

// CHECK-LABEL: func @later_begins
// CHECK: fa2gpu.dot_fence 1
func.func @later_begins() {
  fa2gpu.dot_fence 1
  return
}

// CHECK-LABEL: func @rings
// CHECK: fa2gpu.ring.create {name = "k", offset = 16384 : i64} : <2 x tensor<64x64xf16, #fa2gpu.shared>>
// CHECK: fa2gpu.copy %{{.*}}[%{{.*}}], %{{.*}} if %{{.*}} {in_bounds}
func.func @rings(%kv: !fa2.view<? x 64 x f16>, %row: index, %n: index, %more: i1) {
  %r = fa2gpu.ring.create {name = "k", offset = 16384} : !ring
  %w, %w_next = fa2gpu.ring.acquire %r[%n] : !ring -> !shared
  fa2gpu.copy %kv[%row], %w if %more {in_bounds} : !fa2.view<? x 64 x f16>, !shared
  fa2gpu.ring.commit %r[%n] : !ring
  return
}

// CHECK-LABEL: func @tensor_maps
// CHECK: %[[MAP:.*]] = fa2gpu.tensor_map %{{.*}} rows 64 {parameter = 3 : i64} : memref<?x?x?x64xf16, strided<[?, ?, ?, 1]>>
// CHECK: fa2gpu.tensor_map_prefetch %[[MAP]]
// CHECK: fa2gpu.ring.create {barriers = 32768 : i64, name = "q", offset = 0 : i64} : <1 x tensor<128x64xf16, #fa2gpu.shared<panel = 128>>, parts = 2>
// CHECK: fa2gpu.ring.init %{{.*}} consumers 4 : <1 x tensor<128x64xf16, #fa2gpu.shared<panel = 128>>, parts = 2>
// CHECK: fa2gpu.tensor_copy %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %{{.*}} signal %{{.*}}[%{{.*}}] : tensor<128x64xf16, #fa2gpu.shared<panel = 128>>, <1 x
// CHECK: fa2gpu.tensor_store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : tensor<128x64xf16, #fa2gpu.shared<panel = 128>>
!panels = tensor<128x64xf16, #fa2gpu.shared<panel = 128>>
!parts = !fa2gpu.ring<1 x !panels, parts = 2>
func.func @tensor_maps(%t: memref<?x?x?x64xf16, strided<[?, ?, ?, 1]>>, %row: index, %head: index, %batch: index) {
  %m = fa2gpu.tensor_map %t rows 64 {parameter = 3 : i64} : memref<?x?x?x64xf16, strided<[?, ?, ?, 1]>>
  fa2gpu.tensor_map_prefetch %m
  %r = fa2gpu.ring.create {name = "q", offset = 0, barriers = 32768} : !parts
  fa2gpu.ring.init %r consumers 4 : !parts
  %w, %w_next = fa2gpu.ring.acquire %r[%row] : !parts -> !panels
  fa2gpu.tensor_copy %m[%row, %head, %batch], %w signal %r[%row] : !panels, !parts
  fa2gpu.tensor_store %w, %m[%row, %head, %batch] : !panels
  return
}

// CHECK-LABEL: func @roles
// CHECK: fa2gpu.roles @consumer(8 warps, 240 registers) {
// CHECK: fa2gpu.turn_pass of 2 first {id = 1 : i64}
// CHECK: fa2gpu.turn_wait of 2{{$}}
// CHECK: fa2gpu.group_barrier {id = 3 : i64}
// CHECK: } @producer(4 warps, 24 registers, one thread) {
// CHECK: fa2gpu.tile_loop(%{{.*}} by 128, %{{.*}}, %{{.*}}) order longest_first queue %{{.*}} draws carries(%{{.*}}) {
// CHECK: fa2gpu.tile_yield
// CHECK: } : <2 x tensor<1xi32>>
// An empty role, too.
// CHECK: fa2gpu.roles @consumer(4 warps, 248 registers) {
// CHECK-NEXT: } @producer(4 warps, 24 registers) {
// CHECK-NEXT: }
func.func @roles(%n: index, %tiles: !fa2gpu.ring<2 x tensor<1xi32>>) {
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2gpu.turn_pass of 2 first {id = 1 : i64}
    fa2gpu.turn_wait of 2
    fa2gpu.group_barrier {id = 3 : i64}
  } @producer(4 warps, 24 registers, one thread) {
    fa2gpu.tile_loop(%n by 128, %n, %n) order longest_first queue %tiles draws carries(%n) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      fa2gpu.tile_yield %uses
    } : !fa2gpu.ring<2 x tensor<1xi32>>
  }
  fa2gpu.roles @consumer(4 warps, 248 registers) { } @producer(4 warps, 24 registers) { }
  return
}

// Either family's matmul takes the left side from shared memory or from registers.
// CHECK-LABEL: func @warpgroups
// CHECK: fa2gpu.dot_start %{{.*}} -> <tensor<128x64xf32, #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>>>
// CHECK: fa2gpu.dot_wait %{{.*}} keep(%{{.*}} : tensor<128x64xf16, #fa2gpu.operand<<#fa2gpu.wgmma, groups = [2, 1]>>>) {pending = 1 : i64}
// CHECK: fa2gpu.convert_layout %{{.*}} : tensor<128x64xf32, #fa2gpu.acc<#fa2gpu.mma_sync, groups = [8, 1]>> -> tensor<128x64xf32, #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>>
#group = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#warp = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [8, 1]>
func.func @warpgroups(%p: tensor<128x64xf16, #fa2gpu.operand<#group>>, %v: tensor<64x64xf16, #fa2gpu.shared<panel = 128>>,
                      %s: tensor<128x64xf32, #warp>) -> tensor<128x64xf32, #group> {
  %f = fa2gpu.dot_start %p, %v : tensor<128x64xf16, #fa2gpu.operand<#group>>, tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
      -> !fa2gpu.in_flight<tensor<128x64xf32, #group>>
  %o = fa2gpu.dot_wait %f keep(%p : tensor<128x64xf16, #fa2gpu.operand<#group>>) {pending = 1 : i64}
      : !fa2gpu.in_flight<tensor<128x64xf32, #group>> -> tensor<128x64xf32, #group>
  %t = fa2gpu.convert_layout %s : tensor<128x64xf32, #warp> -> tensor<128x64xf32, #group>
  return %t : tensor<128x64xf32, #group>
}

// CHECK-LABEL: func private @split(tensor<16x64xf32, #fa2gpu.acc<{{.*}}, groups = [1, 1], split_k = 4>>
func.func private @split(tensor<16x64xf32, #split>)

// CHECK: fa2gpu.launch @m::@k grid ["ceildiv(seqlen_q, 64)", "heads", "batch"] block 128 shared 49152
// CHECK-SAME: parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"stride", "q", 1>, #fa2gpu.param<"i32", "seqlen_q">]
fa2gpu.launch @m::@k grid ["ceildiv(seqlen_q, 64)", "heads", "batch"] block 128 shared 49152
    spec #fa2.spec<pass = "forward", dtype = f16, head_dim = 64, head_dim_v = 64>
    schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
    arguments [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>]
    parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"stride", "q", 1>, #fa2gpu.param<"i32", "seqlen_q">]

// What blocks of a cluster give each other, before rings and behind them; columns of b that begin where only the program knows.
// CHECK-LABEL: func @peers
// CHECK: fa2gpu.exchange %[[DS:.*]] : tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
// CHECK: %[[PEER:.*]] = fa2gpu.ring.create {barriers = 8192 : i64, name = "peer", offset = 0 : i64, peer} : <1 x
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[PEER]][%[[N:.*]]]
// CHECK-NEXT: fa2gpu.peer_copy %[[DS]], %[[SLOT]] signal %[[PEER]][%[[N]]] : tensor<64x64xf16, #fa2gpu.shared<panel = 128>>, <1 x
// CHECK: fa2gpu.dot_start %[[DS]], %[[K:.*]] from %[[N]] {transpose_a} :
// CHECK: fa2gpu.dot_start %[[DS]], %[[K]] from %[[N]] acc(%{{.*}} : {{.*}}) {transpose_a} :
// CHECK: fa2gpu.order = #fa2gpu.order<"(dp) dq' dq_other'+ dk s dp dv+", 2 in flight>
#one = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
!tile = tensor<64x64xf16, #fa2gpu.shared<panel = 128>>
!sum = tensor<64x64xf32, #one>
func.func @peers(%ds: !tile, %k: tensor<64x128xf16, #fa2gpu.shared<panel = 128>>, %n: index) {
  %other = fa2gpu.exchange %ds : !tile
  %r = fa2gpu.ring.create {name = "peer", offset = 0, barriers = 8192, peer} : !fa2gpu.ring<1 x !tile>
  %slot, %next = fa2gpu.ring.acquire %r[%n] : !fa2gpu.ring<1 x !tile> -> !tile
  fa2gpu.peer_copy %ds, %slot signal %r[%n] : !tile, !fa2gpu.ring<1 x !tile>
  %f = fa2gpu.dot_start %ds, %k from %n {transpose_a} : !tile, tensor<64x128xf16, #fa2gpu.shared<panel = 128>> -> !fa2gpu.in_flight<!sum>
  %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!sum> -> !sum
  %g = fa2gpu.dot_start %ds, %k from %n acc(%s : !sum) {transpose_a} : !tile, tensor<64x128xf16, #fa2gpu.shared<panel = 128>> -> !fa2gpu.in_flight<!sum>
  scf.for %i = %n to %n step %n {
  } {fa2gpu.order = #fa2gpu.order<"(dp) dq' dq_other'+ dk s dp dv+", 2 in flight>}
  return
}

// CHECK: fa2gpu.launch @m::@pair grid ["2 * ceildiv(seqlen_k, 128)"] block 128 shared 0
// CHECK-SAME: parameters [] {cluster = 2 : i64}
fa2gpu.launch @m::@pair grid ["2 * ceildiv(seqlen_k, 128)"] block 128 shared 0
    spec #fa2.spec<pass = "backward", dtype = f16, head_dim = 64, head_dim_v = 64>
    schedule #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2, partition = keys>
    arguments [] parameters [] {cluster = 2}
