// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=FORMED
// DEFINE: %{passes} = --fa2gpu-plan --fa2gpu-persist --fa2gpu-assign-roles --fa2gpu-form-rings --fa2gpu-specialize-warps --canonicalize --cse --fa2gpu-count-tiles --fa2gpu-expand-ranges --fa2gpu-number-uses --canonicalize --cse --fa2gpu-place-dot-waits --fa2gpu-allocate
// RUN: fa2-opt %s %{passes} --fa2gpu-verify | FileCheck %s --check-prefix=PROVED
// A number that begins again in each head, or that one loop forgets to carry, is not proved.
// RUN: fa2-opt %s %{passes} | sed 's/scf.yield %%\([0-9]*\) : index/scf.yield %%c0 : index/' | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: 'scf.for' op expected as many uses of ring 'k' on every path at this loop's first iteration

// A ring of an inner loop: both loops carry its cursors, the one that fills and the one that reads.
// FORMED: %[[K:.*]] = fa2gpu.ring.create {name = "k"}
// FORMED: %[[H:.*]]:2 = scf.for %{{.*}} = %{{.*}} to %n step %c1 iter_args(%[[F:.*]] = %c0{{.*}}, %[[R:.*]] = %c0{{.*}}) -> (index, index)
// FORMED: %[[T:.*]]:2 = fa2.for_tiles %{{.*}} in %{{.*}} iter_args(%[[F1:.*]] = %[[F]], %[[R1:.*]] = %[[R]]) -> (index, index)
// FORMED: %[[SLOT:.*]], %[[F2:.*]] = fa2gpu.ring.acquire %[[K]][%[[F1]]]
// FORMED: signal %[[K]][%[[F1]]]
// FORMED: fa2gpu.ring.commit %[[K]][%[[F1]]]
// FORMED: %{{.*}}, %[[R2:.*]] = fa2gpu.ring.wait %[[K]][%[[R1]]]
// FORMED: fa2gpu.ring.release %[[K]][%[[R1]]]
// FORMED: fa2.yield %[[F2]], %[[R2]] : index, index
// FORMED: scf.yield %[[T]]#0, %[[T]]#1 : index, index

// The inner loop needs no register for it, the outer one, which goes on by as many as there are tiles, does.
// PROVED: @consumer(
// PROVED: fa2gpu.tile_loop{{.*}} carries(%c0)
// PROVED-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[FIRST:.*]]: index):
// PROVED: %[[LAST:.*]] = scf.for %{{.*}} = %c0 to %n step %c1 iter_args(%[[C:.*]] = %[[FIRST]]) -> (index)
// PROVED: scf.for %[[I:.*]] = %c0 to %[[N:.*]] step %c1 {
// PROVED: %[[U:.*]] = arith.addi %[[C]], %[[I]]
// PROVED: fa2gpu.ring.wait %{{.*}}[%[[U]]]
// PROVED: fa2gpu.ring.release %{{.*}}[%[[U]]]
// PROVED: }
// PROVED: %[[NEXT:.*]] = arith.addi %[[C]], %[[N]]
// PROVED: scf.yield %[[NEXT]]
// PROVED: fa2gpu.tile_yield %[[LAST]]
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @heads_in_tiles(%q: !global, %k: !global, %n: index, %end: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 3, persistent = true>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"n", "in", [] x index>, #fa2.arg<"end", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %some = arith.maxsi %end, %c0 : index
  fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
    %qv = fa2.view %q[%batch, %head] rows(%c0, %n) : !global -> !fa2.view<? x 64 x bf16>
    %qt = fa2gpu.load %qv[%n] : !fa2.view<? x 64 x bf16> -> !qt
    scf.for %h = %c0 to %n step %c1 {
      %kv = fa2.view %k[%batch, %h] rows(%c0, %n) : !global -> !fa2.view<? x 64 x bf16>
      %tiles = fa2.tile_range %c0 to %some full(%c0, %some)
      fa2.for_tiles %j in %tiles {
        %row = arith.muli %j, %c64 : index
        %kt = fa2gpu.load %kv[%row] : !fa2.view<? x 64 x bf16> -> !kt
        %f = fa2gpu.dot_start %qt, %kt {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
        %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      }
    }
  }
  fa2.return
}
