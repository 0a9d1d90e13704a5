// RUN: fa2-opt %s --fa2gpu-number-uses --canonicalize --cse | FileCheck %s

#shared = #fa2gpu.shared<panel = 128>
!t = tensor<64x64xbf16, #shared>
!ring = !fa2gpu.ring<3 x !t>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 3>
#args = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"m", "in", [] x index>]

// A cursor of a loop is the number before it plus the counter; loops that follow each other go on, and what comes behind them too.
// CHECK-LABEL: fa2.kernel @in_a_row
// CHECK: fa2gpu.ring.wait %{{.*}}[%c0]
// CHECK: scf.for %[[I:.*]] = %c0 to %m step %c1 {
// CHECK-NEXT: %[[U:.*]] = arith.addi %[[I]], %c1
// CHECK-NEXT: fa2gpu.ring.wait %{{.*}}[%[[U]]]
// CHECK-NEXT: fa2gpu.ring.release %{{.*}}[%[[U]]]
// CHECK-NEXT: }
// CHECK: scf.for %[[I:.*]] = %m to %n step %c1 {
// CHECK-NEXT: %[[U:.*]] = arith.addi %[[I]], %c1
// CHECK-NEXT: fa2gpu.ring.wait %{{.*}}[%[[U]]]
// CHECK: }
// CHECK: %[[END:.*]] = arith.addi %n, %c1
// CHECK: fa2gpu.ring.wait %{{.*}}[%[[END]]]
fa2.kernel @in_a_row(%n: index, %m: index) attributes {spec = #spec, schedule = #schedule, arguments = #args} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "k"} : !ring
  %t0, %u1 = fa2gpu.ring.wait %r[%c0] : !ring -> !t
  fa2gpu.ring.release %r[%c0] : !ring
  %a = scf.for %i = %c0 to %m step %c1 iter_args(%u = %u1) -> (index) {
    %t, %next = fa2gpu.ring.wait %r[%u] : !ring -> !t
    fa2gpu.ring.release %r[%u] : !ring
    scf.yield %next : index
  }
  %b = scf.for %i = %m to %n step %c1 iter_args(%u = %a) -> (index) {
    %t, %next = fa2gpu.ring.wait %r[%u] : !ring -> !t
    fa2gpu.ring.release %r[%u] : !ring
    scf.yield %next : index
  }
  %t1, %u2 = fa2gpu.ring.wait %r[%b] : !ring -> !t
  fa2gpu.ring.release %r[%b] : !ring
  fa2.return
}

// A loop that takes two uses an iteration carries their number.
// CHECK-LABEL: fa2.kernel @by_two
// CHECK: scf.for %{{.*}} iter_args(%[[U:.*]] = %c0) -> (index)
// CHECK: %{{.*}}, %[[V:.*]] = fa2gpu.ring.wait %{{.*}}[%[[U]]]
// CHECK: %{{.*}}, %[[W:.*]] = fa2gpu.ring.wait %{{.*}}[%[[V]]]
// CHECK: scf.yield %[[W]]
fa2.kernel @by_two(%n: index, %m: index) attributes {spec = #spec, schedule = #schedule, arguments = #args} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "k"} : !ring
  %a = scf.for %i = %c0 to %m step %c1 iter_args(%u = %c0) -> (index) {
    %t, %v = fa2gpu.ring.wait %r[%u] : !ring -> !t
    fa2gpu.ring.release %r[%u] : !ring
    %s, %w = fa2gpu.ring.wait %r[%v] : !ring -> !t
    fa2gpu.ring.release %r[%v] : !ring
    scf.yield %w : index
  }
  fa2.return
}

