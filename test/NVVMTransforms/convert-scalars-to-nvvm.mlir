// RUN: fa2-opt %s --pass-pipeline="builtin.module(gpu.module(convert-fa2-scalars-to-nvvm,reconcile-unrealized-casts))" | FileCheck %s --implicit-check-not=arith. --implicit-check-not=cf. --implicit-check-not=unrealized

// An index has 32 bits; a kernel keeps what it is launched with; a division rounded up is compares and a division.
// CHECK-LABEL: llvm.func @k(%{{.*}}: i32, %{{.*}}: !llvm.ptr<1>)
// CHECK-SAME: gpu.kernel
// CHECK-SAME: nvvm.kernel
// CHECK: nvvm.read.ptx.sreg.tid.x range <i32, 0, 128> : i32
// CHECK: llvm.udiv {{.*}} : i32
// CHECK: llvm.cond_br
// CHECK: llvm.return
gpu.module @m {
  gpu.func @k(%n: i32, %p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %many = arith.index_cast %n : i32 to index
    %tiles = arith.ceildivui %many, %c64 : index
    %is = arith.cmpi ult, %t, %tiles : index
    cf.cond_br %is, ^some(%tiles : index), ^none
  ^some(%m: index):
    %m32 = arith.index_cast %m : index to i32
    llvm.store %m32, %p : i32, !llvm.ptr<1>
    cf.br ^none
  ^none:
    gpu.return
  }
}
