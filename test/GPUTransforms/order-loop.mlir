// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=preload=delta stop-after=fa2gpu-order-loop" | FileCheck %s --check-prefix=BEHIND
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=scores_first,preload=delta stop-after=fa2gpu-order-loop" | FileCheck %s
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=written,preload=delta stop-after=fa2gpu-order-loop" | FileCheck %s --check-prefix=WRITTEN
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=keys_behind_lean,preload=delta stop-after=fa2gpu-order-loop" | FileCheck %s --check-prefix=LEAN
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=values_first,preload=delta stop-after=fa2gpu-order-loop" | FileCheck %s --check-prefix=VALUES
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=preload=delta stop-after=fa2gpu-split-masked-tiles" | FileCheck %s --check-prefix=SPLIT

// Both products of scores start before either is waited for: dP is multiplied while P is computed, dV while dS is. The
// accumulator that begins with -delta is written before the first of them, each slot is released behind its last reader, and dS is
// shared before dK starts, which reads its registers.
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
// CHECK: fa2gpu.local_store
// CHECK: %[[DK:.*]] = fa2gpu.dot_start {{.*}} {name = "dk"}
// CHECK: fa2gpu.dot_wait %[[DV]]
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: fa2gpu.dot_wait %[[DK]]
// CHECK-NEXT: fa2gpu.ring.release
// CHECK: } @producer

// One tile of scores at a time: dV starts as soon as P is there, and only then does dP, whose first values take the registers that S
// had; both are in flight together, and dK beside the writes of dS for the other role.
// VALUES-LABEL: fa2.kernel @attention_backward
// VALUES: fa2gpu.roles @consumer
// VALUES: scf.for
// VALUES: scf.for
// VALUES-NOT: name = "dp"
// VALUES: %[[S:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} {name = "s", transpose_b}
// VALUES-NEXT: fa2gpu.dot_wait %[[S]]
// VALUES: fa2.softmax_recompute
// VALUES: %[[DV:.*]] = fa2gpu.dot_start {{.*}} {name = "dv"}
// VALUES: %[[DELTA:.*]] = fa2.broadcast
// VALUES: %[[DP:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[DELTA]] : {{.*}}) {name = "dp", transpose_b}
// VALUES-NOT: fa2gpu.dot_start
// VALUES: fa2gpu.dot_wait %[[DP]]
// VALUES: fa2gpu.local_store
// VALUES: %[[DK:.*]] = fa2gpu.dot_start {{.*}} {name = "dk"}
// VALUES: fa2gpu.dot_wait %[[DK]]
// VALUES-NEXT: fa2gpu.ring.release
// VALUES: } @producer

// dK a tile behind: the first tile's scores stand before the loop, its dK starts in it beside the next tile's scores, which follow one
// place on, and the last tile's dK stands behind it. Of shared memory the loop carries nothing: the slot of the queries, which is
// held from one iteration to the next, is named again by its use, the one before the next.
// BEHIND-LABEL: fa2.kernel @attention_backward
// BEHIND: fa2gpu.roles @consumer
// BEHIND: %[[COUNT:.*]] = fa2.tile_count
// BEHIND: scf.for
// BEHIND: fa2gpu.dot_start {{.*}} {name = "s", transpose_b}
// BEHIND: %[[DV:.*]] = fa2gpu.dot_start {{.*}} {name = "dv"}
// BEHIND: %[[DS:.*]] = fa2gpu.convert_layout
// BEHIND: scf.for %[[P:.*]] = %c0 to %{{.*}} step %c1 iter_args({{.*}}, %[[BEFORE:.*]] = %[[DS]])
// BEHIND: %[[USE:.*]] = arith.subi %[[NEXT:.*]], %c1
// BEHIND: %[[Q:.*]] = fa2gpu.ring.slot %[[RING:.*]][%[[USE]]]
// BEHIND-NEXT: %[[DK:.*]] = fa2gpu.dot_start %[[BEFORE]], %[[Q]] acc({{.*}}) {name = "dk"}
// BEHIND-NEXT: fa2gpu.ring.wait %[[RING]][%[[NEXT]]]
// BEHIND-NEXT: %[[S:.*]] = fa2gpu.dot_start {{.*}} {name = "s", transpose_b}
// BEHIND: fa2gpu.dot_wait %[[DK]]
// BEHIND-NEXT: fa2gpu.ring.release %[[RING]][%[[USE]]]
// BEHIND: fa2gpu.dot_start {{.*}} {name = "dp", transpose_b}
// BEHIND: fa2gpu.dot_wait %[[S]]
// BEHIND: %[[PLACE:.*]] = arith.addi %[[P]], %c1
// BEHIND-NEXT: fa2.tile_at %{{.*}}[%[[PLACE]]]
// BEHIND: fa2gpu.local_store
// BEHIND: scf.yield
// BEHIND: fa2gpu.dot_start {{.*}} {name = "dk"}
// BEHIND: } @producer

// Lean: what dP begins with is read when dK is complete, which gives back the registers of the dS that it read.
// LEAN-LABEL: fa2.kernel @attention_backward
// LEAN: fa2gpu.roles @consumer
// LEAN: scf.for
// LEAN: scf.for
// LEAN: %[[DK:.*]] = fa2gpu.dot_start {{.*}} {name = "dk"}
// LEAN-NOT: fa2.broadcast
// LEAN: fa2gpu.dot_start {{.*}} {name = "s", transpose_b}
// LEAN-NOT: fa2.broadcast
// LEAN: fa2gpu.dot_wait %[[DK]]
// LEAN: %[[DELTA:.*]] = fa2.broadcast
// LEAN: fa2gpu.dot_start {{.*}} acc(%[[DELTA]] : {{.*}}) {name = "dp", transpose_b}

// The peeled tile stands in the loop over heads, which is not cut for its mask.
// SPLIT-LABEL: fa2.kernel @attention_backward
// SPLIT: fa2gpu.roles @consumer
// SPLIT: scf.for
// SPLIT: fa2.apply_mask
// SPLIT: %[[FIRST:.*]], %[[LAST:.*]] = fa2.full_places
// SPLIT: scf.for %{{.*}} = %c0 to %[[FIRST]]
// SPLIT: fa2.apply_mask
// SPLIT: scf.for %{{.*}} = %[[FIRST]] to %[[LAST]]
// SPLIT-NOT: fa2.apply_mask
// SPLIT: scf.for %{{.*}} = %[[LAST]]
// SPLIT: fa2.apply_mask
// SPLIT: } @producer

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
