// RUN: fa2-opt %s --split-input-file --verify-diagnostics --fa2-pass-maps-by-value | FileCheck %s

// A tensor map is 128 bytes in the parameters, and stays there: without grid_constant LLVM copies it to the stack.
// CHECK: llvm.func @k(%{{.*}}: i32, %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %{{.*}}: !llvm.ptr<1>)
module {
  fa2gpu.launch @m::@k grid ["1", "1", "1"] block 384 shared 1024
      spec #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
      schedule #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"tensor_map", "q", 64>, #fa2gpu.param<"pointer", "lse">]
  gpu.module @m {
    llvm.func @k(%n: i32, %q: !llvm.ptr, %lse: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
      llvm.return
    }
  }
}

// -----

module {
  // expected-error @+1 {{expected an llvm.func with a parameter for each of the descriptions}}
  fa2gpu.launch @m::@k grid ["1", "1", "1"] block 384 shared 1024
      spec #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
      schedule #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"tensor_map", "q", 64>, #fa2gpu.param<"pointer", "lse">]
  gpu.module @m {
    llvm.func @k(%n: i32, %lse: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
      llvm.return
    }
  }
}
