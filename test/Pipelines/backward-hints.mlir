// Hints to the cache: from the schedule to views, to copies by tensor map, to policies.
// RUN: fa2-opt %s --fa2-pipeline="pass=backward target=sm_90a schedule=cache.dq=evict_last,cache.keys=evict_first,cache.queries=evict_last stop-after=fa2-tile" --mlir-print-local-scope | FileCheck %s --check-prefix=TILES
// RUN: fa2-opt %s --fa2-pipeline="pass=backward target=sm_90a schedule=cache.dq=evict_last,cache.keys=evict_first,cache.queries=evict_last stop-after=fa2gpu-verify" --mlir-print-local-scope | FileCheck %s --check-prefix=COPIES
// RUN: fa2-opt %s --fa2-pipeline="pass=backward target=sm_90a schedule=cache.dq=evict_last,cache.keys=evict_first" | fa2-translate --fa2-to-ptx | FileCheck %s --check-prefix=PTX
// RUN: fa2-opt %s --fa2-pipeline="pass=backward target=sm_90a schedule=cache.dq=none,cache.keys=none" | fa2-translate --fa2-to-ptx | FileCheck %s --check-prefix=OFF --implicit-check-not=cache_hint --implicit-check-not=cache.

// TILES-LABEL: fa2.kernel @attention_backward_statistics(
// TILES-NOT: fa2.view {{.*}}#fa2.cache
// TILES-LABEL: fa2.kernel @attention_backward(
// TILES-DAG: fa2.view %k[{{.*}} {cache = #fa2.cache<evict_first>}
// TILES-DAG: fa2.view %v[{{.*}} {cache = #fa2.cache<evict_first>}
// TILES-DAG: fa2.view %q[{{.*}} {cache = #fa2.cache<evict_last>}
// TILES-DAG: fa2.view %dout[{{.*}} {cache = #fa2.cache<evict_last>}
// TILES-DAG: fa2.view %dq_sum[{{.*}} {cache = #fa2.cache<evict_last>}
// TILES-DAG: fa2.view %neg_lse[{{.*}} : memref
// TILES-LABEL: fa2.kernel @attention_backward_dq(
// TILES-NOT: fa2.view {{.*}}#fa2.cache

// COPIES-DAG: fa2gpu.tensor_copy {{.*}} {cache = #fa2.cache<evict_first>} :
// COPIES-DAG: fa2gpu.tensor_copy {{.*}} {cache = #fa2.cache<evict_last>} :

// PTX: "cache.dq": "evict_last"
// PTX: "cache.keys": "evict_first"
// PTX-NOT: cache.queries
// PTX: .entry attention_backward(
// PTX: mov.b64 %[[KEYS:rd[0-9]+]], 1364590687093260288;
// PTX: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [{{.*}}], [{{.*}}], [{{.*}}], %[[KEYS]];
// PTX: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [
// PTX: mov.b64 %[[SUM:rd[0-9]+]], 1508705875169116160;
// PTX: red.relaxed.gpu.global.add.L2::cache_hint.v4.f32 [%rd{{[0-9]+}}+0], {{.*}}, %[[SUM]];

// OFF: red.relaxed.gpu.global.add.v4.f32
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
