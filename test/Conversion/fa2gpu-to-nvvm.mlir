// Everything becomes scalars: no tile, slot or ring is left.
// RUN: fa2-opt %s --split-input-file --convert-fa2gpu-to-nvvm | FileCheck %s --implicit-check-not="tensor<{{[0-9]}}" --implicit-check-not="fa2gpu.{{ring|dot|copy|local|convert}}"
// The matrices that ldmatrix brings, by fours: rows as they lie (left side, keys), or transposed (values).
// RUN: fa2-opt %s --split-input-file --convert-fa2gpu-to-nvvm | FileCheck %s --check-prefix=LD

// Head dim 64, 16 rows a warp: S takes 4 steps of k by 4 fragments of 8 keys, O 2 steps by 8 fragments.
// CHECK-LABEL: gpu.func @d64
// CHECK-COUNT-16: nvvm.mma.sync {{.*}} multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32)
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.ff2bf16x2
// CHECK-COUNT-16: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
// LD-LABEL: gpu.func @d64
// LD-COUNT-12: nvvm.ldmatrix {{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// LD-COUNT-8: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// LD-NOT: nvvm.ldmatrix
// LD: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!q = tensor<64x64xbf16, #fa2gpu.shared>
!kv = tensor<32x64xbf16, #fa2gpu.shared>
!s = tensor<64x32xf32, #acc>
!o = tensor<64x64xf32, #acc>
fa2.kernel @d64(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 65536 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k", offset = 32768} : !fa2gpu.ring<1 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 64, %n, %n) {
    %qt = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %kt = fa2gpu.ring.slot %kr[%c0] : !fa2gpu.ring<1 x !kv> -> !kv
    %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
    %pb = arith.truncf %s : !s to tensor<64x32xbf16, #acc>
    %p = fa2gpu.convert_layout %pb : tensor<64x32xbf16, #acc> -> tensor<64x32xbf16, #fa2gpu.operand<#acc>>
    %of = fa2gpu.dot_start %p, %kt : tensor<64x32xbf16, #fa2gpu.operand<#acc>>, !kv -> !fa2gpu.in_flight<!o>
    %o = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!o> -> !o
  }
  fa2.return
}

// -----

// 32 rows a warp: twice the products, but keys and values are read once for both.
// CHECK-LABEL: gpu.func @d64_two_fragments
// CHECK-COUNT-32: nvvm.mma.sync {{.*}} multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32)
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.ff2bf16x2
// CHECK-COUNT-32: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
// LD-LABEL: gpu.func @d64_two_fragments
// LD-COUNT-16: nvvm.ldmatrix {{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// LD-COUNT-8: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// LD-NOT: nvvm.ldmatrix
// LD: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
!q = tensor<128x64xbf16, #fa2gpu.shared>
!kv = tensor<32x64xbf16, #fa2gpu.shared>
!s = tensor<128x32xf32, #acc>
!o = tensor<128x64xf32, #acc>
fa2.kernel @d64_two_fragments(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 32, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 65536 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k", offset = 32768} : !fa2gpu.ring<1 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 128, %n, %n) {
    %qt = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %kt = fa2gpu.ring.slot %kr[%c0] : !fa2gpu.ring<1 x !kv> -> !kv
    %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
    %pb = arith.truncf %s : !s to tensor<128x32xbf16, #acc>
    %p = fa2gpu.convert_layout %pb : tensor<128x32xbf16, #acc> -> tensor<128x32xbf16, #fa2gpu.operand<#acc>>
    %of = fa2gpu.dot_start %p, %kt : tensor<128x32xbf16, #fa2gpu.operand<#acc>>, !kv -> !fa2gpu.in_flight<!o>
    %o = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!o> -> !o
  }
  fa2.return
}

// -----

