// RUN: fa2-opt %s -verify-diagnostics --convert-fa2gpu-to-nvvm

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!qt = tensor<128x64xbf16, #shared>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @no_roles(%n: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 49152 : i64} {
  %c0 = arith.constant 0 : index
  %qr = fa2gpu.ring.create {name = "q", offset = 0} : !fa2gpu.ring<1 x !qt>
  fa2.for_each_tile %t, %h, %b in (%n by 128, %n, %n) {
    %q = fa2gpu.ring.slot %qr[%c0] : !fa2gpu.ring<1 x !qt> -> !qt
    // expected-error @+1 {{'fa2gpu.dot_start' op expected fa2gpu.roles around a matmul of #fa2gpu.wgmma}}
    %sf = fa2gpu.dot_start %q, %q {transpose_b} : !qt, !qt -> !fa2gpu.in_flight<tensor<128x128xf32, #acc>>
  }
  fa2.return
}
