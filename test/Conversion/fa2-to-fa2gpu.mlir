// RUN: fa2-opt %s --split-input-file --convert-fa2-to-fa2gpu | FileCheck %s

// Split-Q: each warp has rows of the scores and of the output; the maximum is whole in every lane,
// the sum stays partial over lanes until the softmax is finished; P changes registers' names only.
// CHECK-DAG: #[[ACC:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
// CHECK-DAG: #[[OP:.*]] = #fa2gpu.operand<#[[ACC]]>
// CHECK-DAG: #[[ROW:.*]] = #fa2gpu.row<#[[ACC]]>
// CHECK-DAG: #[[LROW:.*]] = #fa2gpu.row<#[[ACC]], partial = lanes>
// CHECK-DAG: #[[SH:.*]] = #fa2gpu.shared
// CHECK-LABEL: fa2.kernel @split_q
// CHECK-DAG: arith.constant dense<0xFF800000> : tensor<64xf32, #[[ROW]]>
// CHECK-DAG: arith.constant dense<0.000000e+00> : tensor<64xf32, #[[LROW]]>
// CHECK-DAG: arith.constant dense<0.000000e+00> : tensor<64x64xf32, #[[ACC]]>
// CHECK: %[[Q:.*]] = fa2gpu.load {{.*}} -> tensor<64x64xbf16, #[[SH]]>
// CHECK: scf.for {{.*}} -> (tensor<64xf32, #[[ROW]]>, tensor<64xf32, #[[LROW]]>, tensor<64x64xf32, #[[ACC]]>)
// CHECK: %[[K:.*]] = fa2gpu.load {{.*}} -> tensor<32x64xbf16, #[[SH]]>
// CHECK: %[[SF:.*]] = fa2gpu.dot_start %[[Q]], %[[K]] {transpose_b} : {{.*}} -> <tensor<64x32xf32, #[[ACC]]>>
// CHECK: fa2gpu.dot_wait %[[SF]]
// CHECK: fa2.softmax_step {{.*}} : tensor<64x32xf32, #[[ACC]]>, tensor<64xf32, #[[ROW]]>, tensor<64xf32, #[[LROW]]>
// CHECK: arith.truncf {{.*}} : tensor<64x32xf32, #[[ACC]]> to tensor<64x32xbf16, #[[ACC]]>
// CHECK: %[[P:.*]] = fa2gpu.convert_layout {{.*}} -> tensor<64x32xbf16, #[[OP]]>
// CHECK: fa2gpu.dot_start %[[P]], %{{.*}} acc(%{{.*}} : tensor<64x64xf32, #[[ACC]]>)
// CHECK-NOT: combine_splits
// CHECK: fa2.softmax_finish {{.*}} tensor<64xf32, #[[LROW]]> -> tensor<64xf32, #[[ROW]]>
// CHECK: fa2.store {{.*}} : tensor<64x64xbf16, #[[ACC]]>
fa2.kernel @split_q(%q: !fa2.view<? x 64 x bf16>, %k: !fa2.view<? x 64 x bf16>, %v: !fa2.view<? x 64 x bf16>,
                    %out: !fa2.view<? x 64 x bf16>, %lse: !fa2.view<? x f32>, %c: f32, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>,
                             #fa2.arg<"out", "out", [] x bf16>, #fa2.arg<"lse", "out", [] x f32>, #fa2.arg<"scale", "in", [] x f32>,
                             #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %m0 = arith.constant dense<0xFF800000> : tensor<64xf32>
  %l0 = arith.constant dense<0.0> : tensor<64xf32>
  %o0 = arith.constant dense<0.0> : tensor<64x64xf32>
  %qt = fa2.load %q[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0, %o = %o0) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>) {
    %row = arith.muli %i, %c32 : index
    %kt = fa2.load %k[%row] : !fa2.view<? x 64 x bf16> -> tensor<32x64xbf16>
    %s = fa2.dot %qt, %kt {transpose_b} : tensor<64x64xbf16>, tensor<32x64xbf16> -> tensor<64x32xf32>
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c : tensor<64x32xf32>, tensor<64xf32>, tensor<64xf32>
    %pb = arith.truncf %p : tensor<64x32xf32> to tensor<64x32xbf16>
    %os = fa2.scale_rows %o, %a : tensor<64x64xf32>, tensor<64xf32>
    %vt = fa2.load %v[%row] : !fa2.view<? x 64 x bf16> -> tensor<32x64xbf16>
    %o1 = fa2.dot %pb, %vt acc(%os : tensor<64x64xf32>) : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
    scf.yield %m1, %l1, %o1 : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>
  }
  %f, %fl = fa2.softmax_finish %r#2, %r#0, %r#1 scale %c : tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
  %fb = arith.truncf %f : tensor<64x64xf32> to tensor<64x64xbf16>
  fa2.store %fb, %out[%c0] : tensor<64x64xbf16>, !fa2.view<? x 64 x bf16>
  fa2.store %fl, %lse[%c0] : tensor<64xf32>, !fa2.view<? x f32>
  fa2.return
}

