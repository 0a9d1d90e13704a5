// RUN: fa2-opt %s --fa2gpu-insert-fences | FileCheck %s

// The output in shared memory of its own. Before threads write, the store of the tile before has read its bytes, for
// the whole group; before the copy engine reads, each thread's writes are fenced, and the group has met. Nobody
// waits for this store but the next tile, and at the end the block, whose shared memory must outlive it.
// CHECK-LABEL: fa2.kernel @own
// CHECK: fa2gpu.tile_loop
// CHECK: %[[SLOT:.*]] = fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.store_wait
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.local_store %o, %[[SLOT]]
// CHECK-NEXT: fa2gpu.proxy_fence
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.tensor_store %[[SLOT]]
// CHECK-NEXT: fa2gpu.tile_yield
// CHECK-NEXT: }
// CHECK-NEXT: fa2gpu.store_wait
// CHECK-NEXT: } @producer

// The output in the queries' place. No warp of the group reads the queries any more when one writes, and the slot is
// released once the store has read it.
// CHECK-LABEL: fa2.kernel @queries
// CHECK: fa2gpu.tile_loop
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.wait
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.local_store %o, %[[SLOT]]
// CHECK-NEXT: fa2gpu.proxy_fence
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.tensor_store %[[SLOT]]
// CHECK-NEXT: fa2gpu.store_wait
// CHECK-NEXT: fa2gpu.ring.release
// CHECK-NEXT: fa2gpu.tile_yield
// CHECK-NEXT: }
// CHECK-NEXT: } @producer

// A block of one tile stores twice, and waits once, when both are under way: what it waits for is the end, not a slot.
// CHECK-LABEL: fa2.kernel @once
// CHECK: fa2.for_each_tile
// CHECK: %[[READ:.*]], %{{.*}} = fa2gpu.ring.wait
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.local_store %o, %[[READ]]
// CHECK-NEXT: fa2gpu.proxy_fence
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.tensor_store %[[READ]]
// CHECK-NEXT: %[[SLOT:.*]] = fa2gpu.ring.slot
// CHECK-NEXT: fa2gpu.local_store %o, %[[SLOT]]
// CHECK-NEXT: fa2gpu.proxy_fence
// CHECK-NEXT: fa2gpu.group_barrier
// CHECK-NEXT: fa2gpu.tensor_store %[[SLOT]]
// CHECK-NEXT: fa2gpu.store_wait
// CHECK-NEXT: fa2gpu.ring.release
// CHECK-NEXT: fa2gpu.store_wait
// CHECK-NEXT: }
// CHECK-NEXT: } @producer
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!qt = tensor<128x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !qt, parts = 2>
!tiles = !fa2gpu.ring<2 x tensor<1xi32>>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @own(%out: !global, %n: index, %o: tensor<128x64xbf16, #acc>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true, separate_output = true>,
                arguments = [#fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"o", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %map = fa2gpu.tensor_map %out rows 64 : !global
  %r = fa2gpu.ring.create {name = "out"} : !fa2gpu.ring<1 x !qt>
  %tiles = fa2gpu.ring.create {name = "tiles"} : !tiles
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      %slot, %slot_next = fa2gpu.ring.acquire %r[%visit] : !fa2gpu.ring<1 x !qt> -> !qt
      fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, !qt
      fa2gpu.tensor_store %slot, %map[%tile, %head, %batch] : !qt
      fa2gpu.tile_yield %uses
    } : !tiles
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}

fa2.kernel @queries(%out: !global, %n: index, %o: tensor<128x64xbf16, #acc>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true>,
                arguments = [#fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"o", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %map = fa2gpu.tensor_map %out rows 64 : !global
  %r = fa2gpu.ring.create {name = "q"} : !qring
  %tiles = fa2gpu.ring.create {name = "tiles"} : !tiles
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2gpu.tile_loop(%n by 128, %n, %n) order ascending queue %tiles carries(%c0) {
    ^bb0(%tile: index, %head: index, %batch: index, %visit: index, %uses: index):
      %slot, %slot_next = fa2gpu.ring.wait %r[%visit] : !qring -> !qt
      fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, !qt
      fa2gpu.tensor_store %slot, %map[%tile, %head, %batch] : !qt
      fa2gpu.ring.release %r[%visit] : !qring
      fa2gpu.tile_yield %uses
    } : !tiles
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}

fa2.kernel @once(%out: !global, %n: index, %o: tensor<128x64xbf16, #acc>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>, #fa2.arg<"o", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %map = fa2gpu.tensor_map %out rows 64 : !global
  %r = fa2gpu.ring.create {name = "q"} : !qring
  %own = fa2gpu.ring.create {name = "out"} : !fa2gpu.ring<1 x !qt>
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) order ascending {
      %read, %read_next = fa2gpu.ring.wait %r[%c0] : !qring -> !qt
      fa2gpu.local_store %o, %read : tensor<128x64xbf16, #acc>, !qt
      fa2gpu.tensor_store %read, %map[%tile, %head, %batch] : !qt
      fa2gpu.ring.release %r[%c0] : !qring
      %slot, %slot_next = fa2gpu.ring.acquire %own[%c0] : !fa2gpu.ring<1 x !qt> -> !qt
      fa2gpu.local_store %o, %slot : tensor<128x64xbf16, #acc>, !qt
      fa2gpu.tensor_store %slot, %map[%tile, %head, %batch] : !qt
    }
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}
