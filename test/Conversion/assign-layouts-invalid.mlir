// RUN: fa2-opt %s --split-input-file -verify-diagnostics --convert-fa2-to-fa2gpu

// A sum's memory is in the order of a grid of warps, and so is what is added to it.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @sum(%a: !fa2.view<? x 64 x bf16>, %sum: !fa2.view<? x 64 x f32, order = <<2 x 2>>>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>, #fa2.arg<"sum", "out", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  // expected-note @+1 {{from here}}
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <4 x 1>
  // expected-error @+1 {{'fa2.accumulate' op expected one layout of a tile, got #fa2gpu.acc<#fa2gpu.mma_sync, groups = [2, 2]> for what has #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>}}
  fa2.accumulate %d, %sum[%c0] : tensor<64x64xf32>, !fa2.view<? x 64 x f32, order = <<2 x 2>>>
  fa2.return
}

// -----

// Two products meet in a sum of theirs.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @products(%a: !fa2.view<? x 64 x bf16>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <4 x 1>
  // expected-error @+1 {{'fa2.dot' op expected one layout of a tile}}
  %e = fa2.dot %x, %x : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <1 x 4>
  // expected-note @+1 {{from here}}
  %f = arith.addf %d, %e : tensor<64x64xf32>
  fa2.return
}

// -----

// Four warps multiply together.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @groups(%a: !fa2.view<? x 64 x bf16>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  // expected-error @+1 {{'fa2.dot' op expected a multiple of 4 warps down because #fa2gpu.wgmma multiplies with so many, got #fa2.warps<2 x 4>}}
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <2 x 4>
  fa2.return
}

// -----

// The sum of a row whose columns several warps share, each in rows of its own.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @rows(%a: !fa2.view<? x 64 x bf16>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <2 x 2>
  // expected-error @+1 {{'fa2.sum_rows' op expected rows of one warp each, or all in every warp, got #fa2gpu.acc<#fa2gpu.mma_sync, groups = [2, 2]>}}
  %s = fa2.sum_rows %d : tensor<64x64xf32> -> tensor<64xf32>
  fa2.return
}

// -----

// Every warp has a part, and every part a warp.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @count(%a: !fa2.view<? x 64 x bf16>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  // expected-error @+1 {{'fa2.dot' op expected the schedule's 4 warps, or those of a role, to have parts of the tile, got #fa2.warps<2 x 1>}}
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <2 x 1>
  fa2.return
}

// -----

// A product's operand lies in panels, an unaligned tile as memory has it.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @unaligned(%a: memref<?x?x?xbf16, strided<[?, ?, ?]>>, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", ["heads", "seqlen_q", "seqlen_k"] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %v = fa2.view %a[%c0, %c0] rows(%c0, %n) {dims = array<i64: -1, 1, 0, 2>, unaligned} : memref<?x?x?xbf16, strided<[?, ?, ?]>> -> !fa2.view<? x ? x bf16>
  // expected-error @+1 {{'fa2.load' op expected elementwise operations alone to take a tile of an unaligned view, which lies as memory has it}}
  %x = fa2.load %v[%c0, %c0] : !fa2.view<? x ? x bf16> -> tensor<64x64xbf16>
  %d = fa2.dot %x, %x {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <4 x 1>
  fa2.return
}

// -----

// A vector of another role lies in shared memory, where broadcasts along columns read it.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @relayed(%a: !fa2.view<? x f32>, %b: !fa2.view<? x f32>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x f32>, #fa2.arg<"b", "out", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %x = fa2.load %a[%c0] : !fa2.view<? x f32> -> tensor<64xf32>
  %y = arith.addf %x, %x : tensor<64xf32>
  // expected-error @+1 {{expected broadcasts along columns or diagonals alone to take a vector of another role, which lies in shared memory}}
  %z = fa2.relay %y : tensor<64xf32>
  fa2.store %z, %b[%c0] : tensor<64xf32>, !fa2.view<? x f32>
  fa2.return
}
