// RUN: fa2-opt %s --fa2-derive-backward --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --fa2-derive-backward=replace --mlir-print-local-scope | FileCheck %s --check-prefix=REPLACE

// One file with a forward op yields both.
// CHECK: func.func @my_forward_d64(
// CHECK: fa2.attention ins
// CHECK: func.func @my_backward_d64(%[[Q:.*]]: tensor<?x?x?x64xbf16>, %[[K:.*]]: tensor<?x?x?x64xbf16>, %[[V:.*]]: tensor<?x?x?x32xbf16>, %[[O:.*]]: tensor<?x?x?x32xbf16>, %[[L:.*]]: tensor<?x?x?xf32>, %[[DO:.*]]: tensor<?x?x?x32xbf16>, %[[C:.*]]: f32)
// The schedule of the forward pass is not backward's.
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = fa2.attention_grad ins(%[[Q]], %[[K]], %[[V]], %[[O]], %[[L]], %[[DO]]) scale(%[[C]]) {mask = #fa2.mask<causal>} :
// CHECK: return %[[DQ]], %[[DK]], %[[DV]] : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>
// REPLACE-NOT: fa2.attention ins
// REPLACE: fa2.attention_grad
func.func @my_forward_d64(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>, %c: f32)
    -> (tensor<?x?x?x32xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>,
      schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16> -> tensor<?x?x?x32xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x32xbf16>, tensor<?x?x?xf32>
}

// Without a scale argument there is none in the gradient.
// CHECK: func.func @plain_backward(%{{.*}}: tensor<?x?x?x16xf16>, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}: tensor<?x?x?xf32>, %{{.*}}: tensor<?x?x?x16xf16>) ->
// CHECK: fa2.attention_grad ins({{.*}}) :
func.func @plain(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}

// With a score program: the region yields the score and its derivative. Of an arm that is not taken the adjoint is exactly 0, and stays so
// whatever it is multiplied by.
// CHECK: func.func @program_backward(%{{.*}}: tensor<?x?x?x16xf16>, {{.*}}%[[X:.*]]: f32) ->
// CHECK: fa2.attention_grad {{.*}} extras(%[[X]] : f32) {extra_names = ["cap"]}
// CHECK-SAME: score {
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[CAP:.*]]: f32):
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00
// CHECK: %[[U:.*]] = arith.divf %[[CAP]], %[[S]]
// CHECK: %[[T:.*]] = math.exp %[[U]]
// CHECK: %[[C:.*]] = arith.cmpf ogt, %[[S]], %[[ZERO]]
// CHECK: %[[R:.*]] = arith.select %[[C]], %[[T]], %[[S]]
// CHECK: %[[TAKEN:.*]] = arith.select %[[C]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[OTHER:.*]] = arith.select %[[C]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[DT:.*]] = arith.mulf %[[T]], %[[TAKEN]]
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[TAKEN]], %{{.*}}
// CHECK: %[[DU:.*]] = arith.select %[[NONE]], %{{.*}}, %[[DT]]
// CHECK: %[[DS:.*]] = arith.addf %[[OTHER]], %{{.*}}
// CHECK: fa2.yield %[[R]], %[[DS]] : f32, f32
func.func @program(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %x: f32)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%x : f32) {extra_names = ["cap"]} : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %cap: f32):
        %zero = arith.constant 0.0 : f32
        %u = arith.divf %cap, %s : f32
        %t = math.exp %u : f32
        %c = arith.cmpf ogt, %s, %zero : f32
        %r = arith.select %c, %t, %s : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}

// What is added has the derivative 1.
// CHECK: func.func @sum_backward
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: fa2.yield %{{.*}}, %[[ONE]] : f32, f32
func.func @sum(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %x: f32)
    -> (tensor<?x?x?x16xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%x : f32) : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>
      -> tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %e: f32):
        %r = arith.addf %s, %e : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x16xf16>, tensor<?x?x?xf32>
}