// -----

// q_in_registers: the query tile is read from shared memory once, before the loop.
// CHECK-DAG: #[[ACC:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
// CHECK-LABEL: fa2.kernel @q_in_registers
// CHECK: %[[Q:.*]] = fa2gpu.load
// CHECK-NEXT: %[[QR:.*]] = fa2gpu.local_load %[[Q]] : {{.*}} -> tensor<64x64xbf16, #{{operand|fa2gpu.operand}}
// CHECK: scf.for
// CHECK-NOT: local_load
// CHECK: fa2gpu.dot_start %[[QR]], %{{.*}} {transpose_b}
fa2.kernel @q_in_registers(%q: !fa2.view<? x 64 x bf16>, %k: !fa2.view<? x 64 x bf16>, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 32, warps = 4, stages = 2, q_in_registers = true>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s0 = arith.constant dense<0.0> : tensor<64x32xf32>
  %qt = fa2.load %q[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %s0) -> (tensor<64x32xf32>) {
    %kt = fa2.load %k[%i] : !fa2.view<? x 64 x bf16> -> tensor<32x64xbf16>
    %s = fa2.dot %qt, %kt {transpose_b} : tensor<64x64xbf16>, tensor<32x64xbf16> -> tensor<64x32xf32>
    %sum = arith.addf %acc, %s : tensor<64x32xf32>
    scf.yield %sum : tensor<64x32xf32>
  }
  fa2.return
}

// -----

// Split-K: each warp has keys of every tile; it sums its own output, which is combined through
// shared memory (16 rows a warp, and m and l beside the output's columns) before the softmax is finished.
// CHECK-DAG: #[[S:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 4]>
// CHECK-DAG: #[[O:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1], split_k = 4>
// CHECK-DAG: #[[P:.*]] = #fa2gpu.operand<#[[S]]>
// CHECK-DAG: #[[ROW:.*]] = #fa2gpu.row<#[[O]]>
// CHECK-DAG: #[[LROW:.*]] = #fa2gpu.row<#[[O]], partial = lanes>
// CHECK-LABEL: fa2.kernel @split_k
// CHECK: fa2gpu.dot_start {{.*}} {transpose_b} : {{.*}} -> <tensor<16x64xf32, #[[S]]>>
// CHECK: fa2.softmax_step {{.*}} : tensor<16x64xf32, #[[S]]>, tensor<16xf32, #[[ROW]]>, tensor<16xf32, #[[LROW]]>
// CHECK: fa2gpu.convert_layout {{.*}} -> tensor<16x64xbf16, #[[P]]>
// CHECK: fa2gpu.dot_start {{.*}} -> <tensor<16x32xf32, #[[O]]>>
// CHECK: %[[SCRATCH:.*]] = fa2gpu.ring.create {name = "combine"} : <1 x tensor<64x34xf32, #{{.*}}>>
// CHECK: %[[CO:.*]], %[[CM:.*]], %[[CL:.*]] = fa2gpu.combine_splits {{.*}} scratch %[[SCRATCH]]
// CHECK: fa2.softmax_finish %[[CO]], %[[CM]], %[[CL]]
fa2.kernel @split_k(%q: !fa2.view<? x 64 x bf16>, %k: !fa2.view<? x 64 x bf16>, %v: !fa2.view<? x 32 x bf16>,
                    %out: !fa2.view<? x 32 x bf16>, %c: f32, %n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 32>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 64, warps = 4, stages = 2, partition = split_k, q_in_registers = true>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"v", "in", [] x bf16>,
                             #fa2.arg<"out", "out", [] x bf16>, #fa2.arg<"scale", "in", [] x f32>, #fa2.arg<"n", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m0 = arith.constant dense<0xFF800000> : tensor<16xf32>
  %l0 = arith.constant dense<0.0> : tensor<16xf32>
  %o0 = arith.constant dense<0.0> : tensor<16x32xf32>
  %qt = fa2.load %q[%c0] : !fa2.view<? x 64 x bf16> -> tensor<16x64xbf16>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%m = %m0, %l = %l0, %o = %o0) -> (tensor<16xf32>, tensor<16xf32>, tensor<16x32xf32>) {
    %kt = fa2.load %k[%i] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
    %s = fa2.dot %qt, %kt {transpose_b} : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xf32> over <1 x 4>
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c : tensor<16x64xf32>, tensor<16xf32>, tensor<16xf32>
    %pb = arith.truncf %p : tensor<16x64xf32> to tensor<16x64xbf16>
    %os = fa2.scale_rows %o, %a : tensor<16x32xf32>, tensor<16xf32>
    %vt = fa2.load %v[%i] : !fa2.view<? x 32 x bf16> -> tensor<64x32xbf16>
    %o1 = fa2.dot %pb, %vt acc(%os : tensor<16x32xf32>) : tensor<16x64xbf16>, tensor<64x32xbf16> -> tensor<16x32xf32> over <1 x 1, sums = 4>
    scf.yield %m1, %l1, %o1 : tensor<16xf32>, tensor<16xf32>, tensor<16x32xf32>
  }
  %f, %fl = fa2.softmax_finish %r#2, %r#0, %r#1 scale %c : tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
  %fb = arith.truncf %f : tensor<16x32xf32> to tensor<16x32xbf16>
  fa2.store %fb, %out[%c0] : tensor<16x32xbf16>, !fa2.view<? x 32 x bf16>
  fa2.return
}

