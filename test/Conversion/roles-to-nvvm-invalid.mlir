// RUN: fa2-opt %s --split-input-file -verify-diagnostics --convert-fa2gpu-to-nvvm

// A ring without mbarriers has slots, and nothing that says when they are full.
#shared = #fa2gpu.shared<panel = 128>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @threads(%n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 16384 : i64} {
  %r = fa2gpu.ring.create {name = "ds", offset = 0} : !kring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %t, %h, %b in (%n by 128, %n, %n) {
      // expected-error @+1 {{'fa2gpu.ring.wait' op expected mbarriers of ring 'ds'; run fa2gpu-allocate}}
      %k, %k_next = fa2gpu.ring.wait %r[%t] : !kring -> !kt
    }
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}

// -----

// Without tiles nothing says how many blocks there are.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
// expected-error @+2 {{failed to legalize operation 'fa2.kernel'}}
// expected-error @+1 {{'fa2.kernel' op expected fa2.for_each_tile or fa2gpu.tile_loop, whose tiles are the grid}}
fa2.kernel @no_tiles(%n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 0 : i64} {
  fa2gpu.roles @consumer(8 warps, 240 registers) {
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}

// -----

// A number of tiles that the kernel computes is none that a launcher knows; a length, and a number of heads that is packed, are.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
// expected-error @+1 {{failed to legalize operation 'fa2.kernel'}}
fa2.kernel @computed(%n: index, %q: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>], shared_bytes = 0 : i64} {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %rows = memref.dim %q, %c1 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %heads = memref.dim %q, %c2 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %packed = arith.divui %heads, %c4 : index
  %more = arith.addi %rows, %c4 : index
  // expected-error @+1 {{'fa2.for_each_tile' op expected tiles over arguments' extents, which a launcher knows}}
  fa2.for_each_tile %t, %h, %b in (%more by 128, %packed, %n) {
  }
  fa2.return
}
