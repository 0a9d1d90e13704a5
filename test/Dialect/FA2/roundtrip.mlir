// RUN: fa2-opt %s | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --mlir-print-op-generic | fa2-opt --mlir-print-local-scope | FileCheck %s
// RUN: fa2-opt %s --emit-bytecode | fa2-opt --mlir-print-local-scope | FileCheck %s

!qkv = tensor<?x?x?x64xf16>

// CHECK-LABEL: func @default_scale
// CHECK: fa2.attention ins(%{{.*}}, %{{.*}}, %{{.*}}) : tensor<?x?x?x64xf16>
func.func @default_scale(%q: !qkv, %k: !qkv, %v: tensor<?x?x?x32xf16>) -> tensor<?x?x?x32xf16> {
  %o, %lse = fa2.attention ins(%q, %k, %v) : !qkv, !qkv, tensor<?x?x?x32xf16>
      -> tensor<?x?x?x32xf16>, tensor<?x?x?xf32>
  return %o : tensor<?x?x?x32xf16>
}

// CHECK-LABEL: func @scheduled
// CHECK: fa2.attention ins({{.*}}) scale(%{{.*}}) {mask = #fa2.mask<causal_top_left>,
// CHECK-SAME: schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 4, stages = 1, partition = split_k, q_in_registers = true, lazy_rescale = 8, min_blocks = 2, order = longest_first>}
func.func @scheduled(%q: !qkv, %c: f32) -> !qkv {
  %o, %lse = fa2.attention ins(%q, %q, %q) scale(%c) {mask = #fa2.mask<causal_top_left>,
      schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 4, stages = 1,
                               partition = split_k, q_in_registers = true,
                               lazy_rescale = 8, min_blocks = 2, order = longest_first>}
      : !qkv, !qkv, !qkv -> !qkv, tensor<?x?x?xf32>
  return %o : !qkv
}

// CHECK-LABEL: func @strictly_causal
// CHECK: fa2.attention ins({{.*}}) scale(%{{.*}}) {mask = #fa2.mask<strictly_causal>}
func.func @strictly_causal(%q: !qkv, %c: f32) -> !qkv {
  %o, %lse = fa2.attention ins(%q, %q, %q) scale(%c) {mask = #fa2.mask<strictly_causal>}
      : !qkv, !qkv, !qkv -> !qkv, tensor<?x?x?xf32>
  return %o : !qkv
}

// CHECK-LABEL: func @with_roles
// CHECK: schedule = #fa2.schedule<target = "sm_90a", block_q = 192, block_kv = 80, warps = 12, stages = 2, overlap = true, persistent = true, separate_output = true, group_limits = true, speculate_max = 8>}
// CHECK: schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, ping_pong = true>}
func.func @with_roles(%q: !qkv, %c: f32) -> (!qkv, !qkv) {
  %o, %lse = fa2.attention ins(%q, %q, %q) scale(%c) {
      schedule = #fa2.schedule<target = "sm_90a", block_q = 192, block_kv = 80, warps = 12, stages = 2, overlap = true, ping_pong = false,
                               persistent = true, separate_output = true, group_limits = true, speculate_max = 8>}
      : !qkv, !qkv, !qkv -> !qkv, tensor<?x?x?xf32>
  %p, %lse2 = fa2.attention ins(%q, %q, %q) scale(%c) {
      schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, ping_pong = true>}
      : !qkv, !qkv, !qkv -> !qkv, tensor<?x?x?xf32>
  return %o, %p : !qkv, !qkv
}

// A score program: it adds a bias that an extra operand holds.
// CHECK-LABEL: func @score_program
// CHECK: extras(%{{.*}} : f32) {extra_names = ["bias"]}
// CHECK: score {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[B:.*]]: f32):
// CHECK-NEXT: %[[R:.*]] = arith.addf %[[S]], %[[B]] : f32
// CHECK-NEXT: fa2.yield %[[R]] : f32
func.func @score_program(%q: !qkv, %bias: f32) -> !qkv {
  %o, %lse = fa2.attention ins(%q, %q, %q) extras(%bias : f32) {extra_names = ["bias"]} : !qkv, !qkv, !qkv -> !qkv, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %x: f32):
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o : !qkv
}

