// The pipeline can stop after any stage, and equals its passes written out.
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2-select-schedule" --mlir-print-local-scope | FileCheck %s --check-prefix=SCHEDULE
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2-tile" --mlir-print-local-scope | FileCheck %s --check-prefix=TILES
// RUN: fa2-opt %s --fa2-pipeline="stop-after=convert-fa2-to-fa2gpu" --mlir-print-local-scope | FileCheck %s --check-prefix=GPU
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2gpu-form-rings" --mlir-print-local-scope | FileCheck %s --check-prefix=RINGS
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2gpu-pipeline" --mlir-print-local-scope | FileCheck %s --check-prefix=RINGS
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2gpu-split-masked-tiles" --mlir-print-local-scope | FileCheck %s --check-prefix=RINGS
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2gpu-place-waits" --mlir-print-local-scope | FileCheck %s --check-prefix=WAITS
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2gpu-allocate" --mlir-print-local-scope | FileCheck %s --check-prefix=ALLOCATED
// RUN: fa2-opt %s --fa2-pipeline="stop-after=convert-fa2gpu-to-nvvm" --mlir-print-local-scope | FileCheck %s --check-prefix=NVVM
// RUN: fa2-opt %s --fa2-pipeline="target=sm_90 schedule=block_q=64,warps=4,stages=1" --mlir-print-local-scope | FileCheck %s --check-prefix=LLVM
// RUN: fa2-opt %s --fa2-pipeline="stop-after=fa2-select-schedule" | fa2-opt --fa2-pipeline > %t.two
// RUN: fa2-opt %s --fa2-pipeline | diff - %t.two
// RUN: not fa2-opt %s --fa2-pipeline="stop-after=tiles" 2>&1 | FileCheck %s --check-prefix=STOP

// SCHEDULE: fa2.attention ins({{.*}}schedule = #fa2.schedule<
// TILES: fa2.kernel @attention
// TILES: fa2.softmax_step
// GPU: fa2gpu.load
// GPU: fa2gpu.dot_start
// RINGS: fa2gpu.ring.create
// RINGS: fa2gpu.ring.wait
// WAITS: fa2gpu.copy_wait
// WAITS-NOT: fa2gpu.ring.wait
// ALLOCATED: shared_bytes =
// NVVM: gpu.module @attention_module
// NVVM: gpu.func @attention
// NVVM: fa2gpu.launch @attention_module::@attention
// LLVM: gpu.module
// LLVM-NOT: unrealized_conversion_cast
// LLVM: llvm.func @attention
// LLVM: fa2gpu.launch @attention_module::@attention grid ["{{.*}}seqlen_q{{.*}}", "1", "1"] block 128 shared
// LLVM-SAME: target = "sm_90", block_q = 64
// STOP: expected stop-after to be one of fa2-derive-backward, fa2-select-schedule, fa2-tile, {{.*}}, nvvm, got 'tiles'

func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %c: f32)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
