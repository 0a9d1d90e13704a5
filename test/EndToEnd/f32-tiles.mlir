// REQUIRES: numpy
// A tile of f32 comes and goes row by row, from tiles to PTX: d += a b on the simulator against NumPy. The warps share
// rows, columns, or both, of which the last ones are padding; rows past the end are neither read nor written.
// RUN: sed s/GRID/"4 x 1"/ %s | fa2-opt --fa2-pipeline="start-at=convert-fa2-to-fa2gpu" | fa2-translate --fa2-to-ptx -o %t.ptx
// RUN: %numpy %S/Inputs/run-product.py %fa2_source %fa2_build sim:sm_80 %t.ptx 128 64 "d + a @ b"
// RUN: sed s/GRID/"2 x 2"/ %s | fa2-opt --fa2-pipeline="start-at=convert-fa2-to-fa2gpu" | fa2-translate --fa2-to-ptx -o %t.ptx
// RUN: %numpy %S/Inputs/run-product.py %fa2_source %fa2_build sim:sm_80 %t.ptx 128 64 "d + a @ b"
// RUN: not %numpy %S/Inputs/run-product.py %fa2_source %fa2_build sim:sm_80 %t.ptx 128 64 "a @ b"
!ga = memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>>
!gb = memref<?x?x?x40xbf16, strided<[?, ?, ?, 1]>>
!gd = memref<?x?x?x40xf32, strided<[?, ?, ?, 1]>>
fa2.kernel @product(%a: !ga, %b: !gb, %d: !gd)
    attributes {spec = #fa2.spec<pass = "forward", dtype = bf16, head_dim = 64, head_dim_v = 40>,
                schedule = #fa2.schedule<target = "sm_80", block_q = 64, block_kv = 64, warps = 4>,
                arguments = [#fa2.arg<"a", "in", ["batch", "a_rows", "heads", 64] x bf16>,
                             #fa2.arg<"b", "in", ["batch", "b_rows", "heads", 40] x bf16>,
                             #fa2.arg<"d", "inout", ["batch", "d_rows", "heads", 40] x f32>]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %rows = memref.dim %d, %c1 : !gd
  %heads = memref.dim %d, %c2 : !gd
  %batches = memref.dim %d, %c0 : !gd
  fa2.for_each_tile %tile, %head, %batch in (%rows by 64, %heads, %batches) {
    %row = arith.muli %tile, %c64 : index
    %ao, %al = fa2.sequence %a[%batch] : !ga
    %bo, %bl = fa2.sequence %b[%batch] : !gb
    %do, %dl = fa2.sequence %d[%batch] : !gd
    %av = fa2.view %a[%batch, %head] rows(%ao, %al) : !ga -> !fa2.view<? x 64 x bf16>
    %bv = fa2.view %b[%batch, %head] rows(%bo, %bl) : !gb -> !fa2.view<? x 40 x bf16>
    %dv = fa2.view %d[%batch, %head] rows(%do, %dl) : !gd -> !fa2.view<? x 40 x f32>
    %at = fa2.load %av[%row] : !fa2.view<? x 64 x bf16> -> tensor<64x64xbf16>
    %bt = fa2.load %bv[%c0] : !fa2.view<? x 40 x bf16> -> tensor<64x40xbf16>
    %old = fa2.load %dv[%row] : !fa2.view<? x 40 x f32> -> tensor<64x40xf32>
    %new = fa2.dot %at, %bt acc(%old : tensor<64x40xf32>) : tensor<64x64xbf16>, tensor<64x40xbf16> -> tensor<64x40xf32> over <GRID>
    fa2.store %new, %dv[%row] : tensor<64x40xf32>, !fa2.view<? x 40 x f32>
  }
  fa2.return
}
