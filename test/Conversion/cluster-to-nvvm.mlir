// RUN: fa2-opt %s --convert-fa2gpu-to-nvvm --canonicalize --cse | FileCheck %s --implicit-check-not=nvvm.barrier0

// Two blocks give each other a tile. The other's slot, and the barrier that says it is full, are at the same place of its shared memory.
// CHECK-LABEL: gpu.func @gives(
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-DAG: %[[SMEM:.*]] = llvm.ptrtoint
// CHECK-DAG: %[[SLOT:.*]] = arith.addi %[[SMEM]], %c8192_i32
// CHECK-DAG: %[[FULL:.*]] = arith.addi %[[SMEM]], %c32784_i32
// CHECK-DAG: %[[KEYS:.*]] = arith.addi %[[SMEM]], %c16384_i32
// One arrival, with its bytes, is the other block's; those of four warps, which release, are too.
// CHECK: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}} %[[FULL]], %c1_i32 :
// CHECK: %[[EMPTY:.*]] = arith.addi %[[SMEM]], %c32792_i32
// CHECK-NEXT: llvm.inline_asm has_side_effects "mbarrier.init.shared.b64 [$0], $1;"{{.*}} %[[EMPTY]], %c4_i32 :
// Neither block signals before the other's barriers are there.
// CHECK: llvm.inline_asm has_side_effects "fence.mbarrier_init.release.cluster;"
// CHECK-NEXT: llvm.inline_asm has_side_effects "barrier.cluster.arrive.release;\0Abarrier.cluster.wait.acquire;"
// CHECK-NEXT: arith.cmpi ult
// CHECK-NEXT: scf.if
// Both have the same tile.
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK-NEXT: %[[TILE:.*]] = arith.divui %[[BLOCK]], %c2
// CHECK-NEXT: arith.remui %[[TILE]],
// CHECK: %[[RANK:.*]] = gpu.cluster_block_id x
// CHECK-NEXT: %[[COLUMN:.*]] = arith.muli %[[RANK]], %c64
// All threads wait until the other block's slot is free; one tells it how many bytes will come and sends them.
// CHECK: %[[OWNEMPTY:.*]] = arith.addi %[[SMEM]], %c32792_i32
// CHECK-NEXT: %[[PHASE:.*]] = arith.xori
// CHECK-NEXT: mbarrier.try_wait.parity.shared.b64{{.*}} %[[OWNEMPTY]], %[[PHASE]] :
// CHECK: nvvm.elect.sync
// CHECK: %[[N:.*]] = arith.index_cast %[[RANK]] : index to i32
// CHECK-NEXT: %[[OTHER:.*]] = arith.xori %[[N]], %c1_i32
// CHECK-NEXT: %[[THEIRFULL:.*]] = llvm.inline_asm "mapa.shared::cluster.u32 $0, $1, $2;"{{.*}} %[[FULL]], %[[OTHER]] :
// CHECK-NEXT: llvm.inline_asm has_side_effects "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [$0], $1;"{{.*}} %[[THEIRFULL]], %c8192_i32 :
// CHECK-NEXT: %[[THEIRS:.*]] = llvm.inline_asm "mapa.shared::cluster.u32 $0, $1, $2;"{{.*}} %[[SLOT]], %[[OTHER]] :
// CHECK-NEXT: llvm.inline_asm has_side_effects "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"{{.*}} %[[THEIRS]], %[[SMEM]], %c8192_i32, %[[THEIRFULL]] :
// A ring of its own is released here.
// CHECK: "@$1 mbarrier.arrive.shared.b64 _, [$0];"
// What comes is waited for at the own barrier.
// CHECK: mbarrier.try_wait.parity.shared.b64{{.*}} %[[FULL]],
// Columns are whole panels on, 64 rows of 2 bytes each a column, and then 2 bytes each in a panel. Of addresses the descriptors have what is the block's: a rank is above.
// CHECK: %[[C:.*]] = arith.index_cast %[[COLUMN]] : index to i32
// CHECK-NEXT: %[[IN:.*]] = arith.andi %[[C]], %c63_i32
// CHECK-NEXT: %[[PANELS:.*]] = arith.subi %[[C]], %[[IN]]
// CHECK-NEXT: %[[ON:.*]] = arith.muli %[[PANELS]], %c128_i32
// CHECK-NEXT: %[[PANEL:.*]] = arith.addi %[[KEYS]], %[[ON]]
// CHECK-NEXT: %[[BYTES:.*]] = arith.muli %[[IN]], %c2_i32
// CHECK-NEXT: %[[B:.*]] = arith.addi %[[PANEL]], %[[BYTES]]
// CHECK-NEXT: %[[BLOW:.*]] = arith.andi %[[B]], %c262143_i32
// CHECK-NEXT: arith.shrui %[[BLOW]], %c4_i32
// CHECK: %[[ALOW:.*]] = arith.andi %[[SLOT]], %c262143_i32
// CHECK-NEXT: arith.shrui %[[ALOW]], %c4_i32
// The slot goes back to the block that fills it: lane 0 of each warp arrives there.
// CHECK: wgmma.wait_group
// CHECK: %[[THEIREMPTY:.*]] = llvm.inline_asm "mapa.shared::cluster.u32 $0, $1, $2;"{{.*}} %[[OWNEMPTY]], %{{.*}} :
// CHECK-NEXT: llvm.inline_asm has_side_effects "@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];"{{.*}} %[[THEIREMPTY]], %{{.*}} :
// A sum's columns begin further on too: 64 rows of 4 bytes each.
// CHECK: %[[CL:.*]] = arith.index_cast %[[COLUMN]] : index to i64
// CHECK-NEXT: %[[BYTES:.*]] = arith.muli %[[CL]], %c256_i64
// CHECK-NEXT: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%[[BYTES]]]
// CHECK-NEXT: red.relaxed.gpu.global.add.v4.f32 [$0+0]{{.*}} %[[AT]],
// Shared memory stays until the other block has no more to do with it.
// CHECK: } else {
// CHECK-NEXT: nvvm.setmaxregister
// CHECK-NEXT: }
// CHECK-NEXT: llvm.inline_asm has_side_effects "barrier.cluster.arrive.release;\0Abarrier.cluster.wait.acquire;"
// CHECK-NEXT: gpu.return
// CHECK: fa2gpu.launch @gives_module::@gives grid ["2 * ceildiv(seqlen_k, 128) * heads_kv * batch", "1", "1"] block 256
// CHECK-SAME: {cluster = 2 : i64}

