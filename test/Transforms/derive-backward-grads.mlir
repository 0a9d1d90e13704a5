// RUN: fa2-opt %s --fa2-derive-backward="grads=bias,cap replace" --mlir-print-local-scope | FileCheck %s

// Extras that are named have gradients, in their own order; each read adds its part. What is not named is constant.
// CHECK: func.func @reads_backward({{.*}}) -> ({{.*}}, tensor<1xf32>, tensor<?x?xf32>)
// CHECK: fa2.attention_grad {{.*}} {extra_names = ["cap", "bias", "rest"], grads = array<i64: 0, 1>}
// CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %[[J:.*]]: index, %[[CAP:.*]]: f32, %[[BIAS:.*]]: tensor<?x?xbf16>, %{{.*}}: tensor<?xf32>):
// CHECK: %[[X:.*]] = tensor.extract %[[BIAS]][%[[H]], %[[J]]]
// CHECK: %[[XF:.*]] = arith.extf %[[X]]
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: fa2.contribute %[[XF]] to %[[CAP]][] : f32
// CHECK-NEXT: fa2.contribute %[[CAP]] to %[[BIAS]][%[[H]], %[[J]]] : tensor<?x?xbf16>
// CHECK-NEXT: fa2.yield %{{.*}}, %[[ONE]]
func.func @reads(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %cap: f32, %bias: tensor<?x?xbf16>, %rest: tensor<?xf32>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%cap, %bias, %rest : f32, tensor<?x?xbf16>, tensor<?xf32>) {extra_names = ["cap", "bias", "rest"]}
      : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16> -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %c: f32, %t: tensor<?x?xbf16>, %u: tensor<?xf32>):
        %x = tensor.extract %t[%h, %j] : tensor<?x?xbf16>
        %xf = arith.extf %x : bf16 to f32
        %y = arith.mulf %xf, %c : f32
        %z = tensor.extract %u[%j] : tensor<?xf32>
        %r0 = arith.addf %s, %y : f32
        %r = arith.addf %r0, %z : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
