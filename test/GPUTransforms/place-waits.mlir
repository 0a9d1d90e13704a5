// Nothing of the rings' protocol is left but the slots.
// RUN: fa2-opt %s --fa2gpu-place-waits | FileCheck %s --implicit-check-not="fa2gpu.ring.{{acquire|commit|wait|release}}"

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!view = !fa2.view<? x 64 x bf16>
!q = tensor<64x64xbf16, #fa2gpu.shared>
!kv = tensor<32x64xbf16, #fa2gpu.shared>
!s = tensor<64x32xf32, #acc>
!p = tensor<64x32xbf16, #fa2gpu.operand<#acc>>
!acc = tensor<64x64xf32, #acc>
!ql = tensor<64x64xbf16, #fa2gpu.operand<#acc>>

// One slot each for keys and values: two barriers an iteration, as in FlashAttention-2. The first says that the
// keys have come and that the last values have been read, so that the copy of the next ones needs none.
// Values are then waited for with nothing newer in flight, and the same barrier frees the keys' slot.
// The queries are first read after the first wait for keys: they need no wait, and no group, of their own.
// CHECK-LABEL: fa2.kernel @one_stage
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK-COUNT-2: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: fa2gpu.ring.slot %[[Q]]
// CHECK-NEXT: scf.for %[[I:[a-z0-9]+]] =
// CHECK: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[K]][%[[I]]]
// CHECK-NEXT: %[[VW:.*]] = fa2gpu.ring.slot %[[V]][%[[I]]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[VW]]
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: fa2gpu.dot_start
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[V]][%[[I]]]
// CHECK-NEXT: %[[KW:.*]] = fa2gpu.ring.slot %[[K]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[KW]]
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NOT: fa2gpu.barrier
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: scf.yield
// CHECK-NEXT: }
// Copies that nobody waited for may not fall into memory that is used for something else by then.
// CHECK-NEXT: fa2gpu.copy_wait 0
fa2.kernel @one_stage(%q: !view, %k: !view, %v: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %o0 = arith.constant dense<0.0> : !acc
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<1 x !kv>
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<1 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%c0], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %kw0, %kw0_next = fa2gpu.ring.acquire %kr[%c0] : !fa2gpu.ring<1 x !kv> -> !kv
    fa2gpu.copy %k[%c0], %kw0 : !view, !kv
    fa2gpu.ring.commit %kr[%c0] : !fa2gpu.ring<1 x !kv>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) {
      %next = arith.addi %i, %c1 : index
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      fa2gpu.copy %v[%i], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%i] : !fa2gpu.ring<1 x !kv>
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<1 x !kv>
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<1 x !kv> -> !kv
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%next] : !fa2gpu.ring<1 x !kv> -> !kv
      fa2gpu.copy %k[%next], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%next] : !fa2gpu.ring<1 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<1 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}

// Two slots: one barrier an iteration, which also says that the slots written next have been read. The pair of
// iteration i is the newest in flight, and one group. The second loop goes on where the first one ended.
// CHECK-LABEL: fa2.kernel @two_stages
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK-COUNT-3: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: fa2gpu.ring.slot %[[Q]]
// CHECK-NEXT: scf.for %[[I:[a-z0-9]+]] =
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[K]][%[[I]]]
// CHECK-NEXT: fa2gpu.ring.slot %[[V]][%[[I]]]
// CHECK-NEXT: arith.addi
// CHECK-NEXT: %[[KW:.*]] = fa2gpu.ring.slot %[[K]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[KW]]
// CHECK-NEXT: %[[VW:.*]] = fa2gpu.ring.slot %[[V]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[VW]]
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NOT: fa2gpu.barrier
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: scf.yield
// CHECK: scf.for %[[I:[a-z0-9]+]] =
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[K]][%[[I]]]
// CHECK-NEXT: fa2gpu.ring.slot %[[V]][%[[I]]]
// CHECK-NEXT: arith.addi
// CHECK-NEXT: %[[KW:.*]] = fa2gpu.ring.slot %[[K]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[KW]]
// CHECK-NEXT: %[[VW:.*]] = fa2gpu.ring.slot %[[V]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[VW]]
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NOT: fa2gpu.barrier
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.copy_wait 0
fa2.kernel @two_stages(%q: !view, %k: !view, %v: !view, %n: index, %m: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"m", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %o0 = arith.constant dense<0.0> : !acc
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x !kv>
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<2 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%c0], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %kw0, %kw0_next = fa2gpu.ring.acquire %kr[%c0] : !fa2gpu.ring<2 x !kv> -> !kv
    fa2gpu.copy %k[%c0], %kw0 : !view, !kv
    fa2gpu.ring.commit %kr[%c0] : !fa2gpu.ring<2 x !kv>
    %vw0, %vw0_next = fa2gpu.ring.acquire %vr[%c0] : !fa2gpu.ring<2 x !kv> -> !kv
    fa2gpu.copy %v[%c0], %vw0 : !view, !kv
    fa2gpu.ring.commit %vr[%c0] : !fa2gpu.ring<2 x !kv>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %r0 = scf.for %i = %c0 to %m step %c1 iter_args(%o = %o0) -> (!acc) {
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %ahead = arith.addi %i, %c1 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%ahead] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %k[%ahead], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%ahead] : !fa2gpu.ring<2 x !kv>
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%ahead] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %v[%ahead], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%ahead] : !fa2gpu.ring<2 x !kv>
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<2 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<2 x !kv>
      scf.yield %o1 : !acc
    }
    %r1 = scf.for %i = %m to %n step %c1 iter_args(%o = %r0) -> (!acc) {
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
      %ahead = arith.addi %i, %c1 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%ahead] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %k[%ahead], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%ahead] : !fa2gpu.ring<2 x !kv>
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%ahead] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %v[%ahead], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%ahead] : !fa2gpu.ring<2 x !kv>
      %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<2 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<2 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}

