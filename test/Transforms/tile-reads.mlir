// RUN: fa2-opt %s --split-input-file --fa2-tile | FileCheck %s

// What a program reads for each score is loaded as a tile where the schedule has a ring for it: from a
// matrix whose rows and columns are dimensions of the operand, the others in the places of batch entry and head.

// CHECK-DAG: #[[RING:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, rings.reads = 2>
// CHECK-DAG: #[[ELEMENTS:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
// CHECK-LABEL: fa2.kernel @dense
// CHECK-SAME: schedule = #[[RING]], spec
// CHECK-SAME: when = #fa2.guard<"bias.misalignment == 0 && bias.stride[0] >= 0 && bias.stride[0] % 8 == 0 && bias.stride[1] >= 0 && bias.stride[1] % 8 == 0 && bias.stride[2] >= 0 && bias.stride[2] % 8 == 0 && bias.stride[3] == 1">
// CHECK: fa2.for_each_tile %[[I:.*]], %[[HEAD:.*]], %[[BATCH:.*]] in
// CHECK: %[[N:.*]] = memref.dim %bias, %c2{{.*}}
// CHECK: %[[VIEW:.*]] = fa2.view %bias[%[[BATCH]], %[[HEAD]]] rows(%{{.*}}, %[[N]]) {dims = array<i64: 0, 2, 1, 3>} : {{.*}} -> <? x ? x bf16>
// CHECK: fa2.for_tiles %[[J:.*]] in
// CHECK: %[[S:.*]] = fa2.dot
// CHECK: %[[ROW:.*]] = arith.muli %[[I]], %c128
// CHECK: %[[COLUMN:.*]] = arith.muli %[[J]], %c64
// CHECK: %[[X:.*]] = fa2.load %[[VIEW]][%[[ROW]], %[[COLUMN]]] : <? x ? x bf16> -> tensor<128x64xbf16>
// CHECK: arith.extf %[[X]] : tensor<128x64xbf16> to tensor<128x64xf32>

// Where rows begin anywhere there is another, whose tiles are unaligned.
// CHECK-LABEL: fa2.kernel @dense_unaligned
// CHECK-SAME: schedule = #[[RING]], spec
// CHECK-SAME: when = #fa2.guard<"!(bias.misalignment == 0 && bias.stride[0] >= 0 && bias.stride[0] % 8 == 0 && {{.*}}) && bias.misalignment == 0 && bias.stride[0] >= 0 && bias.stride[1] >= 0 && bias.stride[2] >= 0 && bias.stride[3] == 1">
// CHECK: fa2.view %bias[{{.*}}] rows({{.*}}) {dims = array<i64: 0, 2, 1, 3>, unaligned}

// Other launches have one that reads by elements, all else the same.
// CHECK-LABEL: fa2.kernel @dense_elements
// CHECK-SAME: schedule = #[[ELEMENTS]], spec
// CHECK-SAME: when = #fa2.guard<"!(bias.misalignment == 0 && bias.stride[0] >= 0 && {{.*}} && bias.stride[3] == 1) && !(bias.misalignment == 0 && bias.stride[0] >= 0 && bias.stride[1] >= 0 && bias.stride[2] >= 0 && bias.stride[3] == 1)">
// CHECK-NOT: fa2.load {{.*}}? x ?
// CHECK: fa2.read %bias
func.func @dense(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %bias: tensor<?x?x?x?xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%bias : tensor<?x?x?x?xbf16>)
      {extra_names = ["bias"], schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, rings.reads = 2>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?x?x?xbf16>):
        %x = tensor.extract %t[%b, %h, %i, %j] : tensor<?x?x?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}

// -----

// Where a thread has 128 keys' scores and 128 outputs, those that want registers for addresses have half of the keys, and
// twice the slots as far as they fit; above head dim 128 they do not guess the maximum.

// CHECK-DAG: #[[WIDE:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 128, warps = 8, stages = 2, queries_in_registers = 128, overlap = true, direct_output = true, speculate_max = 60, rings.reads = 2>
// CHECK-DAG: #[[HALF:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 4, queries_in_registers = 128, overlap = true, direct_output = true, speculate_max = 60, rings.reads = 3>
// CHECK-DAG: #[[SINGLE:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 4, overlap = true, separate_output = true, speculate_max = 60>
// CHECK-LABEL: fa2.kernel @wide
// CHECK-SAME: schedule = #[[WIDE]], spec
// CHECK-LABEL: fa2.kernel @wide_unaligned
// CHECK-SAME: schedule = #[[HALF]], spec
// CHECK-LABEL: fa2.kernel @wide_elements
// CHECK-SAME: schedule = #[[SINGLE]], spec
func.func @wide(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %bias: tensor<?x?x?x?xbf16>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%bias : tensor<?x?x?x?xbf16>)
      {extra_names = ["bias"], schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 128, warps = 8, stages = 2, queries_in_registers = 128, overlap = true, direct_output = true, speculate_max = 60, rings.reads = 2>}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?x?x?xbf16>):
        %x = tensor.extract %t[%b, %h, %i, %j] : tensor<?x?x?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
}

