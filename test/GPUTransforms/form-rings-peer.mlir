// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s

// What blocks of a cluster give each other goes from the shared tile's slot into a ring of the other block, which has as many slots. The
// other's slot is asked for before the tile is written again: that says too that the copy before has read it.
// CHECK: fa2.kernel @gives
// CHECK-DAG: %[[OWN:.*]] = fa2gpu.ring.create {name = "exchange"} : <2 x tensor<64x64xbf16, #shared>>
// CHECK-DAG: %[[PEER:.*]] = fa2gpu.ring.create {name = "peer", peer} : <2 x tensor<64x64xbf16, #shared>>
// CHECK: fa2.for_tiles
// CHECK: %[[THERE:.*]], %{{.*}} = fa2gpu.ring.acquire %[[PEER]][%[[SENT:.*]]] {fa2gpu.role = "consumer"}
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[OWN]][%[[PUT:.*]]] {
// CHECK-NEXT: fa2gpu.local_store %{{.*}}, %[[SLOT]]
// CHECK-NEXT: fa2gpu.ring.commit %[[OWN]][%[[PUT]]]
// CHECK: %[[TILE:.*]], %{{.*}} = fa2gpu.ring.wait %[[OWN]][%[[GOT:.*]]] {
// CHECK-NEXT: fa2gpu.peer_copy %[[TILE]], %[[THERE]] signal %[[PEER]][%[[SENT]]] {fa2gpu.role = "consumer"}
// CHECK-NEXT: fa2gpu.ring.commit %[[PEER]][%[[SENT]]] {
// The block's own product with the tile, and then, as late as that needs it, what the other block has sent, until that has been read.
// CHECK-NEXT: %[[DQ:.*]] = fa2gpu.dot_start %[[TILE]], %[[K:.*]] from %{{.*}} {fa2gpu.role = "consumer", name = "dq", transpose_a}
// CHECK-NEXT: %[[BEGIN:.*]] = fa2gpu.dot_wait %[[DQ]]
// CHECK-NEXT: fa2gpu.ring.release %[[OWN]][%[[GOT]]]
// CHECK-NEXT: %[[CAME:.*]], %{{.*}} = fa2gpu.ring.wait %[[PEER]][%[[TAKEN:.*]]] {
// CHECK-NEXT: %[[OTHER:.*]] = fa2gpu.dot_start %[[CAME]], %{{.*}} acc(%[[BEGIN]] : {{.*}}) {fa2gpu.role = "consumer", name = "dq_other", transpose_a}
// CHECK-NEXT: fa2gpu.dot_wait %[[OTHER]]
// CHECK-NEXT: fa2gpu.ring.release %[[PEER]][%[[TAKEN]]]
// Half of the other's keys are copied from the column on that their view shows.
// CHECK-LABEL: fa2.kernel @half
// CHECK: %[[RANK:.*]] = fa2.cluster_rank
// CHECK: fa2gpu.tensor_copy %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] from %[[RANK]], %{{.*}} signal %{{.*}} : tensor<64x64xbf16, #shared>

// The copy engine takes it from shared memory, in a kernel whose warps have roles.
// RUN: sed 's/exchange %%ds/exchange %%given/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: sed 's/target = "sm_90a"/target = "sm_80"/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED: 'fa2gpu.exchange' op expected roles, and a tile that fa2gpu.share gives, because the copy engine brings it to the other block

// Nobody stores, or copies by threads, from a column on that only the program knows.
// RUN: sed 's#// @store$#%%h = arith.truncf %%s : !acc to !half\n fa2.store %%h, %%kv[%%pair] : !half, !fa2.view<? x 64 x bf16>#' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=STORE
// STORE: 'fa2.store' op expected a view without 'from' because only the copy engine and fa2.accumulate begin at a column that is not a constant
// RUN: sed -e '/exchange %%ds/d' -e 's/%%other, %%kt/%%ds, %%kt/' -e 's/target = "sm_90a"/target = "sm_80"/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: 'fa2gpu.load' op expected a view without 'from' because

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!half = tensor<64x64xbf16, #acc>
!tile = tensor<64x64xbf16, #shared>
!wide = tensor<64x128xbf16, #shared>
!global = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, partition = keys, dq_columns = 64, rings.exchange = 2, cluster = 2>
fa2.kernel @gives(%k: !global, %n: index, %given: !tile, %sum: !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>)
    attributes {spec = #spec, schedule = #schedule,
                arguments = [#fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 128] x bf16>, #fa2.arg<"n", "in", [] x index>,
                             #fa2.arg<"given", "in", [] x bf16>, #fa2.arg<"sum", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  fa2.for_each_tile %pair, %head, %batch in (%n by 128, %n, %n) {
    %rank = fa2.cluster_rank
    %kv = fa2.view %k[%batch, %head] rows(%c0, %n) : !global -> !fa2.view<? x 128 x bf16>
    %kt = fa2gpu.load %kv[%pair] : !fa2.view<? x 128 x bf16> -> !wide
    %tiles = fa2.tile_range %c0 to %n full(%c0, %n)
    fa2.for_tiles %i in %tiles {
      %sf = fa2gpu.dot_start %kt, %kt {name = "s", transpose_b} : !wide, !wide -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!acc> -> !acc
      %h = arith.truncf %s : !acc to !half
      %ds = fa2gpu.share %h : !half -> !tile
      %other = fa2gpu.exchange %ds : !tile
      %f = fa2gpu.dot_start %ds, %kt from %rank {name = "dq", transpose_a} : !tile, !wide -> !fa2gpu.in_flight<!acc>
      %dq = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      %g = fa2gpu.dot_start %other, %kt acc(%dq : !acc) {name = "dq_other", transpose_a} : !tile, !wide -> !fa2gpu.in_flight<!acc>
      %both = fa2gpu.dot_wait %g : !fa2gpu.in_flight<!acc> -> !acc
      fa2.accumulate %both, %sum[%i] : !acc, !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
    }
  } {cluster = 2 : i64}
  fa2.return
}

fa2.kernel @half(%k: !global, %n: index)
    attributes {spec = #spec, schedule = #schedule,
                arguments = [#fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 128] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  fa2.for_each_tile %pair, %head, %batch in (%n by 128, %n, %n) {
    %rank = fa2.cluster_rank
    %kv = fa2.view %k[%batch, %head] rows(%n, %n) from %rank : !global -> !fa2.view<? x 64 x bf16>
    %kt = fa2gpu.load %kv[%pair] : !fa2.view<? x 64 x bf16> -> !tile
    %f = fa2gpu.dot_start %kt, %kt {transpose_b} : !tile, !tile -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
    // @store
  } {cluster = 2 : i64}
  fa2.return
}
