// RUN: fa2-opt %s -verify-diagnostics --fa2gpu-persist

!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @starts_late(%q: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, persistent = true>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c1 = arith.constant 1 : index
  fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
    // expected-error @+1 {{expected one fa2.for_tiles, whose tiles number uses of rings, and no other loop}}
    scf.for %i = %c1 to %n step %c1 {
    }
  }
  fa2.return
}
