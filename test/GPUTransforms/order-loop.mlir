// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a pass=backward stop-after=fa2gpu-order-loop" | FileCheck %s
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a pass=backward schedule=loop_order=written stop-after=fa2gpu-order-loop" | FileCheck %s --check-prefix=WRITTEN

// Both products of scores start before either is waited for: dP is multiplied while P is computed, dV while dS is. The
// accumulator that begins with -delta is written before the first of them, and each slot is released behind its last reader.
// CHECK-LABEL: fa2.kernel @attention_backward
// CHECK: fa2gpu.roles @consumer
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[DELTA:.*]] = fa2.broadcast
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: %[[S:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} {name = "s", transpose_b}
// CHECK: %[[DP:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[DELTA]] : {{.*}}) {name = "dp", transpose_b}
// CHECK: fa2gpu.dot_wait %[[S]]
// CHECK: fa2.softmax_recompute
// CHECK: %[[DV:.*]] = fa2gpu.dot_start {{.*}} {name = "dv"}
// CHECK: fa2gpu.dot_wait %[[DP]]
// CHECK: %[[DK:.*]] = fa2gpu.dot_start {{.*}} {name = "dk"}
// CHECK: fa2gpu.dot_wait %[[DV]]
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: fa2gpu.dot_wait %[[DK]]
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: } @producer

// As they are written, each is waited for at once.
// WRITTEN: fa2gpu.roles @consumer
// WRITTEN: scf.for
// WRITTEN: scf.for
// WRITTEN: fa2gpu.dot_start {{.*}} {name = "s", transpose_b}
// WRITTEN-NEXT: fa2gpu.dot_wait
// WRITTEN: fa2gpu.dot_start {{.*}} {name = "dv"}
// WRITTEN-NEXT: fa2gpu.dot_wait
// WRITTEN: fa2gpu.dot_start {{.*}} {name = "dp", transpose_b}
// WRITTEN-NEXT: fa2gpu.dot_wait
// WRITTEN: fa2gpu.dot_start {{.*}} {name = "dk"}
// WRITTEN-NEXT: fa2gpu.dot_wait
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
