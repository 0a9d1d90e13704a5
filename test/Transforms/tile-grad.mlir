// RUN: fa2-opt %s --split-input-file --fa2-tile-grad --mlir-print-local-scope | FileCheck %s

// Statistics of each row: n = -log2(e) lse, -inf where lse is; -delta = -rowsum(dO o O). The sum of dQ is zeroed.
// CHECK-LABEL: fa2.kernel @grad_statistics
// CHECK: fa2.for_each_tile {{.*}} by 128
// CHECK: %[[LSE:.*]] = fa2.load {{.*}} : <? x f32> -> tensor<128xf32>
// CHECK-COUNT-2: fa2.load {{.*}} -> tensor<128x64xbf16>
// CHECK: %[[O:.*]] = arith.extf
// CHECK: %[[DO:.*]] = arith.extf
// CHECK: %[[P:.*]] = arith.mulf %[[O]], %[[DO]]
// CHECK: %[[DELTA:.*]] = fa2.sum_rows %[[P]] : tensor<128x64xf32> -> tensor<128xf32>
// CHECK: %[[N:.*]] = arith.mulf %[[LSE]], %{{.*}}
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[LSE]], %[[NINF:.*]] :
// CHECK: %[[STAT:.*]] = arith.select %[[EMPTY]], %[[NINF]], %[[N]]
// CHECK: fa2.store %[[STAT]]
// CHECK: arith.negf %[[DELTA]]
// CHECK: fa2.store %{{.*}} : tensor<128x64xf32>, <? x 64 x f32, order = <<8 x 1>>>

// Algorithm 2: a key tile stays, query tiles go by, head by head of the group.
// CHECK-LABEL: fa2.kernel @grad(
// CHECK-SAME: #fa2.arg<"dq_sum", "workspace", ["batch", "ceildiv(seqlen_q, 128) * 128", "heads", 64] x f32>, #fa2.arg<"neg_lse", "workspace", ["batch", "heads", "ceildiv(seqlen_q, 128) * 128"] x f32>
// CHECK: fa2.for_each_tile %[[KB:.*]], %[[HKV:.*]], %[[B:.*]] in (%{{.*}} by 128
// CHECK: %[[GROUP:.*]] = arith.divui
// CHECK: %[[FIRST:.*]] = arith.muli %[[HKV]], %[[GROUP]]
// CHECK: %[[K:.*]] = fa2.load {{.*}} -> tensor<128x64xbf16>
// CHECK: %[[V:.*]] = fa2.load {{.*}} -> tensor<128x64xbf16>
// CHECK: %[[QUERIES:.*]] = fa2.q_range %[[KB]] {{.*}} blocks(64, 128) {mask = #fa2.mask<causal>, nonempty}
// CHECK: %[[SEEN:.*]] = fa2.tile_count %[[QUERIES]]
// CHECK: %[[ANY:.*]] = arith.cmpi sgt, %[[SEEN]]
// CHECK: %[[HEADS:.*]] = arith.select %[[ANY]], %[[GROUP]], %{{.*}}
// CHECK: scf.for %[[G:.*]] = %{{.*}} to %[[HEADS]]
// CHECK: arith.addi %[[FIRST]], %[[G]]
// CHECK: fa2.for_tiles %[[QB:.*]] in %[[QUERIES]] iter_args(%[[DK:.*]] = %{{.*}}, %[[DV:.*]] = %{{.*}})
// CHECK: %[[Q:.*]] = fa2.load {{.*}} -> tensor<64x64xbf16>
// CHECK: %[[S:.*]] = fa2.dot %[[K]], %[[Q]] {name = "s", transpose_b}
// CHECK: %[[SM:.*]] = fa2.apply_mask %[[S]] at(%[[QB]], %[[KB]]) {{.*}} {mask = #fa2.mask<causal>, transposed}
// CHECK: %[[NV:.*]] = fa2.load {{.*}} -> tensor<64xf32>
// CHECK: %[[P:.*]] = fa2.softmax_recompute %[[SM]], %[[NV]] scale %{{.*}} {columns}
// CHECK: %[[DO:.*]] = fa2.load {{.*}} -> tensor<64x64xbf16>
// CHECK: %[[PB:.*]] = arith.truncf %[[P]]
// CHECK: %[[DV1:.*]] = fa2.dot %[[PB]], %[[DO]] acc(%[[DV]]
// CHECK: %[[D0:.*]] = fa2.broadcast %{{.*}} {columns}
// CHECK: %[[DP:.*]] = fa2.dot %[[V]], %[[DO]] acc(%[[D0]] : tensor<128x64xf32>) {name = "dp", transpose_b}
// CHECK: %[[DS:.*]] = arith.mulf %[[P]], %[[DP]]
// CHECK: %[[DSB:.*]] = arith.truncf %[[DS]]
// CHECK: %[[DK1:.*]] = fa2.dot %[[DSB]], %[[Q]] acc(%[[DK]]
// CHECK: %[[DQ:.*]] = fa2.dot %[[DSB]], %[[K]] {name = "dq", transpose_a}
// CHECK: fa2.accumulate %[[DQ]], %{{.*}} : tensor<64x64xf32>, <? x 64 x f32, order = <<4 x 2>>>
// CHECK: fa2.yield %[[DK1]], %[[DV1]]