// Head dim 40: scores over 48 columns, the last 8 of them zeros in shared memory; 5 fragments of output, of
// which the last comes with half of an ldmatrix to spare.
// CHECK-LABEL: gpu.func @d40
// CHECK-COUNT-6: nvvm.mma.sync {{.*}} multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32)
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.ff2bf16x2
// CHECK-COUNT-5: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
// LD-LABEL: gpu.func @d40
// LD-COUNT-6: nvvm.ldmatrix {{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// LD-COUNT-3: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// LD-NOT: nvvm.ldmatrix
// LD: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
!q = tensor<16x40xbf16, #fa2gpu.shared>
!kv = tensor<16x40xbf16, #fa2gpu.shared>
!s = tensor<16x16xf32, #acc>
!o = tensor<16x40xf32, #acc>
fa2.kernel @d40(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 40, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 65536 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k", offset = 32768} : !fa2gpu.ring<1 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %qt = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %kt = fa2gpu.ring.slot %kr[%c0] : !fa2gpu.ring<1 x !kv> -> !kv
    %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
    %pb = arith.truncf %s : !s to tensor<16x16xbf16, #acc>
    %p = fa2gpu.convert_layout %pb : tensor<16x16xbf16, #acc> -> tensor<16x16xbf16, #fa2gpu.operand<#acc>>
    %of = fa2gpu.dot_start %p, %kt : tensor<16x16xbf16, #fa2gpu.operand<#acc>>, !kv -> !fa2gpu.in_flight<!o>
    %o = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!o> -> !o
  }
  fa2.return
}

// -----

// Head dim 72 in f16: 80 columns in 5 steps, 9 fragments of output.
// CHECK-LABEL: gpu.func @d72_f16
// CHECK-COUNT-10: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (vector<2xf16>, vector<2xf16>, f32)
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.ff2f16x2
// CHECK-COUNT-9: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
// LD-LABEL: gpu.func @d72_f16
// LD-COUNT-10: nvvm.ldmatrix {{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// LD-COUNT-5: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// LD-NOT: nvvm.ldmatrix
// LD: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
!q = tensor<16x72xf16, #fa2gpu.shared>
!kv = tensor<16x72xf16, #fa2gpu.shared>
!s = tensor<16x16xf32, #acc>
!o = tensor<16x72xf32, #acc>
fa2.kernel @d72_f16(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = f16, head_dim = 72, head_dim_v = 72>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 65536 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !q>
  %kr = fa2gpu.ring.create {name = "k", offset = 32768} : !fa2gpu.ring<1 x !kv>
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %qt = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !q> -> !q
    %kt = fa2gpu.ring.slot %kr[%c0] : !fa2gpu.ring<1 x !kv> -> !kv
    %sf = fa2gpu.dot_start %qt, %kt {transpose_b} : !q, !kv -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %sf : !fa2gpu.in_flight<!s> -> !s
    %pb = arith.truncf %s : !s to tensor<16x16xf16, #acc>
    %p = fa2gpu.convert_layout %pb : tensor<16x16xf16, #acc> -> tensor<16x16xf16, #fa2gpu.operand<#acc>>
    %of = fa2gpu.dot_start %p, %kt : tensor<16x16xf16, #fa2gpu.operand<#acc>>, !kv -> !fa2gpu.in_flight<!o>
    %o = fa2gpu.dot_wait %of : !fa2gpu.in_flight<!o> -> !o
  }
  fa2.return
}

// -----

// A tile of 16 x 40 by 32 threads: columns 0 to 31 are 4 chunks of 16 bytes a row, 8 rows at a time; columns
// 32 to 47 are 2 chunks, of which the second is padding and filled with zeros, as rows past the length are.
// On the way out padding and rows past the length are left alone.
// CHECK-LABEL: gpu.func @copies
// CHECK: %[[TWO:.*]] = arith.select
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %[[TWO]]
// CHECK-COUNT-2: nvvm.cp.async.shared.global
// CHECK-NOT: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.cp.async.wait.group 0
// CHECK: nvvm.barrier0
// In bounds and not predicated: whole rows need no size.
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg :
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg :
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg, %{{.*}} :
// CHECK-NOT: nvvm.cp.async.shared.global
// CHECK-COUNT-3: scf.if
// CHECK-NOT: scf.if
// CHECK: gpu.return
!global = memref<?x?x?x40xbf16, strided<[?, ?, ?, 1]>>
!tile = tensor<16x40xbf16, #fa2gpu.shared>
fa2.kernel @copies(%x: !global)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 40, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 40] x bf16>], shared_bytes = 2048 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !tile>
  %n = memref.dim %x, %c1 : !global
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %v = fa2.view %x[%b, %h] rows(%c0, %n) : !global -> !fa2.view<? x 40 x bf16>
    %s = fa2gpu.ring.slot %r[%c0] : !fa2gpu.ring<1 x !tile> -> !tile
    fa2gpu.copy %v[%c0], %s : !fa2.view<? x 40 x bf16>, !tile
    fa2gpu.copy_commit
    fa2gpu.copy_wait 0
    fa2gpu.barrier
    fa2gpu.copy %v[%c0], %s {in_bounds} : !fa2.view<? x 40 x bf16>, !tile
    fa2gpu.copy_out %s, %v[%c0] : !tile, !fa2.view<? x 40 x bf16>
  }
  fa2.return
}

