// Threads write a tile that matmuls read from shared memory: fenced, and met by all who need it. Each warpgroup reads
// the rows that it wrote; what is said where it reads others', and with one operation gone.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s
// CHECK: fa2.kernel @exchange

// DEFINE: %{tag} = none
// DEFINE: %{edit} = d
// DEFINE: %{prefix} = NONE
// DEFINE: %{try} = sed '/@%{tag}$/%{edit}' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=%{prefix}

// wgmma reads behind the threads' back.
// REDEFINE: %{tag} = fence
// REDEFINE: %{prefix} = FENCE
// RUN: %{try}
// FENCE: 'fa2gpu.dot_start' op expected fa2gpu.proxy_fence and then a barrier between the writes to ring 'ds' and a matmul that reads shared memory by itself
// FENCE: note: written here
// REDEFINE: %{tag} = met
// REDEFINE: %{prefix} = MET
// RUN: %{try}
// MET: 'fa2gpu.dot_start' op expected a barrier before ring 'ds' is read by other threads than wrote it
// A fence behind the meeting comes too late.
// RUN: sed -e '/@fence$/d' -e 's#// @met$#\n fa2gpu.proxy_fence#' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=MET

// As the right operand, or transposed, the tile is read whole; a warpgroup's barrier says nothing of the others.
// RUN: sed -e 's/dot_start %%ds, %%k/dot_start %%k, %%ds/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: sed -e 's/dot_start %%ds, %%k {transpose_b}/dot_start %%ds, %%k {transpose_a}/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: 'fa2gpu.dot_start' op expected a barrier of all warpgroups before ring 'ds' is read, where others wrote what this one reads
// The next write: a warpgroup's own rows are read no more once it has met, others' may be.
// REDEFINE: %{tag} = met-before
// REDEFINE: %{prefix} = READ
// RUN: %{try}
// READ: 'fa2gpu.local_store' op expected a barrier between the last read of ring 'ds' and this write

// What is acquired is free of its own ring's readers, not of others with the same bytes; where threads fill it, they fence.
// RUN: sed -e 's/name = "k", offset = 0/name = "k", offset = 1024/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=APART
// APART: 'fa2gpu.ring.create' op expected ring 'ds' to have bytes of its own because roles run side by side
// RUN: sed -e 's/fa2gpu.tensor_copy %%map\[%%tile, %%head, %%batch\], %%ks signal %%rk\[%%c0\] : !t, !ring/%%z = arith.constant dense<0.0> : !bf\n fa2gpu.local_store %%z, %%ks : !bf, !t/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: 'fa2gpu.ring.commit' op expected fa2gpu.proxy_fence before this use of ring 'k' is committed because threads wrote it and matmuls or the copy engine read it
// RUN: sed -e 's/ signal %%rk\[%%c0\] : !t, !ring/&\n %%z = arith.constant dense<0.0> : !bf\n fa2gpu.local_store %%z, %%ks : !bf, !t/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: 'fa2gpu.local_store' op expected a copy by the engine into ring 'k' because roles wait for a copy's bytes, not for what threads write
// RUN: sed -e 's/, barriers = 65536 : i64//' -e '/ring.init/d' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=MBARRIERS
// MBARRIERS: 'fa2gpu.ring.wait' op expected mbarriers of ring 'k', at which roles wait, or fa2gpu.ring.slot and barriers

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x128xf32, #acc>
!bf = tensor<128x128xbf16, #acc>
!t = tensor<128x128xbf16, #shared>
!ring = !fa2gpu.ring<1 x !t>
!global = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 128, head_dim_v = 128>
fa2.kernel @exchange(%g: !global, %n: index, %zero: !bf)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 128, warps = 8, stages = 2>,
                shared_bytes = 65552 : i64,
                arguments = [#fa2.arg<"g", "in", ["batch", "seqlen_q", "heads", 128] x bf16>, #fa2.arg<"n", "in", [] x index>,
                             #fa2.arg<"zero", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %map = fa2gpu.tensor_map %g rows 64 : !global
  %rd = fa2gpu.ring.create {name = "ds", offset = 32768 : i64} : !ring
  %rk = fa2gpu.ring.create {name = "k", offset = 0 : i64, barriers = 65536 : i64} : !ring
  fa2gpu.ring.init %rk consumers 8 : !ring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
      %k, %k_next = fa2gpu.ring.wait %rk[%c0] : !ring -> !t
      %ds = fa2gpu.ring.slot %rd[%c0] : !ring -> !t
      fa2gpu.local_store %zero, %ds : !bf, !t
      fa2gpu.proxy_fence // @fence
      fa2gpu.group_barrier {id = 1 : i64} // @met
      %f = fa2gpu.dot_start %ds, %k {transpose_b} : !t, !t -> !fa2gpu.in_flight<!acc>
      %s = fa2gpu.dot_wait %f {pending = 0 : i64} : !fa2gpu.in_flight<!acc> -> !acc
      fa2gpu.group_barrier {id = 1 : i64} // @met-before
      fa2gpu.local_store %zero, %ds : !bf, !t
      fa2gpu.ring.release %rk[%c0] : !ring
    }
  } @producer(4 warps, 24 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 128, %n, %n) {
      %ks, %ks_next = fa2gpu.ring.acquire %rk[%c0] : !ring -> !t
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %ks signal %rk[%c0] : !t, !ring
      fa2gpu.ring.commit %rk[%c0] : !ring
    }
  }
  fa2.return
}
