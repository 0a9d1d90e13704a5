// RUN: fa2-opt %s --verify-diagnostics --fa2gpu-split-masked-tiles

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!s = tensor<64x32xf32, #acc>
fa2.kernel @by_two(%s: !s, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"s", "in", [] x f32>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tiles = fa2.tile_range %c0 to %n full(%c0, %n)
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %s) -> (!s) {
    %p = arith.addi %i, %i : index
    %j = fa2.tile_at %tiles[%p]
    // expected-error @+1 {{expected the mask's kv_block to be the tile at the loop's place, or so many further on}}
    %sm = fa2.apply_mask %acc at(%c0, %j) lengths(%n, %n) : !s
    scf.yield %sm : !s
  }
  fa2.return
}
