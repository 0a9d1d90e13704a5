// RUN: fa2-opt %s --allow-unregistered-dialect --fa2gpu-expand-ranges --canonicalize | FileCheck %s

// Key ranges of 128 query rows over tiles of 32 keys, as (tiles, the first of them, places of the full ones).
// CHECK-LABEL: fa2.kernel @numbers
fa2.kernel @numbers() attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>, arguments = []} {
  %k0 = arith.constant 0 : index
  %k1 = arith.constant 1 : index
  %k2 = arith.constant 2 : index
  %k3 = arith.constant 3 : index
  %k5 = arith.constant 5 : index
  %k7 = arith.constant 7 : index
  %k20 = arith.constant 20 : index
  %k70 = arith.constant 70 : index
  %k100 = arith.constant 100 : index
  %k128 = arith.constant 128 : index
  %k256 = arith.constant 256 : index
  %k300 = arith.constant 300 : index
  %k1000 = arith.constant 1000 : index

  // none, 128 queries, 256 keys, query tile 0: whole tiles.
  // CHECK: "range"(%c8, %c7, %c0, %c8)
  %r0 = fa2.kv_range %k0 falling lengths(%k128, %k256) blocks(128, 32)
  %n0 = fa2.tile_count %r0
  %t0 = fa2.tile_at %r0[%k0]
  %fb0, %fe0 = fa2.full_places of %r0 within(%k0, %n0) ahead 0
  "range"(%n0, %t0, %fb0, %fe0) : (index, index, index, index) -> ()

  // none, 128 queries, 70 keys, query tile 0: a last tile that ends inside.
  // CHECK: "range"(%c3, %c2, %c1, %c3)
  %r1 = fa2.kv_range %k0 falling lengths(%k128, %k70) blocks(128, 32)
  %n1 = fa2.tile_count %r1
  %t1 = fa2.tile_at %r1[%k0]
  %fb1, %fe1 = fa2.full_places of %r1 within(%k0, %n1) ahead 0
  "range"(%n1, %t1, %fb1, %fe1) : (index, index, index, index) -> ()

  // none, 5 queries, 20 keys, query tile 0: no whole tile.
  // CHECK: "range"(%c1, %c0, %c1, %c1)
  %r2 = fa2.kv_range %k0 falling lengths(%k5, %k20) blocks(128, 32)
  %n2 = fa2.tile_count %r2
  %t2 = fa2.tile_at %r2[%k0]
  %fb2, %fe2 = fa2.full_places of %r2 within(%k0, %n2) ahead 0
  "range"(%n2, %t2, %fb2, %fe2) : (index, index, index, index) -> ()

  // none, 128 queries, 0 keys, query tile 0: no keys.
  // CHECK: "range"(%c0, %c-1, %c0, %c0)
  %r3 = fa2.kv_range %k0 falling lengths(%k128, %k0) blocks(128, 32)
  %n3 = fa2.tile_count %r3
  %t3 = fa2.tile_at %r3[%k0]
  %fb3, %fe3 = fa2.full_places of %r3 within(%k0, %n3) ahead 0
  "range"(%n3, %t3, %fb3, %fe3) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 0: rows 0 to 127; row 0 sees one key.
  // CHECK: "range"(%c4, %c3, %c4, %c4)
  %r4 = fa2.kv_range %k0 falling lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n4 = fa2.tile_count %r4
  %t4 = fa2.tile_at %r4[%k0]
  %fb4, %fe4 = fa2.full_places of %r4 within(%k0, %n4) ahead 0
  "range"(%n4, %t4, %fb4, %fe4) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 3: rows 384 to 511.
  // CHECK: "range"(%c16, %c15, %c4, %c16)
  %r5 = fa2.kv_range %k3 falling lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n5 = fa2.tile_count %r5
  %t5 = fa2.tile_at %r5[%k0]
  %fb5, %fe5 = fa2.full_places of %r5 within(%k0, %n5) ahead 0
  "range"(%n5, %t5, %fb5, %fe5) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 7: rows 896 to 999, the last ones.
  // CHECK: "range"(%c32, %c31, %c4, %c32)
  %r6 = fa2.kv_range %k7 falling lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n6 = fa2.tile_count %r6
  %t6 = fa2.tile_at %r6[%k0]
  %fb6, %fe6 = fa2.full_places of %r6 within(%k0, %n6) ahead 0
  "range"(%n6, %t6, %fb6, %fe6) : (index, index, index, index) -> ()

  // causal, 100 queries, 300 keys, query tile 0: bottom-right: row 0 sees 201 keys.
  // CHECK: "range"(%c10, %c9, %c4, %c10)
  %r7 = fa2.kv_range %k0 falling lengths(%k100, %k300) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n7 = fa2.tile_count %r7
  %t7 = fa2.tile_at %r7[%k0]
  %fb7, %fe7 = fa2.full_places of %r7 within(%k0, %n7) ahead 0
  "range"(%n7, %t7, %fb7, %fe7) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 0: bottom-right: the first 200 rows see none.
  // CHECK: "range"(%c0, %c-1, %c0, %c0)
  %r8 = fa2.kv_range %k0 falling lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n8 = fa2.tile_count %r8
  %t8 = fa2.tile_at %r8[%k0]
  %fb8, %fe8 = fa2.full_places of %r8 within(%k0, %n8) ahead 0
  "range"(%n8, %t8, %fb8, %fe8) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 1: rows 128 to 255: the last 56 of them see keys.
  // CHECK: "range"(%c2, %c1, %c2, %c2)
  %r9 = fa2.kv_range %k1 falling lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n9 = fa2.tile_count %r9
  %t9 = fa2.tile_at %r9[%k0]
  %fb9, %fe9 = fa2.full_places of %r9 within(%k0, %n9) ahead 0
  "range"(%n9, %t9, %fb9, %fe9) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 2: rows 256 to 299.
  // CHECK: "range"(%c4, %c3, %c3, %c4)
  %r10 = fa2.kv_range %k2 falling lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n10 = fa2.tile_count %r10
  %t10 = fa2.tile_at %r10[%k0]
  %fb10, %fe10 = fa2.full_places of %r10 within(%k0, %n10) ahead 0
  "range"(%n10, %t10, %fb10, %fe10) : (index, index, index, index) -> ()

  // causal_top_left, 300 queries, 100 keys, query tile 0: top-left.
  // CHECK: "range"(%c4, %c3, %c4, %c4)
  %r11 = fa2.kv_range %k0 falling lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  %n11 = fa2.tile_count %r11
  %t11 = fa2.tile_at %r11[%k0]
  %fb11, %fe11 = fa2.full_places of %r11 within(%k0, %n11) ahead 0
  "range"(%n11, %t11, %fb11, %fe11) : (index, index, index, index) -> ()

  // causal_top_left, 300 queries, 100 keys, query tile 1: all keys seen.
  // CHECK: "range"(%c4, %c3, %c1, %c4)
  %r12 = fa2.kv_range %k1 falling lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  %n12 = fa2.tile_count %r12
  %t12 = fa2.tile_at %r12[%k0]
  %fb12, %fe12 = fa2.full_places of %r12 within(%k0, %n12) ahead 0
  "range"(%n12, %t12, %fb12, %fe12) : (index, index, index, index) -> ()

  // causal_top_left, 100 queries, 300 keys, query tile 0: keys past the diagonal.
  // CHECK: "range"(%c4, %c3, %c4, %c4)
  %r13 = fa2.kv_range %k0 falling lengths(%k100, %k300) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  %n13 = fa2.tile_count %r13
  %t13 = fa2.tile_at %r13[%k0]
  %fb13, %fe13 = fa2.full_places of %r13 within(%k0, %n13) ahead 0
  "range"(%n13, %t13, %fb13, %fe13) : (index, index, index, index) -> ()

  // causal_top_left, 5 queries, 300 keys, query tile 0: of the sequence's rows, and of whole tiles.
  // CHECK: "range"(%c1, %c0, %c0, %c1)
  // CHECK: "range"(%c4, %c3, %c0, %c4)
  %r14 = fa2.kv_range %k0 lengths(%k5, %k300) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  %r15 = fa2.kv_range %k0 lengths(%k5, %k300) blocks(128, 32) {mask = #fa2.mask<causal_top_left>, whole_rows}
  %n14 = fa2.tile_count %r14
  %n15 = fa2.tile_count %r15
  %end14 = arith.subi %n14, %k1 : index
  %end15 = arith.subi %n15, %k1 : index
  "range"(%n14, %end14, %k0, %n14) : (index, index, index, index) -> ()
  "range"(%n15, %end15, %k0, %n15) : (index, index, index, index) -> ()

  // strictly_causal, 1000 queries, 1000 keys, query tile 3: rows 384 to 511, the first of which sees 384 keys, twelve whole tiles.
  // CHECK: "range"(%c16, %c15, %c4, %c16)
  %r16 = fa2.kv_range %k3 falling lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<strictly_causal>}
  %n16 = fa2.tile_count %r16
  %t16 = fa2.tile_at %r16[%k0]
  %fb16, %fe16 = fa2.full_places of %r16 within(%k0, %n16) ahead 0
  "range"(%n16, %t16, %fb16, %fe16) : (index, index, index, index) -> ()

  // strictly_causal, 1 query, 1 key: it sees none.
  // CHECK: "range"(%c0, %c-1, %c0, %c0)
  %r17 = fa2.kv_range %k0 falling lengths(%k1, %k1) blocks(128, 32) {mask = #fa2.mask<strictly_causal>}
  %n17 = fa2.tile_count %r17
  %t17 = fa2.tile_at %r17[%k0]
  %fb17, %fe17 = fa2.full_places of %r17 within(%k0, %n17) ahead 0
  "range"(%n17, %t17, %fb17, %fe17) : (index, index, index, index) -> ()
  fa2.return
}

// No mask: nothing reads the query tile or its length. Behind the full tiles none is masked: where there is no lower bound they
// reach to the last place.
// CHECK-LABEL: fa2.kernel @none
// CHECK-SAME: (%[[QB:.*]]: index, %[[SQ:.*]]: index, %[[SK:.*]]: index)
// CHECK-NOT: %[[QB]]
// CHECK-NOT: %[[SQ]]
// CHECK: %[[UP:.*]] = arith.addi %[[SK]], %c31
// CHECK: %[[TILES:.*]] = arith.divui %[[UP]], %c32
// CHECK: %[[END:.*]] = arith.maxsi %[[TILES]], %c0
// CHECK: %[[WHOLE:.*]] = arith.divui %[[SK]], %c32
// CHECK: %[[MIN:.*]] = arith.minsi %[[WHOLE]], %[[END]]
// CHECK: %[[FULLEND:.*]] = arith.maxsi %[[MIN]], %c0
// CHECK: %[[MASKED:.*]] = arith.subi %[[END]], %[[FULLEND]]
// CHECK: %[[MAX:.*]] = arith.maxsi %[[MASKED]], %c0
// CHECK: %[[FULL:.*]] = arith.minsi %[[MAX]], %[[END]]
// CHECK: "range"(%[[END]], %[[FULL]], %[[END]])
// Only the first tile is one in which the keys end: from the second on all are full.
// CHECK: "ahead"(%c0, %[[END]])
fa2.kernel @none(%qb: index, %sq: index, %sk: index) attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>,
    arguments = [#fa2.arg<"qb", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %r = fa2.kv_range %qb falling lengths(%sq, %sk) blocks(128, 32)
  %n = fa2.tile_count %r
  %fb, %fe = fa2.full_places of %r within(%c0, %n) ahead 0
  "range"(%n, %fb, %fe) : (index, index, index) -> ()
  %fb1, %fe1 = fa2.full_places of %r within(%c0, %n) ahead 1
  "ahead"(%fb1, %fe1) : (index, index) -> ()
  fa2.return
}

// Causal: the keys of the tile's last row bound the range, those of its first row the full tiles.
// CHECK-LABEL: fa2.kernel @causal
// CHECK-SAME: (%[[QB:.*]]: index, %[[SQ:.*]]: index, %[[SK:.*]]: index)
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[QB]], %c128
// CHECK-DAG: %[[SHIFT:.*]] = arith.subi %[[SK]], %[[SQ]]
// CHECK-DAG: arith.minsi %{{.*}}, %[[SQ]]
// CHECK: "range"(%{{.*}}, %{{.*}}, %[[N:.*]], %[[N]])
fa2.kernel @causal(%qb: index, %sq: index, %sk: index) attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>,
    arguments = [#fa2.arg<"qb", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %r = fa2.kv_range %qb falling lengths(%sq, %sk) blocks(128, 32) {mask = #fa2.mask<causal>}
  %n = fa2.tile_count %r
  %t = fa2.tile_at %r[%c0]
  %fb, %fe = fa2.full_places of %r within(%c0, %n) ahead 0
  "range"(%t, %fb, %n, %fe) : (index, index, index, index) -> ()
  fa2.return
}

