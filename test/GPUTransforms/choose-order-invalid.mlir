// RUN: fa2-opt %s -verify-diagnostics --fa2gpu-choose-order

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!q = tensor<128x64xbf16, #shared>
!k = tensor<64x64xbf16, #shared>
!s = tensor<128x64xf32, #acc>
// expected-error @+1 {{expected a loop with two of the products "s o'" that the schedule's order names}}
fa2.kernel @one_product(%n: index, %q: !q, %k: !k)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %f = fa2gpu.dot_start %q, %k {name = "s", transpose_b} : !q, !k -> !fa2gpu.in_flight<!s>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!s> -> !s
  }
  fa2.return
}
