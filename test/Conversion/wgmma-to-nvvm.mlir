// RUN: fa2-opt %s --convert-fa2gpu-to-nvvm | FileCheck %s

// Descriptors: address / 16, 8 rows of 128 bytes from one group of rows to the next (64 << 32), 128-byte swizzle
// (1 << 62). Of V, whose rows are reduced over, 64 rows of 128 bytes lie between two panels of columns (512 << 16).
// CHECK-LABEL: gpu.func @products
// CHECK: arith.constant 4611686293305360384 : i64
// S = Q K^T: fence, a product for every 16 columns of head dim, the first of which does not add; one group. A panel's
// steps lie 32 bytes apart.
// CHECK: llvm.inline_asm has_side_effects "{{.*}}wgmma.fence.sync.aligned;
// CHECK-SAME: add.s64 db, $32, 0;\0Aadd.s64 da, $33, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{[^;]*}}, da, db, none, 1, 1, 0, 0;
// CHECK-SAME: add.s64 db, $32, 2;\0Aadd.s64 da, $33, 2;\0Awgmma.mma_async{{[^;]*}}, da, db, all, 1, 1, 0, 0;
// CHECK-SAME: add.s64 db, $32, 4;\0Aadd.s64 da, $33, 4;\0Awgmma.mma_async{{[^;]*}}, da, db, all, 1, 1, 0, 0;
// CHECK-SAME: add.s64 db, $32, 6;\0Aadd.s64 da, $33, 6;\0Awgmma.mma_async{{[^;]*}}, da, db, all, 1, 1, 0, 0;
// CHECK-SAME: wgmma.commit_group.sync.aligned;
// The accumulators go through the wait.
// CHECK: llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,{{.*}},0,1,2,
// CHECK-COUNT-16: llvm.nvvm.ff2bf16x2.rn
// CHECK: arith.constant 4611686293338849280 : i64
// O += P V: P from registers, four at a time; V transposed, 16 rows (2048 bytes) a step.
// CHECK: llvm.inline_asm has_side_effects "{{.*}}wgmma.fence.sync.aligned;
// CHECK-SAME: add.s64 db, $64, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{[^;]*}}, {$65, $66, $67, $68}, db, all, 1, 1, 1;
// CHECK-SAME: add.s64 db, $64, 128;\0Awgmma.mma_async{{[^;]*}}, {$69, $70, $71, $72}, db, all, 1, 1, 1;
// CHECK-SAME: add.s64 db, $64, 256;\0Awgmma.mma_async{{[^;]*}}, {$73, $74, $75, $76}, db, all, 1, 1, 1;
// CHECK-SAME: add.s64 db, $64, 384;\0Awgmma.mma_async{{[^;]*}}, {$77, $78, $79, $80}, db, all, 1, 1, 1;
// P's registers are operands of its wait.
// CHECK: llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,{{.*}},31,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,~{memory}"
// 16 rows and 16 columns a stmatrix.
// CHECK-COUNT-4: nvvm.stmatrix
// CHECK-NOT: nvvm.stmatrix
// CHECK: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#op = #fa2gpu.operand<#acc>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!p = tensor<128x64xbf16, #op>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!kring = !fa2gpu.ring<2 x !kt>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @products(%n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 49152 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !qt>
  %kr = fa2gpu.ring.create {name = "k", offset = 16384} : !kring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %t, %h, %b in (%n by 128, %n, %n) {
      %q = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !qt> -> !qt
      %k = fa2gpu.ring.slot %kr[%c0] : !kring -> !kt
      %sf = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %sf {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
      %pt = arith.truncf %s : !acc to tensor<128x64xbf16, #acc>
      %p = fa2gpu.convert_layout %pt : tensor<128x64xbf16, #acc> -> !p
      %of = fa2gpu.dot_start %p, %k acc(%s : !acc) : !p, !kt -> !fa2gpu.in_flight<!acc>
      %o = fa2gpu.dot_wait %of keep(%p : !p) {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
      %ob = arith.truncf %o : !acc to tensor<128x64xbf16, #acc>
      fa2gpu.local_store %ob, %q : tensor<128x64xbf16, #acc>, !qt
    }
  } @producer(4 warps, 24 registers) {
    %c1 = arith.constant 1 : index
  }
  fa2.return
}

// Both operands of either major, for two warpgroups side by side: each has half of the columns, which begin 8192 bytes
// apart in a panel of their own. A^T reads a panel's 64 columns as rows: 16 rows a step, both transposed bits.
// CHECK-LABEL: gpu.func @transposed
// CHECK: %[[GROUP:.*]] = arith.shrui %{{.*}}, %c2_i32
// CHECK: arith.constant 4611686293338849280 : i64
// CHECK: llvm.inline_asm has_side_effects "{{.*}}wgmma.fence.sync.aligned;
// CHECK-SAME: add.s64 db, $32, 0;\0Aadd.s64 da, $33, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{[^;]*}}, da, db, none, 1, 1, 1, 1;
// CHECK-SAME: add.s64 db, $32, 128;\0Aadd.s64 da, $33, 128;\0Awgmma.mma_async{{[^;]*}}, da, db, all, 1, 1, 1, 1;
// Half a panel: 32 columns a warpgroup, 64 bytes into the swizzled rows.
// CHECK: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{[^;]*}}, da, db, none, 1, 1, 0, 1;
#side = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
!wide = tensor<64x128xbf16, #shared>
fa2.kernel @transposed(%n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 49152 : i64} {
  %c0 = arith.constant 0 : index
  %ar = fa2gpu.ring.create {name = "a", offset = 0} : !fa2gpu.ring<1 x !kt>
  %br = fa2gpu.ring.create {name = "b", offset = 16384} : !fa2gpu.ring<1 x !wide>
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %t, %h, %b in (%n by 128, %n, %n) {
      %a = fa2gpu.ring.slot %ar[%c0] : !fa2gpu.ring<1 x !kt> -> !kt
      %w = fa2gpu.ring.slot %br[%c0] : !fa2gpu.ring<1 x !wide> -> !wide
      %f = fa2gpu.dot_start %a, %w {transpose_a} : !kt, !wide -> !fa2gpu.in_flight<tensor<64x128xf32, #side>>
      %d = fa2gpu.dot_wait %f {pending = 0 : i64} : !fa2gpu.in_flight<tensor<64x128xf32, #side>> -> tensor<64x128xf32, #side>
      %x = arith.truncf %d : tensor<64x128xf32, #side> to tensor<64x128xbf16, #side>
      fa2gpu.local_store %x, %w : tensor<64x128xbf16, #side>, !wide
      %g = fa2gpu.dot_start %a, %a : !kt, !kt -> !fa2gpu.in_flight<tensor<64x64xf32, #side>>
      %e = fa2gpu.dot_wait %g {pending = 0 : i64} : !fa2gpu.in_flight<tensor<64x64xf32, #side>> -> tensor<64x64xf32, #side>
    }
  } @producer(4 warps, 24 registers) {
  }
  fa2.return
}
