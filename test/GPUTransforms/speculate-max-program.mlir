// RUN: fa2-opt %s --fa2gpu-speculate-max --cse | FileCheck %s

// A score program: the cold arm computes all of it again, also what the scores have no part in, which would else be kept in registers until then.
// What it reads of shared memory is released behind it.
// CHECK: %[[B:.*]] = fa2gpu.ring.create {name = "bias"}
// CHECK: scf.for
// CHECK: %[[BIAS:.*]] = fa2.broadcast %[[BT:.*]] {columns} :
// CHECK: %[[X:.*]] = arith.addf %{{.*}}, %[[BIAS]] :
// CHECK: fa2gpu.softmax_speculate %[[X]]
// CHECK: fa2gpu.dot_start {{.*}} {transpose_b}
// CHECK: %[[S:.*]] = fa2gpu.convert_layout
// CHECK-NEXT: %[[AGAIN:.*]] = fa2.broadcast %[[BT]] {columns, fa2gpu.again} :
// CHECK-NEXT: %[[Y:.*]] = arith.addf %[[S]], %[[AGAIN]] {fa2gpu.again} :
// CHECK: fa2gpu.softmax_rebase {{.*}} from %[[Y]]
// CHECK: fa2gpu.softmax_speculate %[[Y]]
// CHECK: arith.addf
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-DAG: fa2gpu.ring.release %[[B]]
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
!bt = tensor<64xf32, #fa2gpu.shared>
!bring = !fa2gpu.ring<2 x !bt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%n: index, %q: !qt, %c: f32, %m0: !m, %l0: !l, %p0: !p, %o0: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true, speculate_max = 6>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"c", "in", [] x f32>,
                             #fa2.arg<"m0", "in", [] x f32>, #fa2.arg<"l0", "in", [] x f32>, #fa2.arg<"p0", "in", [] x bf16>, #fa2.arg<"o0", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = fa2gpu.ring.create {name = "k"} : !kring
  %v = fa2gpu.ring.create {name = "v"} : !kring
  %b = fa2gpu.ring.create {name = "bias"} : !bring
  %r:4 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0, %p = %p0, %o = %o0) -> (!m, !l, !p, !acc) {
    %next = arith.addi %i, %c1 : index
    %kt, %kt_next = fa2gpu.ring.wait %k[%next] : !kring -> !kt
    %sf = fa2gpu.dot_start %q, %kt {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
    %vt, %vt_next = fa2gpu.ring.wait %v[%i] : !kring -> !kt
    %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kt -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %k[%next] : !kring
    %bt, %bt_next = fa2gpu.ring.wait %b[%next] : !bring -> !bt
    %bias = fa2.broadcast %bt {columns} : !bt -> !acc
    fa2gpu.ring.release %b[%next] : !bring
    %x = arith.addf %s, %bias : !acc
    %e, %m1, %l1, %alpha = fa2.softmax_step %x, %m, %l scale %c {slack = 8.0 : f32} : !acc, !m, !l
    %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %v[%i] : !kring
    %et = arith.truncf %e : !acc to tensor<128x64xbf16, #acc>
    %p1 = fa2gpu.convert_layout %et : tensor<128x64xbf16, #acc> -> !p
    %o2 = fa2.scale_rows %o1, %alpha {skip_unit} : !acc, !m
    scf.yield %m1, %l1, %p1, %o2 : !m, !l, !p, !acc
  }
  fa2.return
}
