// RUN: fa2-opt %s --fa2gpu-change-turns --split-input-file | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!piece = tensor<64x64xf32, #acc>
!flying = !fa2gpu.in_flight<!piece>
!ds = tensor<64x64xbf16, #shared>
!k = tensor<64x128xbf16, #shared>
!sum = !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = ordered, turn_tiles = 4, turns = late_seen>

// Two pieces of a tile, in two loops: the turn of the tile before is passed on, and this one looked for, behind the start of the first piece's product. What is
// past goes from tile to tile, and from loop to loop; behind the second it is passed on. Where four tiles share a turn, it is past behind the last of them.
// CHECK-LABEL: fa2.kernel @pieces
// CHECK: %[[NONE:.*]] = arith.constant -1 : index
// CHECK: %[[FIRST:.*]] = scf.for %{{.*}} iter_args(%[[PAST:.*]] = %[[NONE]]) -> (index)
// CHECK: fa2gpu.dot_start
// CHECK: %[[ROW:.*]] = arith.muli
// CHECK: %[[SEEN:.*]] = fa2gpu.change_turn %[[TURNS:.*]] past %[[PAST]] next %[[ROW]] from %[[STARTS:.*]] : <? x i32> -> i32
// CHECK: fa2gpu.dot_wait
// CHECK: fa2.accumulate {{.*}} at(%[[ROW]] from %[[STARTS]] to %[[ENDS:.*]]) seen(%[[SEEN]]) {begins}
// CHECK-NOT: fa2gpu.change_turn
// CHECK: fa2.accumulate {{.*}} {ends, later}
// CHECK-NEXT: %[[NOW:.*]] = arith.select %[[ENDS]], %[[ROW]], %{{.*}} : index
// CHECK-NEXT: scf.yield %[[NOW]]
// CHECK: %[[SECOND:.*]] = scf.for %{{.*}} iter_args(%{{.*}} = %[[FIRST]]) -> (index)
// CHECK: fa2gpu.change_turn
// CHECK: scf.yield
// CHECK: fa2gpu.change_turn %[[TURNS]] past %[[SECOND]] : <? x i32>
// CHECK-NOT: fa2gpu.change_turn
fa2.kernel @pieces(%ds: !ds, %k: !k, %a: !sum, %b: !sum, %turns: !fa2.view<? x i32>, %turn: index, %n: index)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"b", "in", [] x f32>, #fa2.arg<"turns", "in", [] x i32>, #fa2.arg<"turn", "in", [] x index>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %half = arith.divui %n, %c4 : index
  scf.for %i = %c0 to %half step %c1 {
    %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
    %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
    %row = arith.muli %i, %c64 : index
    %place = arith.remui %i, %c4 : index
    %first = arith.cmpi eq, %place, %c0 : index
    %last = arith.cmpi eq, %place, %c1 : index
    fa2.accumulate %w0, %a[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%row from %first to %last) {begins} : !piece, !sum
    %f1 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 64 : i64} : !ds, !k -> !flying
    %w1 = fa2gpu.dot_wait %f1 {pending = 0 : i64} : !flying -> !piece
    fa2.accumulate %w1, %b[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%row from %first to %last) {ends} : !piece, !sum
  }
  scf.for %i = %half to %n step %c1 {
    %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
    %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
    %row = arith.muli %i, %c64 : index
    %place = arith.remui %i, %c4 : index
    %first = arith.cmpi eq, %place, %c0 : index
    %last = arith.cmpi eq, %place, %c1 : index
    fa2.accumulate %w0, %a[%row] turn(%turn of %turns : !fa2.view<? x i32>) at(%row from %first to %last) {begins, ends} : !piece, !sum
  }
  fa2.return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!piece = tensor<64x64xf32, #acc>
!flying = !fa2gpu.in_flight<!piece>
!ds = tensor<64x64xbf16, #shared>
!k = tensor<64x128xbf16, #shared>
!sum = !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = ordered, turns = late>

// With late alone, the addition looks for its turn itself, and what is past is its row.
// CHECK-LABEL: fa2.kernel @passed
// CHECK: scf.for %{{.*}} iter_args(%[[PAST:.*]] = %{{.*}}) -> (index)
// CHECK: fa2gpu.dot_start
// CHECK: fa2gpu.change_turn %{{.*}} past %[[PAST]] : <? x i32>
// CHECK: fa2gpu.dot_wait
// CHECK: fa2.accumulate %{{.*}}, %{{.*}}[%[[ROW:.*]]] turn(%{{.*}} of %{{.*}}) {begins, ends, later}
// CHECK-NEXT: scf.yield %[[ROW]]
fa2.kernel @passed(%ds: !ds, %k: !k, %a: !sum, %turns: !fa2.view<? x i32>, %turn: index, %n: index)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"turns", "in", [] x i32>, #fa2.arg<"turn", "in", [] x index>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = arith.muli %i, %c64 : index
    %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
    %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
    fa2.accumulate %w0, %a[%row] turn(%turn of %turns : !fa2.view<? x i32>) {begins, ends} : !piece, !sum
  }
  fa2.return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!piece = tensor<64x64xf32, #acc>
!flying = !fa2gpu.in_flight<!piece>
!ds = tensor<64x64xbf16, #shared>
!k = tensor<64x128xbf16, #shared>
!sum = !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys, dq = ordered, turns = late_seen>

// Both products are waited for before either is added: the second turn cannot be looked for before the first is over.
// CHECK-LABEL: fa2.kernel @together
// CHECK: fa2gpu.change_turn
// CHECK-NEXT: arith.constant -1
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2.accumulate %{{.*}}, %{{.*}}[%[[ROW:.*]]] turn(
// CHECK-NEXT: %{{.*}} = fa2gpu.change_turn %{{.*}} past %[[ROW]] next
// CHECK: fa2.accumulate
// CHECK-NEXT: %[[PAST:.*]] = arith.select
// CHECK-NEXT: fa2gpu.change_turn %{{.*}} past %[[PAST]] :
// CHECK-NEXT: fa2.return
fa2.kernel @together(%ds: !ds, %k: !k, %a: !sum, %turns: !fa2.view<? x i32>, %turn: index, %row: index, %other: index, %first: i1, %last: i1)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"turns", "in", [] x i32>, #fa2.arg<"turn", "in", [] x index>, #fa2.arg<"row", "in", [] x index>, #fa2.arg<"other", "in", [] x index>, #fa2.arg<"first", "in", [] x i1>, #fa2.arg<"last", "in", [] x i1>]} {
  %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
  %f1 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 64 : i64} : !ds, !k -> !flying
  %w0 = fa2gpu.dot_wait %f0 {pending = 1 : i64} : !flying -> !piece
  %w1 = fa2gpu.dot_wait %f1 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w0, %a[%row] turn(%turn of %turns : !fa2.view<? x i32>) {begins, ends} : !piece, !sum
  fa2.accumulate %w1, %a[%other] turn(%turn of %turns : !fa2.view<? x i32>) at(%other from %first to %last) {begins, ends} : !piece, !sum
  fa2.return
}
