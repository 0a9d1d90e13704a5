// RUN: fa2-opt %s --fa2-pipeline="target=sm_90a database=none pass=backward schedule=loop_order=keys_behind_lean,ping_pong=1,stages=2 stop-after=fa2gpu-allocate" -o %t.mlir
// RUN: fa2-opt %t.mlir --fa2gpu-verify -o /dev/null
// DEFINE: %{one} = sed -e 's/<2 x tensor<64x128xbf16/<1 x tensor<64x128xbf16/' -e 's/<2 x tensor<64xf32/<1 x tensor<64xf32/'
// RUN: %{one} %t.mlir | not fa2-opt --fa2gpu-verify -o /dev/null 2>&1 | FileCheck %s --check-prefix=SELF

// Backward's warpgroups take turns in the tiles of each head, and turns are counted from the head's first. In a turn the next queries are waited
// for while the slot of those before is held: two slots are enough, and with one a warpgroup waits for itself.
// SELF: error: 'fa2gpu.ring.wait' op expected the use of ring 'q' that is held to be released before

// One that gives the slot back before it waits does not; but the other warpgroup gives it back in the turn after.
// RUN: awk '/name = "dk"/{dk=1} dk && !held && /ring.wait .*64x128xbf16/{held=1} held && /dot_wait .*keep/{sub("pending = 1","pending = 0"); print; next} held && /ring.release .*64x128xbf16/{print; sub(/^\n/,"",kept); print kept; kept=""; held=dk=0; next} held{kept=kept "\n" $0; next} {print}' %t.mlir > %t.early.mlir
// RUN: fa2-opt %t.early.mlir --fa2gpu-verify -o /dev/null
// RUN: %{one} %t.early.mlir | not fa2-opt --fa2gpu-verify -o /dev/null 2>&1 | FileCheck %s
// CHECK: error: 'fa2gpu.turn_pass' op expected at least 2 slots of ring 'q', got 1: before this turn is passed a slot is waited for that another warpgroup releases in a later turn

func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %c: f32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