// -----

// Use n of a ring of three slots is at n mod 3; slots are 1024 bytes apart at least.
// CHECK-LABEL: gpu.func @slots
// CHECK: %[[USE:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: %[[SLOT:.*]] = arith.remui %[[USE]], %c3_i32
// CHECK: arith.muli %[[SLOT]], %c2048_i32
fa2.kernel @slots(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 40, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 3>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 6144 : i64} {
  %r = fa2gpu.ring.create {name = "k", offset = 0} : !fa2gpu.ring<3 x tensor<16x40xbf16, #fa2gpu.shared>>
  %s = fa2gpu.ring.slot %r[%n] : !fa2gpu.ring<3 x tensor<16x40xbf16, #fa2gpu.shared>> -> tensor<16x40xbf16, #fa2gpu.shared>
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
  }
  fa2.return
}

// -----

// A parameter that nothing reads is not passed (q's head stride, batch, lse); `heads` is passed once, with its
// first tensor. One block a tile of 128 rows for each of the heads and batch entries that the tiles are taken from.
// CHECK-LABEL: gpu.func @parameters
// CHECK-SAME: (%{{.*}}: !llvm.ptr<1>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: i64, %{{.*}}: i64) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 2 : i32}
// CHECK: fa2gpu.launch @parameters_module::@parameters grid ["ceildiv(seqlen_q, 128) * heads * seqlen_q", "1", "1"] block 128 shared 24576
// CHECK-SAME: arguments [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"lse", "out", ["batch", "heads", "seqlen_q"] x f32>]
// CHECK-SAME: parameters [#fa2gpu.param<"pointer", "q">, #fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"i32", "heads">, #fa2gpu.param<"stride", "q">, #fa2gpu.param<"stride", "q", 1>]
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
!tile = tensor<16x64xbf16, #fa2gpu.shared>
fa2.kernel @parameters(%x: !global, %lse: memref<?x?x?xf32, strided<[?, ?, 1]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 1, min_blocks = 2>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"lse", "out", ["batch", "heads", "seqlen_q"] x f32>],
                shared_bytes = 24576 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !tile>
  %rows = memref.dim %x, %c1 : !global
  %heads = memref.dim %lse, %c1 : memref<?x?x?xf32, strided<[?, ?, 1]>>
  fa2.for_each_tile %t, %h, %b in (%rows by 128, %heads, %rows) {
    %v = fa2.view %x[%b, %c0] rows(%c0, %rows) : !global -> !fa2.view<? x 64 x bf16>
    %s = fa2gpu.ring.slot %r[%c0] : !fa2gpu.ring<1 x !tile> -> !tile
    fa2gpu.copy %v[%t], %s : !fa2.view<? x 64 x bf16>, !tile
  }
  fa2.return
}

// -----

