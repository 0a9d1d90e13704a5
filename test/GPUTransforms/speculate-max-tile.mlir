// RUN: fa2-opt %s --fa2gpu-speculate-max --cse | FileCheck %s

// A tile that a program adds, times log2(e): the reference is subtracted in the operation that multiplies it. The cold arm loads the tile again, and has
// the scores as they are, whose maximum it takes.
// CHECK: %[[LOG2E:.*]] = arith.constant dense<1.44
// CHECK: scf.for {{.*}} iter_args(%[[M:[a-z0-9_]+]] =
// CHECK: %[[S:.*]] = fa2gpu.dot_wait
// CHECK: %[[H:.*]] = fa2gpu.local_load %[[BT:.*]] :
// CHECK: %[[BIAS:.*]] = arith.extf %[[H]] :
// CHECK-NOT: arith.mulf
// CHECK: %[[MINUS:.*]] = arith.negf %[[M]] :
// CHECK-NEXT: %[[SPREAD:.*]] = fa2.broadcast %[[MINUS]] :
// CHECK-NEXT: %[[ADDED:.*]] = math.fma %[[BIAS]], %[[LOG2E]], %[[SPREAD]] :
// CHECK-NEXT: %[[X:.*]] = math.fma %[[S]], %{{.*}}, %[[ADDED]] :
// CHECK-NEXT: %{{.*}}, %{{.*}} = fa2gpu.softmax_speculate %[[X]] scale
// CHECK: fa2gpu.convert_layout
// CHECK: fa2gpu.local_load %[[BT]] {fa2gpu.again} :
// CHECK: %[[Y:.*]] = math.fma {{.*}} {fa2gpu.again} :
// CHECK: %[[M1:.*]], %{{.*}} = fa2gpu.softmax_rebase {{.*}} from %[[Y]]
// CHECK: fa2gpu.softmax_speculate %[[Y]], %[[M1]] scale
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
!bt = tensor<128x64xbf16, #shared>
!half = tensor<128x64xbf16, #acc>
!bring = !fa2gpu.ring<2 x !bt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%n: index, %q: !qt, %c: f32, %m0: !m, %l0: !l, %p0: !p, %o0: !acc)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true, speculate_max = 6>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"c", "in", [] x f32>,
                             #fa2.arg<"m0", "in", [] x f32>, #fa2.arg<"l0", "in", [] x f32>, #fa2.arg<"p0", "in", [] x bf16>, #fa2.arg<"o0", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ln2 = arith.constant 0.693147182 : f32
  %log2e = arith.constant dense<1.44269502> : !acc
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
    %half = fa2gpu.local_load %bt : !bt -> !half
    fa2gpu.warp_barrier
    fa2gpu.ring.release %b[%next] : !bring
    %bias = arith.extf %half : !half to !acc
    %scaled = arith.mulf %bias, %log2e : !acc
    %factor = tensor.splat %c : !acc
    %x = math.fma %s, %factor, %scaled : !acc
    %e, %m1, %l1, %alpha = fa2.softmax_step %x, %m, %l scale %ln2 {slack = 8.0 : f32} : !acc, !m, !l
    %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %v[%i] : !kring
    %et = arith.truncf %e : !acc to tensor<128x64xbf16, #acc>
    %p1 = fa2gpu.convert_layout %et : tensor<128x64xbf16, #acc> -> !p
    %o2 = fa2.scale_rows %o1, %alpha {skip_unit} : !acc, !m
    scf.yield %m1, %l1, %p1, %o2 : !m, !l, !p, !acc
  }
  fa2.return
}