// Three slots: the pair of iteration i + 1 stays in flight. Queries that are read before the loop are waited for there,
// with both pairs in flight.
// CHECK-LABEL: fa2.kernel @three_stages
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: %[[V:.*]] = fa2gpu.ring.create {name = "v"}
// CHECK: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-COUNT-2: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-COUNT-2: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: fa2gpu.copy_wait 2
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: %[[QS:.*]] = fa2gpu.ring.slot %[[Q]]
// CHECK-NEXT: fa2gpu.local_load %[[QS]]
// CHECK-NEXT: scf.for %[[I:[a-z0-9]+]] =
// CHECK-NEXT: fa2gpu.copy_wait 1
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot %[[K]][%[[I]]]
// CHECK-NEXT: fa2gpu.ring.slot %[[V]][%[[I]]]
// CHECK-NEXT: arith.addi
// CHECK-NEXT: %[[KW:.*]] = fa2gpu.ring.slot %[[K]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[KW]]
// CHECK-NEXT: %[[VW:.*]] = fa2gpu.ring.slot %[[V]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[VW]]
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NOT: fa2gpu.barrier
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: scf.yield
fa2.kernel @three_stages(%q: !view, %k: !view, %v: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 3>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %o0 = arith.constant dense<0.0> : !acc
  %qr = fa2gpu.ring.create {name = "q"} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<3 x !kv>
  %vr = fa2gpu.ring.create {name = "v"} : !fa2gpu.ring<3 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy %q[%c0], %qw : !view, !q
    fa2gpu.ring.commit %qr[%c0] : !fa2gpu.ring<1 x !q>
    %kw0, %kw0_next = fa2gpu.ring.acquire %kr[%c0] : !fa2gpu.ring<3 x !kv> -> !kv
    fa2gpu.copy %k[%c0], %kw0 : !view, !kv
    fa2gpu.ring.commit %kr[%c0] : !fa2gpu.ring<3 x !kv>
    %vw0, %vw0_next = fa2gpu.ring.acquire %vr[%c0] : !fa2gpu.ring<3 x !kv> -> !kv
    fa2gpu.copy %v[%c0], %vw0 : !view, !kv
    fa2gpu.ring.commit %vr[%c0] : !fa2gpu.ring<3 x !kv>
    %kw1, %kw1_next = fa2gpu.ring.acquire %kr[%c1] : !fa2gpu.ring<3 x !kv> -> !kv
    fa2gpu.copy %k[%c1], %kw1 : !view, !kv
    fa2gpu.ring.commit %kr[%c1] : !fa2gpu.ring<3 x !kv>
    %vw1, %vw1_next = fa2gpu.ring.acquire %vr[%c1] : !fa2gpu.ring<3 x !kv> -> !kv
    fa2gpu.copy %v[%c1], %vw1 : !view, !kv
    fa2gpu.ring.commit %vr[%c1] : !fa2gpu.ring<3 x !kv>
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %ql = fa2gpu.local_load %qt : !q -> !ql
    %r0 = scf.for %i = %c0 to %n step %c1 iter_args(%o = %o0) -> (!acc) {
      %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      %vt, %vt_next = fa2gpu.ring.wait %vr[%i] : !fa2gpu.ring<3 x !kv> -> !kv
      %ahead = arith.addi %i, %c2 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%ahead] : !fa2gpu.ring<3 x !kv> -> !kv
      fa2gpu.copy %k[%ahead], %kw : !view, !kv
      fa2gpu.ring.commit %kr[%ahead] : !fa2gpu.ring<3 x !kv>
      %vw, %vw_next = fa2gpu.ring.acquire %vr[%ahead] : !fa2gpu.ring<3 x !kv> -> !kv
      fa2gpu.copy %v[%ahead], %vw : !view, !kv
      fa2gpu.ring.commit %vr[%ahead] : !fa2gpu.ring<3 x !kv>
      %sf = fa2gpu.dot_start %ql, %kt {transpose_b} : !ql, !kv -> !fa2gpu.in_flight<!s>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
      fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<3 x !kv>
      %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
      %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> !p
      %of = fa2gpu.dot_start %p, %vt acc(%o : !acc) : !p, !kv -> !fa2gpu.in_flight<!acc>
      %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %vr[%i] : !fa2gpu.ring<3 x !kv>
      scf.yield %o1 : !acc
    }
    fa2gpu.ring.release %qr[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}

