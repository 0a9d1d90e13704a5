// RUN: fa2-opt %s --split-input-file --fa2-tile-grad --canonicalize --cse --mlir-print-local-scope | FileCheck %s

// Blocks take tiles of keys in pairs. Each has its own keys and values, and of the other's keys the half of the columns that it sums of dQ.
// CHECK-LABEL: fa2.kernel @grad(
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
// CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
// CHECK: fa2.for_each_tile %[[PAIR:.*]], %[[HEAD:.*]], %[[BATCH:.*]] in (%{{.*}} by 128, %{{.*}}, %{{.*}}) {
// CHECK: %[[RANK:.*]] = fa2.cluster_rank
// CHECK: %[[FIRST:.*]] = arith.muli %[[PAIR]], %[[C2]]
// CHECK: %[[KB:.*]] = arith.addi %[[FIRST]], %[[RANK]]
// CHECK: %[[ROW:.*]] = arith.muli %[[KB]], %[[C64]]
// CHECK: %[[KV:.*]] = fa2.view %[[KEYS:.*]][%[[BATCH]], %[[HEAD]]] rows({{.*}}) : {{.*}} -> <? x 256 x bf16>
// CHECK: %[[K:.*]] = fa2.load %[[KV]][%[[ROW]]]
// CHECK: %[[V:.*]] = fa2.load %{{.*}}[%[[ROW]]] : {{.*}} -> tensor<64x256xbf16>
// CHECK: %[[NOT:.*]] = arith.subi %[[C1]], %[[RANK]]
// CHECK: %[[OTHERB:.*]] = arith.addi %[[FIRST]], %[[NOT]]
// CHECK: %[[COLUMN:.*]] = arith.muli %[[RANK]], %[[C128]]
// CHECK: %[[HALF:.*]] = fa2.view %[[KEYS]][%[[BATCH]], %[[HEAD]]] rows({{.*}}) from %[[COLUMN]] : {{.*}} -> <? x 128 x bf16>
// CHECK: %[[OTHERROW:.*]] = arith.muli %[[OTHERB]], %[[C64]]
// CHECK: %[[OTHERK:.*]] = fa2.load %[[HALF]][%[[OTHERROW]]] : {{.*}} -> tensor<64x128xbf16>
// Both go through the queries that see any key of the pair; which of them see this block's, the mask says.
// CHECK: %[[QUERIES:.*]] = fa2.q_range %[[PAIR]] lengths(%{{.*}}, %{{.*}}) blocks(64, 128) {nonempty}
// CHECK: %[[SUM:.*]] = fa2.view {{.*}} from %[[COLUMN]] {{.*}} -> <? x 128 x f32, order = <<4 x 2>, width = 4>>
// CHECK: fa2.for_tiles %[[QB:.*]] in %[[QUERIES]]
// CHECK: fa2.dot %[[K]], %{{.*}} {name = "s", transpose_b}
// CHECK: fa2.apply_mask %{{.*}} at(%[[QB]], %[[KB]])
// CHECK: fa2.dot %[[V]], %{{.*}} {name = "dp", transpose_b}
// CHECK: %[[DK:.*]] = fa2.dot %[[DS:.*]], %{{.*}} {name = "dk"}
// The columns of this block's keys and then of the other's, in one sum, which is added to memory once.
// CHECK-NEXT: %[[OTHERDS:.*]] = fa2.exchange %[[DS]] : tensor<64x64xbf16>
// CHECK-NEXT: %[[DQ:.*]] = fa2.dot %[[DS]], %[[K]] from %[[COLUMN]] {name = "dq", transpose_a} : {{.*}} -> tensor<64x128xf32> over <4 x 2>
// CHECK-NEXT: %[[BOTH:.*]] = fa2.dot %[[OTHERDS]], %[[OTHERK]] acc(%[[DQ]] : tensor<64x128xf32>) {name = "dq_other", transpose_a} : {{.*}} -> tensor<64x128xf32> over <4 x 2>
// CHECK-NEXT: fa2.accumulate %[[BOTH]], %[[SUM]][
// CHECK-NEXT: fa2.yield
// CHECK: fa2.store %{{.*}}[%[[ROW]]] : tensor<64x256xbf16>
// CHECK: fa2.store %{{.*}}[%[[ROW]]] : tensor<64x256xbf16>
// CHECK: } {cluster = 2 : i64}

// The other kernels' blocks are each alone.
// CHECK-LABEL: fa2.kernel @grad_dq
// CHECK-NOT: {cluster
func.func @grad(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>,
                %o: tensor<?x?x?x256xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x256xbf16>, %c: f32)
    -> (tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 8, stages = 2, partition = keys, key_warps = 4,
                                dq = atomic_v4, preload = none, dq_columns = 128, cluster = 2, rings.dout = 1>}
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
}

// -----

