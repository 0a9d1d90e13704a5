// RUN: fa2-opt %s --fa2gpu-pipeline --canonicalize --cse | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!view = !fa2.view<? x 64 x bf16>
!q = tensor<64x64xbf16, #fa2gpu.shared>
!kv = tensor<32x64xbf16, #fa2gpu.shared>
!s = tensor<64x32xf32, #acc>
!p = tensor<64x32xbf16, #fa2gpu.operand<#acc>>
!acc = tensor<64x64xf32, #acc>

// One stage, one slot each, FlashAttention-2's order: before the loop the first keys are copied; in it, the
// values of iteration i, its scores, then the keys of i + 1 once those of i have been read and before
// the softmax. The values are waited for behind the scores.
// CHECK-LABEL: fa2.kernel @stages1
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[MORE0:.*]] = arith.cmpi sgt, %[[N:.*]], %c0
// CHECK: fa2gpu.ring.acquire %[[K]][%c0]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE0]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%c0]
// CHECK-NOT: fa2gpu.ring.acquire
// CHECK: scf.for %[[I:[a-z0-9]+]] = %c0 to %[[N]]
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[I]], %{{.*}} : index
// CHECK-DAG: fa2gpu.ring.acquire %[[V]][%[[I]]]
// CHECK-DAG: fa2gpu.ring.commit %[[V]][%[[I]]]
// CHECK-DAG: %[[KT:.*]], %{{.*}} = fa2gpu.ring.wait %[[K]][%[[I]]]
// CHECK: %[[SF:.*]] = fa2gpu.dot_start %{{.*}}, %[[KT]] {transpose_b}
// CHECK: fa2gpu.dot_wait %[[SF]]
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%[[I]]]
// CHECK: %[[VT:.*]], %{{.*}} = fa2gpu.ring.wait %[[V]][%[[I]]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]], %c1
// CHECK: fa2gpu.ring.acquire %[[K]][%[[NEXT]]]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%[[NEXT]]]
// CHECK: arith.truncf
// CHECK: fa2gpu.dot_start %{{.*}}, %[[VT]] acc
// CHECK: fa2gpu.ring.release %[[V]][%[[I]]]
// CHECK-NEXT: scf.yield
fa2.kernel @stages1(%q: !view, %k: !view, %v: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %o0 = arith.constant dense<0.0> : !acc
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<1 x !kv>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<1 x !kv>
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%t], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %last = arith.subi %n, %c1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) {
      %j = arith.subi %last, %i : index
      %row = arith.muli %j, %c32 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      fa2gpu.copy %k[%row], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%i] : !fa2gpu.ring<1 x !kv>
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<1 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      fa2gpu.copy %v[%row], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%i] : !fa2gpu.ring<1 x !kv>
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<1 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}

// Two stages: the first keys and values before the loop, ahead of the wait for the queries; in iteration i the
// waits, then the copies of i + 1, predicated off in the last one, then the work.
// CHECK-LABEL: fa2.kernel @stages2
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: fa2gpu.ring.commit %[[Q]]
// CHECK: %[[LIMIT:.*]] = arith.subi %{{.*}}, %c1
// CHECK: %[[MORE0:.*]] = arith.cmpi sgt, %{{.*}}, %c0
// CHECK: fa2gpu.ring.acquire %[[K]][%c0]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE0]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%c0]
// CHECK-NEXT: fa2gpu.ring.acquire %[[V]][%c0]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE0]]
// CHECK-NEXT: fa2gpu.ring.commit %[[V]][%c0]
// CHECK: fa2gpu.ring.wait %[[Q]]
// CHECK: scf.for %[[I:[a-z0-9]+]] = %c0 to
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[I]], %[[LIMIT]] : index
// CHECK-NEXT: %[[KT:.*]], %{{.*}} = fa2gpu.ring.wait %[[K]][%[[I]]]
// CHECK-NEXT: %[[VT:.*]], %{{.*}} = fa2gpu.ring.wait %[[V]][%[[I]]]
// CHECK-NEXT: %[[AHEAD:.*]] = arith.addi %[[I]], %c1
// CHECK: fa2gpu.ring.acquire %[[K]][%[[AHEAD]]]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%[[AHEAD]]]
// CHECK: fa2gpu.ring.acquire %[[V]][%[[AHEAD]]]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE]]
// CHECK-NEXT: fa2gpu.ring.commit %[[V]][%[[AHEAD]]]
// CHECK: fa2gpu.dot_start %{{.*}}, %[[KT]] {transpose_b}
// CHECK: fa2gpu.ring.release %[[K]][%[[I]]]
// CHECK: fa2gpu.dot_start %{{.*}}, %[[VT]] acc
// CHECK: fa2gpu.ring.release %[[V]][%[[I]]]
// CHECK-NEXT: scf.yield
fa2.kernel @stages2(%q: !view, %k: !view, %v: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %o0 = arith.constant dense<0.0> : !acc
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<2 x !kv>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x !kv>
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%t], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %last = arith.subi %n, %c1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) {
      %j = arith.subi %last, %i : index
      %row = arith.muli %j, %c32 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %k[%row], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%i] : !fa2gpu.ring<2 x !kv>
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<2 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %v[%row], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%i] : !fa2gpu.ring<2 x !kv>
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<2 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}

