// RUN: fa2-opt %s --split-input-file --convert-fa2gpu-to-nvvm | FileCheck %s

// A lane has 2 rows of a 16 x 16 tile and 4 of the columns of each. With k = scale * log2(e): one fma and one ex2 an
// element, one ex2 a row for alpha. The maximum is reduced over the 4 lanes of a row, the sum stays partial.
// CHECK-LABEL: gpu.func @step
// CHECK: %[[K:.*]] = arith.mulf %{{.*}}, %cst{{.*}} : f32
// CHECK-COUNT-2: nvvm.shfl.sync  bfly
// CHECK-NOT: arith.cmpf
// CHECK: llvm.intr.fma
// CHECK-COUNT-5: llvm.nvvm.ex2.approx.ftz
// CHECK-NOT: ex2
// CHECK-COUNT-2: nvvm.shfl.sync  bfly
// CHECK-COUNT-5: llvm.nvvm.ex2.approx.ftz
// CHECK-NOT: shfl
// CHECK: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!s = tensor<16x16xf32, #acc>
!m = tensor<16xf32, #row>
!l = tensor<16xf32, #lrow>
fa2.kernel @step(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  %m = arith.constant dense<2.0> : !m
  %l = arith.constant dense<3.0> : !l
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c : !s, !m, !l
  }
  fa2.return
}

// -----

// The odd columns' exponentials by a polynomial: 2 of a row's 4 and alpha take the unit. It is rounded to a whole number by adding
// 1.5 2^23, within -127 and 128; NaN stays NaN.
// CHECK-LABEL: gpu.func @polynomial
// CHECK: llvm.nvvm.ex2.approx.ftz
// CHECK: %[[LEAST:.*]] = arith.constant -1.270000e+02 : f32
// CHECK: %[[ABOVE:.*]] = arith.maximumf %{{.*}}, %[[LEAST]]
// CHECK: %[[MOST:.*]] = arith.constant 1.280000e+02 : f32
// CHECK: %[[X:.*]] = arith.minimumf %[[ABOVE]], %[[MOST]]
// CHECK: %[[MAGIC:.*]] = arith.constant 0x4B400000 : f32
// CHECK: %[[SHIFTED:.*]] = arith.addf %[[X]], %[[MAGIC]]
// CHECK: %[[WHOLE:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]]
// CHECK: %[[F:.*]] = arith.subf %[[X]], %[[WHOLE]]
// CHECK-COUNT-3: llvm.intr.fma(%{{.*}}, %[[F]], %{{.*}})
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: %[[P:.*]] = llvm.intr.fma(%{{.*}}, %[[F]], %[[ONE]])
// CHECK: %[[BITS:.*]] = llvm.bitcast %[[SHIFTED]] : f32 to i32
// CHECK: %[[EXPONENT:.*]] = arith.shli %[[BITS]]
// CHECK: %[[POWER:.*]] = arith.addi %[[EXPONENT]]
// CHECK: %[[FACTOR:.*]] = llvm.bitcast %[[POWER]] : i32 to f32
// CHECK: arith.mulf %[[P]], %[[FACTOR]]
// CHECK: llvm.nvvm.ex2.approx.ftz
// CHECK: arith.maximumf
// CHECK-NOT: maximumf
// CHECK: llvm.nvvm.ex2.approx.ftz
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!s = tensor<16x16xf32, #acc>
!m = tensor<16xf32, #row>
!l = tensor<16xf32, #lrow>
fa2.kernel @polynomial(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  %m = arith.constant dense<2.0> : !m
  %l = arith.constant dense<3.0> : !l
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c {polynomial} : !s, !m, !l
  }
  fa2.return
}

// -----

// Lazy rescaling: the reference moves when the maximum grew by more than 2^8; a warp in which no row's did
// keeps its accumulator as it is.
// CHECK-LABEL: gpu.func @lazy
// CHECK: %[[GROWS:.*]] = arith.cmpf ogt, %{{.*}}, %cst{{.*}} : f32
// CHECK: arith.select %[[GROWS]]
// CHECK: arith.cmpf une
// CHECK: arith.cmpf une
// CHECK: %[[ANY:.*]] = nvvm.vote.sync any
// CHECK: scf.if %[[ANY]]
// CHECK-COUNT-8: arith.mulf
// CHECK-NOT: arith.mulf
// CHECK: } else {
// CHECK-NEXT: scf.yield
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!s = tensor<16x16xf32, #acc>
!m = tensor<16xf32, #row>
!l = tensor<16xf32, #lrow>
fa2.kernel @lazy(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  %m = arith.constant dense<2.0> : !m
  %l = arith.constant dense<3.0> : !l
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %p, %m1, %l1, %a = fa2.softmax_step %s, %m, %l scale %c {slack = 8.0 : f32} : !s, !m, !l
    %os = fa2.scale_rows %s, %a {skip_unit} : !s, !m
  }
  fa2.return
}

// -----

