// RUN: fa2-opt %s --convert-fa2gpu-to-nvvm --canonicalize --cse | FileCheck %s --implicit-check-not="fa2gpu.{{ring|roles|turn|tensor|group|tile}}"

// Four warps more than multiply. The map is one pointer: the launcher's parameter.
// CHECK-LABEL: gpu.func @copies(
// CHECK-SAME: %{{.*}}: index, %[[MAP:.*]]: !llvm.ptr) kernel attributes {known_block_size = array<i32: 384, 1, 1>
// CHECK-DAG: %[[WARP:.*]] = nvvm.shfl.sync
// One thread asks for the map.
// CHECK-DAG: llvm.inline_asm has_side_effects "prefetch.tensormap [$0];"{{.*}} %[[MAP]] :
// CHECK-DAG: %[[SMEM:.*]] = llvm.ptrtoint
// CHECK-DAG: %[[SLOTS:.*]] = arith.addi %[[SMEM]], %c16384_i32
// CHECK-DAG: %[[FULL0:.*]] = arith.addi %[[SMEM]], %c49184_i32
// Two full barriers count one arrival (with bytes), then two empty ones that of each consumer warp.
// CHECK: scf.if
// CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}} %[[FULL0]], %c1_i32 :
// CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}}, %c8_i32 :
// CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}}, %c1_i32 :
// CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}}, %c8_i32 :
// CHECK: }
// Everybody, and the copy engine, sees them before any role starts.
// CHECK-NEXT: llvm.inline_asm has_side_effects "fence.mbarrier_init.release.cluster;"
// CHECK-NEXT: nvvm.barrier0
// CHECK: %[[CONSUMES:.*]] = arith.cmpi ult, %[[WARP]], %c8_i32
// CHECK-NEXT: scf.if %[[CONSUMES]] {
// CHECK-NEXT: nvvm.setmaxregister increase 240
// Use n waits for phase n / 2 of its slot's full barrier; lane 0 of each warp releases.
// CHECK: mbarrier.try_wait.parity
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK: llvm.inline_asm has_side_effects "@$1 mbarrier.arrive.shared.b64 _, [$0];"{{.*}}, %[[FIRST]] :
// Turns: two warpgroups of threads meet at the barrier of the one that waits.
// CHECK: %[[GROUP:.*]] = arith.shrui %[[WARP]], %c2_i32
// CHECK: %[[OWN:.*]] = arith.addi %[[GROUP]], %c1_i32
// CHECK: llvm.inline_asm has_side_effects "bar.sync $0, 256;"{{.*}} %[[OWN]] :
// CHECK: %[[WRAPS:.*]] = arith.cmpi eq, %{{.*}}, %c2_i32
// CHECK: %[[NEXT:.*]] = arith.select %[[WRAPS]], %c0_i32
// CHECK: %[[AT:.*]] = arith.addi %[[NEXT]], %c1_i32
// CHECK: llvm.inline_asm has_side_effects "bar.arrive $0, 256;"{{.*}} %[[AT]] :
// CHECK: %[[IS0:.*]] = arith.cmpi eq, %[[GROUP]], %c0_i32
// CHECK: scf.if %[[IS0]] {
// CHECK-NEXT: llvm.inline_asm has_side_effects "bar.sync $0, 256;"{{.*}} %c1_i32 :
// CHECK: %[[IS1:.*]] = arith.cmpi eq, %[[GROUP]], %c1_i32
// CHECK: scf.if %[[IS1]] {
// CHECK-NEXT: llvm.inline_asm has_side_effects "bar.arrive $0, 256;"{{.*}} %c1_i32 :
// CHECK: llvm.inline_asm has_side_effects "bar.sync $0, 128;"
// One thread of each warpgroup stores 64 rows.
// CHECK: scf.if
// CHECK: llvm.inline_asm has_side_effects "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [$1, {$2, $3, $4, $5}], [$0];"{{.*}}, %[[MAP]], %c0_i32,
// CHECK-NEXT: nvvm.cp.async.bulk.commit.group
// CHECK: llvm.inline_asm has_side_effects "cp.async.bulk.wait_group.read 0;"
// CHECK-NEXT: llvm.inline_asm has_side_effects "fence.proxy.async.shared::cta;"
// CHECK: nvvm.bar.warp.sync
// CHECK: } else {
// CHECK-NEXT: nvvm.setmaxregister decrease 24
// CHECK: %[[LEADS:.*]] = arith.cmpi eq, %[[WARP]], %c8_i32
// CHECK-NEXT: scf.if %[[LEADS]] {
// CHECK-NEXT: %[[ONE:.*]] = nvvm.elect.sync -> i1
// CHECK-NEXT: scf.if %[[ONE]] {
// The slot's bytes are expected before its copy starts.
// CHECK: mbarrier.try_wait.parity
// CHECK: llvm.inline_asm has_side_effects "mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1;"{{.*}}, %c8192_i32 :
// CHECK: llvm.inline_asm has_side_effects "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3, $4, $5}], [$6];"{{.*}}, %[[MAP]], %c0_i32,
// CHECK: gpu.return
// The grid is that of the tiles, whatever they stand in: here of keys.
// CHECK: fa2gpu.launch @copies_module::@copies grid ["ceildiv(seqlen_k, 64) * heads_kv * batch", "1", "1"] block 384 shared 49264
// CHECK-SAME: #fa2gpu.param<"tensor_map", "k", 64>
#shared = #fa2gpu.shared<panel = 128>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @copies(%k: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>, #fa2.arg<"n", "in", [] x index>], shared_bytes = 49264 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = memref.dim %k, %c1 : !global
  %heads = memref.dim %k, %c2 : !global
  %batches = memref.dim %k, %c0 : !global
  %map = fa2gpu.tensor_map %k rows 64 : !global
  fa2gpu.tensor_map_prefetch %map
  %r = fa2gpu.ring.create {name = "k", offset = 16384, barriers = 49184} : !kring
  fa2gpu.ring.init %r consumers 8 : !kring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %t, %h, %b in (%rows by 64, %heads, %batches) {
      %k1, %k1_next = fa2gpu.ring.wait %r[%t] : !kring -> !kt
      fa2gpu.ring.release %r[%t] : !kring
      fa2gpu.turn_wait of 2 {id = 1 : i64}
      fa2gpu.turn_pass of 2 {id = 1 : i64}
      fa2gpu.turn_wait of 2 first {id = 1 : i64}
      fa2gpu.turn_pass of 2 first {id = 1 : i64}
      fa2gpu.group_barrier {id = 3 : i64}
      fa2gpu.tensor_store %k1, %map[%t, %h, %b] : !kt
      fa2gpu.store_wait
      fa2gpu.proxy_fence
      fa2gpu.warp_barrier
    }
  } @producer(4 warps, 24 registers, one thread) {
    fa2.for_each_tile %t, %h, %b in (%rows by 64, %heads, %batches) {
      %w, %w_next = fa2gpu.ring.acquire %r[%t] : !kring -> !kt
      fa2gpu.tensor_copy %map[%t, %h, %b], %w signal %r[%t] : !kt, !kring
      fa2gpu.ring.commit %r[%t] : !kring
    }
  }
  fa2.return
}
