// Nothing that code generation would abort on reaches it.
// RUN: fa2-translate %s --fa2-to-ptx -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a fa2gpu.launch; is this module the result of --fa2-pipeline?}}
module {}

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_72", block_q = 64, block_kv = 64, warps = 4, stages = 2>
// expected-error @+1 {{unknown arch 'sm_72'; the nearest supported is sm_80}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_86", block_q = 64, block_kv = 64, warps = 4, stages = 2>
// expected-error @+1 {{needs 101377 bytes of shared memory of 101376 that sm_86 allows a block}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 101377 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
// expected-error @+1 {{expected 1 to 1024 threads a block, got 2048}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 2048 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
// expected-error @+1 {{expected its kernel @m::@k to be defined beside it}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @k(%x: i32) attributes {nvvm.kernel} { llvm.return }
}
// expected-error @+1 {{expected a description for each of the kernel's 1 parameters, got 0}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @k() attributes {nvvm.kernel} {
    // expected-error @+1 {{'arith.constant' is left where only llvm and nvvm operations can be translated}}
    %x = arith.constant 1 : index
    llvm.return
  }
}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @__nv_expf(f32) -> f32
  llvm.func @k(%x: f32) attributes {nvvm.kernel} {
    %y = llvm.call @__nv_expf(%x) : (f32) -> f32
    llvm.return
  }
}
// expected-error @+1 {{cannot be compiled: in 'k': '__nv_expf' is called but not defined in the module}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters [#fa2gpu.param<"i32", "1">]

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @k() attributes {nvvm.kernel} {
    nvvm.wgmma.fence.aligned
    llvm.return
  }
}
// expected-error @+1 {{'llvm.nvvm.wgmma.fence.sync.aligned' needs sm_90a and PTX 8.0, the target is sm_80 with PTX 7.0}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @k(%x: f32) attributes {nvvm.kernel} {
    %y = llvm.intr.exp(%x) : (f32) -> f32
    llvm.return
  }
}
// expected-error @+1 {{'llvm.exp.f32' has no instruction in PTX}}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters [#fa2gpu.param<"i32", "1">]

// -----

// What code generation itself finds is an error like any other.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @k(%x: f32) attributes {nvvm.kernel} {
    %y = llvm.inline_asm has_side_effects "mov.f32 $0, $1;", "=x,f" %x : (f32) -> f32
    llvm.return
  }
}
// expected-error @+1 {{cannot be compiled: }}
fa2gpu.launch @m::@k grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters [#fa2gpu.param<"i32", "1">]

// -----

// Names that PTX cannot have.
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @"a b{}"() attributes {nvvm.kernel} { llvm.return }
}
// expected-error @+1 {{expected a name of letters, digits, _ and $ that begins with no digit, as PTX has them; got 'a b{}'}}
fa2gpu.launch @m::@"a b{}" grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @"1abc"() attributes {nvvm.kernel} { llvm.return }
}
// expected-error @+1 {{got '1abc'}}
fa2gpu.launch @m::@"1abc" grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []

// -----

#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4, stages = 2>
gpu.module @m {
  llvm.func @"q\22,\0A"() attributes {nvvm.kernel} { llvm.return }
}
// expected-error @+1 {{got 'q\22,\0A'}}
fa2gpu.launch @m::@"q\22,\0A" grid ["1", "1", "1"] block 128 shared 0 spec #spec schedule #schedule arguments [] parameters []
