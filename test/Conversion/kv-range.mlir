// RUN: fa2-opt %s --allow-unregistered-dialect --convert-fa2-to-fa2gpu --canonicalize | FileCheck %s

// Key ranges of 128 query rows over tiles of 32 keys, as (begin, end, full_begin, full_end).
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
  // CHECK: "range"(%c0, %c8, %c0, %c8)
  %b0, %e0, %fb0, %fe0 = fa2.kv_range %k0 lengths(%k128, %k256) blocks(128, 32)
  "range"(%b0, %e0, %fb0, %fe0) : (index, index, index, index) -> ()

  // none, 128 queries, 70 keys, query tile 0: a last tile that ends inside.
  // CHECK: "range"(%c0, %c3, %c0, %c2)
  %b1, %e1, %fb1, %fe1 = fa2.kv_range %k0 lengths(%k128, %k70) blocks(128, 32)
  "range"(%b1, %e1, %fb1, %fe1) : (index, index, index, index) -> ()

  // none, 5 queries, 20 keys, query tile 0: no whole tile.
  // CHECK: "range"(%c0, %c1, %c0, %c0)
  %b2, %e2, %fb2, %fe2 = fa2.kv_range %k0 lengths(%k5, %k20) blocks(128, 32)
  "range"(%b2, %e2, %fb2, %fe2) : (index, index, index, index) -> ()

  // none, 128 queries, 0 keys, query tile 0: no keys.
  // CHECK: "range"(%c0, %c0, %c0, %c0)
  %b3, %e3, %fb3, %fe3 = fa2.kv_range %k0 lengths(%k128, %k0) blocks(128, 32)
  "range"(%b3, %e3, %fb3, %fe3) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 0: rows 0 to 127; row 0 sees one key.
  // CHECK: "range"(%c0, %c4, %c0, %c0)
  %b4, %e4, %fb4, %fe4 = fa2.kv_range %k0 lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b4, %e4, %fb4, %fe4) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 3: rows 384 to 511.
  // CHECK: "range"(%c0, %c16, %c0, %c12)
  %b5, %e5, %fb5, %fe5 = fa2.kv_range %k3 lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b5, %e5, %fb5, %fe5) : (index, index, index, index) -> ()

  // causal, 1000 queries, 1000 keys, query tile 7: rows 896 to 999, the last ones.
  // CHECK: "range"(%c0, %c32, %c0, %c28)
  %b6, %e6, %fb6, %fe6 = fa2.kv_range %k7 lengths(%k1000, %k1000) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b6, %e6, %fb6, %fe6) : (index, index, index, index) -> ()

  // causal, 100 queries, 300 keys, query tile 0: bottom-right: row 0 sees 201 keys.
  // CHECK: "range"(%c0, %c10, %c0, %c6)
  %b7, %e7, %fb7, %fe7 = fa2.kv_range %k0 lengths(%k100, %k300) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b7, %e7, %fb7, %fe7) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 0: bottom-right: the first 200 rows see none.
  // CHECK: "range"(%c0, %c0, %c0, %c0)
  %b8, %e8, %fb8, %fe8 = fa2.kv_range %k0 lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b8, %e8, %fb8, %fe8) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 1: rows 128 to 255: the last 56 of them see keys.
  // CHECK: "range"(%c0, %c2, %c0, %c0)
  %b9, %e9, %fb9, %fe9 = fa2.kv_range %k1 lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b9, %e9, %fb9, %fe9) : (index, index, index, index) -> ()

  // causal, 300 queries, 100 keys, query tile 2: rows 256 to 299.
  // CHECK: "range"(%c0, %c4, %c0, %c1)
  %b10, %e10, %fb10, %fe10 = fa2.kv_range %k2 lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b10, %e10, %fb10, %fe10) : (index, index, index, index) -> ()

  // causal_top_left, 300 queries, 100 keys, query tile 0: top-left.
  // CHECK: "range"(%c0, %c4, %c0, %c0)
  %b11, %e11, %fb11, %fe11 = fa2.kv_range %k0 lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  "range"(%b11, %e11, %fb11, %fe11) : (index, index, index, index) -> ()

  // causal_top_left, 300 queries, 100 keys, query tile 1: all keys seen.
  // CHECK: "range"(%c0, %c4, %c0, %c3)
  %b12, %e12, %fb12, %fe12 = fa2.kv_range %k1 lengths(%k300, %k100) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  "range"(%b12, %e12, %fb12, %fe12) : (index, index, index, index) -> ()

  // causal_top_left, 100 queries, 300 keys, query tile 0: keys past the diagonal.
  // CHECK: "range"(%c0, %c4, %c0, %c0)
  %b13, %e13, %fb13, %fe13 = fa2.kv_range %k0 lengths(%k100, %k300) blocks(128, 32) {mask = #fa2.mask<causal_top_left>}
  "range"(%b13, %e13, %fb13, %fe13) : (index, index, index, index) -> ()
  fa2.return
}

// No mask: nothing reads the query tile or its length; no lower bound: begin and full_begin are the
// constant 0, from which fa2gpu-split-masked-tiles sees that no masked tiles come after the full ones.
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
// CHECK: "range"(%c0, %[[END]], %c0, %[[FULLEND]])
fa2.kernel @none(%qb: index, %sq: index, %sk: index) attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>,
    arguments = [#fa2.arg<"qb", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %b, %e, %fb, %fe = fa2.kv_range %qb lengths(%sq, %sk) blocks(128, 32)
  "range"(%b, %e, %fb, %fe) : (index, index, index, index) -> ()
  fa2.return
}

// Causal: the keys of the tile's last row bound the range, those of its first row the full tiles.
// CHECK-LABEL: fa2.kernel @causal
// CHECK-SAME: (%[[QB:.*]]: index, %[[SQ:.*]]: index, %[[SK:.*]]: index)
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[QB]], %c128
// CHECK-DAG: %[[SHIFT:.*]] = arith.subi %[[SK]], %[[SQ]]
// CHECK-DAG: arith.minsi %{{.*}}, %[[SQ]]
// CHECK: "range"(%c0, %{{.*}}, %c0, %{{.*}})
fa2.kernel @causal(%qb: index, %sq: index, %sk: index) attributes {
    spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
    schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 2>,
    arguments = [#fa2.arg<"qb", "in", [] x index>, #fa2.arg<"sq", "in", [] x index>, #fa2.arg<"sk", "in", [] x index>]} {
  %b, %e, %fb, %fe = fa2.kv_range %qb lengths(%sq, %sk) blocks(128, 32) {mask = #fa2.mask<causal>}
  "range"(%b, %e, %fb, %fe) : (index, index, index, index) -> ()
  fa2.return
}
