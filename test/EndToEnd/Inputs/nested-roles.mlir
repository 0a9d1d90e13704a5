// Three roles, a loop over heads around the one over tiles, a ring that threads fill, two outputs: see three-roles.test.
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!half = tensor<64x64xbf16, #acc>
!tile = tensor<64x64xbf16, #shared>
!view = !fa2.view<? x 64 x bf16>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @nested(%q: !global, %k: !global, %out: !global, %scores: !global)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, separate_output = true>,
                fa2gpu.plan = #fa2gpu.plan<roles = [#fa2gpu.role<"rows", 4 warps, 200 registers>, #fa2gpu.role<"sums", 4 warps, 240 registers>,
                                                    #fa2gpu.role<"copy", 4 warps, 24 registers>]>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads", 64] x bf16>,
                             #fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>,
                             #fa2.arg<"scores", "out", ["batch", "seqlen_q", "heads", 64] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : !acc
  %batches = memref.dim %q, %c0 : !global
  %rows = memref.dim %q, %c1 : !global
  %heads = memref.dim %q, %c2 : !global
  %keys = memref.dim %k, %c1 : !global
  %more = arith.addi %keys, %c63 : index
  %count = arith.divui %more, %c64 : index
  fa2.for_each_tile %tile, %head, %batch in (%rows by 64, %heads, %batches) {
    %row = arith.muli %tile, %c64 : index
    %qv = fa2.view %q[%batch, %head] rows(%c0, %rows) : !global -> !view
    %ov = fa2.view %out[%batch, %head] rows(%c0, %rows) : !global -> !view
    %sv = fa2.view %scores[%batch, %head] rows(%c0, %rows) : !global -> !view
    %qt = fa2gpu.load %qv[%row] : !view -> !tile
    %tiles = fa2.tile_range %c0 to %count full(%c0, %count)
    %sum, %all = scf.for %h = %c0 to %heads step %c1 iter_args(%o1 = %zero, %a1 = %zero) -> (!acc, !acc) {
      %kv = fa2.view %k[%batch, %h] rows(%c0, %keys) : !global -> !view
      %o2, %a2 = fa2.for_tiles %j in %tiles iter_args(%o = %o1, %a = %a1) -> (!acc, !acc) {
        %key = arith.muli %j, %c64 : index
        %kt = fa2gpu.load %kv[%key] : !view -> !tile
        %f = fa2gpu.dot_start %qt, %kt {transpose_b} : !tile, !tile -> !fa2gpu.in_flight<!acc>
        %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
        %h1 = arith.truncf %s : !acc to !half
        %sh = fa2gpu.share %h1 : !half -> !tile
        %b = arith.addf %a, %s : !acc
        %g = fa2gpu.dot_start %sh, %kt acc(%o : !acc) {fa2gpu.role = "sums"} : !tile, !tile -> !fa2gpu.in_flight<!acc>
        %p = fa2gpu.dot_wait %g : !fa2gpu.in_flight<!acc> -> !acc
        fa2.yield %p, %b : !acc, !acc
      }
      scf.yield %o2, %a2 : !acc, !acc
    }
    %half = arith.truncf %sum : !acc to !half
    fa2.store %half, %ov[%row] : !half, !view
    %half2 = arith.truncf %all : !acc to !half
    fa2.store %half2, %sv[%row] : !half, !view
  }
  fa2.return
}