// CHECK-LABEL: fa2.kernel @whole
// CHECK-SAME: #fa2.arg<"x", "in", ["batch", "seqlen_q", "heads", 64] x bf16>
// CHECK-SAME: #fa2.arg<"scale", "in", [] x f32, 1.250000e-01 : f64 require "positive_finite">
// CHECK: fa2.for_each_tile %{{.*}}, %[[H:.*]], %[[B:.*]] in (%{{.*}} by 64, %{{.*}}, %{{.*}}) order longest_first {
// CHECK: fa2.sequence %{{.*}}[%[[B]]] : memref
// CHECK: fa2.view %{{.*}}[%[[B]], %[[H]]] rows(%{{.*}}, %{{.*}}) : {{.*}} -> <? x 64 x bf16>
// CHECK: fa2.view {{.*}} -> <? x f32>
// CHECK: fa2.return
fa2.kernel @whole(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %l: memref<?x?x?xf32, strided<[?, ?, 1]>>, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64, mask = #fa2.mask<causal>>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"x", "in", ["batch", "seqlen_q", "heads", 64] x bf16>,
                             #fa2.arg<"lse", "out", ["batch", "heads", "seqlen_q"] x f32>,
                             #fa2.arg<"scale", "in", [] x f32, 0.125 : f64 require "positive_finite">]} {
  %n = arith.constant 4 : index
  fa2.for_each_tile %qb, %head, %batch in (%n by 64, %n, %n) order longest_first {
    %offset, %length = fa2.sequence %x[%batch] : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
    %xv = fa2.view %x[%batch, %head] rows(%offset, %length)
        : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
    %lv = fa2.view %l[%batch, %head] rows(%offset, %length)
        : memref<?x?x?xf32, strided<[?, ?, 1]>> -> !fa2.view<? x f32>
    %t = fa2.load %xv[%offset] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
    fa2.store %t, %xv[%offset] : tensor<64x64xbf16>, !fa2.view<? x 64 x bf16>
  }
  fa2.return
}

// CHECK-LABEL: func @tiles
// CHECK: %[[R:.*]] = fa2.tile_range %{{.*}} to %{{.*}} falling full(%{{.*}}, %{{.*}})
// CHECK: fa2.for_tiles %{{.*}} in %[[R]] {
// CHECK-NOT: fa2.yield
// CHECK: fa2.for_tiles %{{.*}} in %[[R]] from 2 iter_args(%[[X:.*]] = %{{.*}}, %[[Y:.*]] = %{{.*}}) -> (index, f32) {
// CHECK-NEXT: fa2.yield %[[X]], %[[Y]] : index, f32
func.func @tiles(%b: index, %e: index, %c: f32) {
  %r = fa2.tile_range %b to %e falling full(%b, %e)
  fa2.for_tiles %j in %r {
  }
  %s:2 = fa2.for_tiles %j in %r from 2 iter_args(%x = %b, %y = %c) -> (index, f32) {
    fa2.yield %x, %y : index, f32
  }
  return
}

// Two blocks a tile; columns that begin where only the program knows, with a sum to go on with and without.
// CHECK-LABEL: func @cluster
// CHECK: fa2.for_each_tile %{{.*}}, %{{.*}}, %{{.*}} in (%{{.*}} by 128, %{{.*}}, %{{.*}}) order interleaved {
// CHECK-NEXT: %[[RANK:.*]] = fa2.cluster_rank{{$}}
// CHECK-NEXT: %[[HALF:.*]] = fa2.view %{{.*}}[%{{.*}}, %{{.*}}] rows(%{{.*}}, %{{.*}}) from %[[RANK]] {cache = #fa2.cache<evict_first>} : {{.*}} -> <? x 64 x bf16>
// CHECK-NEXT: fa2.load %[[HALF]]
// CHECK-NEXT: %[[OTHER:.*]] = fa2.exchange %[[DS:.*]] : tensor<64x64xbf16>
// CHECK-NEXT: %[[OWN:.*]] = fa2.dot %[[DS]], %[[K:.*]] from %[[RANK]] {name = "dq", transpose_a} :
// CHECK-NEXT: %[[BOTH:.*]] = fa2.dot %[[OTHER]], %[[K]] from %[[RANK]] acc(%[[OWN]] : tensor<64x64xf32>) {transpose_a} :
// CHECK-NEXT: fa2.dot %[[OTHER]], %[[K]] acc(%[[BOTH]] : tensor<64x64xf32>) {transpose_a} :
// CHECK-NEXT: } {cluster = 2 : i64}
// One block a tile says nothing of it.
// CHECK: fa2.for_each_tile
// CHECK-NEXT: }{{$}}
func.func @cluster(%k: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>, %n: index, %ds: tensor<64x64xbf16>, %kt: tensor<64x128xbf16>) {
  fa2.for_each_tile %kb, %head, %batch in (%n by 128, %n, %n) order interleaved {
    %rank = fa2.cluster_rank
    %kv = fa2.view %k[%batch, %head] rows(%n, %n) from %rank {cache = #fa2.cache<evict_first>}
        : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
    %half = fa2.load %kv[%kb] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
    %other = fa2.exchange %ds : tensor<64x64xbf16>
    %own = fa2.dot %ds, %kt from %rank {name = "dq", transpose_a} : tensor<64x64xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
    %both = fa2.dot %other, %kt from %rank acc(%own : tensor<64x64xf32>) {transpose_a} : tensor<64x64xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
    %all = fa2.dot %other, %kt acc(%both : tensor<64x64xf32>) {transpose_a} : tensor<64x64xbf16>, tensor<64x128xbf16> -> tensor<64x64xf32>
  } {cluster = 2 : i64}
  fa2.for_each_tile %kb, %head, %batch in (%n by 128, %n, %n) {
  }
  return
}