// CHECK-LABEL: fa2.kernel @grad_dq
// CHECK: fa2.load {{.*}} : <? x 64 x f32, order = <<4 x 2>>> -> tensor<64x64xf32>
// CHECK: arith.mulf
// CHECK: arith.truncf
// CHECK: fa2.store

func.func @grad(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// With its own kernel, dQ needs no sum in memory.
// CHECK-LABEL: fa2.kernel @recompute(
// CHECK-NOT: dq_sum
// CHECK-NOT: fa2.accumulate
// CHECK-LABEL: fa2.kernel @recompute_dq
// CHECK: %[[KEYS:.*]] = fa2.kv_range %{{.*}} falling
// CHECK: fa2.for_tiles %{{.*}} in %[[KEYS]]
// CHECK: fa2.softmax_recompute %{{.*}}, %{{.*}} scale %{{[a-z0-9]+}} : tensor
// CHECK: fa2.broadcast %{{.*}} : tensor<128xf32> -> tensor<128x64xf32>
// CHECK: fa2.dot %{{.*}}, %{{.*}} acc(
func.func @recompute(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = recompute>,
       dq_schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 8, stages = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// Scores begin with -lse / c, which the statistics kernel divides; P is what of them is left. dP begins with nothing where asked; P is
// rounded as dV's product has it. Under a mask the keys that most queries see start first, of several heads side by side.
// CHECK-LABEL: fa2.kernel @preload_statistics
// CHECK: %[[LSE:.*]] = fa2.load {{.*}} : <? x f32> -> tensor<128xf32>
// CHECK: %[[F:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: %[[FS:.*]] = tensor.splat %[[F]]
// CHECK: arith.mulf %[[LSE]], %[[FS]]
// CHECK-LABEL: fa2.kernel @preload(
// CHECK-SAME: require "invertible"
// CHECK: fa2.for_each_tile {{.*}} order interleaved
// CHECK: %[[N:.*]] = fa2.broadcast %{{.*}} {columns} : tensor<64xf32> -> tensor<128x64xf32>
// CHECK: %[[S:.*]] = fa2.dot %{{.*}}, %{{.*}} acc(%[[N]] : tensor<128x64xf32>) {name = "s", transpose_b}
// CHECK: %[[SM:.*]] = fa2.apply_mask %[[S]]
// CHECK: %[[P:.*]] = fa2.softmax_recompute %[[SM]] scale %{{.*}} {columns} : tensor<128x64xf32>
// CHECK: %[[P16:.*]] = arith.truncf %[[P]]
// CHECK: %[[DP:.*]] = fa2.dot %{{.*}} {name = "dp", transpose_b}
// CHECK: %[[PR:.*]] = arith.extf %{{.*}} : tensor<128x64xbf16> to tensor<128x64xf32>
// CHECK: arith.mulf %[[PR]], %[[DP]]
func.func @preload(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys,
                                order = longest_first, preload = both, rounded_p = true>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// CHECK-LABEL: fa2.kernel @none(
// CHECK: %[[D0:.*]] = fa2.broadcast %{{.*}} {columns}
// CHECK: %[[DP:.*]] = fa2.dot %{{.*}}, %{{.*}} {name = "dp", transpose_b}
// CHECK: arith.addf %[[DP]], %[[D0]]
func.func @none(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, preload = none>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
