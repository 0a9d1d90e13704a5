// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=keys_behind_lean,ping_pong=1,stages=2 stop-after=fa2gpu-allocate" -o %t.mlir
// RUN: fa2-opt %t.mlir --fa2gpu-verify -o /dev/null
// RUN: sed 's/<2 x tensor<64x128xbf16/<1 x tensor<64x128xbf16/' %t.mlir | not fa2-opt --fa2gpu-verify -o /dev/null 2>&1 | FileCheck %s

// Backward's warpgroups take turns in the tiles of each head, and turns are counted from the head's first. In a turn the next queries are waited
// for while the slot of those before is held: two slots are enough, one is not.
// CHECK: error: 'fa2gpu.turn_pass' op expected at least 2 slots of ring 'q', got 1: before this turn is passed a slot is waited for that another warpgroup releases in a later turn

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %c: f32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
