// RUN: fa2-opt %s --fa2gpu-allocate | FileCheck %s
// RUN: sed 's/64x64xbf16, #shared/256x256xbf16, #shared/' %s | not fa2-opt --fa2gpu-allocate 2>&1 | FileCheck %s --check-prefix=TOOMUCH

// Roles run side by side: no two rings share bytes. Those that both roles use get mbarriers (8 bytes: full and empty
// for each slot, or each part of one); the tiles' queue lies behind its own. A part is released by its own warpgroup.
// CHECK: shared_bytes = 49280
// CHECK-DAG: %[[O:.*]] = fa2gpu.ring.create {name = "out", offset = 32768 : i64}
// CHECK-DAG: %[[Q:.*]] = fa2gpu.ring.create {barriers = 49152 : i64, name = "q", offset = 0 : i64}
// CHECK-DAG: %[[K:.*]] = fa2gpu.ring.create {barriers = 49184 : i64, name = "k", offset = 16384 : i64}
// CHECK-DAG: %[[T:.*]] = fa2gpu.ring.create {barriers = 49216 : i64, name = "tiles", offset = 49248 : i64}
// CHECK-DAG: fa2gpu.ring.init %[[Q]] consumers 4
// CHECK-DAG: fa2gpu.ring.init %[[K]] consumers 8
// CHECK-DAG: fa2gpu.ring.init %[[T]] consumers 8
// CHECK-NOT: ring.init
// Barrier 0 is the block's, 1 and 2 are the turns', 3 and 4 the warpgroups' own.
// CHECK: fa2gpu.roles
// CHECK: fa2gpu.turn_pass of 2 first {id = 1 : i64}
// CHECK: fa2gpu.turn_wait of 2 {id = 1 : i64}
// CHECK: fa2gpu.group_barrier {id = 3 : i64}
// One thread does all that the producer has to do.
// CHECK: } @producer(4 warps, 24 registers, one thread) {

// What threads write is full when each of the role's warps has said so.
// RUN: sed 's/^ *fa2gpu.tensor_copy .*%%kw.*/%%z = arith.constant dense<0.0> : tensor<64x64xbf16, #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>>\n fa2gpu.local_store %%z, %%kw : tensor<64x64xbf16, #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>>, !kt/' %s | fa2-opt --fa2gpu-allocate | FileCheck %s --check-prefix=THREADS
// THREADS: fa2gpu.ring.init %{{.*}} consumers 8 fillers 4 : <2 x tensor<64x64xbf16
// THREADS: } @producer(4 warps, 24 registers) {

// TOOMUCH: error: 'fa2.kernel' op expected at most 232448 bytes of shared memory on sm_90a, got 295040
#shared = #fa2gpu.shared<panel = 128>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!kring = !fa2gpu.ring<2 x !kt>
!tiles = !fa2gpu.ring<2 x tensor<1xi32>>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%k: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %map = fa2gpu.tensor_map %k rows 64 : !global
  %q = fa2gpu.ring.create {name = "q"} : !qring
  %r = fa2gpu.ring.create {name = "k"} : !kring
  %out = fa2gpu.ring.create {name = "out"} : !fa2gpu.ring<1 x !qt>
  %tiles = fa2gpu.ring.create {name = "tiles"} : !tiles
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2gpu.turn_pass of 2 first
    fa2gpu.turn_wait of 2
    fa2gpu.group_barrier
    %slot = fa2gpu.ring.slot %out[%c0] : !fa2gpu.ring<1 x !qt> -> !qt
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      fa2gpu.ring.release %q[%visit] : !qring
      fa2gpu.ring.release %r[%uses] : !kring
      fa2gpu.tile_yield %uses
    } : !tiles
  } @producer(4 warps, 24 registers) {
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles draws carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      %qw, %qw_next = fa2gpu.ring.acquire %q[%visit] : !qring -> !qt
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %qw signal %q[%visit] : !qt, !qring
      %kw, %kw_next = fa2gpu.ring.acquire %r[%uses] : !kring -> !kt
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %kw signal %r[%uses] : !kt, !kring
      fa2gpu.tile_yield %uses
    } : !tiles
  }
  fa2.return
}
