// RUN: fa2-opt %s --fa2gpu-group-limits --canonicalize --cse | FileCheck %s
// RUN: fa2-opt %s --fa2gpu-group-limits --fa2gpu-count-tiles --fa2gpu-expand-ranges --canonicalize --cse | FileCheck %s --check-prefix=PLACES
// RUN: sed 's/, group_limits = true//' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/<128x/<64x/g; s/groups = .2, 1./groups = [1, 1]/; s/warps = 8/warps = 4/; s/(8 warps/(4 warps/; s/blocks(64, 128)/blocks(64, 64)/' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/%block lengths/%block falling %down lengths/' %s | fa2-opt --fa2gpu-group-limits --canonicalize --cse | FileCheck %s --check-prefix=FALLS
// RUN: sed 's/^\( *fa2gpu.ring.commit %e.*\)/\1\n      memref.store %use, %count[%use] : memref<?xindex>/' %s | not fa2-opt --fa2gpu-group-limits 2>&1 | FileCheck %s --check-prefix=EFFECT

// OFF-COUNT-1: fa2.for_tiles
// OFF-NOT: fa2.for_tiles
// OFF-NOT: fa2gpu.warpgroup

// Where queries may fall, some come before the group's and some behind: one of both is none.
// FALLS: %[[QUERIES:.*]] = fa2.q_range %block falling %down
// FALLS: %[[OWN:.*]] = fa2.q_range %{{.*}} falling %down
// FALLS: %[[UNTIL:.*]] = fa2.tiles_until %[[OWN]] in %[[QUERIES]]
// FALLS: %[[THROUGH:.*]] = fa2.tiles_through %[[OWN]] in %[[QUERIES]]
// FALLS: %[[UPTO:.*]] = fa2.take_tiles %[[THROUGH]] of %[[QUERIES]]
// FALLS: %[[HEAD:.*]] = fa2.take_tiles %[[UNTIL]] of %[[QUERIES]]
// FALLS: fa2.for_tiles %{{.*}} in %[[HEAD]]
// FALLS: %[[MAIN:.*]] = fa2.drop_tiles %[[UNTIL]] of %[[UPTO]] for %[[OWN]]
// FALLS: %[[LAST:.*]]:2 = fa2.for_tiles %{{.*}} in %[[MAIN]]
// FALLS: fa2gpu.dot_start
// FALLS: %[[TAIL:.*]] = fa2.drop_tiles %[[THROUGH]] of %[[QUERIES]] for %[[OWN]]
// FALLS: fa2.for_tiles %{{.*}} in %[[TAIL]] iter_args(%{{.*}} = %[[LAST]]#0, %{{.*}} = %[[LAST]]#1)
// FALLS: fa2gpu.local_store %cst
// EFFECT: error: 'memref.store' op expected no effect but on rings in a loop of which a warpgroup leaves out tiles

