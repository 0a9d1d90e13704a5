// RUN: fa2-opt %s --fa2-pipeline="pass=backward grads=cap,bias,table stop-after=fa2-tile" --mlir-print-local-scope | FileCheck %s

// Gradients are zeroed first, whatever the lengths are.
// CHECK-LABEL: fa2.kernel @reads_backward_zero(
// CHECK-SAME: %[[DCAP:dcap]]: memref<1xf32, strided<[?]>>, %[[DBIAS:dbias]]: memref<?x?xf32, strided<[?, ?]>>, %[[DTABLE:dtable]]: memref<?x?xf32, strided<[?, ?]>>)
// CHECK-SAME: #fa2.arg<"dcap", "out", [1] x f32 broadcast true>, #fa2.arg<"dbias", "out", ["heads", "seqlen_k"] x f32 broadcast true>, #fa2.arg<"dtable", "out", ["batch", "seqlen_q"] x f32 broadcast true>
// CHECK: fa2.for_each_tile %[[PART:.*]], %{{.*}}, %{{.*}} in (%[[PARTS:.*]] by 1
// CHECK: fa2.zero %dcap part(%[[PART]], %{{.*}})
// CHECK: fa2.zero %dbias part
// CHECK: fa2.zero %dtable part

// What goes to one place, or to places of the keys that stay, is summed in registers; that of queries is added tile by tile.
// CHECK-LABEL: fa2.kernel @reads_backward(
// CHECK: %[[KEYS:.*]] = fa2.positions %{{.*}} : tensor<128xindex>
// CHECK: %[[SUMS:.*]]:4 = fa2.for_tiles %[[I:.*]] in %{{.*}} iter_args(%{{.*}}, %{{.*}}, %[[CAPS:.*]] = %{{.*}}, %[[BIASES:.*]] = %{{.*}})
// CHECK: %[[QUERIES:.*]] = fa2.positions %[[I]] : tensor<128xindex>
// CHECK: fa2.add_rows %{{.*}} to %[[CAPS]]
// CHECK: fa2.add_rows %{{.*}} to %[[BIASES]]
// CHECK: fa2.scatter %{{.*}} to %dtable[%{{.*}}, %[[QUERIES]]] {columns}
// CHECK: fa2.scatter %[[SUMS]]#2 to %dcap[%{{.*}}] : tensor<128xf32>, memref<1xf32, strided<[?]>>, index
// CHECK: fa2.scatter %[[SUMS]]#3 to %dbias[%{{.*}}, %[[KEYS]]] : tensor<128xf32>, memref<?x?xf32, strided<[?, ?]>>, index, tensor<128xindex>

// CHECK-LABEL: fa2.kernel @reads_backward_dq(
// CHECK-NOT: fa2.scatter
func.func @reads(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %cap: f32, %bias: tensor<?x?xbf16>, %table: tensor<?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%cap, %bias, %table : f32, tensor<?x?xbf16>, tensor<?x?xf32>) {extra_names = ["cap", "bias", "table"]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %c: f32, %t: tensor<?x?xbf16>, %u: tensor<?x?xf32>):
        %x = tensor.extract %t[%h, %j] : tensor<?x?xbf16>
        %xf = arith.extf %x : bf16 to f32
        %y = arith.mulf %xf, %c : f32
        %z = tensor.extract %u[%b, %i] : tensor<?x?xf32>
        %r0 = arith.addf %s, %y : f32
        %r = arith.addf %r0, %z : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
