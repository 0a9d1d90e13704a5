// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s

// A tile with some columns of what a score program reads comes through a ring like keys, of its own depth: by the map of its tensor,
// whose dimensions may lie in any order, from the tile's first column on.
// CHECK-DAG: %[[M:.*]] = fa2gpu.tensor_map %bias rows 64 {dims = array<i64: -1, 1, 0, 2>}
// CHECK-DAG: %[[R:.*]] = fa2gpu.ring.create {name = "bias"} : <3 x tensor<64x64xbf16, #shared>>
// CHECK: fa2.for_tiles %[[J:[a-z0-9]+]] in
// CHECK: %[[COL:.*]] = arith.muli %[[J]], %c64
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[R]][%[[N:[a-z0-9]*]]]
// CHECK: fa2gpu.tensor_copy %[[M]][%{{.*}}, %h, %{{[a-z0-9_]*}}] from %[[COL]], %[[SLOT]] signal %[[R]][%[[N]]]
// CHECK-NEXT: fa2gpu.ring.commit %[[R]][%[[N]]]
// CHECK-NEXT: %[[T:.*]], %{{.*}} = fa2gpu.ring.wait %[[R]][%[[U:[a-z0-9]*]]]
// CHECK-NEXT: %[[X:.*]] = fa2gpu.local_load %[[T]] : tensor<64x64xbf16, #shared> -> tensor<64x64xbf16, #acc>
// CHECK-NEXT: fa2gpu.ring.release %[[R]][%[[U]]]
// CHECK-NEXT: arith.extf %[[X]]

// Threads copy whole rows.
// RUN: sed 's/sm_90a/sm_80/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=ROLES
// RUN: sed 's/fa2gpu.load %%bv\[.*\]/& {by_threads}/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=ROLES
// ROLES: 'fa2gpu.load' op expected all columns of a view because threads copy whole rows; some of them the copy engine brings, where kernels have roles

// An unaligned tile threads copy, one warp each use in turn; who reads it says of which part of its view it is.
// DEFINE: %{unaligned} = sed -e 's/dims = array<i64: -1, 1, 0, 2>/&, unaligned/' -e 's/!bt = .*/!bt = tensor<64x64xbf16, #fa2gpu.shared<unaligned = true>>/' -e 's/fa2gpu.load %%bv\[.*\]/& {by_threads}/' -e 's/local_load %%bt/& of %%bv[%%c0, %%at] : !fa2.view<? x ? x bf16>/' %s
// RUN: %{unaligned} | fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=UNALIGNED
// UNALIGNED: %[[R:.*]] = fa2gpu.ring.create {name = "bias"} : <3 x tensor<64x64xbf16, #shared>>
// UNALIGNED: %[[V:.*]] = fa2.view %bias{{.*}} unaligned}
// UNALIGNED: %[[COL:.*]] = arith.muli %{{.*}}, %c64
// UNALIGNED: %[[SLOT:.*]], %[[NEXT:.*]] = fa2gpu.ring.acquire %[[R]][%[[N:[a-z0-9]*]]]
// UNALIGNED: fa2gpu.copy %[[V]][%[[ROW:.*]], %[[COL]]], %[[SLOT]] turn %[[NEXT]] :
// UNALIGNED-NEXT: fa2gpu.ring.commit %[[R]][%[[N]]]
// UNALIGNED-NEXT: %[[T:.*]], %{{.*}} = fa2gpu.ring.wait %[[R]][%[[U:[a-z0-9]*]]]
// UNALIGNED-NEXT: fa2gpu.local_load %[[T]] of %[[V]][%[[ROW]], %[[COL]]]
// UNALIGNED-NEXT: fa2gpu.ring.release %[[R]][%[[U]]]
// Roles have warps for it.
// RUN: %{unaligned} | sed 's/sm_90a/sm_80/' | not fa2-opt --fa2gpu-plan --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=ROLES

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!t = tensor<64x64xbf16, #shared>
!bt = tensor<64x64xbf16, #shared>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
!bias = memref<?x?x?xbf16, strided<[?, ?, ?]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%q: !global, %k: !global, %bias: !bias, %b: index, %h: index, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, rings.reads = 3>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"bias", "in", ["heads", "seqlen_q", "seqlen_k"] x bf16 broadcast true>,
                             #fa2.arg<"b", "in", [] x index>, #fa2.arg<"h", "in", [] x index>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %s0 = arith.constant dense<0.0> : !acc
  %qv = fa2.view %q[%b, %h] rows(%c0, %n) : !global -> !fa2.view<? x 64 x bf16>
  %kv = fa2.view %k[%b, %h] rows(%c0, %n) : !global -> !fa2.view<? x 64 x bf16>
  %bv = fa2.view %bias[%c0, %h] rows(%c0, %n) {dims = array<i64: -1, 1, 0, 2>} : !bias -> !fa2.view<? x ? x bf16>
  %qt = fa2gpu.load %qv[%c0] : !fa2.view<? x 64 x bf16> -> !t
  %range = fa2.tile_range %c0 to %n full(%c0, %n)
  %sum = fa2.for_tiles %j in %range iter_args(%a = %s0) -> (!acc) {
    %at = arith.muli %j, %c64 : index
    %kt = fa2gpu.load %kv[%at] : !fa2.view<? x 64 x bf16> -> !t
    %f = fa2gpu.dot_start %qt, %kt acc(%a : !acc) {transpose_b} : !t, !t -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
    %bt = fa2gpu.load %bv[%c0, %at] : !fa2.view<? x ? x bf16> -> !bt
    %x = fa2gpu.local_load %bt : !bt -> tensor<64x64xbf16, #acc>
    %y = arith.extf %x : tensor<64x64xbf16, #acc> to !acc
    %z = arith.addf %s, %y : !acc
    fa2.yield %z : !acc
  }
  fa2.return
}
