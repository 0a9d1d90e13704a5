// DEFINE: %{pair} = target=sm_90a database=none pass=backward schedule=cluster=2,rings.dout=1,loop_order=keys_behind_lean
// RUN: fa2-opt %s --fa2-pipeline="%{pair} stop-after=fa2gpu-choose-order" -o %t.mlir
// RUN: FileCheck %s --check-prefix=ORDER --input-file %t.mlir

// A plus says that what a product adds to memory it adds at once. Where another role has dQ's two products, both of the tile before, no
// order is left of that role's loop: it is as it was written.
// ORDER: fa2gpu.order = #fa2gpu.order<"dq' dq_other'+ dk' s dp dv", 2 in flight>
// RUN: sed 's/x256x/x128x/g' %s | fa2-opt --fa2-pipeline="target=sm_90a database=none variants=none pass=backward schedule=block_kv=128,key_warps=8,cluster=2,dq_columns=32,dq_by_producer=1,stages=2,rings.exchange=1,loop_order=keys_behind_lean stop-after=fa2gpu-choose-order" | FileCheck %s --check-prefix=ALONE --implicit-check-not=fa2gpu.order
// ALONE: fa2gpu.order = #fa2gpu.order<"dk' s dp dv", 2 in flight>

// dQ of the tile before goes on with the other block's dS in the same registers. It is added to memory behind its own wait, while dK is
// in flight and before the next tile's scores are; the slot goes back first, for which the other block waits.
// RUN: fa2-opt %t.mlir --pass-pipeline="builtin.module(fa2.kernel(fa2gpu-order-loop))" | FileCheck %s --check-prefixes=LOOP,PLUS
// RUN: sed "s/dq_other'+/dq_other'/" %t.mlir | fa2-opt --pass-pipeline="builtin.module(fa2.kernel(fa2gpu-order-loop))" | FileCheck %s --check-prefixes=LOOP,LATER
// LOOP-LABEL: fa2.kernel @attention_backward(
// LOOP: %[[PEER:.*]] = fa2gpu.ring.create {name = "peer", peer}
// LOOP: fa2gpu.roles @consumer
// LOOP: scf.for
// LOOP: scf.for
// LOOP: %[[DS:.*]] = fa2gpu.ring.slot %[[OWN:[a-z0-9]+]][
// LOOP-NEXT: %[[DQ:.*]] = fa2gpu.dot_start %[[DS]], %{{.*}} from %{{.*}} {name = "dq", transpose_a}
// LOOP-NEXT: %[[CAME:.*]], %{{.*}} = fa2gpu.ring.wait %[[PEER]][%[[USE:.*]]] :
// LOOP-NEXT: %[[BEGIN:.*]] = fa2gpu.dot_wait %[[DQ]]
// LOOP-NEXT: %[[BOTH:.*]] = fa2gpu.dot_start %[[CAME]], %{{.*}} acc(%[[BEGIN]] : {{.*}}) {name = "dq_other", transpose_a}
// LOOP: %[[DK:.*]] = fa2gpu.dot_start %[[DS]], %{{.*}} {name = "dk"}
// LOOP: %[[SUM:.*]] = fa2gpu.dot_wait %[[BOTH]]
// LOOP-NEXT: fa2gpu.ring.release %[[PEER]][%[[USE]]]
// PLUS-NOT: fa2gpu.{{dot|ring}}
// PLUS: fa2.accumulate %[[SUM]]
// LATER-NOT: fa2.accumulate
// LOOP: fa2gpu.dot_start %{{.*}} {name = "s", transpose_b}
// PLUS-NOT: fa2.accumulate
// LATER-NOT: fa2.accumulate
// LOOP: fa2gpu.dot_wait %[[DK]]
// LOOP: fa2gpu.dot_start %{{.*}} {name = "dv"}

// The other block gets the next tile as soon as it stands in shared memory. Before that is written, the copy before has read it.
// LOOP: %[[THERE:.*]], %{{.*}} = fa2gpu.ring.acquire %[[PEER]][%[[N:.*]]] :
// LOOP-NEXT: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[OWN]]
// LOOP-NEXT: fa2gpu.local_store %{{.*}}, %[[SLOT]]
// LOOP-NEXT: fa2gpu.ring.commit %[[OWN]]
// LOOP-NEXT: %[[NEW:.*]], %{{.*}} = fa2gpu.ring.wait %[[OWN]]
// LOOP-NEXT: fa2gpu.peer_copy %[[NEW]], %[[THERE]] signal %[[PEER]][%[[N]]]
// LOOP-NEXT: fa2gpu.ring.commit %[[PEER]][%[[N]]]
// LATER: fa2.accumulate %[[SUM]]
// LOOP: scf.yield
func.func @attention(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>, %c: f32)
    -> (tensor<?x?x?x256xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16> -> tensor<?x?x?x256xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x256xbf16>, tensor<?x?x?xf32>
}