// The end: the sum over lanes, one division a row; a row without keys gives 0 and -inf.
// CHECK-LABEL: gpu.func @finish
// CHECK-COUNT-2: nvvm.shfl.sync  bfly
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq
// CHECK: llvm.nvvm.rcp.approx.ftz.f
// CHECK: arith.select %[[EMPTY]]
// CHECK: llvm.nvvm.lg2.approx.f
// CHECK: arith.select %[[EMPTY]]
// CHECK: llvm.nvvm.rcp.approx.ftz.f
// CHECK-COUNT-8: arith.mulf
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!s = tensor<16x16xf32, #acc>
!m = tensor<16xf32, #row>
!l = tensor<16xf32, #lrow>
fa2.kernel @finish(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  %m = arith.constant dense<2.0> : !m
  %l = arith.constant dense<3.0> : !l
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %out, %lse = fa2.softmax_finish %s, %m, %l scale %c : !s, !m, !l -> !m
  }
  fa2.return
}

// -----

// Columns are compared with the row's bound and the sequence's end at once.
// CHECK-LABEL: gpu.func @mask
// CHECK: arith.minsi
// CHECK: %[[END:.*]] = arith.minsi
// CHECK-COUNT-4: arith.cmpi sgt, %[[END]], %{{.*}} : index
// CHECK-NOT: %[[END]],
// CHECK: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#row = #fa2gpu.row<#acc>
#lrow = #fa2gpu.row<#acc, partial = lanes>
!s = tensor<16x16xf32, #acc>
!m = tensor<16xf32, #row>
!l = tensor<16xf32, #lrow>
fa2.kernel @mask(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  %m = arith.constant dense<2.0> : !m
  %l = arith.constant dense<3.0> : !l
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %sm = fa2.apply_mask %s at(%t, %h) lengths(%n, %n) {mask = #fa2.mask<causal>} : !s
  }
  fa2.return
}

// -----

// A score program: element by element, with the rows and columns of the thread's own elements. A thread holds
// two columns, 8 apart twice, of rows 8 apart.
// CHECK-LABEL: gpu.func @program
// CHECK: %[[ROW8:.*]] = arith.addi %[[ROW0:.*]], %c8 : index
// CHECK: %[[COL1:.*]] = arith.addi %[[COL0:.*]], %c1 : index
// CHECK: arith.cmpi slt, %[[ROW0]], %[[COL0]] : index
// CHECK-NEXT: arith.cmpi slt, %[[ROW0]], %[[COL1]] : index
// CHECK-NEXT: arith.cmpi slt, %[[ROW8]], %[[COL0]] : index
// CHECK-COUNT-5: arith.cmpi slt
// CHECK-COUNT-8: arith.select
// CHECK-COUNT-8: llvm.nvvm.ex2.approx.ftz
// CHECK-COUNT-8: llvm.nvvm.rcp.approx.ftz.f
// CHECK-COUNT-8: llvm.fabs
// CHECK-COUNT-8: arith.addf
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
!s = tensor<16x16xf32, #acc>
fa2.kernel @program(%n: index, %c: f32)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"scale", "in", [] x f32>], shared_bytes = 4096 : i64} {
  %s = arith.constant dense<1.0> : !s
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %r = fa2.positions %t : tensor<16xindex, #fa2gpu.row<#acc>>
    %k = fa2.positions %h : tensor<16xindex, #fa2gpu.column<#acc>>
    %rows = fa2.broadcast %r : tensor<16xindex, #fa2gpu.row<#acc>> -> tensor<16x16xindex, #acc>
    %cols = fa2.broadcast %k {columns} : tensor<16xindex, #fa2gpu.column<#acc>> -> tensor<16x16xindex, #acc>
    %uniform = tensor.splat %c : !s
    %cond = arith.cmpi slt, %rows, %cols : tensor<16x16xindex, #acc>
    %x = arith.select %cond, %s, %uniform : tensor<16x16xi1, #acc>, !s
    %e = math.exp %x : !s
    %y = math.tanh %e : !s
    %a = math.absf %y : !s
    %z = arith.addf %a, %uniform : !s
  }
  fa2.return
}

// -----

// A distance: one conversion, and one sum for each diagonal of a thread's elements, two columns 8 apart of rows 8 apart: 0, 1, -8, -7, 8 and 9 from the
// first. Computed again, it is not what it was before, which would be kept.
// CHECK-LABEL: gpu.func @distance
// CHECK: %[[D:.*]] = arith.subi %[[COLUMN:.*]], %[[ROW:.*]] : index
// CHECK: %[[FIRST:.*]] = llvm.sitofp %{{.*}} : i32 to f32
// CHECK-COUNT-6: arith.addf %[[FIRST]], %cst
// CHECK-NOT: arith.addf %[[FIRST]]
// CHECK: %[[C:.*]] = llvm.sitofp %{{.*}} : i32 to f32
// CHECK: %[[R:.*]] = llvm.sitofp %{{.*}} : i32 to f32
// CHECK: arith.subf %[[C]], %[[R]] : f32
// As an index, no conversion.
// CHECK: %[[WHOLE:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK-COUNT-5: arith.addi %[[WHOLE]], %{{.*}} : index
// CHECK-NOT: arith.addi %[[WHOLE]]
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
!s = tensor<16x16xf32, #acc>
!i = tensor<16x16xindex, #acc>
fa2.kernel @distance(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 4096 : i64} {
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %d = fa2.distance %h from %t : !s
    %again = fa2.distance %h from %t {fa2gpu.again} : !s
    %x = arith.mulf %d, %again : !s
    %c = arith.constant dense<2.0> : !s
    %y = math.fma %x, %c, %d : !s
    %z = math.tanh %y fastmath<afn> : !s
    %whole = fa2.distance %h from %t : !i
  }
  fa2.return
}

