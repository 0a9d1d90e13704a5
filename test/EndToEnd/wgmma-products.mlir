// REQUIRES: numpy
// What wgmma does with operands of either major, on the simulator against NumPy: A and B come by tensor copies, the
// result leaves in f32, row by row. FORM is transpose_a, transpose_b, both or none; DOWN x ACROSS warpgroups share it.
// DEFINE: %{edit} =
// DEFINE: %{product} =
// DEFINE: %{compare} = %numpy %S/Inputs/run-product.py %fa2_source %fa2_build sim:sm_90a %t.ptx %{product}
// DEFINE: %{run} = sed %{edit} %s | fa2-opt --fa2-pipeline="start-at=convert-fa2gpu-to-nvvm" | fa2-translate --fa2-to-ptx -o %t.ptx && %{compare}

// dQ = (dS^T)^T K of 64 rows: side by side the warpgroups have whole panels of columns, or halves of one.
// REDEFINE: %{edit} = -e 's/FORM/{transpose_a}/;s/DOWN, ACROSS/1, 2/;s/AROWS/64/g;s/ACOLS/64/g;s/BROWS/64/g;s/BCOLS/128/g;s/ROWS/64/g;s/COLS/128/g'
// REDEFINE: %{product} = 64 64 "a.T @ b"
// RUN: %{run}
// REDEFINE: %{edit} = -e 's/FORM/{transpose_a}/;s/DOWN, ACROSS/1, 2/;s/AROWS/128/g;s/ACOLS/64/g;s/BROWS/128/g;s/BCOLS/64/g;s/ROWS/64/g;s/COLS/64/g'
// REDEFINE: %{product} = 128 128 "a.T @ b"
// RUN: %{run}
// dK = (dS^T) Q of 128 rows, one warpgroup below the other; a transposed left side has a panel for each.
// REDEFINE: %{edit} = -e 's/FORM/{transpose_a}/;s/DOWN, ACROSS/2, 1/;s/AROWS/64/g;s/ACOLS/128/g;s/BROWS/64/g;s/BCOLS/128/g;s/ROWS/128/g;s/COLS/128/g'
// REDEFINE: %{product} = 64 64 "a.T @ b"
// RUN: %{run}
// REDEFINE: %{edit} = -e 's/FORM//;s/DOWN, ACROSS/2, 1/;s/AROWS/128/g;s/ACOLS/64/g;s/BROWS/64/g;s/BCOLS/128/g;s/ROWS/128/g;s/COLS/128/g'
// REDEFINE: %{product} = 128 64 "a @ b"
// RUN: %{run}
// S = Q K^T: the columns of a warpgroup are rows of K; and K^T from a transposed left side.
// REDEFINE: %{edit} = -e 's/FORM/{transpose_b}/;s/DOWN, ACROSS/1, 2/;s/AROWS/64/g;s/ACOLS/128/g;s/BROWS/64/g;s/BCOLS/128/g;s/ROWS/64/g;s/COLS/64/g'
// REDEFINE: %{product} = 64 64 "a @ b.T"
// RUN: %{run}
// REDEFINE: %{edit} = -e 's/FORM/{transpose_a, transpose_b}/;s/DOWN, ACROSS/2, 1/;s/AROWS/64/g;s/ACOLS/128/g;s/BROWS/64/g;s/BCOLS/64/g;s/ROWS/128/g;s/COLS/64/g'
// REDEFINE: %{product} = 64 64 "a.T @ b.T"
// RUN: %{run}
// A check that cannot fail would pass this.
// REDEFINE: %{product} = 64 64 "a.T @ b"
// RUN: not %{compare}

#acc = #fa2gpu.acc<#fa2gpu.wgmma, groups = [DOWN, ACROSS]>
#shared = #fa2gpu.shared<panel = 128>
!a = tensor<AROWSxACOLSxbf16, #shared>
!b = tensor<BROWSxBCOLSxbf16, #shared>
!d = tensor<ROWSxCOLSxf32, #acc>
!aring = !fa2gpu.ring<1 x !a>
!bring = !fa2gpu.ring<1 x !b>
!ga = memref<?x?x?xACOLSxbf16, strided<[?, ?, ?, 1]>>
!gb = memref<?x?x?xBCOLSxbf16, strided<[?, ?, ?, 1]>>
!gd = memref<?x?x?xCOLSxf32, strided<[?, ?, ?, 1]>>
#spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 64>
fa2.kernel @product(%a: !ga, %b: !gb, %d: !gd)
    attributes {spec = #spec, schedule = #fa2.schedule<target = "sm_90a", block_q = 128, block_kv = 64, warps = 8>, shared_bytes = 65568 : i64,
                arguments = [#fa2.arg<"a", "in", ["batch", "a_rows", "heads", ACOLS] x bf16>,
                             #fa2.arg<"b", "in", ["batch", "b_rows", "heads", BCOLS] x bf16>,
                             #fa2.arg<"d", "out", ["batch", "d_rows", "heads", COLS] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = memref.dim %d, %c1 : !gd
  %heads = memref.dim %d, %c2 : !gd
  %batches = memref.dim %d, %c0 : !gd
  %amap = fa2gpu.tensor_map %a rows AROWS : !ga
  %bmap = fa2gpu.tensor_map %b rows BROWS : !gb
  %ar = fa2gpu.ring.create {name = "a", offset = 0 : i64, barriers = 65536 : i64} : !aring
  %br = fa2gpu.ring.create {name = "b", offset = 32768 : i64, barriers = 65552 : i64} : !bring
  fa2gpu.ring.init %ar consumers 8 : !aring
  fa2gpu.ring.init %br consumers 8 : !bring
  fa2gpu.roles @consumer(8 warps, 240 registers) {
    fa2.for_each_tile %tile, %head, %batch in (%rows by ROWS, %heads, %batches) {
      %x, %x_next = fa2gpu.ring.wait %ar[%c0] : !aring -> !a
      %y, %y_next = fa2gpu.ring.wait %br[%c0] : !bring -> !b
      %f = fa2gpu.dot_start %x, %y FORM : !a, !b -> !fa2gpu.in_flight<!d>
      %s = fa2gpu.dot_wait %f {pending = 0 : i64} : !fa2gpu.in_flight<!d> -> !d
      %offset, %length = fa2.sequence %d[%batch] : !gd
      %out = fa2.view %d[%batch, %head] rows(%offset, %length) : !gd -> !fa2.view<? x COLS x f32>
      fa2.store %s, %out[%c0] : !d, !fa2.view<? x COLS x f32>
      fa2gpu.ring.release %ar[%c0] : !aring
      fa2gpu.ring.release %br[%c0] : !bring
    }
  } @producer(4 warps, 24 registers, one thread) {
    fa2.for_each_tile %tile, %head, %batch in (%rows by ROWS, %heads, %batches) {
      %x, %x_next = fa2gpu.ring.acquire %ar[%c0] : !aring -> !a
      fa2gpu.tensor_copy %amap[%c0, %head, %batch], %x signal %ar[%c0] : !a, !aring
      fa2gpu.ring.commit %ar[%c0] : !aring
      %y, %y_next = fa2gpu.ring.acquire %br[%c0] : !bring -> !b
      fa2gpu.tensor_copy %bmap[%c0, %head, %batch], %y signal %br[%c0] : !b, !bring
      fa2gpu.ring.commit %br[%c0] : !bring
    }
  }
  fa2.return
}
