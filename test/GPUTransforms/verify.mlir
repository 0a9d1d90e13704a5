// The default kernels of both families keep the rules, for all that the pass can know: any lengths, any tiles.
// RUN: fa2-compile --arch sm_80 --head-dim 40 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 40 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 64 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 64 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 128 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 128 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 256 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 256 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 40 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 40 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 128 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 128 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 192 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 192 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 256 --mask none --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 256 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --pass backward --head-dim 64 --mask causal --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 64 --stages 3 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_80 --head-dim 64 --partition split_k --block-q 16 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=overlap=0,speculate_max=0 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=persistent=0 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=separate_output=0 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=speculate_max=0 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=group_limits=0,ping_pong=1 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// RUN: fa2-compile --arch sm_90a --head-dim 64 --mask causal --schedule=group_limits=1,ping_pong=1 --emit=gpu | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: shared_bytes

// A matmul in flight from one iteration to the next, with its keys' slot held until it is complete; and what is said
// when the wait lets it run on, or the wrong slot goes.
// RUN: fa2-opt %s --fa2gpu-verify | FileCheck %s
// CHECK-LABEL: fa2.kernel @carried
// CHECK: fa2gpu.dot_wait {{.*}} {pending = 1 : i64}
// RUN: sed 's/pending = 1/pending = 2/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=PENDING
// PENDING: 'fa2gpu.dot_wait' op expected pending to be at most 1, the matmuls started after this one, got 2
// RUN: sed 's/release %%rk\[%%i\]/release %%rk[%%j]/' %s | not fa2-opt --fa2gpu-verify 2>&1 | FileCheck %s --check-prefix=SLOT
// SLOT: 'fa2gpu.ring.release' op expected no matmul in flight that reads this use of ring 'k'

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<64x64xf32, #acc>
!kt = tensor<64x64xbf16, #shared>
!qring = !fa2gpu.ring<1 x !kt>
!kring = !fa2gpu.ring<2 x !kt>
!fly = !fa2gpu.in_flight<!acc>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @carried(%t: !global, %n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2>,
                shared_bytes = 24640 : i64,
                arguments = [#fa2.arg<"t", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %map = fa2gpu.tensor_map %t rows 64 : !global
  %rq = fa2gpu.ring.create {name = "q", offset = 0 : i64, barriers = 24576 : i64} : !qring
  %rk = fa2gpu.ring.create {name = "k", offset = 8192 : i64, barriers = 24592 : i64} : !kring
  fa2gpu.ring.init %rq consumers 4 : !qring
  fa2gpu.ring.init %rk consumers 4 : !kring
  fa2gpu.roles @consumer(4 warps, 248 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 64, %n, %n) {
      %q, %q_next = fa2gpu.ring.wait %rq[%c0] : !qring -> !kt
      %k0, %k0_next = fa2gpu.ring.wait %rk[%c0] : !kring -> !kt
      %f0 = fa2gpu.dot_start %q, %k0 {transpose_b} : !kt, !kt -> !fly
      %last = scf.for %i = %c0 to %n step %c1 iter_args(%before = %f0) -> (!fly) {
        %j = arith.addi %i, %c1 : index
        %k, %k_next = fa2gpu.ring.wait %rk[%j] : !kring -> !kt
        %f = fa2gpu.dot_start %q, %k {transpose_b} : !kt, !kt -> !fly
        %s = fa2gpu.dot_wait %before {pending = 1 : i64} : !fly -> !acc
        fa2gpu.ring.release %rk[%i] : !kring
        scf.yield %f : !fly
      }
      %s = fa2gpu.dot_wait %last {pending = 0 : i64} : !fly -> !acc
      %end = arith.maxsi %n, %c0 : index
      fa2gpu.ring.release %rk[%end] : !kring
      fa2gpu.ring.release %rq[%c0] : !qring
    }
  } @producer(4 warps, 24 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%n by 64, %n, %n) {
      %qs, %qs_next = fa2gpu.ring.acquire %rq[%c0] : !qring -> !kt
      fa2gpu.tensor_copy %map[%tile, %head, %batch], %qs signal %rq[%c0] : !kt, !qring
      fa2gpu.ring.commit %rq[%c0] : !qring
      %end = arith.maxsi %n, %c0 : index
      %many = arith.addi %end, %c1 : index
      scf.for %i = %c0 to %many step %c1 {
        %ks, %ks_next = fa2gpu.ring.acquire %rk[%i] : !kring -> !kt
        fa2gpu.tensor_copy %map[%i, %head, %batch], %ks signal %rk[%i] : !kt, !kring
        fa2gpu.ring.commit %rk[%i] : !kring
      }
    }
  }
  fa2.return
}
