// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-specialize-warps --canonicalize | FileCheck %s
// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-persist --fa2gpu-assign-roles --fa2gpu-specialize-warps | FileCheck %s --check-prefix=PERSISTENT

// The same loops twice: with what reads the rings, and with what fills them and the numbers that takes.
// CHECK: %[[Q:.*]] = fa2gpu.ring.create {name = "q"}
// CHECK: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// CHECK: fa2gpu.roles @consumer(8 warps, 240 registers) {
// CHECK: fa2.for_each_tile %[[TILE:.*]], %{{.*}}, %{{.*}} in
// CHECK-NOT: ring.acquire
// CHECK-NOT: tensor_copy
// CHECK: fa2gpu.ring.wait %[[Q]]
// CHECK-NOT: ring.acquire
// CHECK-NOT: tensor_copy
// Each role's loop carries the cursor of its side.
// CHECK: fa2.for_tiles %{{.*}} in %{{.*}} iter_args(%[[R:.*]] = %c0) -> (index) {
// CHECK-NOT: ring.acquire
// CHECK-NOT: tensor_copy
// CHECK: %{{.*}}, %[[NEXT:.*]] = fa2gpu.ring.wait %[[K]][%[[R]]]
// CHECK: fa2gpu.dot_start
// CHECK: fa2gpu.dot_wait
// CHECK: fa2gpu.ring.release %[[K]][%[[R]]]
// CHECK: fa2.yield %[[NEXT]]
// CHECK: fa2gpu.ring.release %[[Q]]
// CHECK: } @producer(4 warps, 24 registers) {
// CHECK: fa2.for_each_tile %[[TILE:.*]], %{{.*}}, %{{.*}} in
// CHECK-NOT: ring.wait
// CHECK: fa2gpu.ring.acquire %[[Q]]
// CHECK-NEXT: fa2gpu.tensor_copy
// CHECK-NEXT: fa2gpu.ring.commit %[[Q]]
// CHECK: fa2.for_tiles %[[J:.*]] in %{{.*}} iter_args(%[[I:.*]] = %c0) -> (index) {
// CHECK-NEXT: %[[ROW:.*]] = arith.muli %[[J]], %c64
// CHECK-NEXT: %[[SLOT:.*]], %[[NEXT:.*]] = fa2gpu.ring.acquire %[[K]][%[[I]]]
// CHECK-NEXT: fa2gpu.tensor_copy %{{.*}}[%[[ROW]], %{{.*}}, %{{.*}}], %[[SLOT]] signal %[[K]][%[[I]]]
// CHECK-NEXT: fa2gpu.ring.commit %[[K]][%[[I]]]
// CHECK-NEXT: fa2.yield %[[NEXT]]
// CHECK-NEXT: }
// CHECK-NOT: ring.release

// Of persistent roles the producer draws the tiles.
// PERSISTENT: @consumer(
// PERSISTENT: fa2gpu.tile_loop{{.*}} queue %{{[0-9a-z]+}} {
// PERSISTENT: @producer(
// PERSISTENT: fa2gpu.tile_loop{{.*}} queue %{{[0-9a-z]+}} draws {
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
// With overlap a role that copies fetches the loop's first tile before what stands in front of the loop. A range in numbers may have no tile, and a
// loop in another has a first tile again with each of that one's.
// RUN: sed 's/persistent = true/&, overlap = true/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-specialize-warps 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: 'fa2.for_tiles' op expected a range that can have a tile always, because the first is peeled
// RUN: sed 's/stages = 2/&, overlap = true/' %S/../EndToEnd/Inputs/nested-roles.mlir | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings --fa2gpu-specialize-warps 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: error: 'fa2.for_each_tile' op expected one loop over tiles, not in another, in a role that copies with overlap = true, because its first tile is fetched first; got 0

#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!half = tensor<128x64xbf16, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!kring = !fa2gpu.ring<2 x !kt>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%q: !global, %k: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %qm = fa2gpu.tensor_map %q rows 64 : !global
  %km = fa2gpu.tensor_map %k rows 64 : !global
  %qr = fa2gpu.ring.create {name = "q"} : !qring
  %kr = fa2gpu.ring.create {name = "k"} : !kring
  %rows = memref.dim %q, %c1 : !global
  %heads = memref.dim %q, %c2 : !global
  %batches = memref.dim %q, %c0 : !global
  fa2.for_each_tile %tile, %head, %batch in (%rows by 128, %heads, %batches) {
    %row = arith.muli %tile, %c64 : index
    %qw, %qw_next = fa2gpu.ring.acquire %qr[%c0] : !qring -> !qt
    fa2gpu.tensor_copy %qm[%row, %head, %batch], %qw signal %qr[%c0] : !qt, !qring
    fa2gpu.ring.commit %qr[%c0] : !qring
    %qt, %qt_next = fa2gpu.ring.wait %qr[%c0] : !qring -> !qt
    %keys = arith.muli %n, %tile : index
    %tiles = fa2.tile_range %c0 to %keys full(%c0, %keys)
    %used:2 = fa2.for_tiles %j in %tiles iter_args(%i = %c0, %r = %c0) -> (index, index) {
      %key = arith.muli %j, %c64 : index
      %kw, %kw_next = fa2gpu.ring.acquire %kr[%i] : !kring -> !kt
      fa2gpu.tensor_copy %km[%key, %head, %batch], %kw signal %kr[%i] : !kt, !kring
      fa2gpu.ring.commit %kr[%i] : !kring
      %kt, %kt_next = fa2gpu.ring.wait %kr[%r] : !kring -> !kt
      %f = fa2gpu.dot_start %qt, %kt {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      %sh = arith.truncf %s : !acc to !half
      fa2gpu.local_store %sh, %qt : !half, !qt
      fa2gpu.ring.release %kr[%r] : !kring
      fa2.yield %kw_next, %kt_next : index, index
    }
    fa2gpu.ring.release %qr[%c0] : !qring
  }
  fa2.return
}
