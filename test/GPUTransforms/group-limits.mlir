// RUN: fa2-opt %s --fa2gpu-group-limits --canonicalize --cse | FileCheck %s
// RUN: sed 's/, group_limits = true//' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/ {mask = #fa2.mask<causal>} : !acc/ : !acc/' %s | fa2-opt --fa2gpu-group-limits --canonicalize --cse | FileCheck %s --check-prefix=FULL
// RUN: sed 's/<128x/<64x/g; s/block_q = 128/block_q = 64/; s/groups = .2, 1./groups = [1, 1]/; s/warps = 8/warps = 4/; s/(8 warps/(4 warps/; s/by 128/by 64/' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/arith.subi %%end, %%i/arith.addi %%end, %%i/' %s | not fa2-opt --fa2gpu-group-limits 2>&1 | FileCheck %s --check-prefix=RISES

// OFF-COUNT-1: scf.for
// OFF-NOT: scf.for
// OFF-NOT: fa2gpu.warpgroup

// RISES: error: 'fa2.apply_mask' op expected kv_block to fall by one an iteration

// Key tiles fall from %end. The group's 64 rows are rows 64 (2 block + g) and on; under a causal mask they see
// min(row + 63, seqlen_q - 1) + 1 + seqlen_k - seqlen_q keys.
// CHECK: fa2gpu.roles consumer
// CHECK: %[[B:.*]] = arith.muli %block, %c2
// CHECK: %[[G:.*]] = fa2gpu.warpgroup
// CHECK: %[[OWN:.*]] = arith.addi %[[B]], %[[G]]
// CHECK: %[[ROW:.*]] = arith.muli %[[OWN]], %c64
// CHECK: %[[TILES:.*]] = arith.divui %{{.*}}, %c64
// Rows past the sequence's end see none.
// CHECK: %[[ANY:.*]] = arith.cmpi slt, %[[ROW]], %seqlen_q
// CHECK: arith.select %[[ANY]], %{{.*}}, %c0
// The tiles above them are waited for and released: the ring is the whole block's.
// CHECK: scf.for %[[I:.*]] = %c0 to %[[SKIP:[0-9]+]] step
// CHECK-NEXT: %[[USE:.*]] = arith.addi %first, %[[I]]
// CHECK-NEXT: fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK-NEXT: fa2gpu.ring.release %{{.*}}[%[[USE]]]
// CHECK-NEXT: }
// What came before the loop, the queries, is waited for after them.
// CHECK: fa2gpu.ring.wait %{{.*}}[%first]
// The loop goes on from there, with uses, tiles and the limit of full tiles counted on.
// CHECK-DAG: %[[LAST:.*]] = arith.subi %end, %[[SKIP]]
// CHECK-DAG: %[[LEFT:.*]] = arith.subi %n, %[[SKIP]]
// CHECK-DAG: %[[FIRST:.*]] = arith.addi %first, %[[SKIP]]
// CHECK: scf.for %[[J:.*]] = %c0 to %[[LEFT]]
// CHECK-DAG: %[[USE:.*]] = arith.addi %[[FIRST]], %[[J]]
// CHECK-DAG: %[[TILE:.*]] = arith.subi %[[LAST]], %[[J]]
// CHECK: fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK: fa2gpu.ring.release %{{.*}}[%[[USE]]]
// CHECK: fa2.apply_mask %{{.*}} at(%block, %[[TILE]]) lengths(%seqlen_q, %seqlen_k) full(%c0, %{{.*}})
// CHECK: producer(

// Without a mask, a group with rows skips nothing but what the block does not see.
// FULL: %[[ROW:.*]] = arith.muli %{{.*}}, %c64
// FULL: %[[ANY:.*]] = arith.cmpi slt, %[[ROW]], %seqlen_q
// FULL: arith.select %[[ANY]], %{{.*}}, %c0
// FULL: scf.for
// FULL-NEXT: arith.addi
// FULL-NEXT: fa2gpu.ring.wait
// FULL-NEXT: fa2gpu.ring.release
// FULL: fa2gpu.ring.wait %{{.*}}[%first]
// FULL: scf.for
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%n: index, %first: index, %end: index, %block: index, %full: index, %seqlen_q: index, %seqlen_k: index, %q: !qt)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, group_limits = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"first", "in", [] x index>, #fa2.arg<"end", "in", [] x index>,
                             #fa2.arg<"block", "in", [] x index>, #fa2.arg<"full", "in", [] x index>, #fa2.arg<"seqlen_q", "in", [] x index>,
                             #fa2.arg<"seqlen_k", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "k"} : !kring
  %r1 = fa2gpu.ring.create {name = "q"} : !kring
  fa2gpu.roles consumer(8 warps, 240 registers) {
    %once = fa2gpu.ring.wait %r1[%first] : !kring -> !kt
    scf.for %i = %c0 to %n step %c1 {
      %use = arith.addi %first, %i : index
      %tile = arith.subi %end, %i : index
      %k = fa2gpu.ring.wait %r[%use] : !kring -> !kt
      %f = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %r[%use] : !kring
      %t = fa2.apply_mask %s at(%block, %tile) lengths(%seqlen_q, %seqlen_k) full(%c0, %full) {mask = #fa2.mask<causal>} : !acc
      %u = arith.truncf %t : !acc to tensor<128x64xbf16, #acc>
      fa2gpu.local_store %u, %q : tensor<128x64xbf16, #acc>, !qt
    }
  } producer(4 warps, 24 registers) {
    %w = fa2gpu.ring.acquire %r[%c0] : !kring -> !kt
  }
  fa2.return
}
