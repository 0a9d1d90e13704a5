// RUN: fa2-opt %s --fa2-derive-backward=replace --split-input-file | fa2-opt --split-input-file --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64 --fa2-tile-grad | FileCheck %s

// A query past the end has -inf for -lse, which makes its P 0 whatever finite score the program gives it. The factor of a score is one operation with
// what is added to it.
// CHECK-LABEL: fa2.kernel @adds_backward_statistics
// CHECK: %[[N:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<64xi1>, tensor<64xf32>
// CHECK: %[[ROWS:.*]] = fa2.positions
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[ROWS]], %{{.*}} : tensor<64xindex>
// CHECK: %[[ALL:.*]] = arith.select %[[INSIDE]], %[[N]], %{{.*}} : tensor<64xi1>, tensor<64xf32>
// CHECK: fa2.store %[[ALL]], %{{.*}} : tensor<64xf32>
// CHECK-LABEL: fa2.kernel @adds_backward(
// CHECK: %[[S:.*]] = fa2.dot {{.*}} {name = "s"
// CHECK: %[[X:.*]] = math.fma %[[S]], %{{.*}}, %{{.*}} : tensor<64x64xf32>
// CHECK-NOT: arith.select
// CHECK: fa2.apply_mask %[[X]]
func.func @adds(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %bias: tensor<?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%bias : tensor<?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?xf32>):
        %x = tensor.extract %t[%i, %j] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// A quotient by what is read for a row, which past the end is 0, would be NaN: scores of such queries are -inf.
// CHECK-LABEL: fa2.kernel @divides_backward(
// CHECK: %[[COLUMNS:.*]] = fa2.positions %{{.*}} : tensor<64xindex>
// CHECK: %[[IN:.*]] = arith.cmpi slt
// CHECK: %[[SHOWN:.*]] = fa2.broadcast %[[IN]] {columns}
// CHECK: %[[X:.*]] = arith.select %[[SHOWN]]
// CHECK: fa2.apply_mask %[[X]]
func.func @divides(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %by: tensor<?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%by : tensor<?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?xf32>):
        %x = tensor.extract %t[%i] : tensor<?xf32>
        %r = arith.divf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// So would the product of what is read for a row, 0 past the end, and what is read for a key, which may be -inf.
// CHECK-LABEL: fa2.kernel @multiplies_backward(
// CHECK: fa2.positions
// CHECK: %[[X:.*]] = arith.select
// CHECK: fa2.apply_mask %[[X]]
func.func @multiplies(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %rows: tensor<?xf32>, %keys: tensor<?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%rows, %keys : tensor<?xf32>, tensor<?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?xf32>, %u: tensor<?xf32>):
        %x = tensor.extract %t[%i] : tensor<?xf32>
        %y = tensor.extract %u[%j] : tensor<?xf32>
        %z = arith.mulf %x, %y : f32
        %r = arith.addf %s, %z : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
