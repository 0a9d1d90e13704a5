// RUN: fa2-opt %s --split-input-file --fa2-tile --mlir-print-local-scope | FileCheck %s

// Algorithm 1 of FlashAttention-2: one block's query tile against the key tiles that it sees,
// from the last to the first.
// CHECK-LABEL: fa2.kernel @attention
// CHECK-SAME: (%[[Q:.*]]: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %[[K:.*]]: memref<{{.*}}>, %[[V:.*]]: memref<{{.*}}>, %[[OUT:.*]]: memref<{{.*}}>, %[[LSE:.*]]: memref<?x?x?xf32, strided<[?, ?, 1]>>, %[[SCALE:.*]]: f32)
// CHECK-SAME: arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>
// CHECK-SAME: #fa2.arg<"v", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>, #fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>
// CHECK-SAME: #fa2.arg<"lse", "out", ["batch", "heads", "seqlen_q"] x f32>, #fa2.arg<"scale", "in", [] x f32, 1.250000e-01 : f64 require "positive_finite">]
// CHECK-SAME: spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
// CHECK: fa2.for_each_tile %[[QB:.*]], %[[HEAD:.*]], %[[BATCH:.*]] in (%{{.*}} by 128, %{{.*}}, %{{.*}}) {
// Query heads share a key head: head / (heads / heads_kv).
// CHECK: %[[GROUP:.*]] = arith.divui
// CHECK: %[[HEADKV:.*]] = arith.divui %[[HEAD]], %[[GROUP]]
// CHECK: %{{.*}}, %[[SQ:.*]] = fa2.sequence %[[Q]][%[[BATCH]]]
// CHECK: %{{.*}}, %[[SK:.*]] = fa2.sequence %[[K]][%[[BATCH]]]
// CHECK: %[[QT:.*]] = fa2.load {{.*}} -> tensor<128x64xbf16>
// CHECK-DAG: %[[KV:.*]] = fa2.view %[[K]][%[[BATCH]], %[[HEADKV]]]
// CHECK-DAG: %[[VV:.*]] = fa2.view %[[V]][%[[BATCH]], %[[HEADKV]]]
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[QB]] falling lengths(%[[SQ]], %[[SK]]) blocks(128, 32)
// CHECK-DAG: %[[M0:.*]] = arith.constant dense<-1.267{{.*}}E+30> : tensor<128xf32>
// CHECK-DAG: %[[L0:.*]] = arith.constant dense<0.000000e+00> : tensor<128xf32>
// CHECK-DAG: %[[O0:.*]] = arith.constant dense<0.000000e+00> : tensor<128x64xf32>
// CHECK: %[[R:.*]]:3 = fa2.for_tiles %[[J:.*]] in %[[KEYS]] iter_args(%[[M:.*]] = %[[M0]], %[[L:.*]] = %[[L0]], %[[O:.*]] = %[[O0]])
// CHECK: %[[ROW:.*]] = arith.muli %[[J]], %c32
// CHECK: %[[KT:.*]] = fa2.load %[[KV]][%[[ROW]]] : <? x 64 x bf16> -> tensor<32x64xbf16>
// CHECK: %[[S:.*]] = fa2.dot %[[QT]], %[[KT]] {name = "s", transpose_b}
// CHECK: %[[SM:.*]] = fa2.apply_mask %[[S]] at(%[[QB]], %[[J]]) lengths(%[[SQ]], %[[SK]]) : tensor<128x32xf32>
// CHECK: %[[P:.*]], %[[M1:.*]], %[[L1:.*]], %[[A:.*]] = fa2.softmax_step %[[SM]], %[[M]], %[[L]] scale %[[SCALE]]
// CHECK-DAG: %[[PB:.*]] = arith.truncf %[[P]] : tensor<128x32xf32> to tensor<128x32xbf16>
// CHECK-DAG: %[[OS:.*]] = fa2.scale_rows %[[O]], %[[A]] : tensor<128x64xf32>
// CHECK: %[[VT:.*]] = fa2.load %[[VV]][%[[ROW]]]
// CHECK: %[[O1:.*]] = fa2.dot %[[PB]], %[[VT]] acc(%[[OS]]
// CHECK: fa2.yield %[[M1]], %[[L1]], %[[O1]]
// The division by l is after the loop.
// CHECK: %[[RES:.*]], %[[RESLSE:.*]] = fa2.softmax_finish %[[R]]#2, %[[R]]#0, %[[R]]#1 scale %[[SCALE]]
// CHECK: %[[RESB:.*]] = arith.truncf %[[RES]]
// CHECK: fa2.store %[[RESB]]
// CHECK: fa2.store %[[RESLSE]]
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// The mask bounds the range and masks the scores; order and slack are the schedule's; f16; no
// scale operand: 1/sqrt(64).
// CHECK-LABEL: fa2.kernel @causal
// CHECK-NOT: "scale"
// CHECK: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: fa2.for_each_tile {{.*}} by 64, {{.*}} order longest_first
// CHECK: fa2.kv_range {{.*}} blocks(64, 64) {mask = #fa2.mask<causal>}
// CHECK: fa2.apply_mask {{.*}} {mask = #fa2.mask<causal>} : tensor<64x64xf32>
// CHECK: fa2.softmax_step {{.*}} scale %[[SCALE]] {slack = 8.000000e+00 : f32}
// CHECK-DAG: arith.truncf {{.*}} to tensor<64x64xf16>
// CHECK-DAG: fa2.scale_rows {{.*}} {skip_unit}
func.func @causal(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>)
    -> (tensor<?x?x?x64xf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1, lazy_rescale = 8, order = longest_first>}
      : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16> -> tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xf16>, tensor<?x?x?xf32>
}

