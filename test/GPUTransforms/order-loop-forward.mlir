// RUN: fa2-opt %s --fa2gpu-choose-order --fa2gpu-order-loop --canonicalize --cse | FileCheck %s
// RUN: sed 's/, overlap = true//' %s | fa2-opt --fa2gpu-choose-order --fa2gpu-order-loop --canonicalize --cse | FileCheck %s --check-prefix=OFF

// RUN: sed 's/softmax_step %%s,/softmax_step %%low,/;s/^ *%%s = .*/&\n%%three = arith.constant dense<3.0> : !acc\n%%near = arith.cmpf olt, %%s, %%three : !acc\n%%low = arith.select %%near, %%s, %%three : tensor<128x64xi1, #acc>, !acc/' %s | fa2-opt --fa2gpu-choose-order --fa2gpu-order-loop --canonicalize --cse | FileCheck %s --check-prefix=PROGRAM

// The pipeliner's choices whether there is a first tile are settled; a score program's own stay.
// PROGRAM: %[[LOW:.*]] = arith.select %{{.*}}, %{{.*}}, %cst{{.*}} : tensor<128x64xi1
// PROGRAM: fa2.softmax_step %[[LOW]],
// PROGRAM-NOT: arith.select
// PROGRAM: scf.for
// PROGRAM: arith.select
// PROGRAM-NOT: arith.select
// PROGRAM: fa2.return

// RUN: sed 's/ {nonempty}//' %s | not fa2-opt --fa2gpu-choose-order --fa2gpu-order-loop 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: expected a loop over the places of a range that can have a tile always, because it is peeled

// OFF: scf.for
// OFF: fa2gpu.dot_start
// OFF-NEXT: fa2gpu.dot_wait
// OFF: fa2gpu.dot_start
// OFF-NEXT: fa2gpu.dot_wait
// OFF: scf.yield
// OFF: fa2.softmax_finish

// Before the loop: the first tile's scores and their softmax.
// CHECK: %[[QT:.*]], %{{.*}} = fa2gpu.ring.wait
// CHECK: %[[K0:.*]], %{{.*}} = fa2gpu.ring.wait %[[K:.*]][%first]
// CHECK-NEXT: %[[S0:.*]] = fa2gpu.dot_start %[[QT]], %[[K0]] {name = "s", transpose_b}
// CHECK-NEXT: fa2gpu.dot_wait %[[S0]]
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%first]
// CHECK-NEXT: fa2.softmax_step
// In it: iteration i starts S of tile i + 1, then P V of tile i, and waits for S alone.
// CHECK: scf.for %[[I:.*]] = %c0 to %{{.*}} iter_args(%{{.*}}, %[[P:[a-z0-9]+]] = %{{[0-9]+}}, %[[O:[a-z0-9]+]] = %{{[a-z0-9_]+}})
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]], %c1
// CHECK: %[[KUSE:.*]] = arith.addi %first, %[[NEXT]]
// CHECK: %[[KT:.*]], %{{.*}} = fa2gpu.ring.wait %[[K]][%[[KUSE]]]
// CHECK-NEXT: %[[S:.*]] = fa2gpu.dot_start %[[QT]], %[[KT]] {name = "s", transpose_b}
// CHECK: %[[VUSE:.*]] = arith.addi %first, %[[I]]
// CHECK-NEXT: %[[VT:.*]], %{{.*}} = fa2gpu.ring.wait %[[V:.*]][%[[VUSE]]]
// CHECK-NEXT: %[[PV:.*]] = fa2gpu.dot_start %[[P]], %[[VT]] acc(%[[O]]
// CHECK-NEXT: fa2gpu.dot_wait %[[S]]
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%[[KUSE]]]
// The softmax runs while P V is in flight.
// CHECK-NEXT: fa2.softmax_step
// CHECK-NEXT: fa2gpu.dot_wait %[[PV]]
// CHECK-NEXT: fa2gpu.ring.release %[[V]][%[[VUSE]]]
// CHECK: fa2.scale_rows
// CHECK-NEXT: scf.yield
// After it: the last P V. What only scores read is free before that; the rows' part of the end runs beside it.
// CHECK: fa2gpu.ring.release %{{.*}} : <1 x
// CHECK: %[[LAST:.*]] = fa2gpu.dot_start
// CHECK-NEXT: fa2gpu.normalizer
// CHECK-NOT: softmax_finish
// CHECK: fa2gpu.dot_wait %[[LAST]]
// CHECK: fa2.scale_rows
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
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!kring = !fa2gpu.ring<2 x !kt>
fa2.kernel @overlaps(%n: index, %first: index, %c: f32, %lse: !fa2.view<? x f32>, %slot: !qt)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"first", "in", [] x index>, #fa2.arg<"c", "in", [] x f32>, #fa2.arg<"lse", "out", [] x f32>,
                             #fa2.arg<"slot", "out", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m0 = arith.constant dense<0xFF800000> : !m
  %l0 = arith.constant dense<0.0> : !l
  %o0 = arith.constant dense<0.0> : !acc
  %q = fa2gpu.ring.create {name = "q"} : !qring
  %k = fa2gpu.ring.create {name = "k"} : !kring
  %v = fa2gpu.ring.create {name = "v"} : !kring
  %qt, %qt_next = fa2gpu.ring.wait %q[%c0] : !qring -> !qt
  %tiles = fa2.tile_range %c0 to %n full(%c0, %n) {nonempty}
  %count = fa2.tile_count %tiles
  %r:3 = scf.for %i = %c0 to %count step %c1 iter_args(%m = %m0, %l = %l0, %o = %o0) -> (!m, !l, !acc) {
    %use = arith.addi %first, %i : index
    %kt, %kt_next = fa2gpu.ring.wait %k[%use] : !kring -> !kt
    %sf = fa2gpu.dot_start %qt, %kt {name = "s", transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %k[%use] : !kring
    %p, %m1, %l1, %alpha = fa2.softmax_step %s, %m, %l scale %c : !acc, !m, !l
    %pt = arith.truncf %p : !acc to tensor<128x64xbf16, #acc>
    %pb = fa2gpu.convert_layout %pt : tensor<128x64xbf16, #acc> -> !p
    %os = fa2.scale_rows %o, %alpha : !acc, !m
    %vt, %vt_next = fa2gpu.ring.wait %v[%use] : !kring -> !kt
    %of = fa2gpu.dot_start %pb, %vt acc(%os : !acc) {name = "o"} : !p, !kt -> !fa2gpu.in_flight<!acc>
    %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!acc> -> !acc
    fa2gpu.ring.release %v[%use] : !kring
    scf.yield %m1, %l1, %o1 : !m, !l, !acc
  }
  fa2gpu.ring.release %q[%c0] : !qring
  %out, %rows = fa2.softmax_finish %r#2, %r#0, %r#1 scale %c : !acc, !m, !l -> !m
  %ob = arith.truncf %out : !acc to tensor<128x64xbf16, #acc>
  fa2gpu.local_store %ob, %slot : tensor<128x64xbf16, #acc>, !qt
  fa2.store %rows, %lse[%c0] : !m, !fa2.view<? x f32>
  fa2.return
}
