// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-form-rings | FileCheck %s

// Loads of the loop get rings of `stages` slots, whose cursors it carries, the query tile
// and the stored tile one of one slot. Rings are named after their tensors.
// CHECK: #[[SH:.*]] = #fa2gpu.shared
// CHECK-LABEL: fa2.kernel @attention
// CHECK-DAG: %[[OUT:.*]] = fa2gpu.ring.create {name = "out"} : <1 x tensor<64x64xbf16, #[[SH]]>>
// CHECK-DAG: %[[V:.*]] = fa2gpu.ring.create {name = "v"} : <3 x tensor<32x64xbf16, #[[SH]]>>
// CHECK-DAG: %[[K:.*]] = fa2gpu.ring.create {name = "k"} : <3 x tensor<32x64xbf16, #[[SH]]>>
// CHECK-DAG: %[[Q:.*]] = fa2gpu.ring.create {name = "q"} : <1 x tensor<64x64xbf16, #[[SH]]>>
// CHECK: %[[QW:.*]], %{{.*}} = fa2gpu.ring.acquire %[[Q]][%[[Z:.*]]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[QW]] : <? x 64 x bf16>
// CHECK-NEXT: fa2gpu.ring.commit %[[Q]][%[[Z]]]
// CHECK-NEXT: %[[QT:.*]], %{{.*}} = fa2gpu.ring.wait %[[Q]][%[[Z]]]
// The loop carries a cursor for each side of a ring. As long as no role shares it, it begins at 0 with the loop.
// CHECK: fa2.for_tiles %{{[a-z0-9]+}} in %{{[a-z0-9]+}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9_]+}}, %[[VF:[a-z0-9]+]] = %c0{{[_0-9]*}}, %[[VR:[a-z0-9]+]] = %c0{{[_0-9]*}}, %[[KF:[a-z0-9]+]] = %c0{{[_0-9]*}}, %[[KR:[a-z0-9]+]] = %c0{{[_0-9]*}})
// CHECK: %[[KW:.*]], %[[KF1:.*]] = fa2gpu.ring.acquire %[[K]][%[[KF]]]
// CHECK-NEXT: fa2gpu.copy %{{.*}}, %[[KW]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%[[KF]]]
// CHECK-NEXT: %[[KT:.*]], %[[KR1:.*]] = fa2gpu.ring.wait %[[K]][%[[KR]]]
// CHECK-NEXT: %[[S:.*]] = fa2gpu.dot_start %[[QT]], %[[KT]]
// A product reads its operands until it has been waited for.
// CHECK-NEXT: fa2gpu.dot_wait %[[S]]
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%[[KR]]]
// CHECK: %[[VW:.*]], %[[VF1:.*]] = fa2gpu.ring.acquire %[[V]][%[[VF]]]
// CHECK: %[[VT:.*]], %[[VR1:.*]] = fa2gpu.ring.wait %[[V]][%[[VR]]]
// CHECK-NEXT: fa2gpu.dot_start %{{.*}}, %[[VT]]
// CHECK-NEXT: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.ring.release %[[V]][%[[VR]]]
// CHECK-NEXT: fa2.yield %{{.*}}, %[[VF1]], %[[VR1]], %[[KF1]], %[[KR1]]
// The loop is the last reader of the query tile.
// CHECK: fa2gpu.ring.release %[[Q]][%[[Z]]]
// The output goes through shared memory; what is no tile (the lse) is stored as it was.
// CHECK: %[[OW:.*]], %{{.*}} = fa2gpu.ring.acquire %[[OUT]][%[[ZO:.*]]]
// CHECK-NEXT: fa2gpu.local_store %{{.*}}, %[[OW]]
// CHECK-NEXT: fa2gpu.ring.commit %[[OUT]][%[[ZO]]]
// CHECK-NEXT: %[[OT:.*]], %{{.*}} = fa2gpu.ring.wait %[[OUT]][%[[ZO]]]
// CHECK-NEXT: fa2gpu.copy_out %[[OT]], %{{.*}}
// CHECK-NEXT: fa2gpu.ring.release %[[OUT]][%[[ZO]]]
// CHECK-NEXT: fa2.store %{{.*}} : tensor<64xf32
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#op = #fa2gpu.operand<#acc>
#row = #fa2gpu.row<#acc>
#shared = #fa2gpu.shared
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
!view = !fa2.view<? x 64 x bf16>
fa2.kernel @attention(%q: !global, %k: !global, %v: !global, %out: !global, %lse: !fa2.view<? x f32>, %b: index, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 3>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"v", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>, #fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>,
                             #fa2.arg<"lse", "out", [] x f32>, #fa2.arg<"b", "in", [] x index>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %o0 = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %l0 = arith.constant dense<0.0> : tensor<64xf32, #row>
  %qv = fa2.view %q[%b, %b] rows(%c0, %n) : !global -> !view
  %kv = fa2.view %k[%b, %b] rows(%c0, %n) : !global -> !view
  %vv = fa2.view %v[%b, %b] rows(%c0, %n) : !global -> !view
  %ov = fa2.view %out[%b, %b] rows(%c0, %n) : !global -> !view
  %qt = fa2gpu.load %qv[%c0] : !view -> tensor<64x64xbf16, #shared>
  %tiles = fa2.tile_range %c0 to %n full(%c0, %n)
  %r = fa2.for_tiles %j in %tiles iter_args(%o = %o0) -> (tensor<64x64xf32, #acc>) {
    %at = arith.muli %j, %c32 : index
    %kt = fa2gpu.load %kv[%at] : !view -> tensor<32x64xbf16, #shared>
    %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : tensor<64x64xbf16, #shared>, tensor<32x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x32xf32, #acc>>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<tensor<64x32xf32, #acc>> -> tensor<64x32xf32, #acc>
    %t = arith.truncf %s : tensor<64x32xf32, #acc> to tensor<64x32xbf16, #acc>
    %p = fa2gpu.convert_layout %t : tensor<64x32xbf16, #acc> -> tensor<64x32xbf16, #op>
    %vt = fa2gpu.load %vv[%at] : !view -> tensor<32x64xbf16, #shared>
    %of = fa2gpu.dot_start %p, %vt acc(%o : tensor<64x64xf32, #acc>) : tensor<64x32xbf16, #op>, tensor<32x64xbf16, #shared> -> !fa2gpu.in_flight<tensor<64x64xf32, #acc>>
    %o1 = fa2gpu.dot_wait %of : !fa2gpu.in_flight<tensor<64x64xf32, #acc>> -> tensor<64x64xf32, #acc>
    fa2.yield %o1 : tensor<64x64xf32, #acc>
  }
  %rb = arith.truncf %r : tensor<64x64xf32, #acc> to tensor<64x64xbf16, #acc>
  fa2.store %rb, %ov[%c0] : tensor<64x64xbf16, #acc>, !view
  fa2.store %l0, %lse[%c0] : tensor<64xf32, #row>, !fa2.view<? x f32>
  fa2.return
}

// With the query tile in registers its slot is free once it has been read.
// CHECK-LABEL: fa2.kernel @q_in_registers
// CHECK: %[[QT:.*]], %{{.*}} = fa2gpu.ring.wait %[[Q:.*]][%[[Z:.*]]]
// CHECK-NEXT: fa2gpu.local_load %[[QT]]
// CHECK-NEXT: fa2gpu.ring.release %[[Q]][%[[Z]]]
fa2.kernel @q_in_registers(%q: !view)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 3>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %qt = fa2gpu.load %q[%c0] : !view -> tensor<64x64xbf16, #shared>
  %qr = fa2gpu.local_load %qt : tensor<64x64xbf16, #shared> -> tensor<64x64xbf16, #op>
  fa2.return
}