// In pieces of 32 columns, of which a block has two of one panel: in its own keys and in memory they begin a panel further on for the other
// block; of the other's keys it loads that panel alone.
// CHECK-LABEL: fa2.kernel @pieces(
// CHECK: %[[RANK:.*]] = fa2.cluster_rank
// CHECK: %[[COLUMN:.*]] = arith.muli %[[RANK]], %c64
// CHECK: %[[PANEL:.*]] = fa2.view %k[{{.*}} from %[[COLUMN]] : {{.*}} -> <? x 64 x bf16>
// CHECK: %[[OTHERK:.*]] = fa2.load %[[PANEL]]
// CHECK: fa2.q_range %{{.*}} blocks(64, 256) {mask = #fa2.mask<causal>, nonempty}
// CHECK: %[[SUM0:.*]] = fa2.view {{.*}} from %[[COLUMN]] : {{.*}} -> <? x 32 x f32, order = <<4 x 1>, width = 4>>
// CHECK: %[[SUM1:.*]] = fa2.view {{.*}} from %[[COLUMN]] {first_column = 32 : i64} : {{.*}} -> <? x 32 x f32, order = <<4 x 1>, width = 4>>
// CHECK: %[[OTHERDS:.*]] = fa2.exchange %[[DS:.*]] : tensor<128x64xbf16>
// CHECK-NEXT: %[[DQ0:.*]] = fa2.dot %[[DS]], %[[K:.*]] from %[[COLUMN]] {name = "dq", transpose_a} : tensor<128x64xbf16>, tensor<128x128xbf16> -> tensor<64x32xf32>
// CHECK-NEXT: %[[BOTH0:.*]] = fa2.dot %[[OTHERDS]], %[[OTHERK]] acc(%[[DQ0]] : {{.*}}) {name = "dq_other", transpose_a} : tensor<128x64xbf16>, tensor<128x64xbf16> -> tensor<64x32xf32>
// CHECK-NEXT: fa2.accumulate %[[BOTH0]], %[[SUM0]][%[[ROW:.*]]]
// CHECK-NEXT: %[[DQ1:.*]] = fa2.dot %[[DS]], %[[K]] from %[[COLUMN]] {first_column = 32 : i64, name = "dq", transpose_a}
// CHECK-NEXT: %[[BOTH1:.*]] = fa2.dot %[[OTHERDS]], %[[OTHERK]] acc(%[[DQ1]] : {{.*}}) {first_column = 32 : i64, name = "dq_other", transpose_a}
// CHECK-NEXT: fa2.accumulate %[[BOTH1]], %[[SUM1]][%[[ROW]]]
// CHECK-NEXT: fa2.yield
func.func @pieces(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
                  %o: tensor<?x?x?x128xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x128xbf16>, %c: f32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, key_warps = 8,
                                dq = atomic_v4, dq_by_producer = true, dq_columns = 32, cluster = 2>}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
}

// -----

// Of 160 columns each block has one of two whole panels, of which it loads its own from the other's keys, and a half of the 32 behind them.
// CHECK-LABEL: fa2.kernel @halves(
// CHECK: %[[RANK:.*]] = fa2.cluster_rank
// CHECK: %[[PANEL:.*]] = arith.muli %[[RANK]], %c64
// CHECK: fa2.view %k[{{.*}} from %[[PANEL]] : {{.*}} -> <? x 64 x bf16>
// CHECK: fa2.view %k[{{.*}} from %c128 : {{.*}} -> <? x 32 x bf16>
// CHECK: fa2.view %dq_sum[{{.*}} from %[[PANEL]] : {{.*}} -> <? x 64 x f32
// CHECK: %[[HALF:.*]] = arith.muli %[[RANK]], %c16
// CHECK: fa2.view %dq_sum[{{.*}} from %[[HALF]] {first_column = 128 : i64} : {{.*}} -> <? x 16 x f32
// CHECK: fa2.dot %[[DS:.*]], %[[K:.*]] from %[[PANEL]] {name = "dq", role = "scores", transpose_a} : {{.*}} -> tensor<64x64xf32>
// CHECK: fa2.dot %[[DS]], %[[K]] from %[[HALF]] {first_column = 128 : i64, name = "dq", role = "gradients", transpose_a} : {{.*}} -> tensor<64x16xf32>
// CHECK: fa2.dot %{{.*}} from %[[HALF]] acc({{.*}}) {name = "dq_other", role = "gradients", transpose_a} : tensor<64x64xbf16>, tensor<64x32xbf16> -> tensor<64x16xf32>
func.func @halves(%q: tensor<?x?x?x160xbf16>, %k: tensor<?x?x?x160xbf16>, %v: tensor<?x?x?x160xbf16>,
                  %o: tensor<?x?x?x160xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x160xbf16>, %c: f32)
    -> (tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 8, stages = 3, partition = keys, key_warps = 4,
                                dq = atomic_v4, preload = both, rounded_p = true, loop_order = scores_between, role_columns = 128,
                                dq_columns = 64, cluster = 2, rings.dout = 2>}
      : tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x160xbf16>
      -> tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>, tensor<?x?x?x160xbf16>
}
