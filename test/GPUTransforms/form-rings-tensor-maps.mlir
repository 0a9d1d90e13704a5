// RUN: fa2-opt %s --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s
// RUN: sed 's/, separate_output = true//' %s | fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=SHARES
// RUN: sed 's/, separate_output = true/, query_slots = 2/' %s | fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=AHEAD

// AHEAD: fa2gpu.ring.create {name = "q"} : <2 x tensor<128x64xbf16, #shared>, parts = 2>

// Where warps have roles, tiles come and go by tensor maps: coordinates instead of a view. Queries are cut by
// warpgroups: 64 rows arrive and are released by themselves; so do the stores.
// CHECK-DAG: %[[OUTM:.*]] = fa2gpu.tensor_map %out rows 64
// CHECK-DAG: %[[KM:.*]] = fa2gpu.tensor_map %k rows 64
// CHECK-DAG: %[[QM:.*]] = fa2gpu.tensor_map %q rows 64
// CHECK-DAG: fa2gpu.tensor_map_prefetch %[[OUTM]]
// CHECK-DAG: fa2gpu.tensor_map_prefetch %[[KM]]
// CHECK-DAG: fa2gpu.tensor_map_prefetch %[[QM]]
// CHECK-DAG: %[[OUT:.*]] = fa2gpu.ring.create {name = "out"} : <1 x tensor<128x64xbf16, #shared>>
// CHECK-DAG: %[[K:.*]] = fa2gpu.ring.create {name = "k"} : <2 x tensor<64x64xbf16, #shared>>
// CHECK-DAG: %[[Q:.*]] = fa2gpu.ring.create {name = "q"} : <1 x tensor<128x64xbf16, #shared>, parts = 2>
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[Q]][%[[Z:.*]]]
// CHECK-NEXT: %[[ROW:.*]] = arith.addi %n, %off
// CHECK-NEXT: fa2gpu.tensor_copy %[[QM]][%[[ROW]], %h, %b], %[[SLOT]] signal %[[Q]][%[[Z]]]
// CHECK-NEXT: fa2gpu.ring.commit %[[Q]][%[[Z]]]
// CHECK-NEXT: fa2gpu.ring.wait %[[Q]][%[[Z]]]
// CHECK: fa2.for_tiles %{{[a-z0-9]+}} in %{{[a-z0-9]+}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9_]+}}, %[[I:[a-z0-9]+]] = %c0{{[_0-9]*}}, %[[R:[a-z0-9]+]] = %c0{{[_0-9]*}})
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[K]][%[[I]]]
// CHECK: fa2gpu.tensor_copy %[[KM]][%{{.*}}, %h, %b], %[[SLOT]] signal %[[K]][%[[I]]]
// CHECK: fa2gpu.dot_wait
// CHECK-NEXT: fa2gpu.ring.release %[[K]][%[[R]]]
// CHECK: fa2gpu.ring.release %[[Q]]
// CHECK: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[OUT]]
// CHECK-NEXT: fa2gpu.local_store %{{.*}}, %[[SLOT]]
// CHECK-NEXT: fa2gpu.tensor_store %[[SLOT]], %[[OUTM]][%{{.*}}, %h, %b]

// Without shared memory of its own the output takes the queries' place, which is released after it.
// SHARES-NOT: name = "out"
// SHARES: %[[QT:.*]], %{{.*}} = fa2gpu.ring.wait %[[Q:.*]][
// SHARES: fa2.yield
// SHARES-NOT: ring.release
// SHARES: fa2gpu.local_store %{{.*}}, %[[QT]]
// SHARES-NEXT: fa2gpu.tensor_store %[[QT]]
// SHARES-NEXT: fa2gpu.ring.release %[[Q]]

