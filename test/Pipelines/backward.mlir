// What the passes decide for backward, stage by stage.
// RUN: fa2-opt %s --fa2-pipeline="pass=backward schedule=key_warps=8,dq_warps=4 stop-after=convert-fa2-to-fa2gpu" | FileCheck %s --check-prefix=GPU
// RUN: fa2-opt %s --fa2-pipeline="pass=backward schedule=key_warps=8,dq_warps=4 stop-after=fa2gpu-form-rings" | FileCheck %s --check-prefix=RINGS
// RUN: fa2-opt %s --fa2-pipeline="pass=backward schedule=key_warps=8,dq_warps=4 stop-after=fa2gpu-allocate" | FileCheck %s --check-prefix=WAITS
// RUN: fa2-opt %s --fa2-pipeline="pass=backward stop-after=convert-fa2gpu-to-nvvm" | FileCheck %s --check-prefix=NVVM
// RUN: fa2-opt %s --fa2-pipeline="pass=backward" | fa2-translate --fa2-to-ptx | FileCheck %s --check-prefix=PTX
// RUN: fa2-opt %s --fa2-pipeline="pass=backward schedule=key_warps=4,block_kv=64,warps=8,block_q=64,dq_warps=4 stop-after=convert-fa2-to-fa2gpu" | FileCheck %s --check-prefix=SPLIT
// RUN: fa2-opt %s --fa2-pipeline="pass=backward stop-after=fa2gpu-allocate" | FileCheck %s --check-prefix=TOGETHER
// RUN: fa2-opt %s --fa2-pipeline="pass=backward target=sm_90" | fa2-translate --fa2-to-ptx | FileCheck %s --check-prefix=SM90
// RUN: not fa2-opt %s --fa2-pipeline="pass=backward schedule=dq=atomic_v4" 2>&1 | FileCheck %s --check-prefix=V4
// V4: expected dq = atomic or recompute on sm_80, whose reductions add one element; got dq = atomic_v4
// RUN: not fa2-opt %s --fa2-pipeline="pass=sideways" 2>&1 | FileCheck %s --check-prefix=PASS
// PASS: expected pass to be forward or backward, got 'sideways'

// Scores have rows of keys, eight warps of them; dQ has its own grid of warps.
// GPU-DAG: #[[ACC:acc[0-9]*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [8, 1]>
// GPU-DAG: #[[DQ:acc[0-9]*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 2]>
// GPU: fa2.kernel @backward(
// GPU: %[[N:.*]] = fa2gpu.load {{.*}} : <? x f32> -> tensor<64xf32, #shared>
// GPU: %[[P:.*]] = fa2.softmax_recompute %{{.*}}, %[[N]] scale %{{.*}} {columns}
// P and dS become left operands where they are; dS goes to other warps once.
// GPU: %[[PB:.*]] = fa2gpu.convert_layout {{.*}} -> tensor<128x64xbf16, #operand{{[0-9]*}}>
// GPU: fa2gpu.dot_start %[[PB]]
// GPU: %[[S:.*]] = fa2gpu.share {{.*}} -> tensor<128x64xbf16, #shared>
// GPU: %[[DSB:.*]] = fa2gpu.convert_layout
// GPU: fa2gpu.dot_start %[[DSB]]
// GPU: fa2gpu.dot_start %[[S]], %{{.*}} {name = "dq", transpose_a} : {{.*}} -> <tensor<64x128xf32, #[[DQ]]>>

// Where a row of warps shares its keys, P is shared as well.
// SPLIT: fa2.kernel @backward(
// SPLIT-COUNT-2: fa2gpu.share
// SPLIT-NOT: fa2gpu.share

// The exchange is waited for after dK's product, which has dS in registers.
// RINGS: fa2gpu.ring.create {name = "exchange"} : <1 x tensor<128x64xbf16, #shared>>
// RINGS: fa2gpu.ring.create {name = "neg_delta"} : <2 x tensor<64xf32, #shared>>
// RINGS: fa2gpu.local_store
// RINGS: fa2gpu.dot_start
// RINGS: fa2gpu.ring.wait
// RINGS: fa2gpu.dot_start {{.*}} {name = "dq", transpose_a}

// Of the query tiles, those at the diagonal come first, with the mask; then full ones. Two barriers a tile.
// WAITS: fa2.kernel @backward(
// WAITS: scf.for
// WAITS: scf.for
// WAITS: fa2gpu.copy_wait 0
// WAITS-NEXT: fa2gpu.barrier
// WAITS: fa2.apply_mask {{.*}} transposed
// WAITS: fa2gpu.local_store
// WAITS: fa2gpu.barrier
// WAITS: fa2.accumulate
// WAITS: scf.yield
// WAITS: scf.for
// WAITS-NOT: fa2.apply_mask
// WAITS: fa2gpu.copy_wait 0
// WAITS-NEXT: fa2gpu.barrier
// WAITS-NOT: fa2gpu.barrier
// WAITS: fa2gpu.local_store
// WAITS: fa2gpu.barrier
// WAITS-NOT: fa2gpu.barrier
// WAITS: scf.yield

// P and dS together, behind one barrier; the next tile's arrival is the other.
// TOGETHER: scf.for
// TOGETHER: scf.for
// TOGETHER: fa2gpu.copy_wait 0
// TOGETHER-NEXT: fa2gpu.barrier
// TOGETHER-NOT: fa2gpu.barrier
// TOGETHER-COUNT-2: fa2gpu.local_store
// TOGETHER: fa2gpu.barrier
// TOGETHER-NOT: fa2gpu.barrier
// TOGETHER: scf.yield

// Four registers of a thread lie together.
// SM90: .entry backward(
// SM90: red.relaxed.gpu.global.add.v4.f32 [%rd{{[0-9]+}}+0]
// SM90: red.relaxed.gpu.global.add.v4.f32 [%rd{{[0-9]+}}+4096]
// SM90: .entry backward_dq(
// SM90: ld.global.v4.b32

// One module of three kernels, and their launches in order.
// NVVM: fa2gpu.launch @backward_statistics_module::@backward_statistics grid ["ceildiv(seqlen_q, 64) * heads * batch", "1", "1"]
// NVVM: fa2gpu.launch @backward_statistics_module::@backward grid ["ceildiv(seqlen_k, 128) * heads_kv * batch", "1", "1"]
// NVVM-SAME: #fa2gpu.param<"workspace", "dq_sum">
// NVVM: fa2gpu.launch @backward_statistics_module::@backward_dq grid ["ceildiv(seqlen_q, 64) * heads * batch", "1", "1"]

// PTX: "pass": "backward"
// PTX: "deterministic": false
// PTX: "kernel": "backward_statistics"
// PTX: "kernel": "backward"
// PTX: {"kind":"workspace","offset":"0"}
// PTX: "kernel": "backward_dq"
// PTX: .entry backward_statistics(
// PTX: .entry backward(
// PTX: ldmatrix.sync.aligned.m8n8.x4.trans
// PTX: red.relaxed.gpu.global.add.f32
// PTX: .entry backward_dq(
func.func @forward(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %c: f32)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}
