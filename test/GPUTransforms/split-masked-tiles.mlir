// RUN: fa2-opt %s --fa2gpu-split-masked-tiles --fa2gpu-expand-ranges --canonicalize --cse | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!view = !fa2.view<? x 64 x bf16>
!kv = tensor<32x64xbf16, #fa2gpu.shared>
!ring = !fa2gpu.ring<2 x !kv>
!s = tensor<64x32xf32, #acc>
!m = tensor<64xf32, #row>
!l = tensor<64xf32, #lrow>

// Causal: no lower bound, so masked tiles stand only at the front, where the loop starts. Of tile
// last - i, the first whole one is full_end - 1: the loops meet at i = last + 1 - full_end,
// kept within [0, n). The state crosses over.
// CHECK-LABEL: fa2.kernel @causal
// CHECK-SAME: (%[[K:.*]]: !fa2.view<? x 64 x bf16>, %[[V:.*]]: !fa2.view<? x 64 x bf16>, %[[C:.*]]: f32, %[[N:.*]]: index, %[[FE:.*]]: index, %[[SQ:.*]]: index, %[[SK:.*]]: index)
// CHECK: %[[DIFF:.*]] = arith.subi %[[N]], %[[FE]]
// CHECK: %[[MAX:.*]] = arith.maxsi %[[DIFF]], %c0
// CHECK: %[[MEET:.*]] = arith.minsi %[[MAX]], %[[N]]
// CHECK: %[[BEFORE:.*]]:2 = scf.for %{{.*}} = %c0 to %[[MEET]] step %c1
// The sequence may end in tile `last`, not in those that come after it.
// CHECK: fa2gpu.copy %[[K]][{{.*}} if %{{.*}} {in_bounds}
// CHECK: fa2gpu.copy %[[V]][
// CHECK-NOT: in_bounds
// CHECK: %[[S:.*]] = fa2gpu.dot_wait
// CHECK: %[[SM:.*]] = fa2.apply_mask %[[S]]
// CHECK: fa2.softmax_step %[[SM]], {{.*}}
// CHECK: scf.yield
// CHECK: scf.for %{{.*}} = %[[MEET]] to %[[N]] step %c1 iter_args(%{{.*}} = %[[BEFORE]]#0, %{{.*}} = %[[BEFORE]]#1)
// CHECK: fa2gpu.copy %[[K]][{{.*}} if %{{.*}} {in_bounds}
// CHECK: fa2gpu.copy %[[V]][{{.*}} {in_bounds}
// CHECK: %[[S:.*]] = fa2gpu.dot_wait
// CHECK-NOT: fa2.apply_mask
// CHECK: fa2.softmax_step %[[S]]
// CHECK: scf.yield
// CHECK-NOT: scf.for
// CHECK: fa2.return
fa2.kernel @causal(%k: !view, %v: !view, %c: f32, %n: index, %fe: index, %sq: index, %sk: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"c", "in", [] x f32>, #fa2.arg<"n", "in", [] x index>,
                             #fa2.arg<"fe", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %m0 = arith.constant dense<0xFF800000> : !m
  %l0 = arith.constant dense<0.0> : !l
  %kr = fa2gpu.ring.create {name = "k"} : !ring
  %vr = fa2gpu.ring.create {name = "v"} : !ring
  %tiles = fa2.tile_range %c0 to %n falling full(%c0, %fe)
  %last = arith.subi %n, %c1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0) -> (!m, !l) {
    %more = arith.cmpi slt, %i, %last : index
    %next = arith.addi %i, %c1 : index
    %jk = fa2.tile_at %tiles[%next]
    %rowk = arith.muli %jk, %c32 : index
    %kw, %kw_next = fa2gpu.ring.acquire %kr[%next] : !ring -> !kv
    fa2gpu.copy %k[%rowk], %kw if %more : !view, !kv
    %j = fa2.tile_at %tiles[%i]
    %rowv = arith.muli %j, %c32 : index
    %vw, %vw_next = fa2gpu.ring.acquire %vr[%i] : !ring -> !kv
    fa2gpu.copy %v[%rowv], %vw : !view, !kv
    %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !ring -> !kv
    %q = arith.constant dense<0.0> : tensor<64x64xbf16, #fa2gpu.operand<#acc>>
    %sf = fa2gpu.dot_start %q, %kt {transpose_b} : tensor<64x64xbf16, #fa2gpu.operand<#acc>>, !kv -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
    %sm = fa2.apply_mask %s at(%c0, %j) lengths(%sq, %sk) {mask = #fa2.mask<causal>} : !s
    %p, %m1, %l1, %a = fa2.softmax_step %sm, %m, %l scale %c : !s, !m, !l
    scf.yield %m1, %l1 : !m, !l
  }
  fa2.return
}

// A mask with a lower bound has masked tiles at both ends: three loops.
// CHECK-LABEL: fa2.kernel @lower_bound
// CHECK-SAME: %[[N:[a-z0-9]+]]: index, %[[FB:[a-z0-9]+]]: index, %[[FE:[a-z0-9]+]]: index
// CHECK: %[[D1:.*]] = arith.subi %[[N]], %[[FE]]
// CHECK: %[[X1:.*]] = arith.maxsi %[[D1]], %c0
// CHECK: %[[MEET1:.*]] = arith.minsi %[[X1]], %[[N]]
// CHECK: %[[D2:.*]] = arith.subi %[[N]], %[[FB]]
// CHECK: %[[X2:.*]] = arith.maxsi %[[D2]], %c0
// CHECK: %[[MEET2:.*]] = arith.minsi %[[X2]], %[[N]]
// CHECK: %[[A:.*]]:2 = scf.for {{.*}} = %c0 to %[[MEET1]]
// CHECK: fa2.apply_mask
// CHECK: %[[B:.*]]:2 = scf.for {{.*}} = %[[MEET1]] to %[[MEET2]] step %c1 iter_args(%{{.*}} = %[[A]]#0, %{{.*}} = %[[A]]#1)
// CHECK-NOT: fa2.apply_mask
// CHECK: scf.for {{.*}} = %[[MEET2]] to %[[N]] step %c1 iter_args(%{{.*}} = %[[B]]#0, %{{.*}} = %[[B]]#1)
// CHECK: fa2.apply_mask
// CHECK-NEXT: fa2.softmax_step
fa2.kernel @lower_bound(%s: !s, %out: !fa2.view<? x f32>, %c: f32, %n: index, %fb: index, %fe: index, %sq: index, %sk: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"s", "in", [] x f32>, #fa2.arg<"out", "out", [] x f32>, #fa2.arg<"c", "in", [] x f32>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"fb", "in", [] x index>,
                             #fa2.arg<"fe", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m0 = arith.constant dense<0xFF800000> : !m
  %l0 = arith.constant dense<0.0> : !l
  %tiles = fa2.tile_range %c0 to %n falling full(%fb, %fe)
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0) -> (!m, !l) {
    %j = fa2.tile_at %tiles[%i]
    %sm = fa2.apply_mask %s at(%c0, %j) lengths(%sq, %sk) : !s
    %p, %m1, %l1, %a = fa2.softmax_step %sm, %m, %l scale %c : !s, !m, !l
    scf.yield %m1, %l1 : !m, !l
  }
  fa2.store %r#0, %out[%c0] : !m, !fa2.view<? x f32>
  fa2.return
}