// Of a persistent block's cursors those that go on by one a tile are the tile's number, and those that go on alike are one.
// CHECK-LABEL: fa2.kernel @tiles
// CHECK: fa2gpu.tile_loop{{.*}} carries(%c0) {
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[VISIT:.*]]: index, %[[USES:.*]]: index):
// CHECK: fa2gpu.ring.wait %[[Q:.*]][%[[VISIT]]]
// CHECK: scf.for %[[I:.*]] = %c0 to %n
// CHECK: %[[U:.*]] = arith.addi %[[USES]], %[[I]]
// CHECK: fa2gpu.ring.wait %[[K:.*]][%[[U]]]
// CHECK: fa2gpu.ring.wait %[[V:.*]][%[[U]]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[USES]], %n
// CHECK: fa2gpu.tile_yield %[[NEXT]]
fa2.kernel @tiles(%n: index, %m: index) attributes {spec = #spec, schedule = #schedule, arguments = #args} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %q = fa2gpu.ring.create {name = "q"} : !ring
  %k = fa2gpu.ring.create {name = "k"} : !ring
  %v = fa2gpu.ring.create {name = "v"} : !ring
  %tiles = fa2gpu.ring.create {name = "tiles"} : !fa2gpu.ring<2 x tensor<1xi32>>
  fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0, %c0, %c0, %c0) {
  ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %unused: index, %qu: index, %ku: index, %vu: index):
    %qt, %qn = fa2gpu.ring.wait %q[%qu] : !ring -> !t
    fa2gpu.ring.release %q[%qu] : !ring
    %a:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %ku, %y = %vu) -> (index, index) {
      %kt, %kn = fa2gpu.ring.wait %k[%x] : !ring -> !t
      fa2gpu.ring.release %k[%x] : !ring
      %vt, %vn = fa2gpu.ring.wait %v[%y] : !ring -> !t
      fa2gpu.ring.release %v[%y] : !ring
      scf.yield %kn, %vn : index, index
    }
    fa2gpu.tile_yield %unused, %qn, %a#0, %a#1
  } : !fa2gpu.ring<2 x tensor<1xi32>>
  fa2.return
}

// So are those that a loop in the tile carries on, by numbers that follow from each iteration.
// CHECK-LABEL: fa2.kernel @through_loops
// CHECK: fa2gpu.tile_loop{{.*}} carries(%c0) {
// CHECK: %[[TOTAL:.*]] = scf.for %{{.*}} = %c0 to %m step %c1 iter_args(%[[C:.*]] = %{{.*}}) -> (index) {
// CHECK: fa2gpu.tile_yield %[[TOTAL]]
fa2.kernel @through_loops(%n: index, %m: index) attributes {spec = #spec, schedule = #schedule, arguments = #args} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = fa2gpu.ring.create {name = "k"} : !ring
  %v = fa2gpu.ring.create {name = "v"} : !ring
  %tiles = fa2gpu.ring.create {name = "tiles"} : !fa2gpu.ring<2 x tensor<1xi32>>
  fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0, %c0) {
  ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %ku: index, %vu: index):
    %a:2 = scf.for %h = %c0 to %m step %c1 iter_args(%x = %ku, %y = %vu) -> (index, index) {
      %b:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x1 = %x, %y1 = %y) -> (index, index) {
        %kt, %kn = fa2gpu.ring.wait %k[%x1] : !ring -> !t
        fa2gpu.ring.release %k[%x1] : !ring
        %vt, %vn = fa2gpu.ring.wait %v[%y1] : !ring -> !t
        fa2gpu.ring.release %v[%y1] : !ring
        scf.yield %kn, %vn : index, index
      }
      scf.yield %b#0, %b#1 : index, index
    }
    fa2gpu.tile_yield %a#0, %a#1
  } : !fa2gpu.ring<2 x tensor<1xi32>>
  fa2.return
}

// Cursors that begin and go on alike are one, here those of two rings that an inner loop takes a use of each.
// CHECK-LABEL: fa2.kernel @alike
// CHECK: scf.for %{{.*}} = %c0 to %n step %c1 iter_args(%[[U:.*]] = %c0) -> (index) {
// CHECK: scf.for %[[I:.*]] = %c0 to %m step %c1 {
// CHECK-NEXT: %[[N:.*]] = arith.addi %[[U]], %[[I]]
// CHECK-NEXT: fa2gpu.ring.wait %{{.*}}[%[[N]]]
// CHECK-NEXT: fa2gpu.ring.wait %{{.*}}[%[[N]]]
// CHECK: %[[NEXT:.*]] = arith.addi
// CHECK-NEXT: scf.yield %[[NEXT]] : index
fa2.kernel @alike(%n: index, %m: index) attributes {spec = #spec, schedule = #schedule, arguments = #args} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "k"} : !ring
  %s = fa2gpu.ring.create {name = "v"} : !ring
  %a:2 = scf.for %h = %c0 to %n step %c1 iter_args(%u = %c0, %v = %c0) -> (index, index) {
    %b:2 = scf.for %i = %c0 to %m step %c1 iter_args(%x = %u, %y = %v) -> (index, index) {
      %k, %xn = fa2gpu.ring.wait %r[%x] : !ring -> !t
      %t, %yn = fa2gpu.ring.wait %s[%y] : !ring -> !t
      fa2gpu.ring.release %r[%x] : !ring
      fa2gpu.ring.release %s[%y] : !ring
      scf.yield %xn, %yn : index, index
    }
    scf.yield %b#0, %b#1 : index, index
  }
  fa2.return
}
