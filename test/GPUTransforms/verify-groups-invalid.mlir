// Copy groups, waits and barriers: a pipelined loop that keeps every rule, and what is said of it with one operation
// gone, twice, changed or moved.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s --check-prefix=OK
// OK: fa2.kernel @groups

// DEFINE: %{tag} = none
// DEFINE: %{edit} = d
// DEFINE: %{prefix} = NONE
// DEFINE: %{try} = sed '/@%{tag}$/%{edit}' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=%{prefix}

// What is read was copied on every path, its group waited for, and a barrier followed.
// REDEFINE: %{tag} = copy
// REDEFINE: %{prefix} = COPY
// RUN: %{try}
// COPY: 'fa2gpu.dot_start' op expected this use of ring 'k' to have been written on every path
// REDEFINE: %{tag} = copy-first
// RUN: %{try}
// REDEFINE: %{tag} = commit
// REDEFINE: %{prefix} = COMMIT
// RUN: %{try}
// COMMIT: 'fa2gpu.dot_start' op expected fa2gpu.copy_commit behind the copy into ring 'k'
// REDEFINE: %{tag} = wait
// REDEFINE: %{prefix} = WAIT
// RUN: %{try}
// REDEFINE: %{edit} = s/wait 0/wait 1/
// RUN: %{try}
// WAIT: 'fa2gpu.dot_start' op expected a wait that leaves at most 0 copy groups open before ring 'k' is read
// WAIT: note: copied here
// REDEFINE: %{edit} = d
// REDEFINE: %{tag} = meet
// REDEFINE: %{prefix} = MEET
// RUN: %{try}
// MEET: 'fa2gpu.dot_start' op expected a barrier before ring 'k' is read by other threads than wrote it
// RUN: sed -e 's/ring.slot %%rk\[%%i\]/ring.slot %%rk[%%j]/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=AHEAD
// AHEAD: 'fa2gpu.dot_start' op expected this use of ring 'k' to have been written on every path
// REDEFINE: %{tag} = meet-out
// REDEFINE: %{prefix} = OUT
// RUN: %{try}
// OUT: 'fa2gpu.copy_out' op expected a barrier before ring 'out' is read by other threads than wrote it

// What is overwritten is read no more, and no copy into it is open. The output has the queries' bytes, and the keys'.
// REDEFINE: %{tag} = meet-end
// REDEFINE: %{prefix} = LAST
// RUN: %{try}
// LAST: 'fa2gpu.local_store' op expected a barrier between the last read of ring 'q' and this write
// REDEFINE: %{tag} = wait-end
// REDEFINE: %{prefix} = OPEN
// RUN: %{try}
// OPEN: 'fa2gpu.local_store' op expected earlier writes of ring 'k' to be complete and met at a barrier
// OPEN: note: written here

#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
#shared = #fa2gpu.shared
!acc = tensor<64x64xf32, #acc>
!bf = tensor<64x64xbf16, #acc>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !kt>
!kring = !fa2gpu.ring<2 x !kt>
!view = !fa2.view<? x 64 x bf16>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @groups(%t: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>,
                shared_bytes = 24576 : i64,
                arguments = [#fa2.arg<"t", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ro = fa2gpu.ring.create {name = "out", offset = 4096 : i64} : !qring
  %rq = fa2gpu.ring.create {name = "q", offset = 0 : i64} : !qring
  %rk = fa2gpu.ring.create {name = "k", offset = 8192 : i64} : !kring
  fa2.for_each_tile %tile, %head, %batch in (%n by 64, %n, %n) {
    %offset, %length = fa2.sequence %t[%batch] : !global
    %kv = fa2.view %t[%batch, %head] rows(%offset, %length) : !global -> !view
    %qs = fa2gpu.ring.slot %rq[%c0] : !qring -> !kt
    fa2gpu.copy %kv[%tile], %qs : !view, !kt
    fa2gpu.copy_commit
    %first = fa2gpu.ring.slot %rk[%c0] : !kring -> !kt
    fa2gpu.copy %kv[%c0], %first : !view, !kt // @copy-first
    fa2gpu.copy_commit
    fa2gpu.copy_wait 1
    fa2gpu.barrier
    scf.for %i = %c0 to %n step %c1 {
      %j = arith.addi %i, %c1 : index
      fa2gpu.copy_wait 0 // @wait
      fa2gpu.barrier // @meet
      %q = fa2gpu.ring.slot %rq[%c0] : !qring -> !kt
      %k = fa2gpu.ring.slot %rk[%i] : !kring -> !kt
      %f = fa2gpu.dot_start %q, %k {transpose_b} : !kt, !kt -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
      %ks = fa2gpu.ring.slot %rk[%j] : !kring -> !kt
      fa2gpu.copy %kv[%j], %ks : !view, !kt // @copy
      fa2gpu.copy_commit // @commit
    }
    fa2gpu.copy_wait 0 // @wait-end
    fa2gpu.barrier // @meet-end
    %o = arith.constant dense<0.0> : !bf
    %slot = fa2gpu.ring.slot %ro[%c0] : !qring -> !kt
    fa2gpu.local_store %o, %slot : !bf, !kt
    fa2gpu.barrier // @meet-out
    fa2gpu.copy_out %slot, %kv[%tile] : !kt, !view
  }
  fa2.return
}