// -----

// What is combined with scores has their layout, which in split-K is not the output's.
// CHECK-DAG: #[[S:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 4]>
// CHECK-DAG: #[[COLUMN:.*]] = #fa2gpu.column<#[[S]]>
// CHECK-LABEL: fa2.kernel @score_program
// CHECK-DAG: %[[HALF:.*]] = arith.constant dense<5.000000e-01> : tensor<16x64xf32, #[[S]]>
// CHECK-DAG: %[[COLS:.*]] = fa2.positions %{{.*}} : tensor<64xindex, #[[COLUMN]]>
// CHECK-DAG: %[[READ:.*]] = fa2.read %{{.*}}[%[[COLS]]] : {{.*}} -> tensor<64xindex, #[[COLUMN]]>
// CHECK-DAG: %[[TILE:.*]] = fa2.broadcast %[[READ]] {columns} : {{.*}} -> tensor<16x64xindex, #[[S]]>
// CHECK-DAG: %[[UNIFORM:.*]] = tensor.splat %{{.*}} : tensor<16x64xindex, #[[S]]>
// CHECK: arith.cmpi slt, %[[TILE]], %[[UNIFORM]] : tensor<16x64xindex, #[[S]]>
// CHECK: arith.mulf {{.*}}, %[[HALF]] : tensor<16x64xf32, #[[S]]>
// CHECK: arith.select {{.*}} : tensor<16x64xi1, #[[S]]>, tensor<16x64xf32, #[[S]]>
fa2.kernel @score_program(%q: !fa2.view<? x 64 x bf16>, %k: !fa2.view<? x 64 x bf16>, %n: index, %ids: memref<?xindex, strided<[?]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 64, warps = 4, stages = 1, partition = split_k>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"n", "in", [] x index>,
                             #fa2.arg<"ids", "in", ["seqlen_k"] x index broadcast true>]} {
  %c0 = arith.constant 0 : index
  %qt = fa2.load %q[%c0] : !fa2.view<? x 64 x bf16> -> tensor<16x64xbf16>
  %kt = fa2.load %k[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %s = fa2.dot %qt, %kt {transpose_b} : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xf32> over <1 x 4>
  %half = arith.constant dense<0.5> : tensor<16x64xf32>
  %cols = fa2.positions %n : tensor<64xindex>
  %read = fa2.read %ids[%cols] : memref<?xindex, strided<[?]>>, tensor<64xindex> -> tensor<64xindex>
  %tile = fa2.broadcast %read {columns} : tensor<64xindex> -> tensor<16x64xindex>
  %uniform = tensor.splat %n : tensor<16x64xindex>
  %cond = arith.cmpi slt, %tile, %uniform : tensor<16x64xindex>
  %t = arith.mulf %s, %half : tensor<16x64xf32>
  %r = arith.select %cond, %s, %t : tensor<16x64xi1>, tensor<16x64xf32>
  fa2.return
}

// -----

// A transposed right side says nothing of layouts, nor does a left one: products say how warps share them. X goes to
// its own rows' product as an operand, to one by columns and to one that reads it transposed through shared memory.
// CHECK-DAG: #[[ROWS:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>
// CHECK-DAG: #[[GRID:.*]] = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [2, 2]>
// CHECK-LABEL: fa2.kernel @products
// CHECK: fa2gpu.dot_start {{.*}} -> <tensor<64x64xf32, #[[ROWS]]>>
// CHECK-DAG: %[[OP:.*]] = fa2gpu.convert_layout
// CHECK-DAG: %[[SHARED:.*]] = fa2gpu.share
// CHECK: fa2gpu.dot_start %[[OP]], %{{.*}} {transpose_b} : {{.*}} -> <tensor<64x64xf32, #[[ROWS]]>>
// CHECK: fa2gpu.dot_start %[[SHARED]], %{{.*}} {transpose_b} : {{.*}} -> <tensor<64x64xf32, #[[GRID]]>>
// CHECK: %[[T:.*]] = fa2gpu.dot_start %[[SHARED]], %{{.*}} {transpose_a} : {{.*}} -> <tensor<64x64xf32, #[[ROWS]]>>
// Added to a tile of f32 that lies row by row in memory, which has its layout.
// CHECK: fa2.load {{.*}} : <? x 64 x f32> -> tensor<64x64xf32, #[[ROWS]]>
// CHECK: fa2.store {{.*}} : tensor<64x64xf32, #[[ROWS]]>, <? x 64 x f32>
fa2.kernel @products(%a: !fa2.view<? x 64 x bf16>, %f: !fa2.view<? x 64 x f32>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", [] x bf16>, #fa2.arg<"f", "inout", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %y = fa2.load %a[%c0] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
  %d = fa2.dot %y, %y : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <4 x 1>
  %x = arith.truncf %d : tensor<64x64xf32> to tensor<64x64xbf16>
  %rows = fa2.dot %x, %y {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %grid = fa2.dot %x, %y {transpose_b} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32> over <2 x 2>
  %t = fa2.dot %x, %y {transpose_a} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %old = fa2.load %f[%c0] : !fa2.view<? x 64 x f32> -> tensor<64x64xf32>
  %new = arith.addf %t, %old : tensor<64x64xf32>
  fa2.store %new, %f[%c0] : tensor<64x64xf32>, !fa2.view<? x 64 x f32>
  fa2.return
}

// -----

// The products of a gradient on wgmma: P^T and dS^T are left operands in registers where they were computed; dQ, whose
// 64 rows both warpgroups share side by side, reads dS from shared memory, in panels that descriptors address.
// CHECK-DAG: #[[KEYS:.*]] = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
// CHECK-DAG: #[[DQ:.*]] = #fa2gpu.acc<#fa2gpu.wgmma, groups = [1, 2]>
// CHECK-DAG: #[[SH:.*]] = #fa2gpu.shared<panel = 128>
// CHECK-LABEL: fa2.kernel @gradient
// CHECK: fa2gpu.dot_start {{.*}} {transpose_b} : {{.*}} -> <tensor<128x64xf32, #[[KEYS]]>>
// CHECK-DAG: %[[OP:.*]] = fa2gpu.convert_layout {{.*}} : tensor<128x64xbf16, #[[KEYS]]> -> tensor<128x64xbf16, #{{.*}}>
// CHECK-DAG: %[[DS:.*]] = fa2gpu.share {{.*}} -> tensor<128x64xbf16, #[[SH]]>
// CHECK: fa2gpu.dot_start %[[OP]], %{{.*}} : {{.*}} -> <tensor<128x128xf32, #[[KEYS]]>>
// CHECK: fa2gpu.dot_start %[[DS]], %{{.*}} {transpose_a} : {{.*}} -> <tensor<64x128xf32, #[[DQ]]>>
// CHECK: fa2.accumulate {{.*}} : tensor<64x128xf32, #[[DQ]]>
fa2.kernel @gradient(%q: !fa2.view<? x 128 x bf16>, %k: !fa2.view<? x 128 x bf16>, %dk: !fa2.view<? x 128 x f32>,
                     %dq: !fa2.view<? x 128 x f32, order = <<4 x 2>, width = 4>>)
    attributes {spec = #fa2.spec<pass = "backward", dtype = bf16, head_dim = 128, head_dim_v = 128>,
                schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 128, warps = 8, partition = keys>,
                arguments = [#fa2.arg<"q", "in", [] x bf16>, #fa2.arg<"k", "in", [] x bf16>, #fa2.arg<"dk", "out", [] x f32>,
                             #fa2.arg<"dq", "out", [] x f32>]} {
  %c0 = arith.constant 0 : index
  %qt = fa2.load %q[%c0] : !fa2.view<? x 128 x bf16> -> tensor<64x128xbf16>
  %kt = fa2.load %k[%c0] : !fa2.view<? x 128 x bf16> -> tensor<128x128xbf16>
  %s = fa2.dot %kt, %qt {transpose_b} : tensor<128x128xbf16>, tensor<64x128xbf16> -> tensor<128x64xf32> over <8 x 1>
  %ds = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xbf16>
  %g = fa2.dot %ds, %qt : tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32> over <8 x 1>
  %h = fa2.dot %ds, %kt {transpose_a} : tensor<128x64xbf16>, tensor<128x128xbf16> -> tensor<64x128xf32> over <4 x 2>
  fa2.accumulate %h, %dq[%c0] : tensor<64x128xf32>, !fa2.view<? x 128 x f32, order = <<4 x 2>, width = 4>>
  fa2.store %g, %dk[%c0] : tensor<128x128xf32>, !fa2.view<? x 128 x f32>
  fa2.return
}
