// RUN: fa2-opt %s --fa2gpu-ping-pong | FileCheck %s
// RUN: sed 's/, ping_pong = true//' %s | fa2-opt --fa2gpu-ping-pong | FileCheck %s --check-prefix=OFF

// OFF-NOT: turn_

// A turn is all the matmuls that an iteration starts; softmax and waits lie outside of it. The last warpgroup gives
// the first one its first turn, and the first one takes the last turn that is passed, so that no arrival is left.
// CHECK: fa2gpu.roles @consumer(8 warps, 240 registers) {
// CHECK-NEXT: fa2gpu.turn_pass of 2 first
// CHECK-NEXT: scf.for
// CHECK-NEXT: arith.addi
// CHECK-NEXT: fa2gpu.turn_wait of 2{{$}}
// CHECK-NEXT: fa2gpu.dot_start
// CHECK-NEXT: fa2gpu.dot_start
// CHECK-NEXT: fa2gpu.turn_pass of 2{{$}}
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: }
// Key tiles that a warpgroup skips are turns too: each takes as many.
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa2gpu.turn_wait of 2{{$}}
// CHECK-NEXT: fa2gpu.turn_pass of 2{{$}}
// CHECK-NEXT: fa2gpu.ring.wait
// CHECK-NEXT: fa2gpu.ring.release
// CHECK-NEXT: }
// Other loops are left alone.
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa2gpu.ring.release
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.turn_wait of 2 first
// CHECK-NEXT: } @producer
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%n: index, %q: !qt, %k: !kt)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, ping_pong = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "k"} : !kring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    scf.for %i = %c0 to %n step %c1 {
      %use = arith.addi %i, %c1 : index
      %f = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %g = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      %t = fa2gpu.dot_wait %g : !fa2gpu.in_flight<!acc> -> !acc
    }
    scf.for %i = %c0 to %n step %c1 {
      %t, %t_next = fa2gpu.ring.wait %r[%i] : !kring -> !kt
      fa2gpu.ring.release %r[%i] : !kring
    }
    scf.for %i = %c0 to %n step %c1 {
      fa2gpu.ring.release %r[%i] : !kring
    }
  } @producer(4 warps, 24 registers) {
    %w, %w_next = fa2gpu.ring.acquire %r[%c0] : !kring -> !kt
  }
  fa2.return
}
