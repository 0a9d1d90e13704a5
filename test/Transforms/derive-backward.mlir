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
