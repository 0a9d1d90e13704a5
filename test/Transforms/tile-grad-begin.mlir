// RUN: fa2-opt %s --fa2-derive-backward=replace --split-input-file | fa2-opt --split-input-file --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64,preload=both --fa2-tile-grad | FileCheck %s
// RUN: fa2-opt %s --fa2-derive-backward=replace --split-input-file | fa2-opt --split-input-file --fa2-select-schedule=schedule=warps=4,block_q=64,block_kv=64 --fa2-tile-grad | FileCheck %s --check-prefix=DELTA

// What all scores of a row share goes into -lse. Products of scores begin with that and with what keys and distances add, over the scale.
// CHECK-LABEL: fa2.kernel @terms_backward_statistics
// CHECK: %[[ROWS:.*]] = fa2.read %{{.*}} -> tensor<64xf32>
// CHECK: %[[MORE:.*]] = arith.subf %{{.*}}, %[[ROWS]] : tensor<64xf32>
// CHECK: arith.mulf %[[MORE]], %{{.*}} : tensor<64xf32>
// CHECK-LABEL: fa2.kernel @terms_backward(
// CHECK: arith.divf %{{.*}}, %[[SCALE:scale]] : f32
// CHECK: fa2.for_tiles
// CHECK: %[[N:.*]] = fa2.broadcast %{{.*}} {columns} : tensor<64xf32> -> tensor<64x64xf32>
// CHECK: %[[START:.*]] = math.fma %{{.*}}, %{{.*}}, %{{.*}} : tensor<64x64xf32>
// CHECK: %[[ALL:.*]] = arith.addf %[[START]], %[[N]] : tensor<64x64xf32>
// CHECK: %[[S:.*]] = fa2.dot {{.*}} acc(%[[ALL]] : tensor<64x64xf32>) {name = "s"
// CHECK-NEXT: %[[M:.*]] = fa2.apply_mask %[[S]]
// CHECK-NEXT: fa2.softmax_recompute %[[M]] scale %[[SCALE]]
// Without that they are added to the scores, in one operation with the scale.
// DELTA-LABEL: fa2.kernel @terms_backward(
// DELTA: %[[S:.*]] = fa2.dot %{{[0-9]+}}, %{{[0-9]+}} {name = "s"
// DELTA: %[[Y:.*]] = math.fma %[[S]], %{{.*}}, %{{.*}} : tensor<64x64xf32>
// DELTA: %[[X:.*]] = math.fma %{{.*}}, %{{.*}}, %[[Y]] : tensor<64x64xf32>
// DELTA: fa2.apply_mask %[[X]]
func.func @terms(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %scale: f32, %rows: tensor<?x?xf32>, %keys: tensor<?xf32>,
                 %slopes: tensor<?xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%rows, %keys, %slopes : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %r: tensor<?x?xf32>, %c: tensor<?xf32>, %w: tensor<?xf32>):
        %x = tensor.extract %r[%h, %i] : tensor<?x?xf32>
        %y = tensor.extract %c[%j] : tensor<?xf32>
        %z = tensor.extract %w[%h] : tensor<?xf32>
        %far = arith.subi %j, %i : index
        %narrow = arith.index_cast %far : index to i32
        %d = arith.sitofp %narrow : i32 to f32
        %a = arith.mulf %z, %d : f32
        %s1 = arith.addf %s, %x : f32
        %s2 = arith.subf %s1, %y : f32
        %s3 = arith.addf %s2, %a : f32
        fa2.yield %s3 : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
