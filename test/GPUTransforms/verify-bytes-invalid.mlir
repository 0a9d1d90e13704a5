// A slot is as long as what lies between it and the next one: 48 rows of 32 bytes take 2048. The output's bytes are
// the end of the second slot; where it is written, that slot is read no more.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s
// CHECK: fa2.kernel @bytes
// RUN: sed '/@meet-end$/d' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=MEET
// MEET: 'fa2gpu.local_store' op expected a barrier between the last read of ring 'k' and this write

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [3, 1]>
!bf = tensor<48x16xbf16, #acc>
!op = tensor<48x16xbf16, #fa2gpu.operand<#acc>>
!t = tensor<48x16xbf16, #fa2gpu.shared>
!view = !fa2.view<? x 16 x bf16>
!global = memref<?x?x?x16xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>
fa2.kernel @bytes(%t: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 48, block_kv = 48, warps = 3, stages = 2>,
                shared_bytes = 5120 : i64,
                arguments = [#fa2.arg<"t", "in", ["batch", "seqlen_q", "heads", 16] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rk = fa2gpu.ring.create {name = "k", offset = 0 : i64} : !fa2gpu.ring<2 x !t>
  %ro = fa2gpu.ring.create {name = "out", offset = 3072 : i64} : !fa2gpu.ring<1 x !t>
  fa2.for_each_tile %tile, %head, %batch in (%n by 48, %n, %n) {
    %offset, %length = fa2.sequence %t[%batch] : !global
    %view = fa2.view %t[%batch, %head] rows(%offset, %length) : !global -> !view
    %slot = fa2gpu.ring.slot %rk[%c1] : !fa2gpu.ring<2 x !t> -> !t
    fa2gpu.copy %view[%tile], %slot : !view, !t
    fa2gpu.copy_commit
    fa2gpu.copy_wait 0
    fa2gpu.barrier
    %k = fa2gpu.local_load %slot : !t -> !op
    fa2gpu.barrier // @meet-end
    %o = arith.constant dense<0.0> : !bf
    %out = fa2gpu.ring.slot %ro[%c0] : !fa2gpu.ring<1 x !t> -> !t
    fa2gpu.local_store %o, %out : !bf, !t
  }
  fa2.return
}
