// RUN: fa2-opt %s --fa2-derive-backward="replace grad-lse" --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --fa2-derive-backward="replace grad-lse" | fa2-opt --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64 --fa2-tile-grad --mlir-print-local-scope | FileCheck %s --check-prefix=TILE

// The gradient of lse is an input behind dout,
// CHECK: func.func @attention_backward(%{{.*}}, %[[L:.*]]: tensor<?x?x?xf32>, %[[DO:.*]]: tensor<?x?x?x16xf16>, %[[DL:.*]]: tensor<?x?x?xf32>, %[[C:.*]]: f32)
// CHECK: fa2.attention_grad ins(%{{.*}}, %[[L]], %[[DO]]) dlse(%[[DL]] : tensor<?x?x?xf32>) scale(%[[C]]) :
// which is read for the statistics, where it counts against delta, but not of a row without keys.
// TILE-LABEL: fa2.kernel @attention_backward_statistics
// TILE-SAME: #fa2.arg<"dout", {{.*}}>, #fa2.arg<"dlse", "in", ["batch", "heads", "seqlen_q"] x f32>, #fa2.arg<"dq",
// TILE: %[[DELTA:.*]] = fa2.sum_rows
// TILE: %[[EMPTY:.*]] = arith.cmpf oeq
// TILE: %[[VIEW:.*]] = fa2.view %dlse[
// TILE: %[[DLSE:.*]] = fa2.load %[[VIEW]]
// TILE: %[[OWN:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[DLSE]]
// TILE: %[[NEG:.*]] = arith.subf %[[OWN]], %[[DELTA]]
// TILE: fa2.store %[[NEG]]
// TILE-LABEL: fa2.kernel @attention_backward(
// TILE-NOT: fa2.view %dlse
func.func @attention(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %c: f32)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
