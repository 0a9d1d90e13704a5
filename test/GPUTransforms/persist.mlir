// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-persist | FileCheck %s
// RUN: sed 's/, persistent = true//' %s | fa2-opt --fa2gpu-plan --fa2gpu-persist | FileCheck %s --check-prefix=OFF
// RUN: sed 's/^  }$/  } {cluster = 2 : i64}/' %s | fa2-opt --fa2gpu-plan --fa2gpu-persist | FileCheck %s --check-prefix=PAIR

// RUN: sed 's/#fa2gpu.role<"producer", 4 warps/#fa2gpu.role<"sums", 4 warps, 24 registers>, &/; s/(%n by 128, %n, %n) {/(%n by 128, %n, %n) order longest_first {/' %s | fa2-opt --fa2gpu-plan --fa2gpu-persist | FileCheck %s --check-prefix=MANY

// OFF-NOT: fa2gpu.tile_loop
// OFF: fa2.for_each_tile

// Blocks of a cluster take each tile together, as before.
// PAIR: fa2gpu.tile_loop
// PAIR: } {cluster = 2 : i64} : <2 x tensor<1xi32>>

// Of many roles one says which tile a number of a section is.
// MANY: fa2gpu.tile_loop{{.*}} order {{ *}}longest_first
// MANY: } {located} : <2 x tensor<1xi32>>

// The block takes tile after tile; their numbers come through a ring. What else is carried comes with the rings that are formed.
// CHECK: %[[TILES:.*]] = fa2gpu.ring.create {name = "tiles"} : <2 x tensor<1xi32>>
// CHECK: fa2gpu.tile_loop(%{{.*}} by 128, %{{.*}}, %{{.*}}) order {{ *}}ascending queue %[[TILES]] {
// CHECK-NEXT: ^bb0(%[[TILE:.*]]: index, %[[HEAD:.*]]: index, %[[BATCH:.*]]: index, %{{.*}}: index):
// CHECK-NEXT: fa2.view %{{.*}}[%[[BATCH]], %[[HEAD]]] rows(%[[TILE]],
// CHECK-NEXT: fa2gpu.load
// CHECK-NEXT: fa2gpu.tile_yield
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%q: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true>,
                fa2gpu.plan = #fa2gpu.plan<roles = [#fa2gpu.role<"consumer", 8 warps, 240 registers>, #fa2gpu.role<"producer", 4 warps, 24 registers>]>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
    %v = fa2.view %q[%batch, %head] rows(%tile, %n) : !global -> !fa2.view<? x 64 x bf16>
    %t = fa2gpu.load %v[%n] : !fa2.view<? x 64 x bf16> -> tensor<128x64xbf16, #fa2gpu.shared>
  }
  fa2.return
}