// A block alone takes a tile alone, and has no more than its own barrier and addresses.
// RUN: sed -e 's/ {cluster = 2 : i64}$//' -e 's/fa2.cluster_rank/arith.constant 1 : index/' -e '/%%rp/d' -e 's/%%other/%%ds/g' %s | fa2-opt --convert-fa2gpu-to-nvvm --canonicalize --cse | FileCheck %s --check-prefix=ALONE --implicit-check-not=cluster --implicit-check-not=262143
// ALONE: fence.mbarrier_init.release.cluster
// ALONE-NEXT: nvvm.barrier0
// ALONE: %[[BLOCK:.*]] = gpu.block_id x
// ALONE-NEXT: arith.remui %[[BLOCK]],
// ALONE: wgmma.mma_async
// ALONE: fa2gpu.launch {{.*}} grid ["ceildiv(seqlen_k, 128) * heads_kv * batch", "1", "1"]
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!bf = tensor<64x64xbf16, #acc>
!t = tensor<64x64xbf16, #shared>
!wide = tensor<64x128xbf16, #shared>
!own = !fa2gpu.ring<1 x !t>
!keys = !fa2gpu.ring<1 x !wide>
!global = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
!sum = memref<?x?x?x128xf32, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>
fa2.kernel @gives(%k: !global, %s: !sum, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, partition = keys>,
                shared_bytes = 40960 : i64,
                arguments = [#fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 128] x bf16>,
                             #fa2.arg<"s", "workspace", ["batch", "seqlen_q", "heads", 128] x f32>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %rows = memref.dim %k, %c1 : !global
  %heads = memref.dim %k, %c2 : !global
  %batches = memref.dim %k, %c0 : !global
  %rd = fa2gpu.ring.create {name = "ds", offset = 0 : i64, barriers = 32768 : i64} : !own
  %rp = fa2gpu.ring.create {name = "peer", offset = 8192 : i64, barriers = 32784 : i64, peer} : !own
  %rk = fa2gpu.ring.create {name = "k", offset = 16384 : i64} : !keys
  fa2gpu.ring.init %rd consumers 4 fillers 4 : !own
  fa2gpu.ring.init %rp consumers 4 : !own
  fa2gpu.roles @consumer(4 warps, 240 registers) {
    fa2.for_each_tile %pair, %head, %batch in (%rows by 128, %heads, %batches) {
      %rank = fa2.cluster_rank
      %column = arith.muli %rank, %c64 : index
      %there, %there_next = fa2gpu.ring.acquire %rp[%pair] : !own -> !t
      %ds, %ds_next = fa2gpu.ring.wait %rd[%pair] : !own -> !t
      fa2gpu.peer_copy %ds, %there signal %rp[%pair] : !t, !own
      fa2gpu.ring.release %rd[%pair] : !own
      fa2gpu.ring.commit %rp[%pair] : !own
      %other, %other_next = fa2gpu.ring.wait %rp[%pair] : !own -> !t
      %kt = fa2gpu.ring.slot %rk[%c0] : !keys -> !wide
      %f = fa2gpu.dot_start %other, %kt from %column {transpose_a} : !t, !wide -> !fa2gpu.in_flight<!acc>
      %dq = fa2gpu.dot_wait %f {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.ring.release %rp[%pair] : !own
      %sv = fa2.view %s[%batch, %head] rows(%c0, %n) from %column : !sum -> !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
      fa2.accumulate %dq, %sv[%c0] : !acc, !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
    } {cluster = 2 : i64}
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}
