// RUN: fa2-opt %s --fa2-tile --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --fa2-derive-backward="replace grads=sink" --mlir-print-local-scope | FileCheck %s --check-prefix=GRAD
// RUN: fa2-opt %s --fa2-derive-backward="replace grads=sink" | fa2-opt --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64 --fa2-tile-grad --mlir-print-local-scope | FileCheck %s --check-prefix=TILES
// RUN: not fa2-opt %s --fa2-derive-backward="replace grads=bias" 2>&1 | FileCheck %s --check-prefix=NAME

// NAME: expected grads to name what its score program reads (sink), got 'bias'

// Behind the loop; nothing in it knows of the sink.
// CHECK: fa2.kernel @attention(
// CHECK-SAME: #fa2.arg<"scale", {{.*}}>, #fa2.arg<"sink", "in", ["heads"] x f32>]
// CHECK: %[[LOOP:.*]]:3 = fa2.for_tiles
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = fa2.softmax_finish %[[LOOP]]#2, %[[LOOP]]#0, %[[LOOP]]#1
// CHECK: %[[X:.*]] = fa2.read %sink[%{{.*}}] : {{.*}} -> f32
// CHECK: %[[SINK:.*]] = tensor.splat %[[X]] : tensor<128xf32>
// CHECK-DAG: %[[EMPTY:.*]] = arith.cmpf oeq, %[[LSE]], %{{.*}}
// CHECK-DAG: %[[ABOVE:.*]] = arith.cmpf oge, %[[LSE]], %[[SINK]]
// CHECK: %[[D:.*]] = arith.subf %[[LSE]], %[[SINK]]
// CHECK: math.absf %[[D]]
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[E]]
// CHECK: %[[SHARE:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK: %[[LOG:.*]] = math.log %[[SUM]]
// CHECK: %[[JOINED:.*]] = arith.addf %{{.*}}, %[[LOG]]
// CHECK: %[[FACTORS:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[SHARE]]
// CHECK: fa2.scale_rows %[[OUT]], %[[FACTORS]]
// CHECK: arith.select %[[EMPTY]], %[[SINK]], %[[JOINED]]

// GRAD: func.func @attention_backward({{.*}}, %[[C:.*]]: f32, %[[SINK:.*]]: tensor<?xf32>) -> ({{.*}}, tensor<?xf32>)
// GRAD: %{{.*}}, %{{.*}}, %{{.*}}, %[[DSINK:.*]] = fa2.attention_grad {{.*}} scale(%[[C]]) sink(%[[SINK]] : tensor<?xf32>) {{.*}} sink tensor<?xf32>
// GRAD: return %{{.*}}, %{{.*}}, %{{.*}}, %[[DSINK]]

// Its share of a row times -delta, of rows that there are and that have scores, 16 to a sum; then all sums of a head.
// TILES: fa2.kernel @attention_backward_statistics
// TILES-SAME: #fa2.arg<"sink_sums", "workspace", ["heads", "batch", "ceildiv(seqlen_q, 64) * 4"] x f32>
// TILES-SAME: #fa2.arg<"sink", "in", ["heads"] x f32>, #fa2.arg<"dsink", "out", ["heads"] x f32>
// TILES: fa2.for_each_tile %[[T:.*]], %[[H:.*]], %[[B:.*]] in
// TILES: %[[LSE:.*]] = fa2.load {{.*}} -> tensor<64xf32>
// TILES: %[[NEG:.*]] = arith.negf
// TILES: %[[D:.*]] = arith.subf %{{.*}}, %[[LSE]]
// TILES: %[[P:.*]] = math.exp %[[D]]
// TILES: %[[PART:.*]] = arith.mulf %[[P]], %[[NEG]]
// TILES: %[[INSIDE:.*]] = arith.cmpi slt
// TILES: %[[SCORED:.*]] = arith.cmpf une, %[[LSE]]
// TILES: %[[COUNTS:.*]] = arith.andi %[[INSIDE]], %[[SCORED]]
// TILES: %[[OWN:.*]] = arith.select %[[COUNTS]], %[[PART]]
// TILES: fa2.store_sums %[[OWN]] to %sink_sums[%[[H]], %[[B]]] from
// TILES: fa2.kernel @attention_backward_dsink
// TILES: fa2.for_each_tile %[[HEAD:.*]], %{{.*}}, %{{.*}} in (%{{.*}} by 1
// TILES: fa2.add_up %sink_sums to %dsink[%[[HEAD]]]
// TILES: fa2.kernel @attention_backward(
func.func @attention(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %c: f32, %s: tensor<?xf32>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) sink(%s : tensor<?xf32>)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4>}
      : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16> -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
