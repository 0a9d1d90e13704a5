// RUN: fa2-opt %s --split-input-file -verify-diagnostics --fa2gpu-place-dot-waits

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @across_iterations(%n: index, %q: !qt, %k: !kt)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{expected no matmul to be in flight from one iteration to the next}}
  scf.for %i = %c0 to %n step %c1 {
    %f = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  }
  fa2.return
}

// -----

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @twice(%n: index, %q: !qt, %k: !kt)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>]} {
  %f = fa2gpu.dot_start %q, %k {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
  %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
  // expected-error @+1 {{expected a matmul that is in flight here}}
  %t = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
  fa2.return
}
