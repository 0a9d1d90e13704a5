// RUN: fa2-opt %s --fa2-share-functions | FileCheck %s

// @a and @b do the same: their launches take @a, each with its own parameters. @c multiplies by another number,
// @d is for other blocks; a launch with more shared memory keeps its own, since the driver is told once.
// CHECK: fa2gpu.launch @m::@a {{.*}}<"i32", "seqlen_q">
// CHECK: fa2gpu.launch @m::@a {{.*}}<"i32", "seqlen_k">
// CHECK: fa2gpu.launch @m::@c
// CHECK: fa2gpu.launch @m::@d
// CHECK: fa2gpu.launch @other::@e
// CHECK: fa2gpu.launch @m::@a
// CHECK: gpu.module @m
// CHECK: gpu.func @a
// CHECK-NOT: gpu.func @b
// CHECK: gpu.func @c
// CHECK: gpu.func @d
// CHECK: gpu.module @other
// CHECK: gpu.func @e
// CHECK-NOT: gpu.module
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
#schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
module {
  fa2gpu.launch @m::@a grid ["1", "1", "1"] block 128 shared 1024 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"pointer", "lse">]
  fa2gpu.launch @m::@b grid ["1", "1", "1"] block 128 shared 1024 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_k">, #fa2gpu.param<"pointer", "lse">]
  fa2gpu.launch @m::@c grid ["1", "1", "1"] block 128 shared 1024 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"pointer", "lse">]
  fa2gpu.launch @m::@d grid ["1", "1", "1"] block 256 shared 1024 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"pointer", "lse">]
  fa2gpu.launch @other::@e grid ["1", "1", "1"] block 128 shared 2048 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"pointer", "lse">]
  fa2gpu.launch @gone::@f grid ["1", "1", "1"] block 128 shared 1024 spec #spec schedule #schedule
      arguments [] parameters [#fa2gpu.param<"i32", "seqlen_q">, #fa2gpu.param<"pointer", "lse">]
  gpu.module @m {
    gpu.func @a(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c2 = arith.constant 2 : i32
      %twice = arith.muli %n, %c2 : i32
      llvm.store %twice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
    gpu.func @b(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c2 = arith.constant 2 : i32
      %twice = arith.muli %n, %c2 : i32
      llvm.store %twice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
    gpu.func @c(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c3 = arith.constant 3 : i32
      %thrice = arith.muli %n, %c3 : i32
      llvm.store %thrice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
    gpu.func @d(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %c2 = arith.constant 2 : i32
      %twice = arith.muli %n, %c2 : i32
      llvm.store %twice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
  }
  gpu.module @other {
    gpu.func @e(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c2 = arith.constant 2 : i32
      %twice = arith.muli %n, %c2 : i32
      llvm.store %twice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
  }
  gpu.module @gone {
    gpu.func @f(%n: i32, %lse: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c2 = arith.constant 2 : i32
      %twice = arith.muli %n, %c2 : i32
      llvm.store %twice, %lse : i32, !llvm.ptr<1>
      gpu.return
    }
  }
}