// -----

// Queries and keys have 72 columns, values and the output 40.
// CHECK-LABEL: fa2.kernel @two_head_dims
// CHECK-SAME: #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 72] x bf16>, #fa2.arg<"v", "in", ["batch", "seqlen_k", "heads_kv", 40] x bf16>, #fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 40] x bf16>
// CHECK-SAME: head_dim = 72, head_dim_v = 40
// CHECK: fa2.dot {{.*}} {name = "s", transpose_b} : tensor<64x72xbf16>, tensor<64x72xbf16> -> tensor<64x64xf32>
// CHECK: fa2.dot {{.*}} : tensor<64x64xbf16>, tensor<64x40xbf16> -> tensor<64x40xf32>
// CHECK: fa2.store {{.*}} : tensor<64x40xbf16>
func.func @two_head_dims(%q: tensor<?x?x?x72xbf16>, %k: tensor<?x?x?x72xbf16>, %v: tensor<?x?x?x40xbf16>)
    -> (tensor<?x?x?x40xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x72xbf16>, tensor<?x?x?x72xbf16>, tensor<?x?x?x40xbf16> -> tensor<?x?x?x40xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x40xbf16>, tensor<?x?x?xf32>
}

// -----

// A score program gets scale * S; its result is in powers of two: log2(e) goes into what is computed seldom, and the softmax's scale is then ln 2.
// Masks come after it. What depends on batch entry and head are scalars, and what depends on rows besides are vectors, both before the loop; what depends
// on columns alone are vectors in the loop, before the scores. The manifest has the program as it was written.
// CHECK-LABEL: fa2.kernel @program
// CHECK-SAME: score_program = <steps = [<"arith.constant" : f32 = 0.000000e+00 : f32>, <"arith.addi"(2, 4) : index>, <"arith.cmpi"(6, 3) : i1 = "ult">, <"arith.select"(7, 0, 5) : f32>],result = 8>
// CHECK: fa2.for_each_tile %[[QB:.*]], %[[HEAD:.*]], %{{.*}} in
// CHECK: %[[LN2:.*]] = arith.constant 0.693147182 : f32
// CHECK: %[[I:.*]] = fa2.positions %[[QB]] : tensor<64xindex>
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[LOG:.*]] = arith.constant 1.44269502 : f32
// CHECK: %[[C:.*]] = arith.mulf %scale, %[[LOG]] : f32
// CHECK: %[[Z:.*]] = arith.mulf %[[ZERO]], %[[LOG]] : f32
// CHECK: fa2.for_tiles
// CHECK: %[[J:.*]] = fa2.positions %[[KB:.*]] : tensor<64xindex>
// CHECK: %[[H:.*]] = tensor.splat %[[HEAD]] : tensor<64xindex>
// CHECK: %[[SUM:.*]] = arith.addi %[[H]], %[[J]] : tensor<64xindex>
// CHECK: %[[S:.*]] = fa2.dot {{.*}} {name = "s", transpose_b}
// CHECK: %[[COLS:.*]] = fa2.broadcast %[[SUM]] {columns} : tensor<64xindex> -> tensor<64x64xindex>
// CHECK: %[[ROWS:.*]] = fa2.broadcast %[[I]] : tensor<64xindex> -> tensor<64x64xindex>
// CHECK: %[[COND:.*]] = arith.cmpi ult, %[[COLS]], %[[ROWS]] : tensor<64x64xindex>
// CHECK: %[[CS:.*]] = tensor.splat %[[C]] : tensor<64x64xf32>
// CHECK: %[[SCALED:.*]] = arith.mulf %[[S]], %[[CS]] : tensor<64x64xf32>
// CHECK: %[[ZEROS:.*]] = tensor.splat %[[Z]] : tensor<64x64xf32>
// CHECK: %[[R:.*]] = arith.select %[[COND]], %[[SCALED]], %[[ZEROS]] : tensor<64x64xi1>, tensor<64x64xf32>
// CHECK: %[[M:.*]] = fa2.apply_mask %[[R]]
// CHECK: fa2.softmax_step %[[M]], {{.*}} scale %[[LN2]]
// CHECK: fa2.softmax_finish {{.*}} scale %[[LN2]]
func.func @program(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %zero = arith.constant 0.0 : f32
        %sum = arith.addi %h, %j : index
        %cond = arith.cmpi ult, %sum, %i : index
        %r = arith.select %cond, %s, %zero : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// Reads: of a head before the loop; of single elements of the tile in it; of keys alone in a kernel before, from which whole tiles come to the loop; where
// an index is no coordinate, it is brought into the extent. What all scores of a row share is added to lse; it hides the row where it is -inf.
// CHECK-LABEL: fa2.kernel @reads_columns
// CHECK: memref.dim %column_values0
// CHECK: fa2.for_each_tile %[[BLOCK:.*]], %{{.*}}, %{{.*}} in (%{{.*}} by 64, %c1{{.*}}, %c1{{.*}}) {
// CHECK: %[[COLS:.*]] = fa2.positions %[[BLOCK]]
// CHECK: %[[LOG:.*]] = arith.constant 1.44269502 : f32
// CHECK: %[[FAR:.*]] = arith.muli %[[COLS]]
// CHECK: %[[EXTENT:.*]] = memref.dim %table
// CHECK: %[[LAST:.*]] = arith.subi %[[EXTENT]]
// CHECK: %[[LASTS:.*]] = tensor.splat %[[LAST]] : tensor<64xindex>
// CHECK: %[[BELOW:.*]] = arith.minsi %[[FAR]], %[[LASTS]]
// CHECK: %[[AT:.*]] = arith.maxsi %[[BELOW]]
// CHECK: %[[REL:.*]] = fa2.read %table[%[[AT]]] {clamped = array<i64: 0>} : memref<?xf32, strided<[?]>>, tensor<64xindex> -> tensor<64xf32>
// CHECK: %[[LOGS:.*]] = tensor.splat %[[LOG]] : tensor<64xf32>
// CHECK: %[[OWN:.*]] = arith.mulf %[[REL]], %[[LOGS]] : tensor<64xf32>
// CHECK: fa2.store %[[OWN]], %{{.*}} : tensor<64xf32>, <? x f32>

// CHECK-LABEL: fa2.kernel @reads(
// CHECK-SAME: %slopes: memref<?xf32, strided<[?]>>, %bias: memref<?x?xbf16, strided<[?, ?]>>, %table: memref<?xf32, strided<[?]>>, %ids: memref<?xi32, strided<[?]>>
// CHECK-SAME: #fa2.arg<"slopes", "in", ["heads"] x f32 broadcast true>, #fa2.arg<"bias", "in", ["seqlen_q", "seqlen_k"] x bf16 broadcast true>, #fa2.arg<"table", "in", ["table_0"] x f32 broadcast true>
// CHECK-SAME: #fa2.arg<"column_values0", "workspace", ["1", "1", "(ceildiv(seqlen_k, 64) + 2) * 64"] x f32>
// CHECK-SAME: reads = ["slopes", "bias", "table", "ids"]
// CHECK: fa2.for_each_tile %{{.*}}, %[[HEAD:.*]], %{{.*}} in
// CHECK: %[[ROWS:.*]] = fa2.positions
// CHECK: fa2.read %slopes[%[[HEAD]]] : memref<?xf32, strided<[?]>>, index -> f32
// CHECK: fa2.for_tiles
// CHECK: fa2.load {{.*}} -> tensor<64x64xbf16>
// CHECK: %[[VIEW:.*]] = fa2.view %column_values0
// CHECK: %[[VECTOR:.*]] = fa2.load %[[VIEW]]{{.*}} -> tensor<64xf32>
// CHECK: %[[S:.*]] = fa2.dot
// CHECK: %[[BIAS:.*]] = fa2.read %bias[%{{.*}}, %{{.*}}] : memref<?x?xbf16, strided<[?, ?]>>, tensor<64x64xindex>, tensor<64x64xindex> -> tensor<64x64xf32>
// CHECK: %[[COLUMNS:.*]] = fa2.broadcast %[[VECTOR]] {columns}
// CHECK: %[[X:.*]] = math.fma %[[S]], %{{.*}}, %[[COLUMNS]]
// CHECK: math.fma %[[BIAS]], %{{.*}}, %[[X]]
// CHECK: %[[O:.*]], %[[LSE:.*]] = fa2.softmax_finish
// CHECK: %[[IDS:.*]] = fa2.read %ids
// CHECK: %[[ROW:.*]] = arith.sitofp %[[IDS]]
// CHECK: %[[SUM:.*]] = arith.addf %[[LSE]], %[[ROW]]
// CHECK: fa2.scale_rows %[[O]], %{{.*}} {skip_unit}
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[SUM]]
func.func @reads(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %slopes: tensor<?xf32>,
    %bias: tensor<?x?xbf16>, %table: tensor<?xf32>, %ids: tensor<?xi32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v)
      extras(%slopes, %bias, %table, %ids : tensor<?xf32>, tensor<?x?xbf16>, tensor<?xf32>, tensor<?xi32>)
      {extra_names = ["slopes", "bias", "table", "ids"],
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %sl: tensor<?xf32>, %bi: tensor<?x?xbf16>, %t: tensor<?xf32>, %id: tensor<?xi32>):
        %slope = tensor.extract %sl[%h] : tensor<?xf32>
        %own = tensor.extract %id[%i] : tensor<?xi32>
        %half = tensor.extract %bi[%i, %j] : tensor<?x?xbf16>
        %full = arith.extf %half : bf16 to f32
        %one = arith.constant 1 : index
        %far = arith.muli %j, %one : index
        %rel = tensor.extract %t[%far] : tensor<?xf32>
        %of = arith.sitofp %own : i32 to f32
        %x = arith.mulf %s, %slope : f32
        %y = arith.addf %x, %full : f32
        %z = arith.addf %y, %rel : f32
        %r = arith.addf %z, %of : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// Four query heads of one key head share a tile of 64 rows: 16 queries of each.
