// RUN: fa2-translate %s --fa2-print-layouts | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
// CHECK: tensor<64x8xf32, #fa2gpu.acc<
// CHECK-NEXT: 64 x 8 over 4 x 1 warps, 4 elements a lane
// CHECK-NEXT: register 0:  lane 0 (0,0)  lane 1 (0,2)  lane 2 (0,4)  lane 4 (1,0)
// CHECK: tensor<64x80xf16, #fa2gpu.shared>
// CHECK-NEXT: 64 x 80, 10240 bytes
// CHECK-NEXT: columns 0 to 63: 128-byte rows at byte 0
// CHECK-NEXT: columns 64 to 79: 32-byte rows at byte 8192
func.func @tiles(%r: !fa2gpu.ring<1 x tensor<64x80xf16, #fa2gpu.shared>>, %n: index) {
  %a = arith.constant dense<0.0> : tensor<64x8xf32, #acc>
  %s = fa2gpu.ring.slot %r[%n] : !fa2gpu.ring<1 x tensor<64x80xf16, #fa2gpu.shared>> -> tensor<64x80xf16, #fa2gpu.shared>
  return
}