// The group's 64 keys, keys 64 (2 block + g) and on, are a block of keys of their own.
// CHECK: fa2gpu.roles @consumer
// CHECK: %[[QUERIES:.*]] = fa2.q_range %block lengths(%seqlen_q, %seqlen_k) blocks(64, 128) {mask = #fa2.mask<causal>, nonempty}
// CHECK: %[[B:.*]] = arith.muli %block, %c2
// CHECK: %[[G:.*]] = fa2gpu.warpgroup
// CHECK: %[[KEYS:.*]] = arith.addi %[[B]], %[[G]]
// CHECK: %[[OWN:.*]] = fa2.q_range %[[KEYS]] lengths(%seqlen_q, %seqlen_k) blocks(64, 64) {mask = #fa2.mask<causal>}
// CHECK: %[[SKIP:.*]] = fa2.tiles_until %[[OWN]] in %[[QUERIES]]
// Tiles that see none of them are waited for and released, and the other role gets zeros of them.
// CHECK: %[[HEAD:.*]] = fa2.take_tiles %[[SKIP]] of %[[QUERIES]]
// CHECK: %[[SKIPPED:.*]]:2 = fa2.for_tiles %{{.*}} in %[[HEAD]] iter_args(%[[USE:.*]] = %first, %[[OUT:.*]] = %first) -> (index, index) {
// CHECK-NEXT: %{{.*}}, %[[NEXT:.*]] = fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK-NEXT: fa2gpu.ring.release %{{.*}}[%[[USE]]]
// CHECK-NEXT: %[[SLOT:.*]], %[[MORE:.*]] = fa2gpu.ring.acquire %[[E:.*]][%[[OUT]]]
// CHECK-NEXT: fa2gpu.local_store %cst, %[[SLOT]]
// CHECK-NEXT: fa2gpu.ring.commit %[[E]][%[[OUT]]]
// CHECK-NEXT: fa2.yield %[[NEXT]], %[[MORE]]
// CHECK-NEXT: }
// The loop, and its cursors, go on from there; what is full is full for the group's keys.
// CHECK: %[[TAIL:.*]] = fa2.drop_tiles %[[SKIP]] of %[[QUERIES]] for %[[OWN]]
// CHECK: fa2.for_tiles %[[TILE:.*]] in %[[TAIL]] iter_args(%[[USE:.*]] = %[[SKIPPED]]#0, %[[OUT:.*]] = %[[SKIPPED]]#1)
// CHECK: fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK: fa2.apply_mask %{{.*}} at(%[[TILE]], %block) lengths(%seqlen_q, %seqlen_k) {mask = #fa2.mask<causal>, transposed}
// CHECK: fa2gpu.ring.acquire %{{.*}}[%[[OUT]]]
// CHECK: @producer(

// As many as the block's first tile is before the group's, but for one that is left.
// PLACES: %[[G:.*]] = fa2gpu.warpgroup
// PLACES: %[[FIRST:.*]] = arith.minsi
// PLACES: %[[N:.*]] = arith.subi %[[FIRST]],
// PLACES: %[[SOME:.*]] = arith.minsi %[[N]],
// PLACES: arith.maxsi %[[SOME]], %c0
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!kt = tensor<128x64xbf16, #shared>
!qt = tensor<64x64xbf16, #shared>
!st = tensor<128x64xbf16, #shared>
!qring = !fa2gpu.ring<2 x !qt>
!ering = !fa2gpu.ring<2 x !st>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%first: index, %block: index, %seqlen_q: index, %seqlen_k: index, %k: !kt, %down: i1, %count: memref<?xindex>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, group_limits = true, dq_by_producer = true>,
                arguments = [#fa2.arg<"first", "in", [] x index>, #fa2.arg<"block", "in", [] x index>, #fa2.arg<"seqlen_q", "in", [] x index>,
                             #fa2.arg<"seqlen_k", "in", [] x index>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"down", "in", [] x i1>,
                             #fa2.arg<"count", "in", ["n"] x index>]} {
  %c0 = arith.constant 0 : index
  %r = fa2gpu.ring.create {name = "q"} : !qring
  %e = fa2gpu.ring.create {name = "exchange"} : !ering
  fa2gpu.roles @consumer(8 warps, 216 registers) {
    %queries = fa2.q_range %block lengths(%seqlen_q, %seqlen_k) blocks(64, 128) {mask = #fa2.mask<causal>, nonempty}
    %last:2 = fa2.for_tiles %tile in %queries iter_args(%use = %first, %out = %first) -> (index, index) {
      %q, %q_next = fa2gpu.ring.wait %r[%use] : !qring -> !qt
      %f = fa2gpu.dot_start %k, %q {transpose_b} : !kt, !qt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %r[%use] : !qring
      %t = fa2.apply_mask %s at(%tile, %block) lengths(%seqlen_q, %seqlen_k) {mask = #fa2.mask<causal>, transposed} : !acc
      %u = arith.truncf %t : !acc to tensor<128x64xbf16, #acc>
      %slot, %slot_next = fa2gpu.ring.acquire %e[%out] : !ering -> !st
      fa2gpu.local_store %u, %slot : tensor<128x64xbf16, #acc>, !st
      fa2gpu.ring.commit %e[%out] : !ering
      fa2.yield %q_next, %slot_next : index, index
    }
  } @producer(4 warps, 72 registers) {
    %w, %w_next = fa2gpu.ring.acquire %r[%c0] : !qring -> !qt
    %x, %x_next = fa2gpu.ring.wait %e[%c0] : !ering -> !st
  }
  fa2.return
}
