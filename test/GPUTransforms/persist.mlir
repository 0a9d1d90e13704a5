// RUN: fa2-opt %s --fa2gpu-persist | FileCheck %s
// RUN: sed 's/, persistent = true//' %s | fa2-opt --fa2gpu-persist | FileCheck %s --check-prefix=OFF

// OFF-NOT: fa2gpu.tile_loop
// OFF: fa2.for_each_tile
// OFF: fa2gpu.ring.acquire %{{.*}}[%c0]

// The block takes tile after tile. A ring that is used once a tile counts tiles (visit), one of the kv loop goes
// on from the key tiles before (uses), and the next tile goes on from what this one took.
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[TILES:.*]] = fa2gpu.ring.create {name = "tiles"} : <2 x tensor<1xi32>>
// CHECK: fa2gpu.tile_loop(%{{.*}} by 128, %{{.*}}, %{{.*}}) order {{ *}}ascending queue %[[TILES]] {
// CHECK-NEXT: ^bb0(%[[TILE:.*]]: index, %[[HEAD:.*]]: index, %[[BATCH:.*]]: index, %[[VISIT:.*]]: index, %[[USES:.*]]: index):
// CHECK: fa2gpu.ring.acquire %[[Q]][%[[VISIT]]]
// CHECK-NEXT: fa2gpu.tensor_copy %{{.*}}[%{{.*}}, %[[HEAD]], %[[BATCH]]], %{{.*}} signal %[[Q]][%[[VISIT]]]
// CHECK-NEXT: fa2gpu.ring.commit %[[Q]][%[[VISIT]]]
// CHECK-NEXT: fa2gpu.ring.wait %[[Q]][%[[VISIT]]]
// CHECK: %[[N:.*]] = arith.muli %n, %[[TILE]]
// CHECK: %[[RANGE:.*]] = fa2.tile_range %c0 to %[[N]]
// CHECK: fa2.for_tiles %{{.*}} at %[[I:.*]] in %[[RANGE]]
// CHECK-NEXT: %[[USE:.*]] = arith.addi %[[USES]], %[[I]]
// CHECK: fa2gpu.ring.acquire %[[K]][%[[USE]]]
// CHECK: signal %[[K]][%[[USE]]]
// CHECK: fa2gpu.ring.commit %[[K]][%[[USE]]]
// CHECK: fa2gpu.ring.wait %[[K]][%[[USE]]]
// CHECK: fa2gpu.ring.release %[[K]][%[[USE]]]
// CHECK: %[[COUNT:.*]] = fa2.tile_count %[[RANGE]]
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[USES]], %[[COUNT]]
// CHECK: fa2gpu.ring.release %[[Q]][%[[VISIT]]]
// CHECK-NEXT: fa2gpu.tile_yield %[[NEXT]]
#acc = #fa2gpu.acc<#fa2gpu.wgmma, warps = [8, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!kring = !fa2gpu.ring<2 x !kt>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%q: !global, %k: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %qm = fa2gpu.tensor_map %q rows 64 : !global
  %km = fa2gpu.tensor_map %k rows 64 : !global
  %qr = fa2gpu.ring.create {name = "q"} : !qring
  %kr = fa2gpu.ring.create {name = "k"} : !kring
  %rows = memref.dim %q, %c1 : !global
  %heads = memref.dim %q, %c2 : !global
  %batches = memref.dim %q, %c0 : !global
  fa2.for_each_tile %tile, %head, %batch in (%rows by 128, %heads, %batches) {
    %row = arith.muli %tile, %c64 : index
    %qw = fa2gpu.ring.acquire %qr[%c0] : !qring -> !qt
    fa2gpu.tensor_copy %qm[%row, %head, %batch], %qw signal %qr[%c0] : !qt, !qring
    fa2gpu.ring.commit %qr[%c0] : !qring
    %qt = fa2gpu.ring.wait %qr[%c0] : !qring -> !qt
    %keys = arith.muli %n, %tile : index
    %tiles = fa2.tile_range %c0 to %keys full(%c0, %keys)
    fa2.for_tiles %j at %i in %tiles {
      %key = arith.muli %j, %c64 : index
      %kw = fa2gpu.ring.acquire %kr[%i] : !kring -> !kt
      fa2gpu.tensor_copy %km[%key, %head, %batch], %kw signal %kr[%i] : !kt, !kring
      fa2gpu.ring.commit %kr[%i] : !kring
      %kt = fa2gpu.ring.wait %kr[%i] : !kring -> !kt
      %f = fa2gpu.dot_start %qt, %kt {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %kr[%i] : !kring
    }
    fa2gpu.ring.release %qr[%c0] : !qring
  }
  fa2.return
}
