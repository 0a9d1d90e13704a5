// RUN: fa2-opt %s --split-input-file --fa2-tile-grad --mlir-print-local-scope | FileCheck %s

// dQ's sum is added to in turns: counters of each query tile are zeroed with it. Blocks start with the last key tile, and a block's turn is how many
// tiles of keys lie behind its own that add to the query tile.
// CHECK-LABEL: fa2.kernel @falling_statistics
// CHECK: %[[NONE:.*]] = arith.constant dense<0> : tensor<128xi32>
// CHECK: fa2.store %[[NONE]], %{{.*}} : tensor<128xi32>, <? x i32>
// CHECK-LABEL: fa2.kernel @falling(
// CHECK-SAME: #fa2.arg<"dq_turns", "workspace", ["batch", "heads", "ceildiv(seqlen_q, 128) * 128"] x i32>
// CHECK: fa2.for_each_tile %[[KB:.*]], %{{.*}}, %{{.*}} in {{.*}} order longest_first
// CHECK: fa2.for_tiles %[[QB:.*]] in
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[QB]] falling lengths(%{{.*}}, %{{.*}}) blocks(64, 128) {mask = #fa2.mask<causal>, whole_rows}
// CHECK: %[[FIRST:.*]] = fa2.tile_at %[[KEYS]][%{{.*}}]
// CHECK: %[[TURN:.*]] = arith.subi %[[FIRST]], %[[KB]]
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of %[[TURNS:.*]] : !fa2.view<? x i32>) {begins} : tensor<64x32xf32>, <? x 32 x f32, order = <<4 x 1>, width = 4>>
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of %[[TURNS]] : !fa2.view<? x i32>) {ends} : tensor<64x32xf32>
func.func @falling(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                   %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys,
                                order = shortest_first, dq = ordered, dq_by_producer = true, dq_columns = 32>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// Blocks start with the first. Where reductions add one element, so do these; of one part, the addition begins and ends the turn.
// CHECK-LABEL: fa2.kernel @rising(
// CHECK: fa2.for_each_tile %[[KB:.*]], %{{.*}}, %{{.*}} in (%{{[^)]*}}) {
// CHECK: fa2.for_tiles %[[QB:.*]] in
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[QB]] lengths
// CHECK: %[[FIRST:.*]] = fa2.tile_at %[[KEYS]][%{{.*}}]
// CHECK: %[[TURN:.*]] = arith.subi %[[KB]], %[[FIRST]]
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of %{{.*}} : !fa2.view<? x i32>) {begins, ends} : tensor<64x64xf32>, <? x 64 x f32, order = <<4 x 2>>>
func.func @rising(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                  %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = ordered>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// Two tiles of queries share a turn: its number is how many tiles of keys before its own add to either; where it were counted behind its own, the
// last of the two that is there says it, as a sequence may end with the first. Its counters stand at that tile's first row, and a block waits at the
// first of the two that it adds to and passes on behind the last.
// CHECK-LABEL: fa2.kernel @shared(
// CHECK: %[[RANGE:.*]] = fa2.q_range %[[KB:.*]] lengths
// CHECK: fa2.for_tiles %[[QB:.*]] in %[[RANGE]]
// CHECK: %[[BOTH:.*]] = arith.divui %[[QB]], %{{.*}} : index
// CHECK: %[[UPPER:.*]] = arith.muli %[[BOTH]], %{{.*}} : index
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[UPPER]] lengths(%{{.*}}, %{{.*}}) blocks(64, 128) {mask = #fa2.mask<causal>, whole_rows}
// CHECK: %[[AHEAD:.*]] = fa2.tile_at %[[KEYS]][%{{.*}}]
// CHECK: %[[TURN:.*]] = arith.subi %[[KB]], %[[AHEAD]]
// CHECK: %[[ROW:.*]] = arith.muli %[[BOTH]], %c128
// CHECK: %[[PLACE:.*]] = arith.remui %[[QB]], %{{.*}} : index
// CHECK: %[[BEGIN:.*]] = fa2.tile_at %[[RANGE]][%{{.*}}]
// CHECK: %[[COUNT:.*]] = fa2.tile_count %[[RANGE]]
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]], %[[COUNT]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[QB]], %c1
// CHECK: %[[EVEN:.*]] = arith.cmpi eq, %[[PLACE]], %c0
// CHECK: %[[OWN:.*]] = arith.cmpi eq, %[[QB]], %[[BEGIN]]
// CHECK: %[[FIRST:.*]] = arith.ori %[[EVEN]], %[[OWN]] : i1
// CHECK: %[[ODD:.*]] = arith.cmpi eq, %[[PLACE]], %c1
// CHECK: %[[ITS:.*]] = arith.cmpi eq, %[[NEXT]], %[[END]]
// CHECK: %[[LAST:.*]] = arith.ori %[[ODD]], %[[ITS]] : i1
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of %{{.*}} : !fa2.view<? x i32>) at(%[[ROW]] from %[[FIRST]] to %[[LAST]]) {begins, ends} : tensor<64x64xf32>
func.func @shared(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                  %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = ordered, turn_tiles = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// Of the key heads the last eighth, rounded, and four at most start behind the others, with the first keys, and go through falling
// queries: their blocks' turns are how many tiles of keys lie before their own, those of the others how many lie behind. Which tile of queries is the first of a turn depends on it too.
// CHECK-LABEL: fa2.kernel @both_ways(
// CHECK: fa2.for_each_tile %[[KB:.*]], %[[HEAD:.*]], %{{.*}} in {{.*}} order shortest_then_longest
// CHECK: %[[HALF:.*]] = arith.constant 4 : index
// CHECK-NEXT: %[[UP:.*]] = arith.addi %[[HEADS:.*]], %[[HALF]]
// CHECK-NEXT: %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK-NEXT: %[[EIGHTH:.*]] = arith.divui %[[UP]], %[[EIGHT]]
// CHECK-NEXT: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK-NEXT: %[[LATER:.*]] = arith.minsi %[[EIGHTH]], %[[FOUR]]
// CHECK-NEXT: %[[REST:.*]] = arith.subi %[[HEADS]], %[[LATER]]
// CHECK: %[[DOWN:.*]] = arith.cmpi uge, %[[HEAD]], %[[REST]]
// CHECK: %[[RANGE:.*]] = fa2.q_range %[[KB]] falling %[[DOWN]] lengths
// CHECK: fa2.for_tiles %[[QB:.*]] in %[[RANGE]]
// CHECK: %[[ALL:.*]] = arith.ceildivui %[[LENGTH:.*]], %{{.*}}
// CHECK: %[[UPPER:.*]] = arith.muli
// CHECK: %[[END:.*]] = arith.addi %[[UPPER]], %{{.*}}
// CHECK: %[[THERE:.*]] = arith.minsi %[[END]], %[[ALL]]
// CHECK: %[[LOWER:.*]] = arith.subi %[[THERE]], %{{.*}}
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[UPPER]] lengths
// CHECK: %[[FIRST:.*]] = fa2.tile_at %[[KEYS]][%{{.*}}]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[KB]], %[[FIRST]]
// CHECK: %[[FALLING:.*]] = fa2.kv_range %[[LOWER]] falling lengths
// CHECK: %[[LAST:.*]] = fa2.tile_at %[[FALLING]][%{{.*}}]
// CHECK: %[[BEHIND:.*]] = arith.subi %[[LAST]], %[[KB]]
// CHECK: %[[TURN:.*]] = arith.select %[[DOWN]], %[[BEFORE]], %[[BEHIND]]
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of
func.func @both_ways(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                     %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, order = shortest_then_longest, dq = ordered, turn_tiles = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// The first block that adds to a tile stores its part, and the last rounds the sum into dQ: of the tile's keys the last and the first. The kernel of statistics
// zeroes neither a sum nor, but for tiles that see no keys, dQ; none rounds it.
// CHECK-LABEL: fa2.kernel @finished_statistics(
// CHECK-NOT: fa2.store %{{.*}} order
// CHECK: %[[ADDERS:.*]] = fa2.kv_range %{{.*}} lengths
// CHECK: %[[MANY:.*]] = fa2.tile_count %[[ADDERS]]
// CHECK: %[[NONE:.*]] = arith.cmpi eq, %[[MANY]], %{{.*}}
// CHECK: %[[TO:.*]] = arith.select %[[NONE]], %{{.*}}, %[[FROM:.*]] : index
// CHECK: fa2.zero_box %{{.*}} {rows = 1 : i64} : memref<?x?x?x64xbf16
// CHECK-LABEL: fa2.kernel @finished(
// CHECK: fa2.for_each_tile %[[KB:.*]], %{{.*}}, %{{.*}} in
// CHECK: fa2.for_tiles %[[QB:.*]] in
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[QB]] falling
// CHECK: %[[KEYS:.*]] = fa2.kv_range %[[QB]] falling
// CHECK: %[[COUNT:.*]] = fa2.tile_count %[[KEYS]]
// CHECK: %[[END:.*]] = arith.subi %[[COUNT]], %{{.*}}
// CHECK: %[[FIRST:.*]] = fa2.tile_at %[[KEYS]][%{{.*}}]
// CHECK: %[[OPENS:.*]] = arith.cmpi eq, %[[KB]], %[[FIRST]]
// CHECK: %[[LAST:.*]] = fa2.tile_at %[[KEYS]][%[[END]]]
// CHECK: %[[CLOSES:.*]] = arith.cmpi eq, %[[KB]], %[[LAST]]
// CHECK: fa2.accumulate %{{.*}} opens(%[[OPENS]]) closes(%[[CLOSES]]) into(%{{.*}} times %{{.*}} : !fa2.view<? x 64 x bf16>) {begins, ends}
// CHECK-NOT: fa2.kernel @finished
func.func @finished(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                    %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, order = shortest_first, dq = ordered, turns_finish = true>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// The product of the last block begins with the sum, where it is the last.
// CHECK-LABEL: fa2.kernel @resumed(
// CHECK: %[[BEGIN:.*]] = fa2.resume %[[SUM:.*]][%[[ROW:.*]]] turn(%[[TURN:.*]] of %{{.*}} : <? x i32>) opens(%[[OPENS:.*]]) closes(%[[CLOSES:.*]]) {begins}
// CHECK: %[[DQ:.*]] = fa2.dot %{{.*}} acc(%[[BEGIN]] : tensor<64x64xf32>) {name = "dq"
// CHECK: fa2.accumulate %[[DQ]], %[[SUM]][%[[ROW]]] turn(%[[TURN]] of %{{.*}} : !fa2.view<? x i32>) opens(%[[OPENS]]) closes(%[[CLOSES]]) into(%{{.*}}) {begins, ends, resumed}
func.func @resumed(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                    %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, order = shortest_first, dq = ordered, turns_finish = true, turns_resume = true, dq_by_producer = true>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}

// -----

// In any order: nobody needs more than the first block, but the last, which needs all the others.
// CHECK-LABEL: fa2.kernel @in_any_order(
// CHECK: %[[COUNT:.*]] = fa2.tile_count
// CHECK: %[[OTHERS:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK: %[[BETWEEN:.*]] = arith.select %[[OPENS:.*]], %c0{{.*}}, %c1{{.*}} : index
// CHECK: %[[TURN:.*]] = arith.select %[[CLOSES:.*]], %{{.*}}, %[[BETWEEN]] : index
// CHECK: fa2.accumulate %{{.*}} turn(%[[TURN]] of %{{.*}} : !fa2.view<? x i32>) opens(%[[OPENS]]) closes(%[[CLOSES]]) into({{.*}} {at_least, begins, ends}
func.func @in_any_order(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                        %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c)
      {mask = #fa2.mask<causal>,
       schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, order = shortest_first, turns_finish = true>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
        tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
