// RUN: fa2-opt %s --fa2-tile --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --fa2-derive-backward=replace | fa2-opt --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64,dq=recompute,preload=delta --fa2-tile-grad --mlir-print-local-scope | FileCheck %s --check-prefix=GRAD

// What is dropped has been summed; what is kept is divided by 1 - p at the end.
// CHECK: fa2.kernel @attention(
// CHECK-SAME: #fa2.arg<"dropout", "in", [] x f32 {{.*}}finite{{.*}}>, #fa2.arg<"rng", "in", [4] x i32>]
// CHECK-COUNT-4: fa2.read %rng[%{{.*}}] : {{.*}} -> i32
// CHECK: %[[T0:.*]] = arith.fptosi
// CHECK: %[[T1:.*]] = arith.minsi %[[T0]]
// CHECK: %[[T:.*]] = arith.maxsi %[[T1]]
// CHECK: fa2.for_tiles %[[J:.*]] in
// CHECK: %[[P:.*]], %{{.*}}, %{{.*}}, %{{.*}} = fa2.softmax_step
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[P]]
// CHECK: %[[KEPT:.*]] = fa2.keep at(%[[QB:.*]], %[[J]]) head(%{{.*}}) words({{.*}}) from %[[T]] : tensor<128x64xi16>
// CHECK: %[[BITS:.*]] = arith.bitcast %[[ROUNDED]]
// CHECK: %[[LEFT:.*]] = arith.andi %[[BITS]], %[[KEPT]]
// CHECK: %[[TILE:.*]] = arith.bitcast %[[LEFT]] : tensor<128x64xi16> to tensor<128x64xf16>
// CHECK: fa2.dot %[[TILE]]
// CHECK: fa2.softmax_finish
// CHECK: %[[FACTOR:.*]] = arith.divf
// CHECK: %[[ALL:.*]] = tensor.splat %[[FACTOR]] : tensor<128xf32>
// CHECK: fa2.scale_rows %{{.*}}, %[[ALL]]

// -delta goes into dP's accumulator, times 1 - p; what is dropped has it alone.
// GRAD-LABEL: fa2.kernel @attention_backward_statistics
// GRAD: %[[NEG:.*]] = arith.negf
// GRAD: %[[SHARE:.*]] = tensor.splat
// GRAD: %[[STORED:.*]] = arith.mulf %[[NEG]], %[[SHARE]]
// GRAD: fa2.store %[[STORED]]
// GRAD-LABEL: fa2.kernel @attention_backward(
// GRAD: fa2.for_tiles %[[I:.*]] in
// GRAD: %[[P:.*]] = fa2.softmax_recompute
// GRAD: %[[KEPT:.*]] = fa2.keep at(%[[I]], %{{.*}}) {{.*}} {transposed} : tensor<64x64xi1>
// GRAD: %[[LEFT:.*]] = arith.select %[[KEPT]], %[[P]]
// GRAD: arith.truncf %[[LEFT]]
// GRAD: %[[DELTA:.*]] = fa2.broadcast
// GRAD: %[[DP:.*]] = fa2.dot {{.*}} acc(%[[DELTA]]
// GRAD: %[[OWN:.*]] = arith.select %[[KEPT]], %[[DP]], %[[DELTA]]
// GRAD: arith.mulf %[[P]], %[[OWN]]
// GRAD-LABEL: fa2.kernel @attention_backward_dq
// GRAD: fa2.keep at(%{{.*}}) head({{.*}} : tensor
func.func @attention(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %c: f32, %p: f32, %r: tensor<4xi32>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) dropout(%p, %r : tensor<4xi32>)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4>}
      : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16> -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