// -----

// CHECK-DAG: #[[LARGE:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, queries_in_registers = 192, speculate_max = 60, rings.reads = 2>
// CHECK-DAG: #[[ANYWHERE:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, queries_in_registers = 64, rings.reads = 2>
// CHECK-DAG: #[[ONE:.*]] = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2>
// CHECK-LABEL: fa2.kernel @large
// CHECK-SAME: schedule = #[[LARGE]], spec
// CHECK-LABEL: fa2.kernel @large_unaligned
// CHECK-SAME: schedule = #[[ANYWHERE]], spec
// CHECK-LABEL: fa2.kernel @large_elements
// CHECK-SAME: schedule = #[[ONE]], spec
func.func @large(%q: tensor<?x?x?x192xbf16>, %k: tensor<?x?x?x192xbf16>, %v: tensor<?x?x?x192xbf16>, %bias: tensor<?x?x?x?xbf16>)
    -> (tensor<?x?x?x192xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%bias : tensor<?x?x?x?xbf16>)
      {extra_names = ["bias"], schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, queries_in_registers = 192, speculate_max = 60, rings.reads = 2>}
      : tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16> -> tensor<?x?x?x192xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?x?x?xbf16>):
        %x = tensor.extract %t[%b, %h, %i, %j] : tensor<?x?x?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32
        fa2.yield %r : f32
      }
  return %o, %lse : tensor<?x?x?x192xbf16>, tensor<?x?x?xf32>
}

// -----

// Rows may come first, and there may be less than four dimensions. What is computed is brought into its extent. Rows and
// columns in each other's places, or at an index of their own, are no such tile. Of 32 bits, four elements are 16 bytes.

// CHECK-LABEL: fa2.kernel @some
// CHECK-SAME: when = #fa2.guard<"rows_first.misalignment == 0 && rows_first.stride[0] >= 0 && rows_first.stride[0] % 8 == 0 && rows_first.stride[1] >= 0 && rows_first.stride[1] % 8 == 0 && rows_first.stride[2] == 1 && wide.misalignment == 0 && wide.stride[0] >= 0 && wide.stride[0] % 4 == 0 && wide.stride[1] == 1">
// CHECK: %[[AT:.*]] = arith.maxsi
// CHECK: fa2.view %rows_first[%{{.*}}, %[[AT]]] rows({{.*}}) {dims = array<i64: -1, 0, 1, 2>}
// CHECK: fa2.view %wide[%{{.*}}, %{{.*}}] rows({{.*}}) {dims = array<i64: -1, 0, -1, 1>}
// CHECK: fa2.load {{.*}} : <? x ? x f16> -> tensor<64x64xf16>
// CHECK: fa2.read %turned
// CHECK: fa2.load {{.*}} : <? x ? x f32> -> tensor<64x64xf32>
// CHECK-LABEL: fa2.kernel @some_elements
// CHECK-NOT: fa2.load {{.*}}? x ?
// CHECK: fa2.read %turned
// CHECK: fa2.read %wide
func.func @some(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %rows_first: tensor<?x?x?xf16>,
                %turned: tensor<?x?xbf16>, %wide: tensor<?x?xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) extras(%rows_first, %turned, %wide : tensor<?x?x?xf16>, tensor<?x?xbf16>, tensor<?x?xf32>)
      {extra_names = ["rows_first", "turned", "wide"],
       schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 2, rings.reads = 1>}
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?x?x?xf16>, %u: tensor<?x?xbf16>, %w: tensor<?x?xf32>):
        %n = arith.addi %b, %h : index
        %x = tensor.extract %t[%i, %n, %j] : tensor<?x?x?xf16>
        %y = arith.extf %x : f16 to f32
        %x1 = tensor.extract %u[%j, %i] : tensor<?x?xbf16>
        %y1 = arith.extf %x1 : bf16 to f32
        %y2 = tensor.extract %w[%i, %j] : tensor<?x?xf32>
        %r = arith.addf %s, %y : f32
        %r1 = arith.addf %r, %y1 : f32
        %r2 = arith.addf %r1, %y2 : f32
        fa2.yield %r2 : f32
      }
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
