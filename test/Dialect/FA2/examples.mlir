// Each example of the ops' documentation, as it stands there, parses, and comes back the same from both forms of text and from bytecode.
// RUN: fa2-opt %s -o %t.mlir
// RUN: fa2-opt %t.mlir | diff %t.mlir -
// RUN: fa2-opt %s --mlir-print-op-generic | fa2-opt | diff %t.mlir -
// RUN: fa2-opt %s --emit-bytecode | fa2-opt | diff %t.mlir -
// RUN: mlir-tblgen -gen-op-doc -dialect=fa2 %td_flags %fa2_source/include/fa2/Dialect/FA2/FA2TileOps.td | %check_examples %s
// RUN: mlir-tblgen -gen-attrdef-doc -attrdefs-dialect=fa2 %td_flags %fa2_source/include/fa2/Dialect/FA2/FA2Attrs.td | %check_examples %s
// RUN: mlir-tblgen -gen-typedef-doc -typedefs-dialect=fa2 %td_flags %fa2_source/include/fa2/Dialect/FA2/FA2TileOps.td | %check_examples %s

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                     %v: tensor<?x?x?x128xbf16>, %c: f32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}

fa2.kernel @copy(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"x", "in", ["batch", "seqlen_q", "heads", 64] x bf16>]} {
  fa2.return
}

func.func @tiles(%seqlen: index, %heads: index, %batches: index) {
  fa2.for_each_tile %qb, %head, %batch in (%seqlen by 128, %heads, %batches) order longest_first {
    fa2.yield
  }
  return
}

func.func @clusters(%seqlen: index, %heads: index, %batches: index, %ds: tensor<64x64xbf16>) {
  fa2.for_each_tile %kb, %head, %batch in (%seqlen by 128, %heads, %batches) {
    %rank = fa2.cluster_rank
    %other = fa2.exchange %ds : tensor<64x64xbf16>
    %there = fa2.relay %ds : tensor<64x64xbf16>
  } {cluster = 2 : i64}
  return
}