// Where a load says so, or no tensor map shows the view, one without its tensor, threads of the role copy.
// RUN: sed 's/fa2gpu.load %%kv\[%%row\]/& {by_threads}/' %s | fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=THREADS
// RUN: sed -e 's/%%off: index)/%%off: index, %%x: !fa2.view<? x 64 x bf16>)/' -e 's/fa2gpu.load %%kv/fa2gpu.load %%x/' -e 's/#fa2.arg<"off", "in", \[\] x index>/&, #fa2.arg<"x", "in", [] x bf16>/' %s | fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings | FileCheck %s --check-prefix=THREADS
// THREADS-NOT: tensor_map %k
// THREADS: fa2gpu.tensor_copy
// THREADS: fa2.for_tiles
// THREADS: %[[SLOT:.*]], %{{.*}} = fa2gpu.ring.acquire %[[K:[a-z0-9]*]][%[[N:[a-z0-9]*]]]
// THREADS-NEXT: fa2gpu.copy %{{.*}}[%{{.*}}], %[[SLOT]]
// THREADS-NEXT: fa2gpu.ring.commit %[[K]][%[[N]]]
// THREADS-NEXT: fa2gpu.ring.wait %[[K]]

// They copy rows of one head.
// RUN: sed -e '/%%qv = fa2.view/s/<?/<4 heads, ?/' -e 's/fa2gpu.load %%qv\[%%n\] : !fa2.view<?/fa2gpu.load %%qv[%%n] {by_threads} : !fa2.view<4 heads, ?/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=HEADS
// HEADS: 'fa2gpu.load' op expected a view of one head because threads copy its rows; several the copy engine brings, where kernels have roles

// What is stored goes through a map always.
// RUN: sed -e 's/%%off: index)/%%off: index, %%x: !fa2.view<? x 64 x bf16>)/' -e 's/fa2.store %%ob, %%ov/fa2.store %%ob, %%x/' -e 's/#fa2.arg<"off", "in", \[\] x index>/&, #fa2.arg<"x", "in", [] x bf16>/' %s | not fa2-opt --fa2gpu-plan --fa2gpu-assign-roles --fa2gpu-form-rings 2>&1 | FileCheck %s --check-prefix=NOVIEW
// NOVIEW: 'fa2.store' op expected a view that fa2.view makes of a tensor, from its first column on, which a tensor map shows
#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [2, 1]>
#shared = #fa2gpu.shared<panel = 128>
!acc = tensor<128x64xf32, #acc>
!qt = tensor<128x64xbf16, #shared>
!kt = tensor<64x64xbf16, #shared>
!global = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @k(%q: !global, %k: !global, %out: !global, %b: index, %h: index, %n: index, %off: index)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8, stages = 2, separate_output = true>,
                arguments = [#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"k", "in", ["batch", "seqlen_k", "heads_kv", 64] x bf16>,
                             #fa2.arg<"out", "out", ["batch", "seqlen_q", "heads", 64] x bf16>, #fa2.arg<"b", "in", [] x index>, #fa2.arg<"h", "in", [] x index>,
                             #fa2.arg<"n", "in", [] x index>, #fa2.arg<"off", "in", [] x index>]} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %o0 = arith.constant dense<0.0> : !acc
  %qv = fa2.view %q[%b, %h] rows(%off, %n) : !global -> !fa2.view<? x 64 x bf16>
  %kv = fa2.view %k[%b, %h] rows(%off, %n) : !global -> !fa2.view<? x 64 x bf16>
  %ov = fa2.view %out[%b, %h] rows(%off, %n) : !global -> !fa2.view<? x 64 x bf16>
  %qt = fa2gpu.load %qv[%n] : !fa2.view<? x 64 x bf16> -> !qt
  %tiles = fa2.tile_range %c0 to %n full(%c0, %n)
  %o = fa2.for_tiles %j in %tiles iter_args(%a = %o0) -> (!acc) {
    %row = arith.muli %j, %c64 : index
    %kt = fa2gpu.load %kv[%row] : !fa2.view<? x 64 x bf16> -> !kt
    %f = fa2gpu.dot_start %qt, %kt acc(%a : !acc) {transpose_b} : !qt, !kt -> !fa2gpu.in_flight<!acc>
    %s = fa2gpu.dot_wait %f : !fa2gpu.in_flight<!acc> -> !acc
    fa2.yield %s : !acc
  }
  %ob = arith.truncf %o : !acc to tensor<128x64xbf16, #acc>
  fa2.store %ob, %ov[%n] : tensor<128x64xbf16, #acc>, !fa2.view<? x 64 x bf16>
  fa2.return
}