// Tiles 3 to 9, of which 5 to 7 are full, as (tiles, the third of them, places of the full ones, and of those whose next
// tile is full).
// CHECK-LABEL: fa2.kernel @numbers_of_places
fa2.kernel @numbers_of_places() attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>, arguments = []} {
  %k0 = arith.constant 0 : index
  %k1 = arith.constant 1 : index
  %k2 = arith.constant 2 : index
  %k3 = arith.constant 3 : index
  %k5 = arith.constant 5 : index
  %k6 = arith.constant 6 : index
  %k8 = arith.constant 8 : index
  %k10 = arith.constant 10 : index
  // CHECK: "rises"(%c7, %c5, %c2, %c5, %c1, %c4)
  %up = fa2.tile_range %k3 to %k10 full(%k5, %k8)
  %n = fa2.tile_count %up
  %u = fa2.tile_at %up[%k2]
  %ub, %ue = fa2.full_places of %up within(%k0, %n) ahead 0
  %ub1, %ue1 = fa2.full_places of %up within(%k0, %n) ahead 1
  "rises"(%n, %u, %ub, %ue, %ub1, %ue1) : (index, index, index, index, index, index) -> ()
  // CHECK: "falls"(%c7, %c7, %c2, %c5, %c1, %c4)
  %down = fa2.tile_range %k3 to %k10 falling full(%k5, %k8)
  %m = fa2.tile_count %down
  %d = fa2.tile_at %down[%k2]
  %db, %de = fa2.full_places of %down within(%k0, %m) ahead 0
  %db1, %de1 = fa2.full_places of %down within(%k0, %m) ahead 1
  "falls"(%m, %d, %db, %de, %db1, %de1) : (index, index, index, index, index, index) -> ()
  // Places of a loop that begins at the third, or ends before it.
  // CHECK: "within"(%c3, %c5, %c2, %c2)
  %wb, %we = fa2.full_places of %down within(%k3, %k6) ahead 0
  %vb, %ve = fa2.full_places of %down within(%k0, %k2) ahead 0
  "within"(%wb, %we, %vb, %ve) : (index, index, index, index) -> ()

  // A group that sees tiles up to 5: of 9, 8, ... four come before; for it tiles up to 1 are full.
  // CHECK: "group"(%c4, %c9, %c3, %c5, %c3)
  %own = fa2.tile_range %k0 to %k6 falling full(%k0, %k2)
  %skip = fa2.tiles_until %own in %down
  %head = fa2.take_tiles %skip of %down
  %h = fa2.tile_at %head[%k0]
  %tail = fa2.drop_tiles %skip of %down for %own
  %l = fa2.tile_count %tail
  %t = fa2.tile_at %tail[%k0]
  %tb, %te = fa2.full_places of %tail within(%k0, %l) ahead 0
  "group"(%skip, %h, %l, %t, %tb) : (index, index, index, index, index) -> ()
  // One that sees none has one tile left; one that sees more skips none.
  // CHECK: "ends"(%c6, %c0)
  %none = fa2.tile_range %k0 to %k0 falling full(%k0, %k0)
  %most = fa2.tiles_until %none in %down
  %least = fa2.tiles_until %down in %own
  "ends"(%most, %least) : (index, index) -> ()
  // With those of the group, and of one that sees none the one that is left: tiles 9 to 0 and 9 to 3, of 7.
  // CHECK: "through"(%c7, %c7, %c5)
  %with = fa2.tiles_through %own in %down
  %left = fa2.tiles_through %none in %down
  %some_of = fa2.tile_range %k5 to %k8 falling full(%k5, %k5)
  %not_last = fa2.tiles_through %some_of in %down
  "through"(%with, %left, %not_last) : (index, index, index) -> ()

  // Rows past the sequence's end see no tile.
  // CHECK: "past"(%c0, %c1)
  %past = fa2.kv_range %k3 falling lengths(%k5, %k10) blocks(128, 32) {past_end}
  %p = fa2.tile_count %past
  // Where there are no keys, a range that is to have a tile has the first behind them.
  %some = fa2.kv_range %k0 falling lengths(%k5, %k0) blocks(128, 32) {nonempty}
  %s = fa2.tile_count %some
  "past"(%p, %s) : (index, index) -> ()

  // Queries of a key tile that rise, or fall where the program says so: causal, 1000 queries and keys, keys 128 to 255: tiles 2 to 15, from 4 on full.
  // CHECK: "either"(%c14, %c15, %c0, %c12)
  // CHECK: "either"(%c14, %c2, %c2, %c14)
  %k1000 = arith.constant 1000 : index
  %true = arith.constant true
  %false = arith.constant false
  %q0 = fa2.q_range %k1 falling %true lengths(%k1000, %k1000) blocks(64, 128) {mask = #fa2.mask<causal>}
  %qn0 = fa2.tile_count %q0
  %qt0 = fa2.tile_at %q0[%k0]
  %qb0, %qe0 = fa2.full_places of %q0 within(%k0, %qn0) ahead 0
  "either"(%qn0, %qt0, %qb0, %qe0) : (index, index, index, index) -> ()
  %q1 = fa2.q_range %k1 falling %false lengths(%k1000, %k1000) blocks(64, 128) {mask = #fa2.mask<causal>}
  %qn1 = fa2.tile_count %q1
  %qt1 = fa2.tile_at %q1[%k0]
  %qb1, %qe1 = fa2.full_places of %q1 within(%k0, %qn1) ahead 0
  "either"(%qn1, %qt1, %qb1, %qe1) : (index, index, index, index) -> ()
  fa2.return
}

// The third tile of keys begins with the fifth of 16 tiles of queries, and comes to the first behind the last. All are full; those of the
// fourth tile of keys, which is not whole, are not.
// CHECK-LABEL: @rotation
// CHECK: "third"(%c16, %c4, %c15, %c0, %c3, %c0, %c16)
// CHECK: "fourth"(%c6, %c16, %c16)
fa2.kernel @rotation() attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>, arguments = []} {
  %k0 = arith.constant 0 : index
  %k2 = arith.constant 2 : index
  %k3 = arith.constant 3 : index
  %k11 = arith.constant 11 : index
  %k12 = arith.constant 12 : index
  %k15 = arith.constant 15 : index
  %sq = arith.constant 1000 : index
  %sk = arith.constant 500 : index
  %q = fa2.q_range %k2 lengths(%sq, %sk) blocks(64, 128) {rotation = 2}
  %n = fa2.tile_count %q
  %t0 = fa2.tile_at %q[%k0]
  %t11 = fa2.tile_at %q[%k11]
  %t12 = fa2.tile_at %q[%k12]
  %t15 = fa2.tile_at %q[%k15]
  %fb, %fe = fa2.full_places of %q within(%k0, %n) ahead 0
  "third"(%n, %t0, %t11, %t12, %t15, %fb, %fe) : (index, index, index, index, index, index, index) -> ()
  %r = fa2.q_range %k3 lengths(%sq, %sk) blocks(64, 128) {rotation = 2}
  %m = fa2.tile_count %r
  %r0 = fa2.tile_at %r[%k0]
  %gb, %ge = fa2.full_places of %r within(%k0, %m) ahead 0
  "fourth"(%r0, %gb, %ge) : (index, index, index) -> ()
  fa2.return
}