// A loop around the loop: what an iteration leaves in the slots, copies that were predicated off among it, is waited for at
// its end, so that the first one issues its copies at once.
// CHECK-LABEL: fa2.kernel @outer_loop
// CHECK: scf.for
// CHECK-NEXT: fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.copy %
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.copy_wait 0
fa2.kernel @outer_loop(%k: !view, %n: index, %m: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"m", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %q = arith.constant dense<0.0> : !ql
  %o0 = arith.constant dense<0.0> : !s
  %kr = fa2gpu.ring.create {name = "k"} : !fa2gpu.ring<2 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %r = scf.for %j = %c0 to %m step %c1 iter_args(%x = %o0) -> (!s) {
      %kw0, %kw0_next = fa2gpu.ring.acquire %kr[%c0] : !fa2gpu.ring<2 x !kv> -> !kv
      fa2gpu.copy %k[%c0], %kw0 : !view, !kv
      fa2gpu.ring.commit %kr[%c0] : !fa2gpu.ring<2 x !kv>
      %y = scf.for %i = %c0 to %n step %c1 iter_args(%o = %x) -> (!s) {
        %kt, %kt_next = fa2gpu.ring.wait %kr[%i] : !fa2gpu.ring<2 x !kv> -> !kv
        %next = arith.addi %i, %c1 : index
        %kw, %kw_next = fa2gpu.ring.acquire %kr[%next] : !fa2gpu.ring<2 x !kv> -> !kv
        fa2gpu.copy %k[%next], %kw : !view, !kv
        fa2gpu.ring.commit %kr[%next] : !fa2gpu.ring<2 x !kv>
        %sf = fa2gpu.dot_start %q, %kt acc(%o : !s) {transpose_b} : !ql, !kv -> !fa2gpu.in_flight<!s>
        %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
        fa2gpu.ring.release %kr[%i] : !fa2gpu.ring<2 x !kv>
        scf.yield %s : !s
      }
      scf.yield %y : !s
    }
  }
  fa2.return
}

// What is stored into shared memory by threads needs a barrier, no group.
// CHECK-LABEL: fa2.kernel @store
// CHECK: %[[SLOT:.*]] = fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.local_store %{{.*}}, %[[SLOT]]
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: %[[FULL:.*]] = fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.copy_out %[[FULL]]
// CHECK-NOT: fa2gpu.copy_commit
// CHECK-NOT: fa2gpu.copy_wait
// CHECK: fa2.return
fa2.kernel @store(%out: !view, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"out", "out", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %o = arith.constant dense<0.0> : tensor<64x64xbf16, #acc>
  %ring = fa2gpu.ring.create {name = "out"} : !fa2gpu.ring<1 x !q>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %slot, %slot_next = fa2gpu.ring.acquire %ring[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.local_store %o, %slot : tensor<64x64xbf16, #acc>, !q
    fa2gpu.ring.commit %ring[%c0] : !fa2gpu.ring<1 x !q>
    %full, %full_next = fa2gpu.ring.wait %ring[%c0] : !fa2gpu.ring<1 x !q> -> !q
    fa2gpu.copy_out %full, %out[%t] : !q, !view
    fa2gpu.ring.release %ring[%c0] : !fa2gpu.ring<1 x !q>
  }
  fa2.return
}
