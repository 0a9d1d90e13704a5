// RUN: fa2-opt %s --fa2gpu-share-accumulators | FileCheck %s

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!piece = tensor<64x32xf32, #acc>
!flying = !fa2gpu.in_flight<!piece>
!ds = tensor<64x64xbf16, #shared>
!k = tensor<64x128xbf16, #shared>
!sum = !fa2.view<? x 32 x f32, order = <<4 x 1>, width = 4>>
!wide = !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, stages = 2, partition = keys>

// A piece that has been added to its sum is free: the next piece takes its registers.
// CHECK-LABEL: fa2.kernel @pieces
// CHECK: %[[F0:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} {name = "dq", transpose_a}
// CHECK-NEXT: %[[W0:.*]] = fa2gpu.dot_wait %[[F0]]
// CHECK-NEXT: fa2.accumulate %[[W0]]
// CHECK-NEXT: %[[F1:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[W0]] : {{.*}}) {clears, first_column = 32 : i64, name = "dq", transpose_a}
// CHECK-NEXT: %[[W1:.*]] = fa2gpu.dot_wait %[[F1]]
// CHECK-NEXT: fa2.accumulate %[[W1]]
// CHECK-NEXT: fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[W1]] : {{.*}}) {clears, first_column = 64 : i64, name = "dq", transpose_a}
fa2.kernel @pieces(%ds: !ds, %k: !k, %a: !sum, %row: index)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"row", "in", [] x index>]} {
  %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
  %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w0, %a[%row] : !piece, !sum
  %f1 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 32 : i64} : !ds, !k -> !flying
  %w1 = fa2gpu.dot_wait %f1 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w1, %a[%row] : !piece, !sum
  %f2 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 64 : i64} : !ds, !k -> !flying
  %w2 = fa2gpu.dot_wait %f2 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w2, %a[%row] : !piece, !sum
  fa2.return
}

// One that is read behind the next piece is not free; nor is that of another product, nor one of another extent.
// CHECK-LABEL: fa2.kernel @kept
// CHECK-NOT: clears
fa2.kernel @kept(%ds: !ds, %k: !k, %a: !sum, %wide: !wide, %row: index)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"wide", "in", [] x f32>, #fa2.arg<"row", "in", [] x index>]} {
  %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
  %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
  %f1 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 32 : i64} : !ds, !k -> !flying
  %w1 = fa2gpu.dot_wait %f1 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w0, %a[%row] : !piece, !sum
  fa2.accumulate %w1, %a[%row] : !piece, !sum
  %f2 = fa2gpu.dot_start %ds, %k {name = "other", transpose_a} : !ds, !k -> !flying
  %w2 = fa2gpu.dot_wait %f2 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %w2, %a[%row] : !piece, !sum
  %f3 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
  %w3 = fa2gpu.dot_wait %f3 {pending = 0 : i64} : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
  fa2.accumulate %w3, %wide[%row] : tensor<64x64xf32, #acc>, !wide
  fa2.return
}

// A piece that goes on with another product has its registers to the end of that: what is left behind it the next piece takes.
// CHECK-LABEL: fa2.kernel @goes_on
// CHECK: %[[F0:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} {name = "dq", transpose_a}
// CHECK-NEXT: %[[W0:.*]] = fa2gpu.dot_wait %[[F0]]
// CHECK-NEXT: %[[G0:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[W0]] : {{.*}}) {name = "dq_other", transpose_a}
// CHECK-NEXT: %[[B0:.*]] = fa2gpu.dot_wait %[[G0]]
// CHECK-NEXT: fa2.accumulate %[[B0]]
// CHECK-NEXT: %[[F1:.*]] = fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[B0]] : {{.*}}) {clears, first_column = 32 : i64, name = "dq", transpose_a}
// CHECK-NEXT: %[[W1:.*]] = fa2gpu.dot_wait %[[F1]]
// CHECK-NEXT: fa2gpu.dot_start %{{.*}}, %{{.*}} acc(%[[W1]] : {{.*}}) {first_column = 32 : i64, name = "dq_other", transpose_a}
fa2.kernel @goes_on(%ds: !ds, %k: !k, %a: !sum, %row: index)
    attributes {spec = #spec, schedule = #schedule, arguments = [#fa2.arg<"ds", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"a", "in", [] x f32>, #fa2.arg<"row", "in", [] x index>]} {
  %f0 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a} : !ds, !k -> !flying
  %w0 = fa2gpu.dot_wait %f0 {pending = 0 : i64} : !flying -> !piece
  %g0 = fa2gpu.dot_start %ds, %k acc(%w0 : !piece) {name = "dq_other", transpose_a} : !ds, !k -> !flying
  %b0 = fa2gpu.dot_wait %g0 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %b0, %a[%row] : !piece, !sum
  %f1 = fa2gpu.dot_start %ds, %k {name = "dq", transpose_a, first_column = 32 : i64} : !ds, !k -> !flying
  %w1 = fa2gpu.dot_wait %f1 {pending = 0 : i64} : !flying -> !piece
  %g1 = fa2gpu.dot_start %ds, %k acc(%w1 : !piece) {name = "dq_other", transpose_a, first_column = 32 : i64} : !ds, !k -> !flying
  %b1 = fa2gpu.dot_wait %g1 {pending = 0 : i64} : !flying -> !piece
  fa2.accumulate %b1, %a[%row] : !piece, !sum
  fa2.return
}
