// RUN: fa2-opt %s --fa2gpu-chain-kernels | FileCheck %s
// RUN: fa2-opt %s --fa2gpu-chain-kernels --mlir-print-op-generic | fa2-opt | FileCheck %s
// RUN: sed 's/, chained = [a-z]*//' %s | fa2-opt --fa2gpu-chain-kernels | FileCheck %s --check-prefix=OFF
// RUN: sed 's/chained = late/chained = early/' %s | fa2-opt --fa2gpu-chain-kernels | FileCheck %s --check-prefix=EARLY

// OFF-NOT: fa2gpu.chain

// Nothing is before the first one: it waits for nobody. Its next may start when its blocks have begun.
// CHECK-LABEL: fa2.kernel @first
// CHECK-NOT: fa2gpu.chain_wait
// CHECK: attributes
// CHECK-NEXT: fa2gpu.chain_pass
// CHECK-NOT: fa2gpu.chain
// CHECK: fa2.return

// What is an input, or what no kernel before has to do with, is not waited for. A role waits before its first access to what the
// first kernel writes, outside of the loop, which may have no iterations; the other role reads what the first kernel
// reads too, and writes what it does not touch.
// CHECK-LABEL: fa2.kernel @second
// CHECK: fa2gpu.tensor_map_prefetch
// CHECK: fa2gpu.roles @consumer
// CHECK-NEXT: fa2.for_each_tile
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.chain_pass
// CHECK-NEXT: fa2.view
// CHECK-NEXT: fa2.store
// CHECK-NOT: fa2gpu.chain
// CHECK: } @producer
// CHECK-NEXT: fa2.for_each_tile
// CHECK: fa2gpu.tensor_copy
// CHECK-NOT: fa2gpu.chain
// CHECK: fa2gpu.chain_wait
// CHECK-NEXT: scf.for
// CHECK-NEXT: fa2gpu.bulk_copy
// CHECK-NOT: fa2gpu.chain
// CHECK: fa2.return

// EARLY-LABEL: fa2.kernel @second
// EARLY: attributes
// EARLY-NEXT: fa2gpu.chain_pass

// One that has nothing to do with those before waits at its end, for the one behind it.
// CHECK-LABEL: fa2.kernel @third
// CHECK: fa2.zero
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.chain_wait
// CHECK-NEXT: fa2.return

// A write to what a kernel before reads waits too, and what was written two kernels before.
// CHECK-LABEL: fa2.kernel @fourth
// CHECK: fa2.load %{{.*}} : <? x 64 x bf16>
// CHECK: fa2gpu.chain_wait
// CHECK-NEXT: fa2.store
// CHECK-NOT: fa2gpu.chain
// CHECK: fa2.return

