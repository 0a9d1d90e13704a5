// RUN: fa2-opt %s --fa2gpu-place-dot-waits | FileCheck %s

// P V was started after the scores, so one matmul may stay in flight where these are waited for. Where the
// accumulator is then rescaled by need, a branch on that need stands before the wait and holds it behind the softmax:
// ptxas moves a wait up through what does not depend on it, but not across a branch. The wait itself has one place,
// which all warps of a warpgroup come to. P is kept until then.
// CHECK-LABEL: fa2.kernel @lazy
// CHECK: scf.for {{.*}} iter_args(%{{.*}}, %{{.*}}, %[[P:[a-z0-9]+]] = %p0, %{{.*}})
// CHECK: %[[SF:.*]] = fa2gpu.dot_start %q
// CHECK: %[[OF:.*]] = fa2gpu.dot_start %[[P]]
// CHECK: fa2gpu.dot_wait %[[SF]] {pending = 1 : i64}
// CHECK: %{{.*}}, %{{.*}}, %[[L:.*]], %[[ALPHA:.*]] = fa2.softmax_step
// CHECK-NEXT: %[[ANY:.*]] = fa2gpu.needs_rescale %[[ALPHA]] after %[[L]]
// CHECK-NEXT: scf.if %[[ANY]]
// CHECK-NEXT: fa2gpu.warp_barrier
// CHECK-NEXT: }
// CHECK-NEXT: %[[W:.*]] = fa2gpu.dot_wait %[[OF]] keep(%[[P]] : {{.*}}) {pending = 0 : i64}
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: %[[O:.*]] = scf.if %[[ANY]]
// CHECK-NEXT: %[[SCALED:.*]] = fa2.scale_rows %[[W]], %[[ALPHA]] :
// CHECK-NEXT: scf.yield %[[SCALED]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[W]]
// CHECK-NEXT: }
// CHECK-NEXT: scf.yield
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#op = #fa2gpu.operand<#acc>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!p = tensor<128x64xbf16, #op>
!m = tensor<128xf32, #row>
!l = tensor<128xf32, #lrow>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @lazy(%n: index, %q: !qt, %c: f32, %m0: !m, %l0: !l, %p0: !p, %o0: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"c", "in", [] x f32>,
                             #fa2.arg<"m0", "in", [] x f32>, #fa2.arg<"l0", "in", [] x f32>, #fa2.arg<"p0", "in", [] x bf16>, #fa2.arg<"o0", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = fa2gpu.ring.create {name = "k"} : !kring
  %v = fa2gpu.ring.create {name = "v"} : !kring
  %r:4 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0, %p = %p0, %o = %o0) -> (!m, !l, !p, !acc) {
    %next = arith.addi %i, %c1 : index
    %kt, %kt_next = fa2gpu.ring.wait %k[%next] : !kring -> !kt
    %sf = fa2gpu.dot_start %q, %kt {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
    %vt, %vt_next = fa2gpu.ring.wait %v[%i] : !kring -> !kt
    %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kt -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %k[%next] : !kring
    %e, %m1, %l1, %alpha = fa2.softmax_step %s, %m, %l scale %c {slack = 8.0 : f32} : !acc, !m, !l
    %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %v[%i] : !kring
    %et = arith.truncf %e : !acc to tensor<128x64xbf16, #acc>
    %p1 = fa2gpu.convert_layout %et : tensor<128x64xbf16, #acc> -> !p
    %o2 = fa2.scale_rows %o1, %alpha {skip_unit} : !acc, !m
    scf.yield %m1, %l1, %p1, %o2 : !m, !l, !p, !acc
  }
  fa2.return
}

// What a product begins with is written behind one that is in flight: a fence that waits for none stands between
// them. Where a wait does, or where the values are there before, it does not.
// CHECK-LABEL: fa2.kernel @begins
// CHECK: fa2gpu.dot_start %q, %k {name = "s"
// CHECK-NEXT: fa2gpu.dot_fence 1
// CHECK-NEXT: fa2.broadcast
// CHECK-NEXT: fa2gpu.dot_start %q, %k acc
// CHECK-NOT: fa2gpu.dot_fence
#column = #fa2gpu.column<#acc>
fa2.kernel @begins(%q: !qt, %k: !kt, %d: tensor<64xf32, #column>, %e: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"d", "in", [] x f32>,
                             #fa2.arg<"e", "in", [] x f32>]} {
  %sf = fa2gpu.dot_start %q, %k {transpose_b, name = "s"} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  %b = fa2.broadcast %d {columns} : tensor<64xf32, #column> -> !acc
  %df = fa2gpu.dot_start %q, %k acc(%b : !acc) {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  %ef = fa2gpu.dot_start %q, %k acc(%e : !acc) {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!acc> -> !acc
  %c = fa2.broadcast %d {columns} : tensor<64xf32, #column> -> !acc
  %gf = fa2gpu.dot_start %q, %k acc(%c : !acc) {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  %g = fa2gpu.dot_wait %gf : !fa2gpu.in_flight<!acc> -> !acc
  fa2.return
}