// Three stages: two iterations ahead.
// CHECK-LABEL: fa2.kernel @stages3
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: fa2gpu.ring.commit %[[Q]]
// CHECK: %[[MORE0:.*]] = arith.cmpi sgt, %{{.*}}, %c0
// CHECK: fa2gpu.ring.acquire %[[K]][%c0]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE0]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%c0]
// CHECK-NEXT: fa2gpu.ring.acquire %[[V]][%c0]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE0]]
// CHECK-NEXT: fa2gpu.ring.commit %[[V]][%c0]
// CHECK: %[[MORE1:.*]] = arith.cmpi sgt, %{{.*}}, %c1
// CHECK: %[[LIMIT:.*]] = arith.subi %{{.*}}, %c2
// CHECK: fa2gpu.ring.acquire %[[K]][%c1]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE1]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%c1]
// CHECK-NEXT: fa2gpu.ring.acquire %[[V]][%c1]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE1]]
// CHECK-NEXT: fa2gpu.ring.commit %[[V]][%c1]
// CHECK: fa2gpu.ring.wait %[[Q]]
// CHECK: scf.for %[[I:[a-z0-9]+]] = %c0 to
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[I]], %[[LIMIT]] : index
// CHECK-NEXT: %[[KT:.*]], %{{.*}} = fa2gpu.ring.wait %[[K]][%[[I]]]
// CHECK-NEXT: %[[VT:.*]], %{{.*}} = fa2gpu.ring.wait %[[V]][%[[I]]]
// CHECK-NEXT: %[[AHEAD:.*]] = arith.addi %[[I]], %c2
// CHECK: fa2gpu.ring.acquire %[[K]][%[[AHEAD]]]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%[[AHEAD]]]
// CHECK: fa2gpu.ring.acquire %[[V]][%[[AHEAD]]]
// CHECK-NEXT: fa2gpu.copy {{.*}} if %[[MORE]]
// CHECK-NEXT: fa2gpu.ring.commit %[[V]][%[[AHEAD]]]
// CHECK: fa2gpu.dot_start %{{.*}}, %[[KT]] {transpose_b}
// CHECK: fa2gpu.ring.release %[[K]][%[[I]]]
// CHECK: fa2gpu.dot_start %{{.*}}, %[[VT]] acc
// CHECK: fa2gpu.ring.release %[[V]][%[[I]]]
// CHECK-NEXT: scf.yield
fa2.kernel @stages3(%q: !view, %k: !view, %v: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 3>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %o0 = arith.constant dense<0.0> : !acc
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<3 x !kv>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<3 x !kv>
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%t], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %last = arith.subi %n, %c1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) {
      %j = arith.subi %last, %i : index
      %row = arith.muli %j, %c32 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      fa2gpu.copy %k[%row], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%i] : !fa2gpu.ring<3 x !kv>
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<3 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      fa2gpu.copy %v[%row], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%i] : !fa2gpu.ring<3 x !kv>
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<3 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}