// -----

// A value a diagonal: windows of 32 lanes that begin at diagonals -24 and -8 of the warp's part, and one shuffle for each diagonal of a thread's elements:
// 0, 1, -8, -7, 8 and 9 from the lane's own.
// CHECK-LABEL: gpu.func @of_diagonals
// CHECK: %[[FIRST:.*]] = arith.subi %[[COLUMN:.*]], %[[ROW:.*]] : index
// CHECK: %[[FAR:.*]] = arith.addi %[[FIRST]], %c-24
// CHECK: %[[NEAR:.*]] = arith.addi %[[FIRST]], %c-8
// CHECK-NOT: arith.addi %[[FIRST]]
// CHECK-COUNT-2: ex2.approx
// CHECK-COUNT-6: nvvm.shfl.sync idx
// CHECK-NOT: nvvm.shfl.sync
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
#diagonal = #fa2gpu.diagonal<#acc, rows = 16>
fa2.kernel @of_diagonals(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 4096 : i64} {
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %d = fa2.distance %h from %t {of = array<i64: 16, 16>} : tensor<31xindex, #diagonal>
    %i = arith.index_cast %d : tensor<31xindex, #diagonal> to tensor<31xi32, #diagonal>
    %f = arith.sitofp %i : tensor<31xi32, #diagonal> to tensor<31xf32, #diagonal>
    %x = math.exp2 %f : tensor<31xf32, #diagonal>
    %tile = fa2.broadcast %x {diagonals} : tensor<31xf32, #diagonal> -> tensor<16x16xf32, #acc>
    %d2 = fa2.distance %h from %t : tensor<16x16xf32, #acc>
    %y = arith.addf %tile, %d2 : tensor<16x16xf32, #acc>
  }
  fa2.return
}

// -----

// Sums of diagonals: a fragment of 16 columns has places for 8 m .. 8 m + 7 diagonals with m from -2 to 1, three shuffles each, and one lane of four adds
// each. Then all in one, for where all of a warp's places are the same.
// CHECK-LABEL: gpu.func @diagonals
// CHECK-COUNT-12: nvvm.shfl.sync idx
// CHECK-NOT: nvvm.shfl.sync idx {{.*}} f32
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: nvvm.vote.sync any
// CHECK-COUNT-1: red.relaxed.gpu.global.add.f32
// CHECK-NOT: red.relaxed.gpu.global.add.f32
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
!s = tensor<16x16xf32, #acc>
!i = tensor<16x16xindex, #acc>
fa2.kernel @diagonals(%n: index, %sum: memref<?xf32, strided<[?]>>)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>, #fa2.arg<"sum", "out", ["n"] x f32>], shared_bytes = 4096 : i64} {
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %d = fa2.distance %h from %t : !i
    %x = fa2.distance %h from %t : !s
    fa2.scatter %x to %sum[%d] {diagonals} : !s, memref<?xf32, strided<[?]>>, !i
  }
  fa2.return
}

// -----

// Where an arm reads again, what is computed of its positions is not found equal to what is there already: addresses of
// elements would be held for it.
// CHECK-LABEL: gpu.func @again
// CHECK-NOT: mov.b32
// CHECK: %[[HERE:.*]] = llvm.inline_asm has_side_effects "mov.b32 $0, $1;", "=r,r" %{{.*}} : (i32) -> i32
// CHECK-NEXT: arith.index_cast %[[HERE]] : i32 to index
// CHECK-NOT: mov.b32
// CHECK: gpu.return
#acc = #fa2gpu.acc<#fa2gpu.mma_sync, groups = [1, 1]>
fa2.kernel @again(%n: index)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 16, head_dim_v = 16>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 16, block_kv = 16, warps = 1, stages = 1>,
                arguments = [#fa2.arg<"n", "in", [] x index>], shared_bytes = 4096 : i64} {
  fa2.for_each_tile %t, %h, %b in (%n by 16, %n, %n) {
    %once = fa2.positions %t : tensor<16xindex, #fa2gpu.column<#acc>>
    %again = fa2.positions %t {fa2gpu.again} : tensor<16xindex, #fa2gpu.column<#acc>>
    %sum = arith.addi %once, %again : tensor<16xindex, #fa2gpu.column<#acc>>
  }
  fa2.return
}
