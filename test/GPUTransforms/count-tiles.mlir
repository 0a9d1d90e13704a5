// RUN: fa2-opt %s --allow-unregistered-dialect --fa2gpu-count-tiles | FileCheck %s
// RUN: not fa2-opt %s --allow-unregistered-dialect --fa2gpu-expand-ranges 2>&1 | FileCheck %s --check-prefix=EARLY

// A range is arithmetic once loops count its places.
// EARLY: error: 'fa2.for_tiles' op expected a loop over places; run fa2gpu-count-tiles

// The loop counts the places of its range, from `from` on, and asks for the tile there. What it carries stays, in nested loops too.
// CHECK-LABEL: fa2.kernel @nested
// CHECK: %[[OUTER:.*]] = fa2.tile_range %b to %e full(%b, %e)
// CHECK: %[[INNER:.*]] = fa2.tile_range %b to %e falling full(%b, %e)
// CHECK: %[[N:.*]] = fa2.tile_count %[[OUTER]]
// CHECK: %[[R:.*]] = scf.for %[[P:.*]] = %c0{{.*}} to %[[N]] step %c1{{.*}} iter_args(%[[X:.*]] = %b)
// CHECK: %[[T:.*]] = fa2.tile_at %[[OUTER]][%[[P]]]
// CHECK: %[[M:.*]] = fa2.tile_count %[[INNER]]
// CHECK: %[[S:.*]] = scf.for %[[Q:.*]] = %c1{{.*}} to %[[M]] step %c1{{.*}} iter_args(%[[Y:.*]] = %[[X]])
// CHECK: %[[U:.*]] = fa2.tile_at %[[INNER]][%[[Q]]]
// CHECK: "use"(%[[T]], %[[U]])
// CHECK: %[[Z:.*]] = arith.addi %[[Y]], %[[U]]
// CHECK: scf.yield %[[Z]]
// CHECK: scf.yield %[[S]]
// CHECK: "result"(%[[R]])
fa2.kernel @nested(%b: index, %e: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"b", "in", [] x index>, #fa2.arg<"e", "in", [] x index>]} {
  %outer = fa2.tile_range %b to %e full(%b, %e)
  %inner = fa2.tile_range %b to %e falling full(%b, %e)
  %r = fa2.for_tiles %i in %outer iter_args(%x = %b) -> (index) {
    %s = fa2.for_tiles %j in %inner from 1 iter_args(%y = %x) -> (index) {
      "use"(%i, %j) : (index, index) -> ()
      %z = arith.addi %y, %j : index
      fa2.yield %z : index
    }
    fa2.yield %s : index
  }
  "result"(%r) : (index) -> ()
  fa2.return
}
