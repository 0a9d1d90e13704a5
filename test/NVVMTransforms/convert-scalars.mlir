// RUN: fa2-opt %s --pass-pipeline='builtin.module(gpu.module(fa2-convert-scalars))' | FileCheck %s

// Indices have 32 bits, numbers of threads and blocks are read from registers, and what is LLVM's already stays.
// CHECK: gpu.module @module
// CHECK: llvm.func @kernel(%[[TO:.*]]: !llvm.ptr<1>, %[[N:.*]]: i32) attributes {gpu.kernel, {{.*}}nvvm.kernel
// CHECK-DAG: %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-DAG: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: %[[TIMES:.*]] = llvm.mul %[[BLOCK]], %[[N]] : i32
// CHECK: %[[SUM:.*]] = llvm.add %[[TIMES]], %[[THREAD]] : i32
// CHECK: %[[INSIDE:.*]] = llvm.icmp "ult" %[[SUM]], %[[N]] : i32
// CHECK: llvm.cond_br %[[INSIDE]]
// CHECK: llvm.store %{{.*}}, %[[TO]] : i32, !llvm.ptr<1>
// CHECK: llvm.return
// CHECK-NOT: arith.
gpu.module @module {
  gpu.func @kernel(%to: !llvm.ptr<1>, %n: index) kernel {
    %block = gpu.block_id x
    %thread = gpu.thread_id x
    %times = arith.muli %block, %n : index
    %sum = arith.addi %times, %thread : index
    %inside = arith.cmpi ult, %sum, %n : index
    cf.cond_br %inside, ^store, ^end
  ^store:
    %i = arith.index_cast %sum : index to i32
    llvm.store %i, %to : i32, !llvm.ptr<1>
    cf.br ^end
  ^end:
    gpu.return
  }
}
