// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-join-loops schedule=dq=ordered,turns_finish=1" | FileCheck %s
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward stop-after=fa2gpu-join-loops" | FileCheck %s --check-prefix=SHORT

// The producer's copies are ahead of its work (copy-ahead.mlir). The last tiles' work, which no copies are ahead of, was a loop of its
// own; it goes through the loop before, where copies stand in a branch. Work that finishes no sum is short, and stays where it was.
// SHORT: } @producer(4 warps, 72 registers) {
// SHORT-COUNT-2: fa2.accumulate
// CHECK-LABEL: fa2.kernel @attention_backward(
// CHECK: } @producer(4 warps, 72 registers) {
// CHECK: %[[AHEAD:.*]] = arith.minsi %[[COUNT:.*]], %c3
// CHECK-NEXT: %[[LAST:.*]] = arith.subi %[[COUNT]], %[[AHEAD]]
// CHECK: scf.for %{{.*}} = %c0 to %[[AHEAD]] step
// CHECK-NOT: fa2gpu.dot_start
// CHECK: fa2gpu.bulk_copy
// CHECK: }
// CHECK: %[[BEGIN:.*]] = arith.minsi %[[LAST]], %c0
// CHECK: scf.for %[[PLACE:.*]] = %[[BEGIN]] to %[[COUNT]] step
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[PLACE]], %[[LAST]]
// CHECK-NEXT: scf.if %[[MORE]] {
// CHECK: fa2gpu.tensor_copy
// CHECK: fa2gpu.bulk_copy
// CHECK: }
// CHECK: fa2gpu.dot_start
// CHECK: fa2.accumulate
// CHECK-NOT: fa2.accumulate
// CHECK-NOT: scf.for
// CHECK: fa2.return
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
