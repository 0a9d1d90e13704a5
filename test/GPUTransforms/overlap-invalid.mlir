// RUN: fa2-opt %s -verify-diagnostics --fa2gpu-overlap

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
fa2.kernel @one_matmul(%n: index, %s: tensor<128x64xf32, #acc>, %m: tensor<128xf32, #fa2gpu.row<#acc>>,
                       %l: tensor<128xf32, #fa2gpu.row<#acc, partial = lanes>>, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, overlap = true>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"s", "in", [] x f32>, #fa2.arg<"m", "in", [] x f32>,
                             #fa2.arg<"l", "in", [] x f32>, #fa2.arg<"c", "in", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{expected a kv loop of two matmuls on rings and a softmax between them}}
  scf.for %i = %c0 to %n step %c1 {
    %p, %m1, %l1, %alpha = fa2.softmax_step %s, %m, %l scale %c
        : tensor<128x64xf32, #acc>, tensor<128xf32, #fa2gpu.row<#acc>>, tensor<128xf32, #fa2gpu.row<#acc, partial = lanes>>
  }
  fa2.return
}