func.func @views(%q: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %batch: index, %head: index,
                 %bias: memref<?x?x?xbf16, strided<[?, ?, ?]>>, %zero: index, %row: index, %column: index) {
  %offset, %length = fa2.sequence %q[%batch] : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %v = fa2.view %q[%batch, %head] rows(%offset, %length)
      : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
  %w = fa2.view %bias[%zero, %head] rows(%zero, %length) {dims = array<i64: -1, 1, 0, 2>}
      : memref<?x?x?xbf16, strided<[?, ?, ?]>> -> !fa2.view<? x ? x bf16>
  %u = fa2.view %q[%batch, %head] rows(%offset, %length) {cache = #fa2.cache<evict_last>}
      : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> -> !fa2.view<? x 64 x bf16>
  %x = fa2.load %w[%row, %column] : !fa2.view<? x ? x bf16> -> tensor<128x64xbf16>
  return
}

func.func @ranges(%qb: index, %kb: index, %sq: index, %sk: index, %n: index, %p: index, %lo: index, %hi: index,
                  %b: index, %e: index, %down: i1) {
  %keys = fa2.kv_range %qb falling lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
  %own = fa2.kv_range %qb falling lengths(%sq, %sk) blocks(64, 64)
  %queries = fa2.q_range %kb lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
  %either = fa2.q_range %kb falling %down lengths(%sq, %sk) blocks(128, 64) {mask = #fa2.mask<causal>}
  %all = fa2.q_range %kb lengths(%sq, %sk) blocks(128, 64) {rotation = 1}
  %head = fa2.take_tiles %n of %keys
  %tail = fa2.drop_tiles %n of %keys for %own
  %count = fa2.tile_count %keys
  %j = fa2.tile_at %keys[%p]
  %fb, %fe = fa2.full_places of %keys within(%lo, %hi) ahead 1
  %tiles = fa2.tile_range %b to %e falling full(%fb, %fe) {nonempty}
  return
}

func.func @until(%keys_begin: index, %keys_end: index) {
  %keys = fa2.tile_range %keys_begin to %keys_end falling full(%keys_begin, %keys_end)
  %own = fa2.tile_range %keys_begin to %keys_begin falling full(%keys_begin, %keys_begin)
  %n = fa2.tiles_until %own in %keys
  return
}

func.func @through(%keys_begin: index, %keys_end: index) {
  %keys = fa2.tile_range %keys_begin to %keys_end falling full(%keys_begin, %keys_end)
  %own = fa2.tile_range %keys_begin to %keys_begin falling full(%keys_begin, %keys_begin)
  %n = fa2.tiles_through %own in %keys
  return
}

func.func @loop(%begin: index, %end: index, %zero: tensor<128x64xf32>) {
  %keys = fa2.tile_range %begin to %end full(%begin, %end)
  %sum = fa2.for_tiles %j in %keys from 1 iter_args(%x = %zero) -> (tensor<128x64xf32>) {
    %y = arith.addf %x, %x : tensor<128x64xf32>
    fa2.yield %y : tensor<128x64xf32>
  }
  return
}

func.func @memory(%kv: !fa2.view<? x 64 x bf16>, %ov: !fa2.view<? x 64 x bf16>, %row: index, %o: tensor<128x64xbf16>) {
  %k = fa2.load %kv[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  fa2.store %o, %ov[%row] : tensor<128x64xbf16>, !fa2.view<? x 64 x bf16>
  return
}

func.func @step(%q: tensor<128x64xbf16>, %k: tensor<64x64xbf16>, %qb: index, %j: index, %sq: index, %sk: index,
                %m: tensor<128xf32>, %l: tensor<128xf32>, %c: f32, %o: tensor<128x64xf32>) {
  %s = fa2.dot %q, %k {transpose_b} : tensor<128x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xf32> over <4 x 1>
  %rows = fa2.positions %qb : tensor<128xindex>
  %d = fa2.distance %j from %qb : tensor<128x64xf32>
  %v = fa2.distance %j from %qb {of = array<i64: 128, 64>} : tensor<191xindex>
  %sm = fa2.apply_mask %s at(%qb, %j) lengths(%sq, %sk) {mask = #fa2.mask<causal>}
      : tensor<128x64xf32>
  %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c {slack = 8.0 : f32}
      : tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32>
  %os = fa2.scale_rows %o, %a : tensor<128x64xf32>, tensor<128xf32>
  %out, %lse = fa2.softmax_finish %o, %m, %l scale %c : tensor<128x64xf32>, tensor<128xf32>, tensor<128xf32> -> tensor<128xf32>
  return
}

func.func @gradients(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                     %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

func.func @sum_over_batch(%ds: tensor<128x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<8 x 1>, width = 4>>, %row: index, %entry: index, %turns: !fa2.view<? x i32>,
                          %first: i1, %last: i1, %to: !fa2.view<? x ? x bf16>, %query: index, %key: index) {
  fa2.accumulate %ds, %sum[%row] turn(%entry of %turns : !fa2.view<? x i32>) opens(%first) closes(%last) into(%to turned [%query, %key] : !fa2.view<? x ? x bf16>) {begins, change = #fa2.turn_change<late>, ends} : tensor<128x64xf32>, !fa2.view<? x 64 x f32, order = <<8 x 1>, width = 4>>
  return
}

func.func @backward(%dq: tensor<64x64xf32>, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>>>, %row: index, %s: tensor<64x128xf32>,
                    %n: tensor<128xf32>, %c: f32, %x: tensor<128x64xf32>, %turn: index, %turns: !fa2.view<? x i32>, %shared: index, %first: i1, %last: i1, %seen: i32,
                    %opens: i1, %closes: i1, %to: !fa2.view<? x 64 x bf16>, %scale: f32, %come: tensor<1xi32>, %added: tensor<1xi32>) {
  fa2.accumulate %dq, %sum[%row] : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%shared from %first to %last) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) seen(%seen) {begins, ends, later} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) given(%come to %added : tensor<1xi32>, tensor<1xi32>) {begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  fa2.accumulate %dq, %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) opens(%opens) closes(%closes) into(%to times %scale : !fa2.view<? x 64 x bf16>) {at_least, begins, ends} : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<4 x 1>>>
  %begin = fa2.resume %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) opens(%opens) closes(%closes) {begins} : !fa2.view<? x 64 x f32, order = <<4 x 1>>> -> tensor<64x64xf32>
  %shared_begin = fa2.resume %sum[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%shared from %first) opens(%opens) closes(%closes) : !fa2.view<? x 64 x f32, order = <<4 x 1>>> -> tensor<64x64xf32>
  %p = fa2.softmax_recompute %s, %n scale %c {columns} : tensor<64x128xf32>, tensor<128xf32>
  %p0 = fa2.softmax_recompute %s scale %c {columns} : tensor<64x128xf32>
  %d = fa2.sum_rows %x : tensor<128x64xf32> -> tensor<128xf32>
  %t = fa2.broadcast %d {columns} : tensor<128xf32> -> tensor<64x128xf32>
  return
}

func.func @diagonals(%d: tensor<191xf32>) {
  %t = fa2.broadcast %d {diagonals} : tensor<191xf32> -> tensor<64x128xf32>
  return
}

func.func @entries(%table: tensor<4096xf32>, %places: tensor<64x128xindex>) {
  %t = fa2.gather %table[%places] : tensor<4096xf32>, tensor<64x128xindex> -> tensor<64x128xf32>
  return
}

func.func @transposed(%b: tensor<64x128xbf16>, %view: !fa2.view<? x ? x bf16>, %i: index, %b0: index, %h: index, %i0: index, %j0: index, %b1: index, %h1: index, %i1: index, %j1: index, %dbias: memref<?x?x?x?xbf16, strided<[?, ?, ?, ?]>>) {
  %t = fa2.transpose %b : tensor<64x128xbf16> -> tensor<128x64xbf16>
  fa2.store %t, %view[%i, %i] : tensor<128x64xbf16>, !fa2.view<? x ? x bf16>
  fa2.zero_box %dbias from(%b0, %h, %i0, %j0) to(%b1, %h1, %i1, %j1) {rows = 2} : memref<?x?x?x?xbf16, strided<[?, ?, ?, ?]>>
  return
}

func.func private @attributes(!fa2.tile_range, !fa2.view<? x 128 x bf16>, !fa2.view<? x f32>, !fa2.view<4 heads, ? x 128 x bf16>, !fa2.view<? x ? x bf16>,
                             !fa2.view<? x 64 x f32, order = <<4 x 2>, width = 4>>) attributes {
  grid = #fa2.warps<4 x 2>, sums = #fa2.warps<1 x 1, sums = 4>, order = #fa2.order<<4 x 2>, width = 4>,
  mask = #fa2.mask<causal>, before = #fa2.mask<strictly_causal>,
  schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64,
    warps = 4>,
  guard = #fa2.guard<"seqlen_k <= 1024">, strides = #fa2.guard<"bias.stride[2] % 8 == 0">,
  variant = #fa2.variant<when = <"seqlen_k <= 1024">, schedule = <target = "sm_80", block_q = 64,
    block_kv = 64, warps = 4>>,
  rest = #fa2.variant<when = <"seqlen_q > 384">, after = <"384">, schedule =
    <target = "sm_90a", block_q = 128, block_kv = 64, warps = 8>>,
  rows = #fa2.rows<when = <"seqlen_q > 384">, from = <"384">, count = <"seqlen_q - 384">>,
  spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 128,
    head_dim_v = 128, mask = #fa2.mask<causal>>,
  step = #fa2.step<"arith.mulf"(0, 5) : f32>, constant = #fa2.step<"arith.constant" : f32 = 2.5 : f32>,
  program = #fa2.program<reads = ["cap"], steps = [<"arith.divf"(0, 5) : f32>, <"math.tanh"(6) : f32>], result = 7>,
  slopes = #fa2.arg<"slopes", "in", ["heads"] x f32 broadcast true>,
  arg = #fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 128] x bf16>}

func.func @contribute(%q: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %b: tensor<?x?xbf16>) {
  %dq, %dk, %dv, %db = fa2.attention_grad ins(%q, %q, %q, %q, %lse, %q) extras(%b : tensor<?x?xbf16>) {grads = array<i64: 0>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?xf32> score {
      ^bb0(%slope: f32, %batch: index, %head: index, %row: index, %column: index, %bias: tensor<?x?xbf16>):
        fa2.contribute %slope to %bias[%head, %column] : tensor<?x?xbf16>
        fa2.yield %slope, %slope : f32, f32
      }
  return
}

func.func @scatter(%ds: tensor<64x64xf32>, %dbias: memref<?x?xf32, strided<[?, ?]>>, %batch: index, %cols: tensor<64xindex>, %n: index, %parts: index,
                   %x: tensor<128x64xf32>, %l: tensor<128xf32>, %far: tensor<64x64xindex>,
                   %words: memref<?x256xi32, strided<[?, 1]>>, %dslopes: memref<?xf32, strided<[?]>>, %head: index) {
  fa2.zero %dbias part(%n, %parts) : memref<?x?xf32, strided<[?, ?]>>
  fa2.scatter %ds to %dbias[%batch, %cols] {columns}
      : tensor<64x64xf32>, memref<?x?xf32, strided<[?, ?]>>, index, tensor<64xindex>
  fa2.scatter %ds to %dbias[%batch, %far] {diagonals}
      : tensor<64x64xf32>, memref<?x?xf32, strided<[?, ?]>>, index, tensor<64x64xindex>
  fa2.scatter %ds to %dslopes[%head] exactly(%words : memref<?x256xi32, strided<[?, 1]>>)
      : tensor<64x64xf32>, memref<?xf32, strided<[?]>>, index
  fa2.round_sums %words to %dslopes part(%n, %parts) : memref<?x256xi32, strided<[?, 1]>>, memref<?xf32, strided<[?]>>
  %l1 = fa2.add_rows %x to %l : tensor<128x64xf32>, tensor<128xf32>
  return
}

func.func @read(%bias: memref<?x?xbf16, strided<[?, ?]>>, %batch: index, %cols: tensor<64xindex>) {
  %x = fa2.read %bias[%batch, %cols] : memref<?x?xbf16, strided<[?, ?]>>, index, tensor<64xindex> -> tensor<64xf32>
  return
}

func.func @sums(%x: tensor<128xf32>, %parts: memref<?x?x?xf32, strided<[?, ?, 1]>>, %dsink: memref<?xf32, strided<[?]>>,
                %head: index, %batch: index, %first: index) {
  fa2.store_sums %x to %parts[%head, %batch] from %first : tensor<128xf32>, memref<?x?x?xf32, strided<[?, ?, 1]>>
  fa2.add_up %parts to %dsink[%head] : memref<?x?x?xf32, strided<[?, ?, 1]>>, memref<?xf32, strided<[?]>>
  return
}

func.func @dropout(%qb: index, %j: index, %bh: index, %w0: i32, %w1: i32, %w2: i32, %w3: i32, %t: i32) {
  %kept = fa2.keep at(%qb, %j) head(%bh) words(%w0, %w1, %w2, %w3) from %t : tensor<128x64xi1>
  return
}