// Those that take the place of others have a chain of their own.
// CHECK-LABEL: fa2.kernel @fifth
// CHECK-NOT: fa2gpu.chain
// CHECK: fa2.return
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#row = #fa2gpu.row<#acc>
#shared = #fa2gpu.shared<panel = 128>
#plain = #fa2gpu.shared
!tile = tensor<64x64xbf16, #shared>
!vector = tensor<64xf32, #plain>
!ring = !fa2gpu.ring<1 x !tile>
!vectors = !fa2gpu.ring<2 x !vector>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
!stats = memref<?x?x?xf32, strided<[?, ?, 1]>>
!list = memref<?xf32, strided<[?]>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#q = #fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>
#dk = #fa2.arg<"dk", "out", ["batch", "seqlen_q", "heads", 64] x bf16>
#n = #fa2.arg<"n", "workspace", ["batch", "heads", "seqlen_q"] x f32>
#list = #fa2.arg<"other", "out", ["list"] x f32 broadcast true>
#size = #fa2.arg<"size", "in", [] x index>
#v = #fa2.arg<"v", "in", [] x f32>
#t = #fa2.arg<"t", "in", [] x bf16>
fa2.kernel @first(%q: !global, %n: !stats, %size: index, %v: tensor<128xf32, #row>)
    attributes {spec = #spec, arguments = [#q, #n, #size, #v],
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, chained = early>} {
  fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
    %w = fa2.view %q[%batch, %head] rows(%tile, %size) : !global -> !fa2.view<? x 64 x bf16>
    %x = fa2gpu.load %w[%size] : !fa2.view<? x 64 x bf16> -> !tile
    %view = fa2.view %n[%batch, %head] rows(%tile, %size) : !stats -> !fa2.view<? x f32>
    fa2.store %v, %view[%size] : tensor<128xf32, #row>, !fa2.view<? x f32>
  }
  fa2.return
}
fa2.kernel @second(%q: !global, %n: !stats, %dk: !global, %size: index, %t: tensor<128x64xbf16, #acc>)
    attributes {spec = #spec, arguments = [#q, #n, #dk, #size, #t],
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, chained = late>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %map = fa2gpu.tensor_map %q rows 64 : !global
  fa2gpu.tensor_map_prefetch %map
  %r = fa2gpu.ring.create {name = "q"} : !ring
  %s = fa2gpu.ring.create {name = "n"} : !vectors
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
      scf.for %i = %c0 to %size step %c1 {
        fa2gpu.barrier
      }
      %view = fa2.view %dk[%batch, %head] rows(%tile, %size) : !global -> !fa2.view<? x 64 x bf16>
      fa2.store %t, %view[%size] : tensor<128x64xbf16, #acc>, !fa2.view<? x 64 x bf16>
    }
  } @producer(4 warps, 24 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
      %slot, %next = fa2gpu.ring.acquire %r[%c0] : !ring -> !tile
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %slot signal %r[%c0] : !tile, !ring
      fa2gpu.ring.commit %r[%c0] : !ring
      %view = fa2.view %n[%batch, %head] rows(%c0, %size) : !stats -> !fa2.view<? x f32>
      %to, %to1 = fa2gpu.ring.acquire %s[%c0] : !vectors -> !vector
      scf.for %i = %c0 to %size step %c1 {
        fa2gpu.bulk_copy %view[%i], %to signal %s[%c0] : !fa2.view<? x f32>, !vector, !vectors
      }
      fa2gpu.ring.commit %s[%c0] : !vectors
    }
  }
  fa2.return
}
fa2.kernel @third(%other: !list, %size: index)
    attributes {spec = #spec, arguments = [#list, #size],
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, chained = late>} {
  fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
    fa2.zero %other part(%tile, %size) : !list
  }
  fa2.return
}
fa2.kernel @fourth(%q: !global, %n: !stats, %dk: !global, %size: index, %t: tensor<128x64xbf16, #acc>)
    attributes {spec = #spec, arguments = [#q, #n, #dk, #size, #t],
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, chained = late>} {
  fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
    %view = fa2.view %q[%batch, %head] rows(%tile, %size) : !global -> !fa2.view<? x 64 x bf16>
    %x = fa2.load %view[%size] : !fa2.view<? x 64 x bf16> -> tensor<128x64xbf16, #acc>
    fa2.store %x, %view[%size] : tensor<128x64xbf16, #acc>, !fa2.view<? x 64 x bf16>
    %w = fa2.view %n[%batch, %head] rows(%tile, %size) : !stats -> !fa2.view<? x f32>
    %d = fa2.load %w[%size] : !fa2.view<? x f32> -> tensor<128xf32, #row>
  }
  fa2.return
}
fa2.kernel @fifth(%q: !global, %n: !stats, %dk: !global, %size: index, %t: tensor<128x64xbf16, #acc>)
    attributes {alternative = 1 : i64, spec = #spec, arguments = [#q, #n, #dk, #size, #t],
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, chained = late>} {
  fa2.for_each_tile %tile, %head, %batch in (%size by 128, %size, %size) {
    %view = fa2.view %q[%batch, %head] rows(%tile, %size) : !global -> !fa2.view<? x 64 x bf16>
    %x = fa2.load %view[%size] : !fa2.view<? x 64 x bf16> -> tensor<128x64xbf16, #acc>
    fa2.store %x, %view[%size] : tensor<128x64xbf16, #acc>, !fa2.view<? x 64 x bf16>
    %w = fa2.view %n[%batch, %head] rows(%tile, %size) : !stats -> !fa2.view<? x f32>
    %d = fa2.load %w[%size] : !fa2.view<? x f32> -> tensor<128xf32, #row>
  }
  fa2.return
}
