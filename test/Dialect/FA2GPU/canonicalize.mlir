// RUN: fa2-opt %s --canonicalize --cse | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!shared = tensor<64x64xf16, #fa2gpu.shared>
!ring = !fa2gpu.ring<2 x !shared>

// Synchronisation and copies stay, in order and number; two looks at a slot are one.
// CHECK-LABEL: func @effects
// CHECK: fa2gpu.copy
// CHECK-NEXT: fa2gpu.copy_commit
// CHECK-NEXT: fa2gpu.copy_wait 0
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.barrier
// CHECK-NEXT: fa2gpu.ring.slot
// CHECK-NEXT: return
func.func @effects(%v: !fa2.view<? x 64 x f16>, %r: !ring, %w: !shared, %n: index) -> (!shared, !shared) {
  fa2gpu.copy %v[%n], %w : !fa2.view<? x 64 x f16>, !shared
  fa2gpu.copy_commit
  fa2gpu.copy_wait 0
  fa2gpu.barrier
  fa2gpu.barrier
  %a = fa2gpu.ring.slot %r[%n] : !ring -> !shared
  %b = fa2gpu.ring.slot %r[%n] : !ring -> !shared
  return %a, %b : !shared, !shared
}

// A matmul reads shared memory: it is not moved over a copy, nor merged across it.
// CHECK-LABEL: func @reads
// CHECK: fa2gpu.dot_start
// CHECK: fa2gpu.copy
// CHECK: fa2gpu.dot_start
func.func @reads(%v: !fa2.view<? x 64 x f16>, %w: !shared, %n: index)
    -> (!fa2gpu.in_flight<tensor<64x64xf32, #acc>>, !fa2gpu.in_flight<tensor<64x64xf32, #acc>>) {
  %a = fa2gpu.dot_start %w, %w : !shared, !shared -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  fa2gpu.copy %v[%n], %w : !fa2.view<? x 64 x f16>, !shared
  %b = fa2gpu.dot_start %w, %w : !shared, !shared -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  return %a, %b : !fa2gpu.in_flight<tensor<64x64xf32, #acc>>, !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
}
