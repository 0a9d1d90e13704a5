// RUN: fa2-opt %s --fa2gpu-allocate | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#acc>
!view = !fa2.view<? x 64 x bf16>
!q = tensor<64x64xbf16, #fa2gpu.shared>
!kv = tensor<32x64xbf16, #fa2gpu.shared>

// Keys and queries are alive together, the output only after the loop: it takes the place of the keys, behind a
// barrier. 2 * 32 * 64 * 2 = 64 * 64 * 2 = 8192 bytes each.
// CHECK-LABEL: fa2.kernel @reuse
// CHECK-SAME: shared_bytes = 16384 : i64
// CHECK: %[[OUT:.*]] = fa2gpu.ring.create {name = "out", offset = 0 : i64}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k", offset = 0 : i64}
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q", offset = 8192 : i64}
// CHECK: scf.for
// CHECK: }
// CHECK: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[OUT]]
// CHECK-NEXT: fa2gpu.local_store
fa2.kernel @reuse(%qv: !view, %kv: !view, %ov: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"out", "out", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %o = arith.constant dense<0.0> : tensor<64x64xbf16, #acc>
  %out = fa2gpu.ring.create {name = "out"} : !fa2gpu.ring<1 x !q>
  %k = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x !kv>
  %q = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qs = fa2gpu.ring.slot %q[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %qv[%t], %qs : !view, !q
    %ks = fa2gpu.ring.slot %k[%c0] : !fa2gpu.ring<2 x !kv> -> !kv
    fa2gpu.copy %kv[%c0], %ks : !view, !kv
    %qr = fa2gpu.local_load %qs : !q -> tensor<64x64xbf16, #op>
    scf.for %i = %c0 to %n step %c1 {
      %ki = fa2gpu.ring.slot %k[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %kv[%i], %ki : !view, !kv
    }
    %os = fa2gpu.ring.slot %out[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.local_store %o, %os : tensor<64x64xbf16, #acc>, !q
    fa2gpu.copy_out %os, %ov[%t] : !q, !view
  }
  fa2.return
}

// A barrier that stands between the two lives already is enough. A product reads its operands until it has been
// waited for: the barrier before the wait is not between.
// CHECK-LABEL: fa2.kernel @barriers
// CHECK-SAME: shared_bytes = 8192 : i64
// CHECK-COUNT-3: fa2gpu.ring.create {name = "{{[abc]}}", offset = 0 : i64}
// CHECK: fa2gpu.local_store
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.dot_start
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.local_store
fa2.kernel @barriers(%p: tensor<64x64xbf16, #op>, %o: tensor<64x64xbf16, #acc>, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"p", "in", [] x bf16>, #fa2.arg<"o", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %a = fa2gpu.ring.create {name = "a"} : !fa2gpu.ring<1 x !q>
  %b = fa2gpu.ring.create {name = "b"} : !fa2gpu.ring<1 x !q>
  %c = fa2gpu.ring.create {name = "c"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %batch in (%n by 64, %n, %n) {
    %as = fa2gpu.ring.slot %a[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.local_store %o, %as : tensor<64x64xbf16, #acc>, !q
    fa2gpu.barrier
    %bs = fa2gpu.ring.slot %b[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %f = fa2gpu.dot_start %p, %bs : tensor<64x64xbf16, #op>, !q -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
    fa2gpu.barrier
    %d = fa2gpu.dot_wait %f : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
    %cs = fa2gpu.ring.slot %c[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.local_store %o, %cs : tensor<64x64xbf16, #acc>, !q
  }
  fa2.return
}

// The largest first. A row of 40 bf16 is padded from 80 to 96 bytes and a slot of 16 of them to 2048, since slots start
// at multiples of 1024. A ring that nothing uses gets no place.
// CHECK-LABEL: fa2.kernel @sizes
// CHECK-SAME: shared_bytes = 16384 : i64
// CHECK: {name = "small", offset = 12288 : i64}
// CHECK: {name = "large", offset = 0 : i64}
// CHECK: {name = "unused"} :
fa2.kernel @sizes(%v: !fa2.view<? x 40 x bf16>, %w: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 40, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"w", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %small = fa2gpu.ring.create {name = "small"} : !fa2gpu.ring<2 x tensor<16x40xbf16, #fa2gpu.shared>>
  %large = fa2gpu.ring.create {name = "large"} : !fa2gpu.ring<3 x !kv>
  %unused = fa2gpu.ring.create {name = "unused"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %batch in (%n by 64, %n, %n) {
    %s = fa2gpu.ring.slot %small[%c0] : !fa2gpu.ring<2 x tensor<16x40xbf16, #fa2gpu.shared>> -> tensor<16x40xbf16, #fa2gpu.shared>
    %l = fa2gpu.ring.slot %large[%c0] : !fa2gpu.ring<3 x !kv> -> !kv
    fa2gpu.copy %v[%c0], %s : !fa2.view<? x 40 x bf16>, tensor<16x40xbf16, #fa2gpu.shared>
    fa2gpu.copy %w[%c0], %l : !view, !kv
  }
  fa2.return
}
