// RUN: fa2-opt %s --fa2gpu-group-limits --canonicalize --cse | FileCheck %s
// RUN: sed 's/, group_limits = true//' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/ {mask = #fa2.mask<causal>}//' %s | fa2-opt --fa2gpu-group-limits --canonicalize --cse | FileCheck %s --check-prefix=FULL
// RUN: sed 's/<128x/<64x/g; s/block_q = 128/block_q = 64/; s/groups = .2, 1./groups = [1, 1]/; s/warps = 8/warps = 4/; s/(8 warps/(4 warps/; s/by 128/by 64/' %s | fa2-opt --fa2gpu-group-limits | FileCheck %s --check-prefix=OFF
// RUN: sed 's/falling lengths/lengths/' %s | not fa2-opt --fa2gpu-group-limits 2>&1 | FileCheck %s --check-prefix=RISES

// OFF-COUNT-1: fa2.for_tiles
// OFF-NOT: fa2.for_tiles
// OFF-NOT: fa2gpu.warpgroup

// RISES: error: 'fa2.apply_mask' op expected kv_block to be the tile of a loop whose tiles fall

// The group's 64 rows, rows 64 (2 block + g) and on, are a block of queries of their own, which may lie past the end.
// CHECK: fa2gpu.roles @consumer
// CHECK: %[[KEYS:.*]] = fa2.kv_range %block falling lengths(%seqlen_q, %seqlen_k) blocks(128, 64) {mask = #fa2.mask<causal>}
// CHECK: %[[B:.*]] = arith.muli %block, %c2
// CHECK: %[[G:.*]] = fa2gpu.warpgroup
// CHECK: %[[ROWS:.*]] = arith.addi %[[B]], %[[G]]
// CHECK: %[[OWN:.*]] = fa2.kv_range %[[ROWS]] falling lengths(%seqlen_q, %seqlen_k) blocks(64, 64) {mask = #fa2.mask<causal>, past_end}
// CHECK: %[[SKIP:.*]] = fa2.tiles_until %[[OWN]] in %[[KEYS]]
// The tiles above its own are waited for and released: the ring is the whole block's.
// CHECK: %[[HEAD:.*]] = fa2.take_tiles %[[SKIP]] of %[[KEYS]]
// CHECK: %[[SKIPPED:.*]] = fa2.for_tiles %{{.*}} in %[[HEAD]] iter_args(%[[USE:.*]] = %first) -> (index) {
// CHECK-NEXT: %{{.*}}, %[[NEXT:.*]] = fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK-NEXT: fa2gpu.ring.release %{{.*}}[%[[USE]]]
// CHECK-NEXT: fa2.yield %[[NEXT]]
// CHECK-NEXT: }
// What came before the loop, the queries, is waited for after them.
// CHECK: fa2gpu.ring.wait %{{.*}}[%first]
// The loop, and its cursor, go on from there; what is full is full for the group's rows.
// CHECK: %[[TAIL:.*]] = fa2.drop_tiles %[[SKIP]] of %[[KEYS]] for %[[OWN]]
// CHECK: fa2.for_tiles %[[TILE:.*]] in %[[TAIL]] iter_args(%[[USE:.*]] = %[[SKIPPED]])
// CHECK: fa2gpu.ring.wait %{{.*}}[%[[USE]]]
// CHECK: fa2gpu.ring.release %{{.*}}[%[[USE]]]
// CHECK: fa2.apply_mask %{{.*}} at(%block, %[[TILE]]) lengths(%seqlen_q, %seqlen_k)
// CHECK: @producer(

// Without a mask, a group with rows skips nothing but what the block does not see.
// FULL: fa2.kv_range %{{.*}} falling lengths(%seqlen_q, %seqlen_k) blocks(64, 64) {past_end}
// FULL: fa2.tiles_until
// FULL: fa2.for_tiles
// FULL-NEXT: fa2gpu.ring.wait
// FULL-NEXT: fa2gpu.ring.release
// FULL: fa2gpu.ring.wait %{{.*}}[%first]
// FULL: fa2.for_tiles
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%first: index, %block: index, %seqlen_q: index, %seqlen_k: index, %q: !qt)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, group_limits = true>,
                arguments = [#fa2.arg<"first", "in", [] x index>, #fa2.arg<"block", "in", [] x index>, #fa2.arg<"seqlen_q", "in", [] x index>,
                             #fa2.arg<"seqlen_k", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %r = fa2gpu.ring.create {name = "k"} : !kring
  %r1 = fa2gpu.ring.create {name = "q"} : !kring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    %once, %once_next = fa2gpu.ring.wait %r1[%first] : !kring -> !kt
    %keys = fa2.kv_range %block falling lengths(%seqlen_q, %seqlen_k) blocks(128, 64) {mask = #fa2.mask<causal>}
    %last = fa2.for_tiles %tile in %keys iter_args(%use = %first) -> (index) {
      %k, %k_next = fa2gpu.ring.wait %r[%use] : !kring -> !kt
      %f = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %r[%use] : !kring
      %t = fa2.apply_mask %s at(%block, %tile) lengths(%seqlen_q, %seqlen_k) {mask = #fa2.mask<causal>} : !acc
      %u = arith.truncf %t : !acc to tensor<128x64xbf16, #acc>
      fa2gpu.local_store %u, %q : tensor<128x64xbf16, #acc>, !qt
      fa2.yield %k_next : index
    }
  } @producer(4 warps, 24 registers) {
    %w, %w_next = fa2gpu.ring.acquire %r[%c0] : !kring -> !kt
  }
  fa2.return
}
