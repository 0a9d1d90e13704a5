// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-copy-ahead" | FileCheck %s

// The producer multiplies dS with the keys. Its copies are three tiles ahead, one less than the rings have slots: first
// the copies of as many tiles as there are, up to three; then each tile's work beside the copies of the tile three further on; at
// last the work of the tiles whose copies have been started. The consumers' loop stays as it is.
// CHECK-LABEL: fa2.kernel @attention_backward(
// CHECK: fa2gpu.roles @consumer
// CHECK-NOT: fa2gpu.tensor_copy
// CHECK: } @producer(4 warps, 72 registers) {
// CHECK: %[[COUNT:.*]] = fa2.tile_count
// CHECK: %[[AHEAD:.*]] = arith.minsi %[[COUNT]], %c3
// CHECK-NEXT: %[[LAST:.*]] = arith.subi %[[COUNT]], %[[AHEAD]]
// CHECK-NEXT: %[[FIRST:.*]]:4 = scf.for %{{.*}} = %c0 to %[[AHEAD]] step
// CHECK-NOT: fa2gpu.dot_start
// CHECK: fa2gpu.tensor_copy
// CHECK: fa2gpu.bulk_copy
// CHECK: scf.yield
// CHECK: scf.for %[[PLACE:.*]] = %c0 to %[[LAST]] step
// CHECK: %[[LATER:.*]] = arith.addi %[[PLACE]], %[[AHEAD]]
// CHECK: fa2.tile_at %{{.*}}[%[[LATER]]]
// CHECK: fa2gpu.tensor_copy
// CHECK: fa2gpu.dot_start
// CHECK: fa2.accumulate
// CHECK: scf.yield
// CHECK: scf.for %{{.*}} = %[[LAST]] to %[[COUNT]] step
// CHECK-NOT: fa2gpu.tensor_copy
// CHECK: fa2gpu.dot_start
// CHECK: fa2.accumulate
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
