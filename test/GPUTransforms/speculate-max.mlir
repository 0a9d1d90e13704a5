// RUN: fa2-opt %s --fa2gpu-speculate-max | FileCheck %s
// RUN: sed 's/, speculate_max = 6//' %s | fa2-opt --fa2gpu-speculate-max | FileCheck %s --check-prefix=OFF
// RUN: fa2-opt %s --fa2gpu-speculate-max | fa2-opt --fa2gpu-place-dot-waits | FileCheck %s --check-prefix=WAITS

// OFF-NOT: softmax_speculate

// CHECK: #[[ACC:acc[0-9]*]] = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
// CHECK: #[[ONE:acc[0-9]*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [8, 1]>
// CHECK: scf.for {{.*}} iter_args(%[[M:[a-z0-9]+]] = %m0, %[[L:[a-z0-9]+]] = %l0, %[[PB:[a-z0-9]+]] = %p0, %{{.*}} = %o0)
// CHECK: %[[KT:.*]], %{{.*}} = fa2gpu.ring.wait %[[K:[a-z0-9]+]][%[[NEXT:[a-z0-9]+]]]
// CHECK: %[[SF:.*]] = fa2gpu.dot_start %q, %[[KT]]
// CHECK: %[[OF:.*]] = fa2gpu.dot_start %[[PB]]
// CHECK: %[[S:.*]] = fa2gpu.dot_wait %[[SF]]
// No maximum stands between the scores and their exponentials, and the state's maximum stays.
// CHECK-NEXT: %[[P:.*]], %[[SUM:.*]] = fa2gpu.softmax_speculate %[[S]], %[[M]] scale %c
// CHECK-NEXT: %[[GREW:.*]] = fa2gpu.exceeds %[[SUM]] above 6
// One wait, which all warps of a warpgroup come to, held behind the exponentials.
// CHECK-NEXT: scf.if %[[GREW]]
// CHECK-NEXT: fa2gpu.warp_barrier
// CHECK-NEXT: }
// CHECK-NEXT: %[[O:.*]] = fa2gpu.dot_wait %[[OF]]
// CHECK-NEXT: %[[R:.*]]:4 = scf.if %[[GREW]]
// The cold arm. Only where sums have overflowed: the same scores, by matmuls that a warp issues alone, and for the
// rows that did their own maximum.
// CHECK-NEXT: %[[ONE1:.*]] = arith.constant dense<1.000000e+00>
// CHECK-NEXT: %[[LOST:.*]] = fa2gpu.exceeds %[[SUM]] above 100
// CHECK-NEXT: %[[K4:.*]]:4 = scf.if %[[LOST]]
// CHECK-NEXT: %[[AF:.*]] = fa2gpu.dot_start %q, %[[KT]] {transpose_b} : {{.*}} -> <tensor<128x64xf32, #[[ONE]]>>
// CHECK-NEXT: %[[A:.*]] = fa2gpu.dot_wait %[[AF]]
// CHECK-NEXT: %[[AG:.*]] = fa2gpu.convert_layout %[[A]] : tensor<128x64xf32, #[[ONE]]> -> tensor<128x64xf32, #[[ACC]]>
// What its lanes read is released, later, by lane 0, for the copy engine to write.
// CHECK-NEXT: fa2gpu.proxy_fence
// CHECK-NEXT: fa2gpu.warp_barrier
// CHECK-NEXT: %[[M1:.*]], %[[A1:.*]] = fa2gpu.softmax_rebase %[[M]], %[[SUM]] from %[[AG]] scale %c above 100
// CHECK-NEXT: %[[P1:.*]], %[[SUM1:.*]] = fa2gpu.softmax_speculate %[[AG]], %[[M1]] scale %c
// CHECK-NEXT: scf.yield %[[P1]], %[[M1]], %[[SUM1]], %[[A1]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[P]], %[[M]], %[[SUM]], %[[ONE1]]
// CHECK-NEXT: }
// Then all that depends on the old reference is scaled.
// CHECK-NEXT: %[[M2:.*]], %[[A2:.*]] = fa2gpu.softmax_rebase %[[K4]]#1, %[[K4]]#2 scale %c above 6
// CHECK-NEXT: %[[BEFORE:.*]] = fa2.scale_rows %[[K4]]#3, %[[A2]] :
// CHECK-DAG: %[[L2:.*]] = fa2.scale_rows %[[L]], %[[BEFORE]] :
// CHECK-DAG: %[[SUM2:.*]] = fa2.scale_rows %[[K4]]#2, %[[A2]] :
// CHECK: %[[NL2:.*]] = arith.addf %[[L2]], %[[SUM2]]
// CHECK-DAG: %[[P2:.*]] = fa2.scale_rows %[[K4]]#0, %[[A2]] :
// CHECK-DAG: %[[O2:.*]] = fa2.scale_rows %[[O]], %[[BEFORE]] :
// CHECK: scf.yield %[[P2]], %[[M2]], %[[NL2]], %[[O2]]
// CHECK-NEXT: } else {
// CHECK-NEXT: %[[NL:.*]] = arith.addf %[[L]], %[[SUM]]
// CHECK-NEXT: scf.yield %[[P]], %[[M]], %[[NL]], %[[O]]
// CHECK-NEXT: }
// Both arms read the keys.
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%[[NEXT]]]

// What one warp issues is complete when it returns: nothing is counted or waited for.
// WAITS: softmax_speculate
// WAITS: fa2gpu.dot_wait %{{.*}} keep(%{{.*}}) {pending = 0 : i64}
// WAITS: fa2gpu.dot_start
// WAITS-NEXT: fa2gpu.dot_wait %{{[0-9]+}} : <tensor
// WAITS-NOT: fa2gpu.dot_wait
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
fa2.kernel @k(%n: index, %q: !qt, %c: f32, %m0: !m, %l0: !l, %p0: !p, %o0: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true, speculate_max = 6>,
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