// CHECK-LABEL: fa2.kernel @packed
// CHECK: %[[GROUPS:.*]] = arith.divui %{{.*}}, %c4
// CHECK: fa2.for_each_tile %[[QB:.*]], %[[GROUP:.*]], %[[BATCH:.*]] in (%{{.*}} by 16, %[[GROUPS]], %{{.*}})
// CHECK: %[[HEAD:.*]] = arith.muli %[[GROUP]], %c4
// CHECK: arith.divui %[[HEAD]]
// CHECK: %[[ROW:.*]] = arith.muli %[[QB]], %c16
// CHECK: %[[V:.*]] = fa2.view %{{.*}}[%[[BATCH]], %[[HEAD]]] {{.*}} -> <4 heads, ? x 64 x bf16>
// CHECK: fa2.load %[[V]][%[[ROW]]] : <4 heads, ? x 64 x bf16> -> tensor<64x64xbf16>
// CHECK: fa2.kv_range %[[QB]] {{.*}} blocks(16, 32)
// CHECK: fa2.apply_mask {{.*}} at(%[[QB]], {{.*}} {heads = 4 : i64, mask = #fa2.mask<causal>} : tensor<64x32xf32>
// CHECK: fa2.store {{.*}} : tensor<64x64xbf16>, <4 heads, ? x 64 x bf16>
// CHECK: fa2.store {{.*}} : tensor<64xf32>, <4 heads, ? x f32>
func.func @packed(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v)
      {mask = #fa2.mask<causal>, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 32, warps = 4, stages = 1, packed_heads = 4>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// A cap is the softmax's scale. Its factor and the scale are one.
// CHECK-LABEL: fa2.kernel @cap
// CHECK-DAG: %[[CAP:.*]] = arith.constant 3.000000e+01 : f32
// CHECK-DAG: %[[BOTH:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: fa2.for_tiles
// CHECK: %[[S:.*]] = fa2.dot
// CHECK: %[[BOTHS:.*]] = tensor.splat %[[BOTH]]
// CHECK: %[[X:.*]] = arith.mulf %[[S]], %[[BOTHS]]
// CHECK: %[[T:.*]] = math.tanh %[[X]] fastmath<afn>
// CHECK: %[[M:.*]] = fa2.apply_mask %[[T]]
// CHECK: fa2.softmax_step %[[M]], {{.*}} scale %[[CAP]]
func.func @cap(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.constant 30.0 : f32
        %d = arith.constant 0.033 : f32
        %x = arith.mulf %s, %d : f32
        %t = math.tanh %x fastmath<afn> : f32
        %r = arith.mulf %t, %c : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// A distance is counted from the tiles' places; a product of it is one for all elements that are as far. Packed heads are rows: each has its own head.
// CHECK-LABEL: fa2.kernel @distance
// CHECK: fa2.for_tiles %[[J:.*]] in
// CHECK: %[[S:.*]] = fa2.dot
// CHECK: %[[D:.*]] = fa2.distance %[[J]] from %{{.*}} : tensor<64x64xf32>
// CHECK: %[[BIAS:.*]] = arith.mulf %[[D]], %{{.*}}
// CHECK: math.fma %[[S]], %{{.*}}, %[[BIAS]]
// CHECK-LABEL: fa2.kernel @distance_variant1
// CHECK: %[[AT:.*]] = fa2.positions
// CHECK: %[[PART:.*]] = arith.divui %[[AT]]
// CHECK: %[[HEAD:.*]] = arith.remui %[[PART]]
// CHECK: %[[HEADS:.*]] = arith.addi %{{.*}}, %[[HEAD]] : tensor<64xindex>
// CHECK: fa2.read %slopes[%[[HEADS]]] : memref<?xf32, strided<[?]>>, tensor<64xindex> -> tensor<64xf32>
func.func @distance(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %slopes: tensor<?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%slopes : tensor<?xf32>)
      {extra_names = ["slopes"], schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 1>,
       variants = [#fa2.variant<when = <"seqlen_q <= 64">, schedule = <target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 1, packed_heads = 4>>]}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?xf32>):
        %slope = tensor.extract %t[%h] : tensor<?xf32>
        %d = arith.subi %j, %i : index
        %n = arith.index_cast %d : index to i32
        %f = arith.sitofp %n : i32 to f32
        %x = arith.mulf %slope, %f : f32
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// A table of distances is read once for each diagonal of a tile, and so is what is made of such reads. From row to column it is the other way round.
// CHECK-LABEL: fa2.kernel @table
// CHECK: fa2.for_tiles %[[J:.*]] in
// CHECK: %[[D:.*]] = fa2.distance %[[J]] from %{{.*}} {of = array<i64: 64, 64>} : tensor<127xindex>
// CHECK: %[[BACK:.*]] = arith.subi %{{.*}}, %[[D]] : tensor<127xindex>
// CHECK: arith.addi %[[BACK]], %{{.*}} : tensor<127xindex>
// CHECK: %[[READ:.*]] = fa2.read %table[%{{.*}}, %{{.*}}] {clamped = array<i64: 1>} : {{.*}} -> tensor<127xf32>
// CHECK: %[[EXP:.*]] = math.exp %[[READ]] : tensor<127xf32>
// CHECK: %[[FACTOR:.*]] = arith.mulf %[[EXP]], %{{.*}} : tensor<127xf32>
// CHECK: %[[TILE:.*]] = fa2.broadcast %[[FACTOR]] {diagonals} : tensor<127xf32> -> tensor<64x64xf32>
// CHECK-NOT: fa2.distance
// CHECK: math.fma %{{.*}}, %{{.*}}, %[[TILE]] : tensor<64x64xf32>
func.func @table(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %table: tensor<?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%table : tensor<?x?xf32>)
      {extra_names = ["table"], schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?xf32>):
        %c = arith.constant 100 : index
        %d = arith.subi %i, %j : index
        %n = arith.addi %d, %c : index
        %u = tensor.extract %t[%h, %n] : tensor<?x?xf32>
        %x = math.exp %u : f32
        %r = arith.addf %s, %x : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// What a tile needs for each element is computed so, beside what diagonals share: here whether a key is ahead. A sum alone costs no more than a shuffle.
// CHECK-LABEL: fa2.kernel @both
// CHECK: fa2.for_tiles %[[J:.*]] in
// CHECK-DAG: %[[V:.*]] = fa2.distance %[[J]] from %{{.*}} {of = array<i64: 64, 64>} : tensor<127xindex>
// CHECK-DAG: %[[D:.*]] = fa2.distance %[[J]] from %{{.*}} : tensor<64x64xindex>
// CHECK-DAG: %[[READ:.*]] = fa2.read %table[{{.*}}] {clamped = array<i64: 0>} : {{.*}} -> tensor<127xf32>
// CHECK-DAG: %[[X:.*]] = fa2.broadcast %{{.*}} {diagonals} : tensor<127xf32> -> tensor<64x64xf32>
// CHECK-DAG: %[[AHEAD:.*]] = arith.cmpi sgt, %{{.*}}, %{{.*}} : tensor<64x64xi32>
// CHECK: arith.select %[[AHEAD]], %[[X]], %{{.*}} : tensor<64x64xi1>, tensor<64x64xf32>
func.func @both(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %table: tensor<?xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%table : tensor<?xbf16>)
      {extra_names = ["table"], schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?xbf16>):
        %zero = arith.constant 0 : i32
        %d = arith.subi %j, %i : index
        %n = arith.index_cast %d : index to i32
        %place = arith.index_cast %n : i32 to index
        %u = tensor.extract %t[%place] : tensor<?xbf16>
        %x = arith.extf %u : bf16 to f32
        %ahead = arith.cmpi sgt, %n, %zero : i32
        %chosen = arith.select %ahead, %x, %s : f32
        %r = arith.addf %s, %chosen : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
