// Line numbers without .debug sections, which would turn ptxas' optimizations off.
// RUN: fa2-opt %s --fa2-pipeline="line-info=1" --mlir-print-debuginfo | fa2-translate --fa2-to-ptx | FileCheck %s
// RUN: fa2-opt %s --fa2-pipeline --mlir-print-debuginfo | fa2-translate --fa2-to-ptx | FileCheck %s --check-prefix=NONE

// CHECK: .target sm_80{{$}}
// CHECK: .loc
// CHECK: .file {{.*}}line-info.mlir
// CHECK-NOT: .section
// NONE-NOT: .loc
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                     %v: tensor<?x?x?x64xbf16>, %c: f32) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
  return %o, %lse : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>
}