// Longest first: heads start in sections, as equal as can be, whose keys and values fit in 32 MB of the level-2 cache; of how
// many heads each is at least, and how many have one more, the launcher computes. Of tiles of keys: queries, dO and the sum of dQ; the
// names are those of the tiles' extents.
// CHECK-LABEL: gpu.func @longest_first
// CHECK-SAME: %[[HEADS:[a-z0-9]+]]: index, %[[WIDER:[a-z0-9]+]]: index) kernel
// CHECK: %[[TILES:.*]] = arith.divui
// CHECK: %[[WIDE:.*]] = arith.addi %[[HEADS]], %c1
// CHECK: %[[BEFORE:.*]] = arith.muli %[[WIDER]], %[[WIDE]]
// CHECK: %[[TILES_BEFORE:.*]] = arith.muli %[[BEFORE]], %[[TILES]]
// CHECK: %[[IS_WIDER:.*]] = arith.cmpi ult, %block_id_x, %[[TILES_BEFORE]]
// CHECK: %[[WIDTH:.*]] = arith.select %[[IS_WIDER]], %[[WIDE]], %[[HEADS]]
// CHECK: arith.muli %[[WIDTH]], %[[TILES]]
// CHECK: fa2gpu.launch
// CHECK-SAME: #fa2gpu.param<"i32", "(entries * heads) / max(1, ceildiv((entries * heads), pow2floor(max(1, 33554432 / max(1, keys * 208)))))">, #fa2gpu.param<"i32", "(entries * heads) % max(1, ceildiv((entries * heads), pow2floor(max(1, 33554432 / max(1, keys * 208)))))">]
// CHECK: fa2gpu.launch
// CHECK-SAME: #fa2gpu.param<"i32", "(entries * heads_kv) / max(1, ceildiv((entries * heads_kv), max(1, 35651584 / max(1, rows * 464))))">, #fa2gpu.param<"i32", "(entries * heads_kv) % max(1, ceildiv((entries * heads_kv), max(1, 35651584 / max(1, rows * 464))))">]
fa2.kernel @longest_first(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %y: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"x", "in", ["entries", "rows", "heads", 64] x bf16>, #fa2.arg<"y", "in", ["entries", "keys", "heads_kv", 64] x bf16>],
                shared_bytes = 2048 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = memref.dim %x, %c1 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %heads = memref.dim %x, %c2 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %batches = memref.dim %x, %c0 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %r = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>>
  fa2.for_each_tile %t, %h, %b in (%rows by 128, %heads, %batches) order longest_first {
    %s = fa2gpu.ring.slot %r[%t] : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>> -> tensor<16x16xbf16, #fa2gpu.shared>
    %s1 = fa2gpu.ring.slot %r[%b] : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>> -> tensor<16x16xbf16, #fa2gpu.shared>
  }
  fa2.return
}
fa2.kernel @longest_first_of_keys(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %y: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"x", "in", ["entries", "rows", "heads", 64] x bf16>, #fa2.arg<"y", "in", ["entries", "keys", "heads_kv", 64] x bf16>],
                shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %keys = memref.dim %y, %c1 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %heads = memref.dim %y, %c2 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %batches = memref.dim %y, %c0 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  fa2.for_each_tile %t, %h, %b in (%keys by 128, %heads, %batches) order longest_first {
  }
  fa2.return
}// -----

// The entries of the batch side by side: a tile of one head in all of them before the next tile.
// CHECK-LABEL: gpu.func @abreast
// CHECK-SAME: (%[[ENTRIES:[a-z0-9]+]]: index,
// CHECK: %[[TILES:.*]] = arith.divui
// CHECK: %[[REST:.*]] = arith.divui %block_id_x, %[[ENTRIES]] :
// CHECK-NEXT: arith.remui %[[REST]], %[[TILES]] :
// CHECK-NEXT: arith.divui %[[REST]], %[[TILES]] :
// CHECK-NEXT: arith.remui %block_id_x, %[[ENTRIES]] :
fa2.kernel @abreast(%x: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>, %y: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64, warps = 4, stages = 1>,
                arguments = [#fa2.arg<"x", "in", ["entries", "rows", "heads", 64] x bf16>, #fa2.arg<"y", "in", ["entries", "keys", "heads_kv", 64] x bf16>],
                shared_bytes = 2048 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = memref.dim %x, %c1 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %heads = memref.dim %x, %c2 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %batches = memref.dim %x, %c0 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
  %r = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>>
  fa2.for_each_tile %t, %h, %b in (%rows by 128, %heads, %batches) order batches_abreast {
    %s = fa2gpu.ring.slot %r[%h] : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>> -> tensor<16x16xbf16, #fa2gpu.shared>
    %s1 = fa2gpu.ring.slot %r[%b] : !fa2gpu.ring<2 x tensor<16x16xbf16, #fa2gpu.shared>> -> tensor<16x16xbf16, #fa2gpu.shared>
  }
  fa2.return
}


