// RUN: fa2-opt %s --convert-fa2gpu-to-nvvm --canonicalize --cse | FileCheck %s

// Every thread that comes there. A launch is programmatic where its kernel waits.
// CHECK-LABEL: gpu.func @first(
// CHECK: nvvm.griddepcontrol launch_dependents
// CHECK-NOT: nvvm.griddepcontrol
// CHECK-LABEL: gpu.func @second(
// CHECK-NOT: launch_dependents
// CHECK: nvvm.griddepcontrol wait
// A hint goes with each reduction, as a policy; without one there is none. wgmma's products end with a wait: no branch does.
// CHECK-NOT: scf.if
// CHECK: llvm.inline_asm has_side_effects "red.relaxed.gpu.global.add.L2::cache_hint.v4.f32 [$0+0], {$1, $2, $3, $4}, $5;", "l,f,f,f,f,l,~{memory}"{{.*}} :
// CHECK: llvm.inline_asm has_side_effects "red.relaxed.gpu.global.add.v4.f32 [$0+0], {$1, $2, $3, $4};", "l,f,f,f,f,~{memory}"
// CHECK: fa2gpu.launch @first_module::@first grid
// CHECK-NOT: programmatic
// CHECK: fa2gpu.launch @first_module::@second grid
// CHECK-SAME: {programmatic}
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 1]>
!sum = memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
!view = !fa2.view<? x 64 x f32, order = <<4 x 1>, width = 4>>
#spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2>
#arg = #fa2.arg<"sum", "workspace", ["batch", "rows", "heads", 64] x f32>
fa2.kernel @first(%sum: !sum) attributes {spec = #spec, schedule = #schedule, arguments = [#arg], shared_bytes = 0} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  fa2gpu.chain_pass
  %rows = memref.dim %sum, %c1 : !sum
  %heads = memref.dim %sum, %c2 : !sum
  %batches = memref.dim %sum, %c0 : !sum
  fa2.for_each_tile %tile, %head, %batch in (%rows by 64, %heads, %batches) {
  }
  fa2.return
}
fa2.kernel @second(%sum: !sum) attributes {spec = #spec, schedule = #schedule, arguments = [#arg], shared_bytes = 0} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %ones = arith.constant dense<1.0> : tensor<64x64xf32, #acc>
  %rows = memref.dim %sum, %c1 : !sum
  %heads = memref.dim %sum, %c2 : !sum
  %batches = memref.dim %sum, %c0 : !sum
  fa2.for_each_tile %tile, %head, %batch in (%rows by 64, %heads, %batches) {
    fa2gpu.chain_wait
    %to = fa2.view %sum[%batch, %head] rows(%c0, %rows) {cache = #fa2.cache<evict_last>} : !sum -> !view
    fa2.accumulate %ones, %to[%tile] : tensor<64x64xf32, #acc>, !view
    %plain = fa2.view %sum[%batch, %head] rows(%c0, %rows) : !sum -> !view
    fa2.accumulate %ones, %plain[%tile] : tensor<64x64xf32, #acc>, !view
  }
  fa2.return
}
